"""Noise that can be drawn again: the words, their names, and what a ledger charges for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms import GaussianMechanism
from ledgerwood.mechanisms.keyed import KeyedSource, derived, fresh_key
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
    ledger.release(mechanism, 1000, label="rows", rng=KeyedSource(key, "1"))
    assert ledger.spent().amount == pytest.approx(2 * spent)
    assert ledger.journal()[0].private
    ledger.close()
