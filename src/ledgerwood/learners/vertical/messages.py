"""The messages between the parties: versioned, authenticated with the token, each good for one use.

Every request carries the session that the server opened, a number that only grows within it, and a keyed hash of all
of it under the shared token. The token itself never crosses the wire. A request seen twice, or from another session, is
refused. (TLS already keeps others out; this keeps what a log or a proxy behind TLS has seen from being used again.)

========  ====================================================================  ==================================
request   body                                                                  answer
========  ====================================================================  ==================================
hello     JSON: rows, digest of the ids                                         JSON: session, manifest
columns   JSON: first row (a Flight ticket)                                     record batches of uint8 / uint16
splits    (column u16, ordinal u16) for each split                              float64 for each split
========  ====================================================================  ==================================
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledgerwood import _files
from ledgerwood.errors import FormatError, ParameterError, ProtocolError
from ledgerwood.learners.data.privacy_unit import unit_names

VERSION = 1
#: No request is longer; a longer one is refused unread.
LARGEST_REQUEST = 1 << 20
MOST_SPLITS = 65536
MOST_ORDINALS = 65535
_HEAD = struct.Struct("<4sHBx16sQ")  # magic, version, kind, session, number
_MAGIC = b"LWOB"
_TAG = 32
KINDS = {"hello": 1, "columns": 2, "splits": 3}


@dataclass(frozen=True)
class WireColumn:
    """A column as it is sent: ordinals of the values that occur, the largest number meaning "not shown"."""

    name: str
    type: str
    ordinals: int

    def __post_init__(self) -> None:
        if self.type not in ("uint8", "uint16") or not 0 <= self.ordinals < 2 ** (8 * self.bytes):
            raise ProtocolError(f"a column of type {self.type!r} with {self.ordinals} ordinals is not known")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of numpy."""
        return np.dtype(self.type)

    @property
    def bytes(self) -> int:
        """Of one cell."""
        return 1 if self.type == "uint8" else 2

    def to_json(self) -> list[Any]:
        """For a manifest."""
        return [self.name, self.type, self.ordinals]

    @classmethod
    def from_json(cls, value: Any) -> WireColumn:
        """From a manifest."""
        if not (isinstance(value, list) and [type(v) for v in value] == [str, str, int]):
            raise ProtocolError("a column of the manifest is not of the known form")
        return cls(*value)


@dataclass(frozen=True)
class Request:
    """A request that was sealed under the token."""

    kind: str
    session: bytes
    number: int
    body: bytes

    def seal(self, token: bytes) -> bytes:
        """The bytes to send."""
        head = _HEAD.pack(_MAGIC, VERSION, KINDS[self.kind], self.session, self.number) + self.body
        return head + hmac.digest(token, head, "sha256")

    @classmethod
    def open(cls, data: bytes, token: bytes) -> Request:
        """The request in the bytes, if they are whole, of this version and sealed under this token."""
        if len(data) > LARGEST_REQUEST:
            raise ProtocolError(f"a request has at most {LARGEST_REQUEST} bytes, this one has {len(data)}")
        if len(data) < _HEAD.size + _TAG:
            raise ProtocolError(f"a request has at least {_HEAD.size + _TAG} bytes, this one has {len(data)}")
        magic, version, kind, session, number = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ProtocolError("this is not a request of the OpBoost protocol")
        if version != VERSION:
            raise ProtocolError(f"this side speaks version {VERSION} of the protocol, the request is of {version}")
        if not hmac.compare_digest(hmac.digest(token, data[:-_TAG], "sha256"), data[-_TAG:]):
            raise Unauthenticated("the request is not sealed with this party's token")
        names = {code: name for name, code in KINDS.items()}
        if kind not in names:
            raise ProtocolError(f"requests of kind {kind} are not known")
        return cls(names[kind], session, number, data[_HEAD.size : -_TAG])


class Unauthenticated(ProtocolError):
    """The token, the session or the number of a request is wrong."""


class Stale(Unauthenticated):
    """The session of a request is not open."""


def to_json(value: Any) -> bytes:
    """Compact JSON with the protocol's version."""
    return json.dumps({"version": VERSION, **value}, separators=(",", ":"), allow_nan=False).encode()


def from_json(data: bytes) -> dict[str, Any]:
    """A JSON object of this version."""
    try:
        value = _files.parse_json(data)
    except FormatError:
        raise ProtocolError("a message is not JSON") from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        theirs = value.get("version") if isinstance(value, dict) else None
        raise ProtocolError(f"this side speaks version {VERSION} of the protocol, the message is of {theirs}")
    return value


def pack_splits(splits: Sequence[tuple[int, int]]) -> bytes:
    """Four bytes for each (column, ordinal)."""
    return np.asarray(splits, dtype="<u2").reshape(-1, 2).tobytes()


def unpack_splits(data: bytes) -> list[tuple[int, int]]:
    """The (column, ordinal) pairs of a request."""
    if len(data) % 4 or len(data) > 4 * MOST_SPLITS:
        raise ProtocolError(f"a request for splits has 4 bytes for each of at most {MOST_SPLITS}, this has {len(data)}")
    pairs = np.frombuffer(data, dtype="<u2").reshape(-1, 2)
    return [(int(column), int(ordinal)) for column, ordinal in pairs]


def id_digest(ids: Iterable[Any], key: bytes) -> str:
    """A keyed digest of the ids in order: equal on both sides if the rows are aligned.

    Without the key, of 16 random bytes or more, it says nothing about the ids, not even by trying them all. Ids are
    compared by their text, so 7, 7.0 and "7" are one id, and no id raises.

    >>> key = bytes(16)
    >>> id_digest(["a", "b"], key) == id_digest(["a", "b"], key) != id_digest(["b", "a"], key)
    True
    """
    if len(key) < 16:
        raise ParameterError("key", "have at least 16 bytes", f"<{len(key)} bytes>")
    digest = hmac.new(key, digestmod=hashlib.sha256)
    rest = iter(ids)
    while names := unit_names(list(itertools.islice(rest, 65536))):
        texts = [name.encode(errors="surrogatepass") for name in names]
        digest.update(b"".join(len(text).to_bytes(8, "little") + text for text in texts))
    return digest.hexdigest()
