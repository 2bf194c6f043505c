"""The pld accountant against exact sums, 60-digit closed forms, enumeration and other libraries."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from contextlib import suppress

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import Gaussian, PoissonSubsampled
from ledgerwood.accounting.accountant.pld import composition as module
from ledgerwood.accounting.accountant.pld.composition import compose
from ledgerwood.accounting.accountant.pld.discretization import GridLoss, UniformGrid, from_above, from_below
from ledgerwood.accounting.accountant.pld.tilted_fft import UNIT_ROUNDOFF, TiltedSum, tilted_sum
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair, MaxPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import BoundedRangePair, GaussianPair, LaplacePair
from ledgerwood.accounting.curves.dominating_pairs.discrete import (
    ApproxDPPair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    PmfPair,
    PureDPPair,
    RandomizedResponsePair,
    SkellamPair,
)
from ledgerwood.errors import MethodUnavailable, ParameterError


@pytest.fixture(autouse=True)
def _precision():
    with mp.workdps(60):
        yield


# --------------------------------------------------------------------------------------------
# exact answers


def gaussian_delta(mu: float, count: int, eps: mp.mpf) -> mp.mpf:
    m = mp.sqrt(count) * mp.mpf(mu)
    phi = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
    return phi(m / 2 - eps / m) - mp.exp(eps) * phi(-m / 2 - eps / m)


def response_delta(epsilon: float, count: int, eps: mp.mpf) -> mp.mpf:
    """The exact binomial sum of `count` binary randomised responses."""
    e0 = mp.mpf(epsilon)
    p = mp.exp(e0) / (1 + mp.exp(e0))
    terms = []
    for up in range(count, -1, -1):
        loss = (2 * up - count) * e0
        if loss <= eps:
            break
        weight = mp.binomial(count, up) * p**up * (1 - p) ** (count - up)
        terms.append(weight * -mp.expm1(eps - loss))
    return mp.fsum(terms)


def invert(delta_at: Callable[[mp.mpf], mp.mpf], delta: float) -> mp.mpf:
    if delta_at(mp.mpf(0)) <= delta:
        return mp.mpf(0)
    low, high = mp.mpf(0), mp.mpf(1)
    while delta_at(high) > delta:
        high *= 2
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def bracket(pair: LossPair, count: int, delta: float) -> tuple[float, float]:
    composed = compose([(pair, count)], delta=delta)
    return composed.epsilon_lower(delta), composed.epsilon_upper(delta)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-40, 1e-150, 1e-300])
@pytest.mark.parametrize(("mu", "count"), [(1.0, 1), (0.02, 1000), (20.0, 1), (1e-4, 10), (3.0, 7)])
def test_gaussian_answers_bracket_the_closed_form_from_a_tenth_to_1e_minus_300(
    mu: float, count: int, delta: float
) -> None:
    exact = invert(lambda e: gaussian_delta(mu, count, e), delta)
    lower, upper = bracket(GaussianPair(mu), count, delta)
    assert lower <= exact <= upper
    assert upper <= exact * (1 + 4e-6)
    assert lower >= exact * (1 - 2e-5)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-30, 1e-300])
@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 20), (0.1, 200), (1.3, 40), (1e-3, 400), (2.0, 1)])
def test_randomised_response_brackets_the_binomial_sum(epsilon: float, count: int, delta: float) -> None:
    exact = invert(lambda e: response_delta(epsilon, count, e), delta)
    lower, upper = bracket(PureDPPair(epsilon), count, delta)
    assert lower <= exact <= upper
    assert upper - lower <= 1e-8 * exact


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0, 9.5, 19.9])
def test_delta_of_randomised_response_brackets_the_binomial_sum(epsilon: float) -> None:
    composed = compose([(PureDPPair(0.1), 200)], epsilon=epsilon)
    exact = response_delta(0.1, 200, mp.mpf(epsilon))
    assert composed.delta_lower(epsilon) <= exact <= composed.delta_upper(epsilon)
    assert composed.delta_upper(epsilon) <= exact * (1 + mp.mpf("1e-7"))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0, 11.0, 25.0])
def test_delta_of_the_gaussian_brackets_the_closed_form(epsilon: float) -> None:
    composed = compose([(GaussianPair(0.1), 50)], epsilon=epsilon)
    exact = gaussian_delta(0.1, 50, mp.mpf(epsilon))
    assert composed.delta_lower(epsilon) <= exact <= composed.delta_upper(epsilon)
    assert composed.delta_upper(epsilon) <= exact * (1 + mp.mpf("1e-3"))


@pytest.mark.parametrize(
    ("pair", "count", "limit"),
    [
        (GaussianPair(1 / 50), 1000, 2.594386),
        (LaplacePair(0.1), 100, 4.22035),
        (SubsampledPair(GaussianPair(1.0), 0.01), 10_000, 6.18772),
        (PureDPPair(0.1), 20, 1.59799),
        (PureDPPair(0.1), 200, 6.51034),
        (PureDPPair(0.1), 2000, 28.3051),
    ],
    ids=str,
)
def test_the_demanded_numbers_at_delta_1e_minus_5(pair: LossPair, count: int, limit: float) -> None:
    lower, upper = bracket(pair, count, 1e-5)
    assert limit * (1 - 1e-3) < lower <= upper <= limit


# --------------------------------------------------------------------------------------------
# exhaustive enumeration


def enumerated_delta(steps: list[tuple[tuple[float, ...], tuple[float, ...]]], eps: float) -> mp.mpf:
    """Every path of the product law, in 60 digits; infinite loss counts in full."""
    total = mp.mpf(0)
    for path in itertools.product(*[list(zip(*step, strict=True)) for step in steps]):
        mass = mp.fprod(mp.mpf(p) for _, p in path)
        if any(loss == math.inf for loss, _ in path):
            total += mass
        else:
            loss = mp.fsum(mp.mpf(loss) for loss, _ in path)
            total += mass * max(mp.mpf(0), -mp.expm1(mp.mpf(eps) - loss))
    return total


@st.composite
def pmfs(draw: st.DrawFn) -> PmfPair:
    """A random loss pmf from two random laws on the same few outcomes."""
    size = draw(st.integers(2, 4))
    weights = st.lists(st.floats(0.01, 1), min_size=size, max_size=size)
    p, q = (np.array(draw(weights)) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    tail = draw(st.sampled_from([0.0, 0.0, 1e-6, 0.05]))
    losses = [*np.log(p / q).tolist(), math.inf]
    probabilities = [*(p * (1 - tail)).tolist(), tail]
    return PmfPair(tuple(losses), tuple(probabilities))


@settings(max_examples=20, deadline=None)
@given(pmfs(), st.integers(1, 5), st.floats(-1, 4))
def test_small_pmfs_agree_with_enumeration(pair: PmfPair, count: int, eps: float) -> None:
    exact = enumerated_delta([(pair.losses, pair.probabilities)] * count, eps)
    composed = compose([(pair, count)], epsilon=eps)
    lower, upper = composed.delta_lower(eps), composed.delta_upper(eps)
    assert lower <= exact + mp.mpf("1e-15")
    assert exact <= upper + mp.mpf("1e-15")
    assert upper <= exact * (1 + mp.mpf("1e-3")) + mp.mpf("1e-9")


@settings(max_examples=12, deadline=None)
@given(pmfs(), pmfs(), st.integers(1, 3), st.integers(1, 3), st.floats(0, 3))
def test_a_mix_of_pmfs_agrees_with_enumeration(a: PmfPair, b: PmfPair, m: int, n: int, eps: float) -> None:
    exact = enumerated_delta([(a.losses, a.probabilities)] * m + [(b.losses, b.probabilities)] * n, eps)
    composed = compose([(a, m), (b, n)], epsilon=eps)
    assert composed.delta_lower(eps) <= exact + mp.mpf("1e-15")
    assert exact <= composed.delta_upper(eps) + mp.mpf("1e-15")


def test_one_release_agrees_with_every_closed_form() -> None:
    for pair in [
        GaussianPair(0.7),
        LaplacePair(0.7),
        BoundedRangePair(0.7),
        RandomizedResponsePair(0.7, 5),
        ApproxDPPair(0.7, 0.01),
        DiscreteLaplacePair(3.0, 2),
        DiscreteGaussianPair(2.0, 1),
        SkellamPair(9.0, 1),
        SubsampledPair(GaussianPair(1.0), 0.1),
        SubsampledPair(LaplacePair(1.0), 0.1, "add"),
        MaxPair([LaplacePair(0.5), GaussianPair(0.4)]),
    ]:
        for eps in (0.0, 0.04, 0.1, 0.35):
            composed = compose([(pair, 1)], epsilon=eps)
            exact = float(np.exp(pair.log_delta(eps)))
            assert composed.delta_lower(eps) <= exact * (1 + 1e-12), (pair, eps)
            assert exact * (1 - 1e-12) <= composed.delta_upper(eps), (pair, eps)
            assert composed.delta_upper(eps) - composed.delta_lower(eps) <= 1e-3 * exact + 1e-30, (pair, eps)


# --------------------------------------------------------------------------------------------
# the parts


@pytest.mark.parametrize(
    "pair",
    [
        GaussianPair(0.6),
        LaplacePair(0.8),
        BoundedRangePair(0.8),
        SkellamPair(4.0),
        SubsampledPair(GaussianPair(2.0), 0.05),
        SubsampledPair(GaussianPair(2.0), 0.05, "add"),
        PmfPair((-0.31, 0.17, 0.77, math.inf), (0.3, 0.4, 0.2, 0.1)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("step", [0.3, 0.05, 0.004])
def test_the_grid_laws_enclose_the_profile_between_the_points_too(pair: LossPair, step: float) -> None:
    grid = UniformGrid(0.01, step, math.floor(-3 / step), math.ceil(4 / step))
    above, below = from_above(pair, grid), from_below(pair, grid)
    for eps in np.linspace(-2.9, 3.9, 301):
        exact = float(np.exp(pair.log_delta(eps)))
        for law, sign in ((above, 1), (below, -1)):
            loss = law.origin + (law.first + np.arange(len(law.log_mass))) * step
            value = float(np.sum(np.exp(law.log_mass) * np.maximum(0, -np.expm1(eps - loss)))) + law.infinite_mass
            assert sign * (value - exact) >= -1e-14


def test_the_grid_from_below_is_off_by_the_square_of_the_step() -> None:
    def gap(step: float) -> float:
        grid = UniformGrid(0.0, step, math.floor(-6 / step), math.ceil(7 / step))
        high, low = from_above(GaussianPair(1.0), grid), from_below(GaussianPair(1.0), grid)
        loss = (high.first + np.arange(len(high.log_mass))) * step
        weight = np.maximum(0, -np.expm1(0.3 - loss))
        return float(np.sum((np.exp(high.log_mass) - np.exp(low.log_mass)) * weight))

    assert gap(0.005) < gap(0.02) / 10


def test_the_rounding_bound_covers_the_error_seen_in_extended_precision() -> None:
    """The same convolution with 64-bit mantissas: the double result must be inside its bound."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is no wider than double here")
    from scipy import fft

    generator = np.random.default_rng(5)
    mass = generator.gamma(0.3, size=600)
    mass /= mass.sum()
    for count in (1, 37, 1000):
        result = tilted_sum([(GridLoss(-300, np.log(mass), 0.0, 0.0), count)], 1e-3, 0.0, 2**20)
        assert isinstance(result, TiltedSum)
        size = len(result.mass)
        ring = np.zeros(size, dtype=np.longdouble)
        np.add.at(ring, np.arange(-300, 300) % size, np.exp(np.log(mass)).astype(np.longdouble))
        power = fft.rfft(ring)
        wide = np.ones_like(power)
        for _ in range(count):
            wide = wide * power
        exact = np.roll(fft.irfft(wide, size), -(result.first % size))
        error = float(np.sqrt(np.sum((exact - result.mass) ** 2)))
        assert error <= result.norm_error
        assert result.norm_error <= 1e-10


def test_a_transform_stays_within_the_stated_multiple_of_the_unit_roundoff() -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is no wider than double here")
    from scipy import fft

    generator = np.random.default_rng(6)
    for bits in (4, 8, 12, 16, 20):
        for values in (generator.random(2**bits), generator.gamma(0.05, size=2**bits)):
            values = values / values.sum()
            error = np.abs(np.fft.rfft(values) - fft.rfft(values.astype(np.longdouble))).max()
            assert float(error) <= 8 * bits * UNIT_ROUNDOFF


def test_tilting_changes_no_answer_that_both_can_give() -> None:
    composed = compose([(LaplacePair(0.3), 40)], epsilon=3.0)
    parts = composed._parts(True)
    for tilt in (0.0, 0.7, 2.0, 5.0):
        result = tilted_sum(parts, composed.step, tilt, 2**22)
        assert isinstance(result, TiltedSum)
        low, high = result.hockey_stick(3.0)[:2]
        reference = composed.log_delta_upper(3.0 + composed._origin(True))
        assert low - 1e-9 <= reference <= high + 1e-9


def test_the_pmf_from_above_and_below_gives_the_same_bracket() -> None:
    composed = compose([(GaussianPair(0.1), 100)], delta=1e-8)
    for eps in (0.0, 2.0, 5.0):
        exact = gaussian_delta(0.1, 100, mp.mpf(eps))
        values = []
        for upper in (False, True):
            pmf = composed.pmf(upper=upper)
            assert (pmf.probabilities >= 0).all()
            hockey = np.maximum(0, -np.expm1(eps - pmf.losses))
            values.append(float(np.sum(pmf.probabilities * hockey)) + pmf.infinite_mass)
        assert values[0] <= exact <= values[1]
        assert values[1] - values[0] <= 1e-4 * exact


# --------------------------------------------------------------------------------------------
# laws

some_pairs = st.one_of(
    st.builds(GaussianPair, st.floats(0.01, 2)),
    st.builds(LaplacePair, st.floats(0.01, 2)),
    st.builds(PureDPPair, st.floats(0.01, 2)),
    st.builds(BoundedRangePair, st.floats(0.01, 2)),
    st.builds(DiscreteGaussianPair, st.floats(0.8, 6)),
    st.builds(lambda mu, q: SubsampledPair(GaussianPair(mu), q), st.floats(0.2, 2), st.floats(0.001, 0.5)),
)


@settings(max_examples=10, deadline=None)
@given(some_pairs, st.integers(1, 12), st.sampled_from([0.05, 1e-5, 1e-12, 1e-60]))
def test_more_releases_and_smaller_deltas_cost_more(pair: LossPair, count: int, delta: float) -> None:
    lower, upper = bracket(pair, count, delta)
    assert lower <= upper
    assert upper <= count * pair.support()[1] * (1 + 1e-9)
    assert bracket(pair, count + 1, delta)[1] >= lower
    assert bracket(pair, count, delta / 7)[1] >= lower


@pytest.mark.parametrize("delta", [1e-12 / 7, 1e-13, 1e-14])
def test_a_tilt_far_beyond_the_answer_does_not_lose_the_mass_below_its_window(delta: float) -> None:
    composed = compose([(BoundedRangePair(1.0), 7)], delta=delta)
    assert composed.epsilon_upper(delta) >= compose([(BoundedRangePair(1.0), 7)], delta=1e-12).epsilon_lower(1e-12)
    assert compose([(BoundedRangePair(1.0), 7)], epsilon=6.7).delta_lower(6.7) > 1e-12


@settings(max_examples=20, deadline=None)
@given(some_pairs, st.integers(1, 40), st.floats(0.01, 5))
def test_delta_falls_with_epsilon_and_inverts_on_the_safe_side(pair: LossPair, count: int, eps: float) -> None:
    composed = compose([(pair, count)], epsilon=eps)
    with suppress(MethodUnavailable):  # far in the tail a tilt may need too large a transform, and is refused
        delta = composed.delta_upper(eps)
        assert composed.delta_lower(eps) <= delta
        assert composed.delta_lower(eps * 1.1) <= delta
        if 1e-300 < delta < 0.99:  # the question below must stay under 1
            again = composed.epsilon_upper(delta * (1 + 1e-6))
            assert composed.delta_lower(again) <= delta * (1 + 2e-6)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(some_pairs, st.integers(1, 40), st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_epsilon_is_sharp_on_a_grid_made_for_its_delta(pair: LossPair, count: int, delta: float) -> None:
    # On a grid made for another point, or at a delta far below 1e-12, the bounds are valid and may lie far apart.
    lower, upper = bracket(pair, count, delta)
    assert upper <= lower * (1 + 1e-3) + 1e-3


def test_a_tilt_that_needs_too_large_a_transform_leaves_the_bound_at_hand() -> None:
    composed = compose([(SubsampledPair(GaussianPair(0.201171875), 0.001), 13)], epsilon=2.0)
    assert composed.delta_lower(2.0) <= composed.delta_upper(2.0) < 1e-25


@pytest.mark.parametrize(("delta", "within"), [(1e-5, 1e-4), (1e-10, 1e-4), (1e-15, 1e-2), (1e-20, 0.5)])
def test_a_rarely_sampled_gaussian_is_priced_sharply(delta: float, within: float) -> None:
    # Where one large loss decides, a tilt cannot keep the rounding of the transform small: it is felt below 1e-12.
    cost = 13 * PoissonSubsampled(Gaussian(mu=0.5), rate=0.002)
    lower = compose([(SubsampledPair(GaussianPair(0.5), 0.002, "remove"), 13)], delta=delta).epsilon_lower(delta)
    assert lower <= cost.epsilon(delta, "pld") <= lower * (1 + within)


@settings(max_examples=8, deadline=None)
@given(some_pairs, some_pairs)
def test_composition_commutes_and_splits(a: LossPair, b: LossPair) -> None:
    one = compose([(a, 4), (b, 3)], delta=1e-6)
    two = compose([(b, 2), (a, 4), (b, 1)], delta=1e-6)
    assert one.epsilon_lower(1e-6) <= two.epsilon_upper(1e-6)
    assert two.epsilon_lower(1e-6) <= one.epsilon_upper(1e-6)


def test_infinite_loss_is_never_composed_away() -> None:
    composed = compose([(ApproxDPPair(0.1, 1e-6), 10)], delta=1e-5)
    infinite = -math.expm1(10 * math.log1p(-1e-6))
    assert composed.epsilon_upper(0.99 * infinite) == math.inf
    assert composed.epsilon_upper(1.01e-5) < math.inf
    assert composed.delta_upper(5.0) == pytest.approx(infinite, rel=1e-9)
    assert composed.delta_upper(5.0) >= infinite * (1 - 1e-15)


def test_both_directions_of_subsampling_differ_and_removal_is_the_worse_here() -> None:
    remove = bracket(SubsampledPair(GaussianPair(1.0), 0.01, "remove"), 1000, 1e-6)
    add = bracket(SubsampledPair(GaussianPair(1.0), 0.01, "add"), 1000, 1e-6)
    assert add[1] < remove[0]


def test_bad_questions_are_refused() -> None:
    with pytest.raises(ParameterError, match="delta"):
        compose([(GaussianPair(1.0), 1)])
    with pytest.raises(ParameterError, match="count"):
        compose([(GaussianPair(1.0), -1)], delta=1e-5)
    with pytest.raises(ParameterError, match="delta"):
        compose([(GaussianPair(1.0), 1)], delta=1e-5).epsilon_upper(1.0)


def test_nothing_released_costs_nothing() -> None:
    composed = compose([(GaussianPair(1.0), 0)], delta=1e-5)
    assert composed.epsilon_upper(1e-5) <= 1e-12
    assert composed.delta_upper(0.1) <= 1e-300


def test_a_sum_that_needs_too_many_points_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    composed = compose([(GaussianPair(1.0), 100)], delta=1e-5)
    monkeypatch.setattr(module, "HARD_LIMIT", 2**10)
    with pytest.raises(MethodUnavailable, match="points"):
        composed._sum(True, 0.0, False)


def test_a_tilt_that_does_not_suit_the_question_still_gives_bounds() -> None:
    """With the window far above epsilon all weights underflow; the upper bound must not vanish with them."""
    for pair in (BoundedRangePair(0.25), LaplacePair(0.3), PureDPPair(0.3)):
        composed = compose([(pair, 1)], delta=1e-6)
        exact = float(pair.log_delta(0.0))
        for tilt in (composed.tilt, 1e2, 1e3, 1e4, 1e6):
            low, high = composed._bounds(0.0, True, tilt)[:2]
            assert low <= high and exact <= high, (pair, tilt)


def test_a_bounded_range_step_is_not_free_at_a_small_delta() -> None:
    """A case in which the upper end was 0 when weights underflowed."""
    lower, upper = bracket(BoundedRangePair(0.25), 1, 1e-5 / 7)
    exact = 0.25 + 2 * math.log1p(-math.sqrt(-math.expm1(-0.25) * 1e-5 / 7))
    assert lower <= exact <= upper <= exact * (1 + 1e-6)


# --------------------------------------------------------------------------------------------
# other libraries

SHARP = 1e-6


def peers() -> list[tuple[str, list[tuple[LossPair, int]], Callable[[object], object]]]:
    return [
        ("gauss", [(GaussianPair(1 / 50), 1000)], lambda m: m.from_gaussian_mechanism(50).self_compose(1000)),
        ("gauss few", [(GaussianPair(1.0), 10)], lambda m: m.from_gaussian_mechanism(1).self_compose(10)),
        ("laplace", [(LaplacePair(0.1), 100)], lambda m: m.from_laplace_mechanism(10).self_compose(100)),
        ("laplace few", [(LaplacePair(1.0), 30)], lambda m: m.from_laplace_mechanism(1).self_compose(30)),
        (
            "subsampled",
            [(SubsampledPair(GaussianPair(1.0), 0.01), 2000)],
            lambda m: m.from_gaussian_mechanism(1, sampling_prob=0.01).self_compose(2000),
        ),
        (
            "subsampled laplace",
            [(SubsampledPair(LaplacePair(1.0), 0.1), 100)],
            lambda m: m.from_laplace_mechanism(1, sampling_prob=0.1).self_compose(100),
        ),
        (
            "discrete laplace",
            [(DiscreteLaplacePair(10.0, 2), 100)],
            lambda m: m.from_discrete_laplace_mechanism(0.1, 2).self_compose(100),
        ),
        (
            "discrete gaussian",
            [(DiscreteGaussianPair(5.0), 100)],
            lambda m: m.from_discrete_gaussian_mechanism(5, 1).self_compose(100),
        ),
        (
            "mix",
            [(LaplacePair(0.1), 50), (GaussianPair(0.02), 100)],
            lambda m: (
                m.from_laplace_mechanism(10).self_compose(50).compose(m.from_gaussian_mechanism(50).self_compose(100))
            ),
        ),
    ]


@pytest.mark.parametrize(("name", "pairs", "theirs"), peers(), ids=[p[0] for p in peers()])
def test_never_looser_than_dp_accounting_and_never_above_its_certified_truth(name, pairs, theirs) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip(
            "dp_accounting.pld.privacy_loss_distribution", reason="dp-accounting is not installed"
        )
        reference = theirs(library).get_epsilon_for_delta(1e-5)
    directions = [pairs, [(pair.reversed(), count) for pair, count in pairs]]
    composed = [compose(direction, delta=1e-5) for direction in directions]
    assert max(c.epsilon_upper(1e-5) for c in composed) <= reference * (1 + SHARP)
    assert max(c.epsilon_lower(1e-5) for c in composed) <= reference * (1 + 1e-9), name


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.01, 1.0, 1000), (0.05, 2.0, 300)])
def test_inside_the_interval_of_prv_accountant(rate: float, sigma: float, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prv = pytest.importorskip("prv_accountant", reason="prv-accountant is not installed")
        mechanism = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
        accountant = prv.PRVAccountant(
            prvs=[mechanism], max_self_compositions=[steps], eps_error=0.01, delta_error=1e-10
        )
        low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[steps])
    pair = SubsampledPair(GaussianPair(1 / sigma), rate)
    composed = [compose([(p, steps)], delta=1e-5) for p in (pair, pair.reversed())]
    assert low <= max(c.epsilon_lower(1e-5) for c in composed)
    assert max(c.epsilon_upper(1e-5) for c in composed) <= high
