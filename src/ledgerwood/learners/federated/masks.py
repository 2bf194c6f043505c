"""Masks that cancel in a sum: keys, keystreams, and integers modulo a power of two on the wire.

Keys are X25519 secrets run through HKDF-SHA256 with the round's digest as salt and the purpose and both node ids as
information, so a key belongs to one round, one use and one ordered pair of nodes. Masks are ChaCha20 keystreams under
256-bit keys; nothing on the way is shorter than 128 bits of security.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

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
