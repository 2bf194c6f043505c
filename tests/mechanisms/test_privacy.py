"""The exact privacy loss never exceeds the claim, comes close to it, and an error of one per cent is found."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from scipy import stats

from ledgerwood.accounting import Gaussian
from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    NoisyMaxMechanism,
    PermuteAndFlipMechanism,
    QuantileMechanism,
    RankMechanism,
    Sensitivity,
    SkellamMechanism,
    SparseVectorMechanism,
    TopKMechanism,
)

ROUNDING = 1e-9
epsilons = st.floats(0.01, 5.0)


SIZES = st.integers(2, 7)


@st.composite
def neighbouring_scores(draw, size=SIZES) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores s, s' whose difference has range exactly R, both ends attained."""
    m = draw(size)
    s = np.array(draw(st.lists(st.floats(-20, 20), min_size=m, max_size=m)))
    r = draw(st.floats(0.1, 5.0))
    shift = draw(st.floats(-5, 5))
    part = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
    d = np.array(draw(st.lists(part, min_size=m, max_size=m)))
    d[draw(st.integers(0, m - 1))] = 0.0
    return s, s + shift + r * d, r


@settings(max_examples=200, deadline=None)
@given(neighbouring_scores(), epsilons)
def test_exponential_mechanism_has_bounded_range(pair, epsilon: float) -> None:
    s, t, r = pair
    m = ExponentialMechanism(epsilon=epsilon, range_sensitivity=r)
    loss = m.log_probabilities(s) - m.log_probabilities(t)
    assert loss.max() - loss.min() <= epsilon + ROUNDING


def test_exponential_mechanism_attains_its_range() -> None:
    m = ExponentialMechanism(epsilon=0.7, range_sensitivity=2.0)
    loss = m.log_probabilities([0.0, 0.0, 1.0]) - m.log_probabilities([-1.0, 1.0, 1.0])
    assert loss.max() - loss.min() >= 0.99 * 0.7


def _worst(m, s, t) -> float:
    """Largest absolute loss; outcomes of negligible probability carry rounding errors and are left out."""
    a, b = m.log_probabilities(s), m.log_probabilities(t)
    seen = (a > -500) & (b > -500)
    return float(np.abs(a[seen] - b[seen]).max())


@pytest.mark.parametrize("kind", [PermuteAndFlipMechanism, NoisyMaxMechanism])
@settings(max_examples=50, deadline=None)
@given(neighbouring_scores(), epsilons)
def test_pure_selection_keeps_epsilon(kind, pair, epsilon: float) -> None:
    s, t, r = pair
    assert _worst(kind(epsilon=epsilon, range_sensitivity=r), s, t) <= epsilon + ROUNDING


@pytest.mark.parametrize("kind", [PermuteAndFlipMechanism, NoisyMaxMechanism])
def test_pure_selection_attains_epsilon(kind) -> None:
    """Far behind, the runner-up's probability moves by the whole factor."""
    m = kind(epsilon=0.5, range_sensitivity=2.0)
    assert _worst(m, [0.0, 1000.0], [1.0, 999.0]) >= 0.99 * 0.5


def test_permute_and_flip_is_not_bounded_range_at_epsilon() -> None:
    m = PermuteAndFlipMechanism(epsilon=0.1, range_sensitivity=1.0)
    loss = m.log_probabilities([0.0, 0.0]) - m.log_probabilities([0.0, 1.0])
    assert loss.max() - loss.min() == pytest.approx(0.1 + math.log(2 - math.exp(-0.1)), rel=1e-9)
    assert m.cost.rdp(2.0) > ExponentialMechanism(epsilon=0.1, range_sensitivity=1.0).cost.rdp(2.0)


def test_permute_and_flip_probabilities_are_those_of_the_definition() -> None:
    """Sum over all orders of the candidates."""
    s = np.array([0.0, 1.0, 1.7, -0.4])
    m = PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=1.0)
    p = np.exp(s - s.max())
    wanted = np.zeros(4)
    for order in itertools.permutations(range(4)):
        alive = 1.0
        for i in order:
            wanted[i] += alive * p[i] / 24
            alive *= 1 - p[i]
    np.testing.assert_allclose(m.probabilities(s), wanted, rtol=1e-13)


def _violates(kind, wrong: float):
    """Does this pair break the claim of a mechanism whose scores were given ``wrong`` times less sensitivity?"""

    def check(pair) -> bool:
        s, t, r = pair
        m = kind(epsilon=1.0, range_sensitivity=r / wrong)
        if kind is ExponentialMechanism:
            loss = m.log_probabilities(s) - m.log_probabilities(t)
            return bool(loss.max() - loss.min() > 1.0 + ROUNDING)
        return _worst(m, s, t) > 1.0 + ROUNDING

    return check


SEARCH = settings(
    max_examples=3000,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlipMechanism])
def test_a_planted_sensitivity_error_of_one_percent_is_found(kind) -> None:
    find(neighbouring_scores(), _violates(kind, 1.01), settings=SEARCH)
    with pytest.raises(NoSuchExample):
        find(neighbouring_scores(), _violates(kind, 1.0), settings=settings(SEARCH, max_examples=300))


@settings(max_examples=50, deadline=None)
@given(
    neighbouring_scores(st.integers(3, 4)), epsilons, st.sampled_from([ExponentialMechanism, PermuteAndFlipMechanism])
)
def test_top_k_keeps_k_epsilon(pair, epsilon: float, kind) -> None:
    s, t, r = pair
    m = TopKMechanism(kind(epsilon=epsilon, range_sensitivity=r), k=2)
    for chosen in itertools.permutations(range(len(s)), 2):
        a, b = m.log_probability(s, chosen), m.log_probability(t, chosen)
        if min(a, b) > -400:
            assert abs(a - b) <= 2 * epsilon + ROUNDING
    assert m.cost.epsilon(delta=0.0) >= 2 * epsilon * (1 - 1e-12)


records = st.lists(st.integers(0, 8), max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    records,
    st.integers(0, 8),
    st.sampled_from([0.5, 0.25, 0.9]),
    epsilons,
    st.sampled_from(["quantile", "below", "above"]),
)
def test_quantiles_and_ranks_have_bounded_range(rows, added: int, share: float, epsilon: float, what: str) -> None:
    grid = {"lower": 0.0, "upper": 8.0, "step": 1.0}
    if what == "quantile":
        m = QuantileMechanism(epsilon=epsilon, quantile=share, **grid)
    else:
        m = RankMechanism(epsilon=epsilon, rank=2, side=what, **grid)
    for other in ([*rows, added],):
        loss = m.log_probabilities(np.array(rows, dtype=int)) - m.log_probabilities(np.array(other, dtype=int))
        assert loss.max() - loss.min() <= epsilon + ROUNDING


@settings(max_examples=100, deadline=None)
@given(records.filter(len), st.integers(0, 8), st.sampled_from([0.5, 0.25, 0.9]), st.booleans())
def test_quantiles_and_ranks_hold_for_replaced_records(rows, new: int, share: float, rank: bool) -> None:
    grid = {"lower": 0.0, "upper": 8.0, "step": 1.0, "neighbours": "replace_one"}
    m = RankMechanism(epsilon=1.0, rank=2, **grid) if rank else QuantileMechanism(epsilon=1.0, quantile=share, **grid)
    loss = m.log_probabilities(np.array(rows)) - m.log_probabilities(np.array([new, *rows[1:]]))
    assert loss.max() - loss.min() <= 1.0 + ROUNDING


def test_quantile_range_is_attained() -> None:
    grid = {"lower": 0.0, "upper": 8.0, "step": 1.0}
    m = QuantileMechanism(epsilon=1.0, quantile=0.9, **grid)
    rows = [2] * 10  # left of the new record A is negative below 2 and at least a = 9 above it
    loss = m.log_probabilities(np.array(rows)) - m.log_probabilities(np.array([*rows, 8]))
    assert 0.99 <= loss.max() - loss.min() <= 1 + ROUNDING
    r = RankMechanism(epsilon=1.0, rank=1, **grid)
    loss = r.log_probabilities(np.array([6])) - r.log_probabilities(np.array([6, 2]))
    assert 0.99 <= loss.max() - loss.min() <= 1 + ROUNDING


@settings(max_examples=200, deadline=None)
@given(st.floats(0.2, 50.0), st.integers(2, 40), st.integers(1, 3), st.data())
def test_bounded_discrete_laplace_keeps_its_cost(scale: float, width: int, step: int, data) -> None:
    m = BoundedDiscreteLaplaceMechanism(scale=scale, lower=0, upper=width, sensitivity=step)
    v = data.draw(st.integers(0, width))
    w = min(max(v + data.draw(st.integers(-step, step)), 0), width)
    loss = m.log_probabilities(v) - m.log_probabilities(w)
    assert loss.max() - loss.min() <= m.cost.pure_epsilon() + ROUNDING
    assert np.exp(m.log_probabilities(v)).sum() == pytest.approx(1.0, abs=1e-12)


def test_bounded_discrete_laplace_attains_its_cost_and_corrects_lemma_4_10() -> None:
    m = BoundedDiscreteLaplaceMechanism(scale=200.0, lower=0, upper=5000)
    assert np.abs(m.log_probabilities(0) - m.log_probabilities(1)).max() >= 0.99 * m.cost.pure_epsilon()
    # l = -1, u = 1, q = 1/2: tau = (1 + q) / (1 + q - 2 q^2) = 1.5, where the paper has 2.
    q = 0.5
    small = BoundedDiscreteLaplaceMechanism(scale=1 / math.log(2), lower=-1, upper=1)
    tau = small.probabilities(0)[1] / ((1 - q) / (1 + q))
    assert tau == pytest.approx(1.5)


# --- additive noise: the hockey stick of the exact distribution against the cost -------------------------------


def hockey_stick(p: np.ndarray, q: np.ndarray, gamma: float) -> float:
    return float(np.maximum(p - math.exp(gamma) * q, 0).sum())


K = np.arange(-400, 401)


def _masses(mechanism, centre: int) -> np.ndarray:
    match mechanism:
        case DiscreteLaplaceMechanism():
            w = np.exp(-np.abs(K - centre) / mechanism.scale)
        case DiscreteGaussianMechanism():
            w = np.exp(-((K - centre) ** 2) / (2 * mechanism.sigma**2))
        case SkellamMechanism():
            w = stats.skellam(mechanism.variance / 2, mechanism.variance / 2).pmf(K - centre)
    return w / w.sum()


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplaceMechanism(scale=2.0),
        DiscreteLaplaceMechanism(scale=3.0, sensitivity=4),
        DiscreteGaussianMechanism(sigma=1.0),
        DiscreteGaussianMechanism(sigma=3.0, sensitivity=2),
        SkellamMechanism(variance=9.0),
    ],
    ids=str,
)
def test_integer_noise_costs_its_exact_profile(mechanism, gamma: float) -> None:
    step = mechanism.sensitivity
    exact = hockey_stick(_masses(mechanism, 0), _masses(mechanism, step), gamma)
    claimed = mechanism.cost.delta(gamma)
    assert exact <= claimed * (1 + 1e-12) + 1e-15
    assert claimed <= 1.01 * exact + 1e-12


def test_a_discrete_gaussian_is_not_a_gaussian() -> None:
    m = DiscreteGaussianMechanism(sigma=1.0)
    gammas = np.linspace(0.0, 3.5, 71)
    exact = np.array([hockey_stick(_masses(m, 0), _masses(m, 1), gamma) for gamma in gammas])
    gaussian = np.array([Gaussian(sigma=1.0).delta(gamma) for gamma in gammas])
    assert exact[0] > gaussian[0]
    assert (exact / gaussian).max() > 1.5
    assert all(m.cost.delta(gamma) >= delta * (1 - 1e-12) for gamma, delta in zip(gammas, exact, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.floats(-3, 3), st.floats(0.3, 4.0), st.floats(0, 1.5), st.sampled_from([0.25, 1.0, 4.0]))
def test_rounded_noise_never_costs_more_than_continuous_noise(value, scale, gamma, grid) -> None:
    """For values anywhere between the grid points, in both directions."""
    k = np.arange(-400, 401)
    for mechanism, distribution in (
        (GaussianMechanism(sigma=scale, grid=grid), stats.norm),
        (LaplaceMechanism(scale=scale, grid=grid), stats.laplace),
    ):
        p, q = (
            np.diff(distribution.cdf((np.append(k, 401) - 0.5) * grid, loc=v, scale=scale))
            for v in (value, value + 1.0)
        )
        claimed = mechanism.cost.delta(gamma)
        assert max(hockey_stick(p, q, gamma), hockey_stick(q, p, gamma)) <= claimed * (1 + 1e-9) + 1e-13


def test_rounded_gaussian_on_a_fine_grid_attains_the_gaussian_profile() -> None:
    k = np.arange(-40_000, 40_001)
    p, q = (np.diff(stats.norm.cdf((np.append(k, 40_001) - 0.5) / 1024, loc=v, scale=2.0)) for v in (0.0, 1.0))
    claimed = GaussianMechanism(sigma=2.0, grid=2.0**-10).cost.delta(0.3)
    assert hockey_stick(p, q, 0.3) >= 0.99 * claimed


@pytest.mark.parametrize("shift", [(2,), (1, 1), (2, 0)])
def test_a_vector_with_discrete_laplace_noise_is_priced_purely(shift) -> None:
    m = DiscreteLaplaceMechanism(scale=2.0, sensitivity=Sensitivity(l1=2, dimension=len(shift)))
    k = np.arange(-80, 81)
    distribution = lambda c: np.exp(-np.abs(k - c) / 2.0) / np.exp(-np.abs(k) / 2.0).sum()  # noqa: E731
    p = q = np.ones(1)
    for c in shift:
        p, q = np.multiply.outer(p, distribution(0)).ravel(), np.multiply.outer(q, distribution(c)).ravel()
    for gamma in (0.0, 0.3, 0.8):
        assert hockey_stick(p, q, gamma) <= m.cost.delta(gamma) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-1, 1)), min_size=1, max_size=3), st.booleans(), st.integers(1, 2)
)
def test_sparse_vector_keeps_epsilon(queries, monotone: bool, cutoff: int) -> None:
    """All answer strings, by quadrature over the threshold's noise."""
    m = SparseVectorMechanism(epsilon=1.0, threshold=0.0, cutoff=cutoff, monotone=monotone)
    s, t = (float(scale) for scale in m.scales)
    x = np.linspace(-40 * s, 40 * s, 8001)
    density = stats.laplace.pdf(x, scale=s)
    moves = [abs(d) if monotone else d for _, d in queries]
    tables = [
        [stats.laplace.sf(x - q - e * d, scale=t) for (q, _), d in zip(queries, moves, strict=True)] for e in (0, 1)
    ]
    for answers in itertools.product([False, True], repeat=len(queries)):
        if sum(answers) > cutoff or (sum(answers) == cutoff and not answers[-1]):
            continue
        a, b = (
            np.trapezoid(
                density * np.prod([p if yes else 1 - p for p, yes in zip(table, answers, strict=True)], axis=0), x
            )
            for table in tables
        )
        assert abs(math.log(a) - math.log(b)) <= 1.0 + 1e-3


@pytest.mark.parametrize(("monotone", "move"), [(False, -1.0), (True, 0.0)])
@pytest.mark.parametrize("cutoff", [1, 3])
def test_sparse_vector_attains_epsilon(monotone: bool, move: float, cutoff: int) -> None:
    """Many negative answers use up the threshold's share, positive ones that move against it the queries' share."""
    m = SparseVectorMechanism(epsilon=1.0, threshold=0.0, cutoff=cutoff, monotone=monotone)
    s, t = (float(scale) for scale in m.scales)
    x = np.linspace(-60 * s, 200 * s, 100_001)

    def log_probability(rise: float, fall: float) -> float:
        below, above = stats.laplace.logcdf(x - rise, scale=t), stats.laplace.logsf(x + 10 * t - fall, scale=t)
        exponent = -np.abs(x) / s + 10_000 * below + cutoff * above
        top = exponent.max()
        return float(top + np.log(np.trapezoid(np.exp(exponent - top), x)))

    worst = abs(log_probability(0.0, 0.0) - log_probability(1.0, move))
    assert 0.99 <= worst <= 1.0 + 1e-6


@pytest.mark.parametrize(
    "kind", [GaussianMechanism, DiscreteGaussianMechanism, SkellamMechanism, LaplaceMechanism, DiscreteLaplaceMechanism]
)
def test_calibration_is_safe_and_tight(kind) -> None:
    m = kind.calibrated(epsilon=1.0, delta=1e-5)
    assert m.cost.epsilon(delta=1e-5) <= 1.0
    assert m.cost.epsilon(delta=1e-5) >= 0.99


def test_calibration_by_norms() -> None:
    m = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=Sensitivity(linf=1.0, dimension=9))
    assert m.sigma == pytest.approx(3 * GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5).sigma, rel=1e-6)


def test_costs_name_the_distribution() -> None:
    kinds = {
        DiscreteGaussianMechanism(sigma=2.0): "DiscreteGaussian",
        DiscreteGaussianMechanism(sigma=5.0, sensitivity=Sensitivity(l2=3, dimension=4)): "DiscreteGaussian",
        GaussianMechanism(sigma=2.0): "Gaussian",
        SkellamMechanism(variance=9.0): "Skellam",
        DiscreteLaplaceMechanism(scale=2.0, sensitivity=Sensitivity(l1=1, dimension=9)): "DiscreteLaplace",
        DiscreteLaplaceMechanism(scale=2.0, sensitivity=Sensitivity(l1=2, dimension=9)): "PureDP",
        PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=1.0): "PermuteAndFlip",
        ExponentialMechanism(epsilon=1.0, range_sensitivity=1.0): "BoundedRange",
    }
    for mechanism, name in kinds.items():
        assert type(mechanism.cost).__name__ == name
