"""Counts of undeclared keys: the distribution by enumeration, the δ of the threshold, hostile keys and counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ledgerwood.accounting import ApproxDP, Gaussian, Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms import (
    ExponentialMechanism,
    NoisyMaxMechanism,
    ParallelExponentialMechanism,
    PermuteAndFlipMechanism,
    ReplaySource,
    SeededSource,
    ThresholdedCountsMechanism,
)

NOISES = ("laplace", "gaussian", "discrete_laplace", "discrete_gaussian")


@cache
def normaliser(scale: mpmath.mpf) -> mpmath.mpf:
    reach = range(1, 200)
    return 1 + 2 * mpmath.fsum(mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * scale**2)) for j in reach)


@cache
def mass(noise: str, scale: float, k: int) -> mpmath.mpf:
    """The probability of the integer k as noise, to 40 digits."""
    with mpmath.workdps(60):
        return _mass(noise, mpmath.mpf(scale), k)


def _mass(noise: str, s: mpmath.mpf, k: int) -> mpmath.mpf:
    if noise == "discrete_laplace":
        a = mpmath.exp(-1 / s)
        return (1 - a) / (1 + a) * a ** abs(k)
    if noise == "discrete_gaussian":
        return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s * s)) / normaliser(s)
    if noise == "gaussian":
        return mpmath.ncdf((k + mpmath.mpf("0.5")) / s) - mpmath.ncdf((k - mpmath.mpf("0.5")) / s)
    below = lambda x: mpmath.exp(x / s) / 2 if x < 0 else 1 - mpmath.exp(-x / s) / 2  # noqa: E731
    return below(k + mpmath.mpf("0.5")) - below(k - mpmath.mpf("0.5"))


def tail(noise: str, scale: float, k: int) -> mpmath.mpf:
    """The probability that the noise is k or more: what is left of the integers nearer to 0, by symmetry."""
    with mpmath.workdps(60):
        if k <= 0:
            return 1 - tail(noise, scale, 1 - k)
        return (1 - mass(noise, scale, 0) - 2 * mpmath.fsum(mass(noise, scale, j) for j in range(1, k))) / 2


def law(mechanism: ThresholdedCountsMechanism, counts: dict[str, int], keys: str) -> list[dict[int, float]]:
    """For each key, the probability of every noisy count that is released; 0 stands for none."""
    found = []
    for key in keys:
        if counts.get(key, 0) == 0:
            found.append({0: 1.0})
            continue
        first = mechanism.threshold_at
        shown = {n: float(mass(mechanism.noise, mechanism.scale, n - counts[key])) for n in range(first, first + 25)}
        found.append({0: 1 - sum(shown.values()), **shown})
    return found


def exact_delta(p: list[dict[int, float]], q: list[dict[int, float]], epsilon: float) -> float:
    """The hockey-stick divergence of two products."""
    pairs = []
    for a, b in zip(p, q, strict=True):
        if a == b:
            continue
        losses: dict[tuple[float, float], int] = Counter((a.get(n, 0.0), b.get(n, 0.0)) for n in a | b)
        pairs.append([(x, y, times) for (x, y), times in losses.items()])
    total = 0.0
    for outcome in itertools.product(*pairs):
        x, y = math.prod(o[0] for o in outcome), math.prod(o[1] for o in outcome)
        total += math.prod(o[2] for o in outcome) * max(0.0, x - math.exp(epsilon) * y)
    return total


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("threshold", [2, 4])
def test_no_pair_of_neighbours_exceeds_the_cost(noise: str, threshold: int) -> None:
    mechanism = ThresholdedCountsMechanism(noise, 0.8, threshold=threshold, max_keys=2)
    worst = 0.0
    for base in ({}, {"a": 2, "b": 3}, {"a": 4}):
        for added in ("a", "b", "ab", "ac", "cd"):
            more = Counter(base) + Counter(added)
            p, q = law(mechanism, dict(more), "abcd"), law(mechanism, base, "abcd")
            for x, y in ((p, q), (q, p)):
                for epsilon in (0.0, 0.5, 1.0, 2.0):
                    bound, exact = mechanism.cost.delta(epsilon), exact_delta(x, y, epsilon)
                    assert exact <= bound * (1 + 1e-9)
                    worst = max(worst, exact / bound)
    assert worst > 0.5, "so loose that this test could hardly fail"


@pytest.mark.parametrize("noise", NOISES)
def test_with_one_key_the_threshold_costs_what_a_lone_key_shows(noise: str) -> None:
    mechanism = ThresholdedCountsMechanism(noise, 0.8, threshold=5)
    lone = exact_delta(law(mechanism, {"a": 1}, "a"), law(mechanism, {}, "a"), 50.0)
    assert mechanism.threshold_delta(5) == pytest.approx(lone, rel=1e-9)
    assert mechanism.threshold_delta(5) >= lone * (1 - 1e-13)
    assert mechanism.cost.infinite_mass() == mechanism.threshold_delta(5)


@pytest.mark.parametrize("noise", NOISES)
@settings(max_examples=20, deadline=None)
@given(st.floats(0.3, 12.0), st.integers(-3, 60))
def test_tails_are_those_of_the_noise_rounded_up(noise: str, scale: float, k: int) -> None:
    from ledgerwood.mechanisms.thresholds import NOISES as TAILS

    exact = tail(noise, scale, k)
    assert abs(TAILS[noise][2](k, scale) - exact) <= 2.0**-41 * exact + mpmath.mpf("1e-40")


def test_broad_discrete_noise_is_bounded_by_the_integral() -> None:
    from ledgerwood.mechanisms.thresholds import _MOST_TERMS, _discrete_gaussian_tail, _gaussian_tail

    sigma = _MOST_TERMS / 40 - 1
    for k in (3 * int(sigma), 6 * int(sigma)):
        summed = _discrete_gaussian_tail(k, sigma)
        assert summed < _gaussian_tail(k, sigma) < summed * (1 + 1e-6)
    assert _discrete_gaussian_tail(5, 1e9) == 1.0


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(NOISES), st.floats(0.5, 4.0), st.integers(1, 4), st.integers(1, 5), st.integers(1, 12),
    st.integers(6, 30),
)  # fmt: skip
def test_the_worst_lone_counts_are_covered(noise, scale, keys, count, total, threshold) -> None:
    mechanism = ThresholdedCountsMechanism(
        noise, scale, threshold=threshold, max_keys=keys, max_count=count, max_total=total
    )
    worst = mpmath.mpf(0)
    with mpmath.workdps(200):
        reached = {c: tail(noise, scale, threshold - c) for c in range(1, count + 1)}
        for size in range(1, keys + 1):
            for counts in itertools.combinations_with_replacement(range(1, count + 1), size):
                if sum(counts) <= total:
                    worst = max(worst, 1 - mpmath.fprod(1 - reached[c] for c in counts))
    stated = mechanism.threshold_delta(threshold)
    assert stated >= worst * (1 - mpmath.mpf("1e-9"))
    if total >= keys * count:
        assert stated <= worst * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-20")


@pytest.mark.parametrize("noise", NOISES)
def test_the_least_threshold_within_a_delta_is_taken(noise: str) -> None:
    for scale, delta, keys in ((0.5, 1e-9, 1), (30.0, 1e-6, 5), (400.0, 0.3, 2)):
        mechanism = ThresholdedCountsMechanism(noise, scale, delta=delta, max_keys=keys)
        at = mechanism.threshold_at
        assert mechanism.threshold_delta(at) <= delta < mechanism.threshold_delta(at - 1)
        assert mechanism.cost.infinite_mass() == delta


@pytest.mark.parametrize("noise", NOISES)
def test_the_release_has_the_stated_distribution(noise: str) -> None:
    mechanism = ThresholdedCountsMechanism(noise, 1.5, threshold=3)
    source = SeededSource(np.random.default_rng(9))
    seen = Counter(mechanism.release({"a": 2}, source).get("a", 0) for _ in range(1500))
    [expected] = law(mechanism, {"a": 2}, "a")
    cells = [0, 3, 4, 5, 6]
    observed = [seen[c] for c in cells] + [sum(n for c, n in seen.items() if c > 6)]
    wanted = [expected[c] for c in cells]
    assert chisquare(observed, np.array([*wanted, 1 - sum(wanted)]) * 1500).pvalue > 1e-4


def test_keys_have_one_form_and_what_is_no_key_is_not_counted() -> None:
    mechanism = ThresholdedCountsMechanism("laplace", 0.01, threshold=2)
    given_keys = {
        "a": 9, b"a": 8, True: 7, 2.5: 6, np.int64(3): 5, ("x", np.float64(1.0)): 4, None: 9, math.nan: 9,
        ("y", None): 9, Fraction(1, 3): 9, frozenset(): 9, "zero": 0, "less": -4, np.str_("s"): 3,
    }  # fmt: skip
    kept = mechanism.release(given_keys)
    assert list(kept.items()) == [
        ("a", 9), (b"a", 8), (1, 7), (2.5, 6), (3, 5), (("x", 1), 4), ("s", 3)
    ]  # fmt: skip
    assert [type(key) for key in kept] == [str, bytes, int, float, int, tuple, str]


def test_the_order_of_the_keys_says_nothing_about_who_came_first() -> None:
    mechanism = ThresholdedCountsMechanism("discrete_laplace", 5.0, threshold=1)
    counts = {"b": 30, "a": 30, 2: 30, 1: 30, (1, "a"): 30, ("a", 1): 30}
    turned = dict(reversed(counts.items()))
    one, other = (mechanism.release(c, SeededSource(np.random.default_rng(2))) for c in (counts, turned))
    assert list(one.items()) == list(other.items())


@pytest.mark.parametrize("noise", NOISES)
def test_no_key_and_no_count_makes_a_release_fail(noise: str) -> None:
    mechanism = ThresholdedCountsMechanism(noise, 3.0, delta=1e-6)
    assert mechanism.release({}, ReplaySource([])) == {}
    counts = {"a": 2**63, "b": -(2**70), "c": 10**400, 10**5000: 50, 10**5000 + 1: 50, math.inf: 50, "\ud800": 50}
    assert {"a", "c"} <= set(mechanism.release(counts))


@pytest.mark.parametrize(
    "options",
    [
        {}, {"delta": 0.0}, {"delta": 1e-6, "threshold": 3}, {"threshold": 0},
        {"threshold": 2.5}, {"threshold": 1, "max_count": 10**6, "scale": 0.1}, {"delta": 1.0},
        {"delta": 1e-6, "max_keys": 0}, {"delta": 1e-6, "max_count": 1.5}, {"delta": 1e-6, "max_total": 0},
        {"delta": 1e-6, "noise": "cauchy"}, {"delta": 1e-6, "scale": 0.0}, {"delta": 1e-6, "neighbours": "some"},
        {"delta": 1e-6, "max_keys": 2**40, "max_count": 2**40},
    ],
)  # fmt: skip
def test_what_is_refused(options) -> None:
    with pytest.raises(ParameterError):
        ThresholdedCountsMechanism(**({"noise": "laplace", "scale": 1.0} | options))


@pytest.mark.parametrize("value", [["a"], {"a": 1.5}, {"a": "1"}, {"a": True}, 3])
def test_values_of_a_wrong_type_are_refused_before_anything_is_spent(value) -> None:
    ledger = Ledger(epsilon=2.0, delta=1e-5)
    with pytest.raises(ParameterError):
        ledger.release(ThresholdedCountsMechanism("laplace", 1.0, delta=1e-6), value, label="words")
    assert ledger.spent().epsilon == 0


def test_the_cost_follows_from_what_a_person_adds() -> None:
    mechanism = ThresholdedCountsMechanism("gaussian", 10.0, delta=1e-6, max_keys=6, max_count=2, max_total=6)
    assert mechanism.cost == Gaussian(sigma=10.0, sensitivity=mechanism.sensitivity.in_l2) + ApproxDP(0.0, 1e-6)
    assert mechanism.sensitivity.in_l2 == pytest.approx(12**0.5)
    replaced = ThresholdedCountsMechanism("laplace", 10.0, delta=1e-6, max_keys=3, neighbours="replace_one")
    assert replaced.sensitivity.in_l1 == 6 and replaced.cost.pure_epsilon() == pytest.approx(0.6)


@pytest.mark.parametrize(
    "kind", [ExponentialMechanism, PermuteAndFlipMechanism, NoisyMaxMechanism, ParallelExponentialMechanism]
)
def test_the_textbook_sensitivity_gives_the_range_sensitivity(kind) -> None:
    assert kind(1.0, sensitivity=0.1) == kind(1.0, range_sensitivity=0.2)
    assert kind(1.0, sensitivity=0.1, monotone=True) == kind(1.0, 0.1)
    assert Fraction(kind(1.0, sensitivity=Fraction(1, 3)).range_sensitivity) >= Fraction(2, 3)
    for wrong in ({}, {"range_sensitivity": 1.0, "sensitivity": 1.0}, {"range_sensitivity": 1.0, "monotone": True},
                  {"sensitivity": 1.7e308}, {"sensitivity": 0.0}):  # fmt: skip
        with pytest.raises(ParameterError):
            kind(1.0, **wrong)
