"""Certificates made on the spot: one authority for a federation, one certificate for each party.

For demonstrations and tests, and for parties that have no authority of their own. Keys are P-256; the private key of
the authority is not written unless asked for.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, DNSName, IPAddress, Name


@dataclass(frozen=True)
class Identity:
    """What a party needs for mutual TLS, as PEM: its certificate, its key, and the authority it trusts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Authority("demo").issue("party-a").write(Path(folder))
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['authority.pem', 'certificate.pem', 'key.pem']
    """

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "authority"):
            data: bytes = getattr(self, name)
            if b"-----BEGIN " not in data:  # without an authority of ours, gRPC would trust those of the system
                raise ParameterError(name, "be in PEM form", f"<{len(data)} bytes>")

    @classmethod
    def read(cls, certificate: Path, key: Path, authority: Path) -> Identity:
        """From three files."""
        return cls(certificate.read_bytes(), key.read_bytes(), authority.read_bytes())

    def write(self, folder: Path) -> None:
        """To ``certificate.pem``, ``key.pem`` and ``authority.pem``; the key is readable by its owner only."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, data in (("certificate", self.certificate), ("key", self.key), ("authority", self.authority)):
            path = folder / f"{name}.pem"
            path.touch(mode=0o600)
            path.write_bytes(data)


def tls_location(location: str, name: str = "location") -> str:
    """Return the location if a connection to it is under TLS; with any other, Flight would ignore the certificates.

    >>> tls_location("grpc+tls://localhost:8815")
    'grpc+tls://localhost:8815'
    >>> tls_location("grpc+tcp://localhost:8815")
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: location must have the form grpc+tls://host:port, got ...
    """
    if not isinstance(location, str) or not re.fullmatch(r"grpc\+tls://[^\s/?#@]+:[0-9]{1,5}", location):
        raise ParameterError(
            name, "have the form grpc+tls://host:port", location,
            "Parties speak to each other under mutual TLS only; nothing was opened.",
        )  # fmt: skip
    return location


class Authority:
    """Signs the certificates of one federation.

    >>> authority = Authority("demo")
    >>> party = authority.issue("party-b", ["localhost", "127.0.0.1"])
    >>> party.certificate.startswith(b"-----BEGIN CERTIFICATE-----")
    True
    """

    def __init__(self, name: str, days: int = 30) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._days = days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"{name} authority")
        self._certificate = self._sign(self._name, self._key, [], authority=True)

    def issue(self, name: str, hosts: Sequence[str] = ()) -> Identity:
        """A certificate and a key for a party that is reached under these hosts."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name), key, hosts, authority=False)
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Identity(certificate.public_bytes(pem), private, self._certificate.public_bytes(pem))

    def _sign(
        self, subject: Name, key: EllipticCurvePrivateKey, hosts: Sequence[str], *, authority: bool
    ) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=self._days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())


def _name(common: str) -> Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _host(host: str) -> DNSName | IPAddress:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
