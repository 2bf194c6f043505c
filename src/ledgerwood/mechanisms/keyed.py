"""Noise that can be drawn again: a stream cipher's words at (key, release).

A training that must survive a crash has to repeat a release without making a second one. Its words are therefore a
function of a secret 256-bit key and of the release's name: the ChaCha20 keystream under a key derived for that name by
keyed BLAKE2b. To whoever lacks the key they are as good as the operating system's, whose generator is a stream cipher
under a key as well; whoever has the key can subtract the noise. Why a repetition costs nothing is proved in
``docs/theory/replay.md``.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np

from ledgerwood.errors import MissingDependency, ParameterError
from ledgerwood.mechanisms.randomness import Words

__all__ = ["KEY_BYTES", "KeyedSource", "derived", "fresh_key"]

KEY_BYTES = 32


def fresh_key() -> bytes:
    """Return 256 bits of the operating system's generator."""
    return os.urandom(KEY_BYTES)


def derived(key: bytes, purpose: str, name: str = "") -> bytes:
    """Return a 256-bit key for one purpose and name; it says nothing about the key or about the others."""
    return hashlib.blake2b(name.encode(), key=key, digest_size=KEY_BYTES, person=purpose.encode()).digest()


class KeyedSource:
    """Words at (key, release): the same ones from the beginning in every new source of that key and release.

    Parameters
    ----------
    key
        32 secret bytes. They are as sensitive as the data.
    release
        The release's name within the key.

    Attributes
    ----------
    release_id
        A public name that no release of another key has; a ledger charges it once.

    Examples
    --------
    >>> key = bytes(range(32))
    >>> first, again, other = (KeyedSource(key, release) for release in ("0", "0", "1"))
    >>> first.words(3).tolist() == again.words(3).tolist(), first.release_id == again.release_id
    (True, True)
    >>> first.words(1).tolist() == other.words(1).tolist(), first.release_id == other.release_id
    (False, False)
    """

    private = True
    word_bits = 64
    prefetch = True

    def __init__(self, key: bytes, release: str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher
            from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
        except ImportError:
            raise MissingDependency("cryptography", "a checkpoint", "checkpoint") from None
        if len(key) != KEY_BYTES:
            raise ParameterError("key", f"have {KEY_BYTES} bytes", f"<{len(key)} bytes>")
        self.release_id = f"{derived(key, 'ledgerwood name').hex()[:32]}:{release}"
        # A key of its own for each release, so that the nonce may stay 0.
        self._stream = Cipher(ChaCha20(derived(key, "ledgerwood noise", release), bytes(16)), mode=None).encryptor()

    def words(self, count: int) -> Words:
        """The next ``count`` words of the stream."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64, copy=False)
