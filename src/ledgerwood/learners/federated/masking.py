r"""Masks that cancel in a sum: keys, keystreams, and integers modulo a power of two on the wire.

Keys are X25519 secrets run through HKDF-SHA256 with the round's digest as salt and the purpose and both node ids as
information, so a key belongs to one round, one use and one ordered pair of nodes. Masks are ChaCha20 keystreams under
256-bit keys; nothing on the way is shorter than 128 bits of security.

Keys of parties that fall silent are recovered by Shamir's secret sharing: any ``threshold`` shares give a secret back,
fewer say nothing about it. The secret is the constant term of a polynomial of degree threshold − 1 over the integers
modulo the prime :math:`p = 2^{521} - 1`, with its other coefficients uniform; party *i* holds the value at *i* + 1. For
fewer shares than the threshold every secret is consistent with exactly one polynomial for each choice of the missing
values, so the shares are uniform and independent of the secret (Shamir 1979).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError

Words = NDArray[np.uint64]

WIDTHS = (32, 40)
"""Bits of one entry on the wire: sums are taken modulo 2**bits."""


def derived_key(
    mine: X25519PrivateKey, theirs: bytes, *, digest: bytes, purpose: bytes, pair: tuple[int, int]
) -> bytes:
    """Return the 256-bit key of a pair of nodes for one purpose in one round; both sides derive the same."""
    low, high = sorted(pair)
    shared = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    info = b"ledgerwood masking 1|" + purpose + b"|%d|%d" % (low, high)
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=digest, info=info).derive(shared)


def keystream(key: bytes, count: int, bits: int) -> Words:
    """Return ``count`` uniform words of ``bits`` bits: the ChaCha20 keystream of a key that is used once."""
    encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return unpacked(encryptor.update(bytes(count * bits // 8)), count, bits)


def packed(words: Words, bits: int) -> bytes:
    """Words modulo 2**bits as bits / 8 little-endian bytes each.

    >>> unpacked(packed(np.array([1, 2**40 - 1], dtype=np.uint64), 40), 2, 40).tolist()
    [1, 1099511627775]
    """
    if bits == 32:
        return words.astype("<u4").tobytes()
    return np.ascontiguousarray(words.astype("<u8")).view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()


def unpacked(data: bytes, count: int, bits: int) -> Words:
    """Read what :func:`packed` wrote."""
    if bits == 32:
        return np.frombuffer(data, dtype="<u4", count=count).astype(np.uint64)
    wide = np.zeros((count, 8), dtype=np.uint8)
    wide[:, : bits // 8] = np.frombuffer(data, dtype=np.uint8, count=count * bits // 8).reshape(count, bits // 8)
    return wide.view("<u8").reshape(count).astype(np.uint64)


def reduced(values: NDArray[np.int64], bits: int) -> Words:
    """Signed integers modulo 2**bits."""
    return values.astype(np.int64).view(np.uint64) & np.uint64(2**bits - 1)


def centred(words: Words, bits: int) -> NDArray[np.int64]:
    """The representatives in [-2**(bits-1), 2**(bits-1)).

    >>> centred(reduced(np.array([-5, 7]), 32), 32).tolist()
    [-5, 7]
    """
    shift = np.uint64(64 - bits)
    return (words << shift).view(np.int64) >> np.int64(64 - bits)


PRIME = 2**521 - 1

SECRET_BYTES = 32

SHARE_BYTES = 66


def split(secret: bytes, *, parties: int, threshold: int) -> list[bytes]:
    """Return one share per party.

    >>> shares = split(bytes(range(32)), parties=5, threshold=3)
    >>> recover({i: shares[i] for i in (4, 0, 2)}, threshold=3) == bytes(range(32))
    True
    """
    if len(secret) != SECRET_BYTES:
        raise ParameterError("secret", f"have {SECRET_BYTES} bytes", f"<{len(secret)} bytes>")
    if not 1 <= threshold <= parties:
        raise ParameterError("threshold", "lie between 1 and the number of parties", threshold)
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(coefficients, i + 1).to_bytes(SHARE_BYTES, "big") for i in range(parties)]


def recover(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """Return the secret from ``threshold`` shares, by the index of their party (Lagrange's formula at zero).

    Raises
    ------
    ParameterError
        Too few shares, or shares that belong to no secret of 32 bytes.
    """
    if len(shares) < threshold:
        raise ParameterError("shares", f"be at least {threshold}", len(shares))
    points = [(i + 1, int.from_bytes(share, "big")) for i, share in sorted(shares.items())[:threshold]]
    total = 0
    for x, y in points:
        numerator = denominator = 1
        for other, _ in points:
            if other != x:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - x) % PRIME
        total = (total + y * numerator * pow(denominator, -1, PRIME)) % PRIME
    if total.bit_length() > 8 * SECRET_BYTES:
        raise ParameterError("shares", "belong to one secret", "<shares of different secrets>")
    return total.to_bytes(SECRET_BYTES, "big")


def _value(coefficients: list[int], x: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % PRIME
    return total
