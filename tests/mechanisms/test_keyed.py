"""Noise that can be drawn again: the words, their names, and what a ledger charges for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms import GaussianMechanism
from ledgerwood.mechanisms.keyed_randomness import KeyedSource, derived, fresh_key
from ledgerwood.mechanisms.randomness import RandomSource


def test_the_words_are_the_chacha20_keystream_of_rfc_8439() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(bytes(32), bytes(16)), mode=None).encryptor().update(bytes(64))
    assert stream.hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")  # A.1, vector 1
    key = fresh_key()
    own = Cipher(ChaCha20(derived(key, "ledgerwood noise", "7"), bytes(16)), mode=None).encryptor().update(bytes(800))
    source = KeyedSource(key, "7")
    words = np.concatenate([source.words(1), source.words(0), source.words(99)])
    assert words.tolist() == np.frombuffer(own, dtype="<u8").tolist()
    assert isinstance(source, RandomSource) and source.private and words.dtype == np.uint64


def test_releases_and_keys_share_nothing() -> None:
    keys = [bytes([i] * 32) for i in range(3)]
    seen = {int(KeyedSource(key, name).words(1)[0]) for key in keys for name in ("", "0", "1", "choices 0")}
    names = {KeyedSource(key, name).release_id for key in keys for name in ("", "0", "1", "choices 0")}
    assert len(seen) == len(names) == 12
    with pytest.raises(ParameterError, match="have 32 bytes"):
        KeyedSource(b"short", "0")


@pytest.mark.parametrize("durable", [False, True])
def test_a_ledger_charges_a_name_once_and_refuses_another_release_under_it(tmp_path: Path, durable: bool) -> None:
    path, key, mechanism = tmp_path / "budget.jsonl", fresh_key(), GaussianMechanism(sigma=20.0)
    ledger = Ledger.open(path, 1.0, 1e-6) if durable else Ledger(1.0, 1e-6)
    first = ledger.release(mechanism, 1000, label="rows", rng=KeyedSource(key, "0"))
    spent = ledger.spent().amount
    if durable:
        ledger.close()
        ledger = Ledger.open(path)
    assert ledger.release(mechanism, 1000, label="rows", rng=KeyedSource(key, "0")) == first
    assert ledger.spent().amount == spent and len(ledger.journal()) == 1
    for other, label in ((mechanism, "columns"), (GaussianMechanism(sigma=40.0), "rows")):
        with pytest.raises(ReleaseRefused, match="another one"):
            ledger.release(other, 1000, label=label, rng=KeyedSource(key, "0"))
    scaled = GaussianMechanism(sigma=40.0, sensitivity=2.0)  # the same cost: only its seal tells it from the first
    for same_cost, value in ((mechanism, 1001), (scaled, 1000)):
        with pytest.raises(ReleaseRefused, match="another value"):
            ledger.release(same_cost, value, label="rows", rng=KeyedSource(key, "0"))
    assert ledger.spent().amount == spent and len(ledger.journal()) == 1
    ledger.release(mechanism, 1000, label="rows", rng=KeyedSource(key, "1"))
    assert ledger.spent().amount == pytest.approx(2 * spent)
    assert ledger.journal()[0].private
    ledger.close()


def test_a_name_that_is_not_bound_to_the_value_is_refused() -> None:
    class Named:
        private, word_bits, prefetch, release_id = True, 64, True, "mine:0"

        def words(self, count: int) -> np.ndarray:
            return np.zeros(count, dtype=np.uint64)

    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ParameterError, match="bind its words to the value"):
        ledger.release(GaussianMechanism(sigma=20.0), 1000, label="rows", rng=Named())
    assert not ledger.journal()


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


VALUES: list[Any] = [
    0, 1, -1, True, 1.0, 0.0, -0.0, math.nan, math.inf, 10**5000, "1", "", "\ud800", None, b"1", [], [[]], (), [1],
    (1,), [1, 2], [[1], 2], [[1, 2]], {}, {1: 2}, {2: 1}, {"1": 2}, np.int64(1), np.int32(1), np.float64(1),
    np.longdouble(1), np.datetime64("2020-01-01"), np.array(1), np.array([1]), np.array([[1]]), np.array([1, 0]),
    np.array([1, 2]), np.array([1], dtype=np.int32), np.array([1.0]), np.array(["1"]), np.array([1], dtype=object),
    np.array([None], dtype=object), Odd, Odd(), GaussianMechanism(1.0), GaussianMechanism(2.0), 1 + 2j,
]  # fmt: skip


def test_any_value_has_a_seal_and_others_have_other_ones() -> None:
    key = fresh_key()
    seals = [KeyedSource(key, "0").bound(None, value).seal for value in VALUES]
    assert len(set(seals)) == len(VALUES)
    again = [KeyedSource(key, "0").bound(None, value).seal for value in VALUES]
    known = [not isinstance(value, Odd) for value in VALUES]  # of what it is made nobody can say
    assert [one == two for one, two in zip(seals, again, strict=True)] == known
    assert len({KeyedSource(key, "0").bound(None, value).words(1).item() for value in VALUES}) == len(VALUES)
    assert KeyedSource(key, "1").bound(None, 1).seal not in seals
    assert KeyedSource(fresh_key(), "0").bound(None, 1).seal not in seals
    assert KeyedSource(key, "0").bound(GaussianMechanism(1.0), 1).seal not in seals
    strided = np.arange(12).reshape(3, 4)
    assert KeyedSource(key, "0").bound(None, strided.T).seal == KeyedSource(key, "0").bound(None, strided.T.copy()).seal


def test_noises_of_two_values_under_one_name_are_independent() -> None:
    """Without the seal the difference of the two releases would be the difference of the values."""
    mechanism, size = GaussianMechanism(sigma=1000.0), 4000
    value = np.zeros(size, dtype=np.int64)
    other = value.copy()
    other[0] = 1
    key = fresh_key()
    first, second = (mechanism.release(v, KeyedSource(key, "0").bound(mechanism, v)) for v in (value, other))
    difference = (np.asarray(first) - np.asarray(second))[1:] / 1000.0
    spread = float(np.mean(difference**2))  # 2 if they are independent, 0 if the noise is the same
    assert abs(spread - 2) < 8 * 2 * math.sqrt(2 / size)


def test_a_value_that_prints_only_a_part_of_itself_shares_its_noise_with_no_other() -> None:
    """A long series prints its ends: by them two different ones would have one seal, one noise and one charge."""
    key, mechanism = fresh_key(), GaussianMechanism(sigma=20.0)
    counts = pd.Series(np.arange(1000))
    other = counts.copy()
    other[500] += 1
    assert repr(counts) == repr(other)
    ledger = Ledger(1.0, 1e-6)
    ledger.release(mechanism, counts, label="counts", rng=KeyedSource(key, "0"))
    with pytest.raises(ReleaseRefused, match="another value"):
        ledger.release(mechanism, other, label="counts", rng=KeyedSource(key, "0"))
    masked = [np.ma.masked_array([1.0, 2.0], mask) for mask in ([True, False], [False, False])]
    matrices = [sparse.csr_array(np.eye(3) * factor) for factor in (1, 2)]
    for one, two in (masked, matrices, (counts, other)):
        assert KeyedSource(key, "0").bound(None, one).seal != KeyedSource(key, "0").bound(None, two).seal
