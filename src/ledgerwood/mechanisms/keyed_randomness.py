"""Noise that can be drawn again: a stream cipher's words at (key, release, value).

A training that must survive a crash has to repeat a release without making a second one. Its words are therefore a
function of a secret 256-bit key, of the release's name and of a *seal*: a keyed digest of the mechanism and of the
exact value. The same value gives the same words; any other value gives words that have nothing to do with them, so that
no misuse can put two values under one noise. To whoever lacks the key the words, and the seal, are as good as the
operating system's, whose generator is a stream cipher under a key as well; whoever has the key can subtract the noise.
Why a repetition costs nothing is proved in ``docs/theory/replay.md``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from ledgerwood.errors import MissingDependency, ParameterError
from ledgerwood.mechanisms.randomness import Words

__all__ = ["KEY_BYTES", "KeyedSource", "RecordedSource", "derived", "fresh_key"]

KEY_BYTES = 32
_ARRAYS = (np.ndarray, np.memmap)
"""Arrays that are their numbers and nothing else: a masked one is not."""
_SHOWN = (type(None), bytes, complex, Fraction, Decimal)
"""Types whose values print all of themselves."""


def fresh_key() -> bytes:
    """Return 256 bits of the operating system's generator."""
    return os.urandom(KEY_BYTES)


def derived(key: bytes, purpose: str, name: str = "") -> bytes:
    """Return a 256-bit key for one purpose and name; it says nothing about the key or about the others."""
    return hashlib.blake2b(name.encode(), key=key, digest_size=KEY_BYTES, person=purpose.encode()).digest()


class KeyedSource:
    """Words at (key, release): the same ones from the beginning in every new source of that key and release.

    A ledger binds the source to what is released (:meth:`bound`) before it records the release or draws.

    Parameters
    ----------
    key
        32 secret bytes. They are as sensitive as the data.
    release
        The release's name within the key.
    seal
        What :meth:`bound` found.

    Attributes
    ----------
    release_id
        A public name that no release of another key has; a ledger charges it once.
    seal
        A keyed digest of what is released; None if the source is bound to nothing. It tells equal from unequal under
        one name, and nothing else to whoever lacks the key.

    Examples
    --------
    >>> key = bytes(range(32))
    >>> first, again, other = (KeyedSource(key, "0").bound(None, value) for value in (7, 7, 8))
    >>> first.words(3).tolist() == again.words(3).tolist(), first.seal == again.seal
    (True, True)
    >>> first.words(1).tolist() == other.words(1).tolist(), first.seal == other.seal
    (False, False)
    """

    private = True
    word_bits = 64
    prefetch = True

    def __init__(self, key: bytes, release: str, seal: str | None = None) -> None:
        if len(key) != KEY_BYTES:
            raise ParameterError("key", f"have {KEY_BYTES} bytes", f"<{len(key)} bytes>")
        self._key, self._release, self.seal = key, release, seal
        self.release_id = f"{derived(key, 'ledgerwood name').hex()[:32]}:{release}"
        # A key of its own for each release and seal, so that the nonce may stay 0.
        name = release if seal is None else f"{seal}:{release}"
        self._stream = _keystream(derived(key, "ledgerwood noise", name))

    def bound(self, mechanism: Any, value: Any) -> KeyedSource:
        """Return the source whose words are for this value by this mechanism alone.

        A value that is to be known again is made of numbers, text and arrays, in lists, mappings and dataclasses.
        """
        state = hashlib.blake2b(key=derived(self._key, "ledgerwood seal", self._release), digest_size=16)
        for piece in _pieces((mechanism, value)):
            state.update(piece)
        return KeyedSource(self._key, self._release, state.hexdigest())

    def words(self, count: int) -> Words:
        """The next ``count`` words of the stream."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64, copy=False)


@dataclasses.dataclass(frozen=True)
class RecordedSource:
    """The name and the seal of a release whose result is on record: a ledger knows it by them; nothing is drawn."""

    release_id: str
    seal: str
    private: bool = True

    def bound(self, mechanism: Any, value: Any) -> RecordedSource:
        """Return itself: its value was bound when it was drawn."""
        return self


def _keystream(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise MissingDependency("cryptography", "a checkpoint", "checkpoint") from None
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()


def _pieces(value: Any) -> Iterator[Any]:
    """Yield bytes that distinguish a value from every other; total on values of any type.

    What a type outside this list shows of itself may be a part of it (a long series prints its ends), so its bytes are
    fresh ones: no other value shares them, and a repetition is not known again.
    """
    kind = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _framed(kind, [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)])
    elif kind in _ARRAYS and value.dtype.kind in "biufc":
        yield from _text(f"array {value.dtype.str} {value.shape}")
        yield np.ascontiguousarray(value).view(np.uint8).data
    elif kind in _ARRAYS:
        yield from _framed(kind, [str(value.dtype), value.shape, value.tolist()])
    elif isinstance(value, np.generic):
        yield from _text(f"scalar {value.dtype.str}")
        yield value.tobytes()
    elif isinstance(value, Mapping):
        yield from _framed(kind, list(value.items()))
    elif isinstance(value, list | tuple):
        yield from _framed(kind, value)
    elif isinstance(value, float):
        yield from _text("float")
        yield struct.pack("<d", value)
    elif isinstance(value, int):
        yield from _text(f"{kind.__name__} {value:x}")
    elif isinstance(value, str):
        yield from _text("str" + value)
    elif kind in _SHOWN or isinstance(value, Enum):
        yield from _text(f"{_name(kind)} {value!r}")
    elif isinstance(value, type):
        yield from _text(f"type {_name(value)}")
    else:
        yield fresh_key()


def _framed(kind: type, items: Any) -> Iterator[Any]:
    yield from _text(f"{_name(kind)} of {len(items)}")
    for item in items:
        yield from _pieces(item)


def _name(kind: type) -> str:
    """Return a name that no other type has; ours are unique without their module, so a module may move."""
    return kind.__qualname__ if kind.__module__.startswith("ledgerwood.") else f"{kind.__module__}.{kind.__qualname__}"


def _text(text: str) -> Iterator[bytes]:
    data = text.encode("utf-8", "surrogatepass")
    yield struct.pack("<Q", len(data))
    yield data
