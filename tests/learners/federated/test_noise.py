"""Shared noise: its grid, its distribution, and a price that is an upper bound of the exact one."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ledgerwood.accounting import Gaussian, Skellam
from ledgerwood.errors import ParameterError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.distributed_noise import NoiseGrid, SkellamOf, SkellamShare
from ledgerwood.learners.federated.party import Party
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.mechanisms.randomness import source_of
from ledgerwood.mechanisms.sampling import draws

ROSTER = {1: "aa" * 32, 2: "bb" * 32, 3: "cc" * 32}


def task_of(noise: str = "shares", neighbours: str = "add_remove", **facts: object) -> FederatedTask:
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], neighbours=neighbours)
    usual = {
        "rows": 1000,
        "recipe": "tr_cyc",
        "options": {"n_trees": 8, "batch": 4, "max_depth": 2},
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    return FederatedTask(schema, (0, 1), ROSTER, threshold=2, noise=noise, **{**usual, **facts})  # type: ignore[arg-type]


@given(st.floats(1.0, 1e12), st.integers(1, 400), st.integers(0, 20), st.data())
@settings(max_examples=200, deadline=None)
def test_a_coarse_sum_moves_by_no_more_than_its_grid_says(
    sensitivity: float, touched: int, resolution: int, data: st.DataObject
) -> None:
    grid = NoiseGrid(sensitivity, touched, resolution)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    step = rng.normal(size=touched)
    step *= sensitivity / np.linalg.norm(step)
    moved = np.trunc(step).astype(np.int64)  # towards zero: no longer than it was
    base = rng.integers(-(2**40), 2**40, touched)
    difference = (grid.coarse(base + moved) - grid.coarse(base)).astype(np.float64)
    assert np.linalg.norm(difference) <= grid.l2
    assert sensitivity / 2**grid.shift < 2 ** (resolution + 1)
    assert np.all(np.abs(grid.fine(grid.coarse(base)) - base) < 2**grid.shift)


@given(st.floats(1.0, 1e4), st.floats(1.0, 1e3), st.integers(1, 1000), st.floats(0.3, 200.0))
@settings(max_examples=200, deadline=None)
def test_a_plan_at_the_least_sensitivity_covers_every_larger_one(
    least: float, factor: float, touched: int, ratio: float
) -> None:
    alpha = np.array([1.0001, 1.5, 2.0, 3.0, 7.5, 32.0, 500.0])
    planned = SkellamOf(least, touched, "add_remove")(ratio).renyi(alpha)
    later = SkellamOf(least * factor, touched, "add_remove")(ratio).renyi(alpha)
    assert np.all(later <= planned * (1 + 1e-12))


@lru_cache
def bessel(variance: float, reach: int) -> list[mpmath.mpf]:
    """Modified Bessel functions of all orders up to ``reach``, by their recurrence downwards from the last two."""
    v = mpmath.mpf(variance)
    distribution = [mpmath.besseli(reach + 1, v), mpmath.besseli(reach, v)]
    for k in range(reach, 0, -1):
        distribution.append(distribution[-2] + 2 * k / v * distribution[-1])
    return distribution[:0:-1]


def exact_renyi(variance: float, shift: tuple[int, ...], alpha: int) -> mpmath.mpf:
    """The Rényi divergence of Skellam noise at ``shift`` from it at 0: coordinates add, each summed term by term."""
    total = mpmath.mpf(0)
    reach = int(12 * math.sqrt(variance) + 40) + alpha * max(shift)
    v = mpmath.mpf(variance)
    distribution = bessel(variance, reach + max(shift))  # e^-v cancels in what follows but once
    for move in shift:
        terms = (
            distribution[abs(k - move)] ** alpha * distribution[abs(k)] ** (1 - alpha) for k in range(-reach, reach + 1)
        )
        total += mpmath.log(mpmath.exp(-v) * mpmath.fsum(terms)) / (alpha - 1)
    return total


@pytest.mark.parametrize("variance", [2.0, 8.0, 60.0])
@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1, 1, 1), (2, 1), (5, 2, 1)])
@pytest.mark.parametrize("alpha", [2, 3, 6])
def test_the_price_of_skellam_noise_is_above_the_exact_one(variance: float, shift: tuple[int, ...], alpha: int) -> None:
    with mpmath.workdps(40):
        exact = float(exact_renyi(variance, shift, alpha))
    l1, l2 = float(sum(shift)), math.sqrt(sum(k * k for k in shift))
    stated = Skellam(variance=variance, l1_sensitivity=l1, l2_sensitivity=l2).rdp(alpha)
    gaussian = Gaussian(sigma=math.sqrt(variance), sensitivity=l2).rdp(alpha)
    assert exact <= stated
    if variance == 60.0:  # the bound is not idle: for larger noise it closes in on the truth, which is the Gaussian's
        assert gaussian * 0.95 < exact and stated < exact * 1.2


def test_shares_of_large_noise_add_up_to_the_skellam_distribution() -> None:
    variance, n = 3.0 * 2**27, 40_000
    total = sum(draws.skellam(Fraction(variance) / 3, n, source_of(None)) for _ in range(3))
    # By Berry and Esseen the distribution is within 1e-4 of the normal one here; a false alarm has probability 1e-9.
    found = stats.kstest(np.asarray(total) / math.sqrt(variance), "norm")
    assert found.statistic < 1e-4 + math.sqrt(math.log(2 / 1e-9) / (2 * n))
    square = float(np.square(np.asarray(total, dtype=np.float64)).mean()) / variance
    assert abs(square - 1) < 6.2 * math.sqrt(2 / n)


def test_small_shares_add_up_to_the_skellam_distribution_exactly() -> None:
    n = 60_000
    total = np.asarray(sum(draws.skellam(Fraction(5, 3), n, source_of(None)) for _ in range(3)))
    places = np.arange(-7, 8)
    expected = stats.skellam.pmf(places, 2.5, 2.5) * n
    seen = np.array([(total == k).sum() for k in places])
    expected, seen = np.append(expected, n - expected.sum()), np.append(seen, n - seen.sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-8


@pytest.mark.parametrize("variance", [0.5, 30.0, 4000.0])
def test_the_tail_that_sizes_the_modulus_is_an_upper_bound(variance: float) -> None:
    for t in (1, 5, 40, 200, 400):
        tail = 2 * stats.skellam.sf(t - 1, variance / 2, variance / 2)
        assert tail <= 2 * math.exp(-(t**2) / (2 * (variance + t))) * (1 + 1e-9) + 1e-300


def test_no_entry_of_a_training_leaves_the_modulus_but_once_in_a_billion() -> None:
    for rows, noise, neighbours in ((1000, "shares", "add_remove"), (4_000_000, "shares", "add_remove"),
                                    (1000, "local", "replace_one")):  # fmt: skip
        task = task_of(noise, neighbours, rows=rows)
        move = 2.0 ** (task.steps + 1) + math.sqrt(4)
        v = (max(task.ratios.values()) * move) ** 2 * (rows if noise == "local" else 3 / 2)
        room = 2 ** (task.bits - 1) - rows * move - 3
        assert room > 0
        assert task.job.entries * 2 * math.exp(-(room**2) / (2 * (v + room))) < 1e-9


def test_every_round_has_the_noise_of_its_own_sensitivity() -> None:
    """Gradients of the first round are at most one half, so it needs about half the noise of a later one."""
    task = task_of(options={"n_trees": 8, "batch": 4, "max_depth": 2, "leaf": "gradient", "learning_rate": 8.0})
    rng = np.random.default_rng(0)
    party = Party(task, rng.uniform(size=(50, 2)), rng.integers(0, 2, 50))
    first = party.step([]).queries
    pushed = [np.full(q.value.size, 2**14, dtype=np.int64) for q in first]
    later = party.step(pushed).queries

    def sigma(q: object) -> float:
        return math.sqrt(task.variance("leaf", q.grid)) * 2**q.grid.shift  # type: ignore[attr-defined]

    assert {sigma(q) for q in first} == {sigma(first[0])}
    assert sigma(later[0]) > 1.4 * sigma(first[0])
    planned = task.plan["leaf"].priced("add_remove")
    for q in (*first, *later):
        own = Skellam(
            variance=task.variance("leaf", q.grid), l1_sensitivity=q.grid.l2 * math.sqrt(q.grid.touched) * (1 + 1e-12),
            l2_sensitivity=q.grid.l2,
        )  # fmt: skip
        for alpha in (1.5, 2.0, 8.0, 64.0):
            assert own.rdp(alpha) <= planned.rdp(alpha) * (1 + 1e-12)


def test_central_noise_is_priced_exactly_and_local_noise_needs_a_public_number_of_records() -> None:
    shares, central = task_of(), task_of("central")
    assert central.ratios["leaf"] < shares.ratios["leaf"] < 1.1 * central.ratios["leaf"]
    local = task_of("local", "replace_one")
    rng = np.random.default_rng(0)
    party = Party(local, rng.uniform(size=(50, 2)), rng.integers(0, 2, 50))
    query = party.step([]).queries[0]
    mechanism = party._mechanism(query)
    assert isinstance(mechanism, SkellamShare)
    assert mechanism.variance / mechanism.parties == pytest.approx(50 * local.variance("leaf", query.grid))
    party = Party(central, rng.uniform(size=(50, 2)), rng.integers(0, 2, 50))
    query = party.step([]).queries[0]
    assert party.noisy([query]).tolist() == query.value.ravel().tolist()  # the server draws the noise
    assert [(entry.kind, entry.label) for entry in party.ledger.journal()] == [("charge", query.label)]
    assert "drawn elsewhere" in party.ledger.statement()
    with pytest.raises(ParameterError, match="replace_one"):
        task_of("local")
    with pytest.raises(ParameterError, match="be one of shares, central, local"):
        task_of("none")
