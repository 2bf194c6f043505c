"""The search that recovered vectors behind masks of 32-bit seeds: it must break such masks, and find nothing in ours.

Flower's stock SecAgg+ folds a shared key into 32 bits and draws masks with numpy's Mersenne Twister. Whoever sees one
masked vector of small numbers tries every seed: the right one leaves small numbers. CI searches a reduced space, and
``make slow`` all 2**32 seeds, compiled.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.learners.federated import masking
from ledgerwood.learners.federated.protocol import Round, pair_mask

Words = NDArray[np.uint32]
LIMIT = 1 << 20
"""A true vector's entries are below it; a wrong seed's two entries are with probability (2**21 / 2**32)**2."""


@numba.njit(cache=False)  # type: ignore[misc]
def first_words(seed: int, state: Words) -> None:
    """Write the first ``len(state) - 397`` words of the Mersenne Twister of a seed over the start of ``state``."""
    x = np.uint32(seed)
    state[0] = x
    for i in range(1, state.size):
        x = np.uint32(np.uint32(1812433253) * (x ^ (x >> np.uint32(30))) + np.uint32(i))
        state[i] = x
    for i in range(state.size - 397):
        y = (state[i] & np.uint32(0x80000000)) | (state[i + 1] & np.uint32(0x7FFFFFFF))
        z = state[i + 397] ^ (y >> np.uint32(1))
        if y & np.uint32(1):
            z ^= np.uint32(0x9908B0DF)
        z ^= z >> np.uint32(11)
        z ^= (z << np.uint32(7)) & np.uint32(0x9D2C5680)
        z ^= (z << np.uint32(15)) & np.uint32(0xEFC60000)
        z ^= z >> np.uint32(18)
        state[i] = z


LANES = 128


@numba.njit(cache=False, nogil=True)  # type: ignore[misc]
def search(masked: Words, begin: int, end: int, found: NDArray[np.int64]) -> int:
    """Try every seed of a range; return how many leave small numbers, the first of them in ``found``.

    The first word needs three numbers of a seed's state; seeds run side by side, and few are looked at further.
    """
    hits = 0
    state = np.empty(397 + masked.size, dtype=np.uint32)
    x = np.empty(LANES, dtype=np.uint32)
    for block in range(begin, end, LANES):
        for lane in range(LANES):
            x[lane] = np.uint32(block + lane)
        for i in range(1, 398):
            for lane in range(LANES):
                x[lane] = np.uint32(1812433253) * (x[lane] ^ (x[lane] >> np.uint32(30))) + np.uint32(i)
        for lane in range(LANES):
            seed = np.uint32(block + lane)
            second = np.uint32(np.uint32(1812433253) * (seed ^ (seed >> np.uint32(30))) + np.uint32(1))
            y = (seed & np.uint32(0x80000000)) | (second & np.uint32(0x7FFFFFFF))
            z = x[lane] ^ (y >> np.uint32(1))
            if y & np.uint32(1):
                z ^= np.uint32(0x9908B0DF)
            z ^= z >> np.uint32(11)
            z ^= (z << np.uint32(7)) & np.uint32(0x9D2C5680)
            z ^= (z << np.uint32(15)) & np.uint32(0xEFC60000)
            z ^= z >> np.uint32(18)
            small = np.uint32(masked[0] - np.uint32(z) + np.uint32(LIMIT)) < np.uint32(2 * LIMIT)
            if small:
                first_words(block + lane, state)
                for i in range(masked.size):
                    left = np.uint32(masked[i] - state[i] + np.uint32(LIMIT))
                    small = small and left < np.uint32(2 * LIMIT)
                if small:
                    if hits < found.size:
                        found[hits] = block + lane
                    hits += 1
    return hits


def folded(key: bytes) -> int:
    """Fold a key into 32 bits, as the stock masks do."""
    seed = 0
    for start in range(0, len(key), 4):
        seed ^= int.from_bytes(key[start : start + 4], "little")
    return seed


def stock_mask(seed: int, length: int) -> Words:
    return np.random.RandomState(seed).randint(0, 2**32, size=length, dtype=np.uint32)


def ours(length: int) -> Words:
    """Return what one client adds towards another."""
    round = Round(bytes(range(32)), {1: b"a" * 32, 2: b"b" * 32}, length, 32, 2)
    theirs = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return pair_mask(round, X25519PrivateKey.generate(), 1, 2, theirs).astype(np.uint32)


SECRET = np.array([731, -118_004, 52, 999_999, -3, 0, 64_000, 17], dtype=np.int32)


def test_the_search_knows_the_stock_generator() -> None:
    state = np.empty(405, dtype=np.uint32)
    for seed in (0, 1, 12345, 2**32 - 1):
        first_words(seed, state)
        assert np.array_equal(state[:8], stock_mask(seed, 8))


def test_the_search_recovers_a_vector_behind_a_stock_mask_in_a_reduced_space() -> None:
    seed = folded(bytes(range(7, 39))) % 2**14
    found = np.zeros(4, dtype=np.int64)
    masked = SECRET.view(np.uint32) + stock_mask(seed, 8)
    assert search(masked, 0, 2**14, found) == 1
    assert found[0] == seed
    assert np.array_equal((masked - stock_mask(int(found[0]), 8)).view(np.int32), SECRET)


def test_the_search_finds_nothing_behind_our_masks_in_a_reduced_space() -> None:
    masked = SECRET.view(np.uint32) + ours(8)
    assert search(masked, 0, 2**14, np.zeros(4, dtype=np.int64)) == 0


def test_keys_are_of_256_bits_and_depend_on_every_bit_of_what_they_come_from() -> None:
    """Masks of keys that differ in one bit, of another purpose, round or pair have nothing in common."""
    mine, theirs = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    facts = {"digest": bytes(32), "purpose": b"mask", "pair": (1, 2)}
    key = masking.derived_key(mine, theirs, **facts)  # type: ignore[arg-type]
    others = [
        masking.derived_key(mine, theirs, **{**facts, **change})  # type: ignore[arg-type]
        for change in ({"digest": bytes(31) + b"\1"}, {"purpose": b"envelope"}, {"pair": (1, 3)})
    ]
    assert len(key) == 32 and len({key, *others}) == 4
    whole = masking.keystream(key, 4096, 32)
    for bit in (0, 77, 255):
        flipped = bytearray(key)
        flipped[bit // 8] ^= 1 << bit % 8
        assert np.count_nonzero(masking.keystream(bytes(flipped), 4096, 32) == whole) < 4


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_seeds_of_32_bits_break_stock_masks_and_not_ours() -> None:
    """2**32 seeds on both cores, stock and ours in turn."""
    from concurrent.futures import ThreadPoolExecutor

    key = X25519PrivateKey.generate().private_bytes_raw()
    stock = SECRET.view(np.uint32) + stock_mask(folded(key), 8)
    for masked, expected in ((stock, 1), (SECRET.view(np.uint32) + ours(8), 0)):
        found = [np.zeros(4, dtype=np.int64) for _ in range(64)]
        edges = [2**32 * i // 64 for i in range(65)]
        with ThreadPoolExecutor(2) as pool:
            hits = list(pool.map(lambda i: search(masked, edges[i], edges[i + 1], found[i]), range(64)))  # noqa: B023
        assert sum(hits) == expected
        if expected:
            assert [int(part[0]) for part, hit in zip(found, hits) if hit] == [folded(key)]
