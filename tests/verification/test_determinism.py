"""Noise that repeats is noticed, wherever it repeats."""

import itertools
import threading
import time

import numpy as np
import pytest

from ledgerwood.verification.auditor import determinism
from ledgerwood.verification.auditor.determinism import check_determinism


def test_fresh_noise_is_sound():
    found = check_determinism(lambda data, rng: data + rng.laplace(), 1.0)
    assert found.sound and found.same_seed
    assert str(found) == "no noise was seen to repeat"


def test_noise_seeded_with_the_clock_repeats_within_a_second():
    found = check_determinism(lambda data, rng: data + np.random.default_rng(int(time.time())).laplace(), 1.0)
    assert found.clock and not found.sound
    assert "clock" in str(found)


def test_the_clock_is_noticed_though_its_second_ends_in_the_first_run():
    def slow(data, rng):
        time.sleep(0.03)
        return data + np.random.default_rng(int(time.time())).laplace()

    time.sleep((0.88 - time.time()) % 1.0)
    found = check_determinism(slow, 1.0)
    assert found.clock and found.same_second


def test_a_fixed_seed_repeats_everywhere_but_not_by_the_clock():
    found = check_determinism(lambda data, rng: data + np.random.default_rng(0).laplace(), 1.0)
    assert found.same_second and found.threads and not found.clock


def test_global_state_copied_by_a_fork_repeats():
    shared = np.random.default_rng(3)
    found = check_determinism(lambda data, rng: data + shared.laplace(), 1.0)
    assert found.forked
    assert not found.same_seed and not found.same_second
    assert "forked" in str(found) and "ignored" in str(found)


def test_outputs_that_rarely_differ_are_not_taken_for_the_clock(monkeypatch):
    """Randomised response with entropy of its own; one in 25 was called clock-seeded, an epsilon of infinity."""
    monkeypatch.setattr(determinism, "_wait_for_next_second", lambda: None)
    own = np.random.default_rng(1)
    assert not any(determinism.is_clock_seeded(lambda data, rng: int(own.random() < 0.95), 0) for _ in range(300))


@pytest.mark.parametrize("keep", [0.5, 0.75, 0.95])
def test_a_coin_is_sound(keep):
    """One output of each thread agreed every second time, and the noise was said to repeat."""
    found = [check_determinism(lambda data, rng: int(rng.random() < keep), 0) for _ in range(3)]
    assert all(each.sound and each.same_seed for each in found)


def test_coins_copied_by_a_fork_repeat():
    shared = np.random.default_rng(3)
    assert check_determinism(lambda data, rng: int(shared.random() < 0.5), 0).forked


def test_coins_of_threads_that_start_from_one_seed_repeat():
    own = threading.local()

    def coin(data, rng):
        if not hasattr(own, "generator"):
            own.generator = np.random.default_rng(0)
        return int(own.generator.integers(2))

    assert check_determinism(coin, 0).threads


def test_noise_seeded_with_a_finer_clock_stands_still_for_a_moment():
    ticks = itertools.count()
    found = check_determinism(lambda data, rng: np.random.default_rng(next(ticks) // 20).laplace(), 0.0)
    assert found.same_second and not found.sound
