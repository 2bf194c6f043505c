"""Batches that are sampled: random allocation, fixed sizes, limits, replaced records, groups; and DP-SGD as a cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    BoundedRange,
    Cost,
    Gaussian,
    Laplace,
    Ledger,
    Plan,
    PoissonSubsampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Release,
    TruncatedPoisson,
    WithoutReplacement,
    affordable,
    calibrate,
    dp_sgd,
    parallel,
    zero,
)
from ledgerwood.accounting.accountant.certified import optimal_lower
from ledgerwood.accounting.costs.fixed_batches import _opposite_others, _three_vectors, truncation
from ledgerwood.accounting.costs.serialization import from_dict, to_dict
from ledgerwood.accounting.curves.dominating_pairs.allocation import AllocationPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair, TwoSidedPair
from ledgerwood.errors import NeighboursMismatch, ParameterError
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, FixedSizeSubsampledMechanism
from ledgerwood.mechanisms.randomness import SeededSource
from ledgerwood.mechanisms.subsampling import fixed_size_sample

G = Gaussian(sigma=1.0)
MOVED = Gaussian(sigma=1.0, neighbours="replace_one")


# -- numbers of the field ---------------------------------------------------------------------------------------------

KNOWN: list[tuple[str, Callable[[], Cost], float, float, float]] = [
    # what, cost, delta, an answer to beat or match (peers, or our own quadrature), the least lower end
    ("1 of 2", lambda: RandomAllocation(G, bins=2), 1e-5, 3.6985, 3.69),
    ("1 of 1000", lambda: RandomAllocation(G, bins=1000), 1e-6, 0.1719, 0.1705),
    ("1 of 100, 100 epochs", lambda: 100 * RandomAllocation(G, bins=100), 1e-5, 6.05, 6.0),
    ("without replacement", lambda: 100 * WithoutReplacement(MOVED, population=1000, batch=100), 1e-5, 7.81, 7.0),
    ("replaced", lambda: 100 * PoissonSubsampled(G, rate=0.1, neighbours="replace_one"), 1e-5, 10.5165, 10.516),
    ("group of 2", lambda: (100 * PoissonSubsampled(G, rate=0.1)).group(2), 1e-5, 16.2315, 16.2305),
    (
        "limit 110, void",
        lambda: 100 * TruncatedPoisson(G, rate=0.1, limit=110, population=1000, neighbours="zero_out"),
        1e-5,
        16.673,
        6.9,
    ),
    (
        "limit 110, replaced",
        lambda: 100 * TruncatedPoisson(G, rate=0.1, limit=110, population=1000, neighbours="replace_one"),
        1e-5,
        18.458,
        10.4,
    ),
]


@pytest.mark.parametrize(("cost", "delta", "most", "least"), [row[1:] for row in KNOWN], ids=[row[0] for row in KNOWN])
def test_no_looser_than_the_field_and_certified_from_below(
    cost: Callable[[], Cost], delta: float, most: float, least: float
) -> None:
    found = cost().account(delta)
    lower = optimal_lower(cost(), delta)  # not cut at the upper end
    assert least <= lower <= found.epsilon <= most
    assert found.lower == lower


def test_low_noise_and_small_delta_still_get_an_answer() -> None:
    for sigma in (0.05, 0.2, 0.45):
        cost = RandomAllocation(Gaussian(sigma=sigma), bins=1000)
        assert optimal_lower(cost, 1e-6) <= cost.epsilon(1e-6) < Gaussian(sigma=sigma).epsilon(1e-6) - 5.0
    assert RandomAllocation(G, bins=1000).epsilon(1e-30) < 5.0 < G.epsilon(1e-30)
    assert (3 * RandomAllocation(G, bins=100)).epsilon(1e-40) < (3 * G).epsilon(1e-40) + 1e-6


# -- mixtures of normal laws against fifty digits ---------------------------------------------------------------------

Mixture = tuple[tuple[float, float], ...]


def exact_profile(above: Mixture, below: Mixture, epsilon: float) -> mpmath.mpf:
    """The integral of (p - e^ε q)₊, cut where the integrand changes sign."""
    with mpmath.workdps(40):

        def density(mixture: Mixture, x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.fsum(mpmath.mpf(w) * mpmath.npdf(x, mpmath.mpf(m), 1) for w, m in mixture)

        def gap(x: mpmath.mpf) -> mpmath.mpf:
            return density(above, x) - mpmath.e ** mpmath.mpf(epsilon) * density(below, x)

        grid = [mpmath.mpf(i) / 8 for i in range(-200, 201)]
        signs = [gap(x) > 0 for x in grid]
        cuts = [
            mpmath.findroot(gap, (grid[i], grid[i + 1]), solver="anderson", tol=1e-60, verify=False)
            for i in range(400)
            if signs[i] != signs[i + 1]
        ]
        ends = [mpmath.mpf(-25), *cuts, mpmath.mpf(25)]
        total = mpmath.mpf(0)
        for low, high in itertools.pairwise(ends):
            pieces = [low + (high - low) * i / 40 for i in range(41)]
            total += max(mpmath.quad(gap, pieces), mpmath.mpf(0))
        return total


MIXTURES: list[tuple[Mixture, Mixture]] = [
    (((0.81, 0.0), (0.18, 1.0), (0.01, 2.0)), ((1.0, 0.0),)),
    (((0.9, 0.0), (0.1, 0.7)), ((0.9, 0.0), (0.1, -0.7))),
    (((0.05, 0.0), (0.95, 0.3)), ((0.05, 0.0), (0.95, -0.3))),
]


@pytest.mark.parametrize(("above", "below"), MIXTURES)
@pytest.mark.parametrize("epsilon", [-0.05, 0.4, 2.0])
def test_profiles_of_mixtures_to_ten_digits(above: Mixture, below: Mixture, epsilon: float) -> None:
    pair = MixturePair(above, below)
    for found, ends in ((pair, (above, below)), (pair.reversed(), (below, above))):
        exact = exact_profile(*ends, epsilon)
        if exact > 1e-25:
            assert float(found.log_delta(epsilon)) == pytest.approx(float(mpmath.log(exact)), abs=1e-10)


@pytest.mark.parametrize(("above", "below"), MIXTURES)
def test_cells_of_mixtures_hold_all_mass_and_give_the_profile(above: Mixture, below: Mixture) -> None:
    edges = np.linspace(-8, 8, 40_001)
    for pair in (MixturePair(above, below), MixturePair(above, below).reversed()):
        log_p, log_q = pair.log_cells(edges)
        p, q = np.exp(log_p), np.exp(log_q)
        assert p.sum() == pytest.approx(1, abs=1e-13) and q.sum() == pytest.approx(1, abs=1e-13)
        middle = (edges[1:] + edges[:-1]) / 2
        some = (p[1:-1] > 1e-250) & (q[1:-1] > 1e-250)
        loss = log_p[1:-1][some] - log_q[1:-1][some]
        assert np.all(np.abs(loss - middle[some]) <= 2.01e-4)  # the mean loss of a cell lies in it
        for epsilon in (0.1, 1.0):
            whole = p[1:-1][middle > epsilon].sum() - math.exp(epsilon) * q[1:-1][middle > epsilon].sum() + p[-1]
            assert whole == pytest.approx(math.exp(float(pair.log_delta(epsilon))), abs=1e-7)


def test_positive_and_negative_losses_of_two_pairs_weigh_one_together() -> None:
    for cost in (
        TruncatedPoisson(G, rate=0.3, limit=2, population=5, neighbours="zero_out"),
        TruncatedPoisson(G, rate=0.3, limit=2, population=5, neighbours="replace_one"),
        WithoutReplacement(MOVED, population=10, batch=3),
        WithoutReplacement(RandomizedResponse(1.0, k=5, neighbours="replace_one"), population=10, batch=3),
    ):
        for pair in cost.pairs() or ():
            log_p, log_q = pair.log_cells(np.linspace(-30, 30, 10_001))
            assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-8)
            assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-8)


# -- concrete mechanisms, enumerated, never exceed the price ----------------------------------------------------------


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def never_exceeded(cost: Cost, p: np.ndarray, q: np.ndarray, slack: float = 1e-12) -> None:
    for epsilon in (0.0, 0.2, 0.7, 1.5, 3.0):
        for one, other in ((p, q), (q, p)):
            assert hockey_stick(one, other, epsilon) <= cost.delta(epsilon, "optimal") * (1 + 1e-9) + slack


X = np.linspace(-14, 14, 5601)


def noisy(means: dict[float, float], sigma: float) -> np.ndarray:
    """Masses of a mixture of normal laws, on fine cells."""
    total = sum(w * np.exp(-((X - m) ** 2) / (2 * sigma**2)) for m, w in means.items())
    return np.asarray(total / np.sum(total))


def sampled_sums(values: list[float], rate: float, limit: int) -> dict[float, float]:
    """The sum over a Poisson sample of at most so many records, exactly."""
    found: dict[float, float] = {}
    for mask in itertools.product((0, 1), repeat=len(values)):
        chance = math.prod(rate if m else 1 - rate for m in mask)
        kept = [i for i, m in enumerate(mask) if m]
        batches = [tuple(kept)] if len(kept) <= limit else list(itertools.combinations(kept, limit))
        for batch in batches:
            total = round(math.fsum(values[i] for i in batch), 9)
            found[total] = found.get(total, 0.0) + chance / len(batches)
    return found


unit = st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1, 1))


@settings(max_examples=25, deadline=None)
@given(
    record=st.sampled_from([-1.0, 1.0]),
    other=unit,
    rest=st.one_of(st.lists(unit, max_size=4), st.lists(st.just(-1.0), max_size=4), st.lists(st.just(1.0), max_size=4)),
    rate=st.floats(0.05, 0.95),
    limit=st.integers(1, 5),
    sigma=st.floats(0.4, 2.0),
)
def test_a_limited_batch_never_costs_more_than_its_price(
    record: float, other: float, rest: list[float], rate: float, limit: int, sigma: float
) -> None:
    p = noisy(sampled_sums([record, *rest], rate, limit), sigma)
    for relation, instead in (("zero_out", 0.0), ("replace_one", other)):
        q = noisy(sampled_sums([instead, *rest], rate, limit), sigma)
        cost = TruncatedPoisson(
            Gaussian(sigma=sigma), rate=rate, limit=limit, population=len(rest) + 1, neighbours=relation
        )
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            priced = cost.delta(epsilon, "optimal") * (1 + 3e-4) + 1e-8  # cells are not points
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= priced


@pytest.mark.parametrize("void", [True, False])
def test_lower_ends_of_limited_batches_are_attained_by_data_of_opposite_records(void: bool) -> None:
    rate, limit, sigma, rest = 0.3, 2, 0.7, [-1.0] * 5
    p, q = (noisy(sampled_sums([value, *rest], rate, limit), sigma) for value in (1.0, 0.0 if void else -1.0))
    found = _opposite_others(6, rate, limit, 1 / sigma, void)
    assert found is not None
    for pair, one, other in ((found[0], p, q), (found[1], q, p)):
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            exact = hockey_stick(one, other, epsilon)
            assert 0.995 * exact - 1e-7 <= math.exp(float(pair.log_delta(epsilon))) <= exact * (1 + 1e-6) + 1e-9


def test_lower_ends_of_fixed_batches_of_three_vectors() -> None:
    """The moment of the pair is known: mean (A - A')²/R of three Gaussians mu apart, for a small rate."""
    pair = _three_vectors(1.0, 1e-4)
    atoms = pair._atoms()  # type: ignore[attr-defined]
    moment = float(np.sum(np.exp(atoms.log_p) * np.expm1(-atoms.loss) ** 2))
    assert 0.99 < moment / (1e-8 * (2 * math.e - 2 * math.exp(0.5))) < 1.0
    cost = 10_000 * WithoutReplacement(MOVED, population=10_000, batch=100)
    plain = 10_000 * PoissonSubsampled(G, rate=0.01)
    assert 1.05 * plain.epsilon(1e-5) < optimal_lower(cost, 1e-5) < cost.epsilon(1e-5)
    limited = 100 * TruncatedPoisson(G, rate=0.1, limit=1, population=50, neighbours="zero_out")
    assert 0.95 * limited.epsilon(1e-5) < optimal_lower(limited, 1e-5) < limited.epsilon(1e-5)


def test_plain_poisson_prices_are_wrong_for_limited_batches() -> None:
    """What the class is for: a record pushes another one out, and that shows more than its own absence would."""
    p = noisy(sampled_sums([1.0, -1.0, -1.0], 0.5, 1), 0.5)
    q = noisy(sampled_sums([0.0, -1.0, -1.0], 0.5, 1), 0.5)
    assert hockey_stick(p, q, 1.0) > PoissonSubsampled(Gaussian(sigma=0.5), rate=0.25).delta(1.0) * 1.5
    never_exceeded(
        TruncatedPoisson(Gaussian(sigma=0.5), rate=0.5, limit=1, population=3, neighbours="zero_out"), p, q, 1e-5
    )


@settings(max_examples=20, deadline=None)
@given(
    record=st.sampled_from([-1.0, 1.0]), other=unit, rate=st.floats(0.02, 0.98), sigma=st.floats(0.4, 2.0), rest=unit
)
def test_replacing_a_record_of_a_poisson_sample_never_costs_more(
    record: float, other: float, rate: float, sigma: float, rest: float
) -> None:
    p, q = (noisy(sampled_sums([value, rest], rate, 2), sigma) for value in (record, other))
    cost = PoissonSubsampled(Gaussian(sigma=sigma), rate=rate, neighbours="replace_one")
    for epsilon in (0.0, 0.5, 2.0):
        priced = cost.delta(epsilon, "optimal") * (1 + 3e-4) + 1e-8
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= priced


@settings(max_examples=20, deadline=None)
@given(
    population=st.integers(1, 4),
    epsilon=st.floats(0.1, 4.0),
    times=st.integers(1, 3),
    data=st.data(),
)
def test_a_batch_of_fixed_size_never_costs_more_than_its_price(
    population: int, epsilon: float, times: int, data: st.DataObject
) -> None:
    batch = data.draw(st.integers(1, population))
    rest = data.draw(st.lists(st.integers(0, 1), min_size=population - 1, max_size=population - 1))
    honest = 1 / (1 + math.exp(-epsilon))

    def released(records: list[int]) -> np.ndarray:
        """The parity of the batch, by randomised response, several times."""
        chances = [
            honest if sum(records[i] for i in chosen) % 2 else 1 - honest
            for chosen in itertools.combinations(range(population), batch)
        ]
        one = math.fsum(chances) / len(chances)
        law = np.array([1.0])
        for _ in range(times):
            law = np.outer(law, [1 - one, one]).ravel()
        return law

    cost = times * WithoutReplacement(
        RandomizedResponse(epsilon, k=2, neighbours="replace_one"), population=population, batch=batch
    )
    never_exceeded(cost, released([0, *rest]), released([1, *rest]), 1e-9)
    assert optimal_lower(cost, 1e-6) <= cost.epsilon(1e-6)


def allocated(bins: int, picks: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Randomised response in every bin: of the record where it is, of nobody elsewhere."""
    honest = 1 / (1 + math.exp(-epsilon))
    there, absent = np.array([1 - honest, honest]), np.array([honest, 1 - honest])
    with_record = np.zeros(2**bins)
    chosen = list(itertools.combinations(range(bins), picks))
    for places in chosen:
        law = np.array([1.0])
        for i in range(bins):
            law = np.outer(law, there if i in places else absent).ravel()
        with_record += law / len(chosen)
    without = np.array([1.0])
    for _ in range(bins):
        without = np.outer(without, absent).ravel()
    return with_record, without


@settings(max_examples=25, deadline=None)
@given(bins=st.integers(1, 8), epsilon=st.floats(0.1, 4.0), epochs=st.integers(1, 2), data=st.data())
def test_an_allocation_never_costs_more_than_its_price(
    bins: int, epsilon: float, epochs: int, data: st.DataObject
) -> None:
    picks = data.draw(st.integers(1, bins))
    p, q = allocated(bins, picks, epsilon)
    if epochs == 2:
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    cost = epochs * RandomAllocation(RandomizedResponse(epsilon, k=2), bins=bins, picks=picks)
    never_exceeded(cost, p, q, 1e-9)
    delta = 1e-3
    exact = max(
        (
            e
            for e in np.linspace(0, 2 * epsilon * picks, 400)
            if max(hockey_stick(p, q, e), hockey_stick(q, p, e)) > delta
        ),
        default=0.0,
    )
    assert optimal_lower(cost, delta) <= exact + 2 * epsilon * picks / 399 + 1e-9


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_two_bins_of_gaussian_noise_against_quadrature(mu: float, epsilon: float) -> None:
    with mpmath.workdps(25):

        def inner(x: mpmath.mpf) -> mpmath.mpf:
            """Over the second bin, in closed form: Y₂ is lognormal."""
            need = 2 * mpmath.e**epsilon - mpmath.e ** (mu * x - mu * mu / mpmath.mpf(2))
            if need <= 0:
                return (1 - need) / 2
            z = (mpmath.log(need) + mu * mu / mpmath.mpf(2)) / mu
            return (mpmath.ncdf(mu - z) - need * mpmath.ncdf(-z)) / 2

        cut = (mpmath.log(2 * mpmath.e**epsilon) + mu * mu / mpmath.mpf(2)) / mu
        points = sorted(
            [mpmath.mpf(x) for x in range(-12, 13, 2)] + [cut] + [cut - mpmath.mpf(10) ** -i for i in (1, 2, 4)]
        )
        exact = float(mpmath.quad(lambda x: mpmath.npdf(x) * inner(x), points))
    base = GaussianPair(mu)
    upper = math.exp(float(AllocationPair(base, 2).log_delta(epsilon)))
    lower = math.exp(float(AllocationPair(base, 2, upper=False).log_delta(epsilon)))
    assert lower <= exact <= upper
    assert upper <= exact * 1.02 and lower >= exact * 0.9  # δ, down to 1e-19; ε moves far less


# -- Rényi curves -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [
    PoissonSubsampled(G, rate=0.1, neighbours="replace_one"),
    PoissonSubsampled(G, rate=0.1).group(3),
    WithoutReplacement(MOVED, population=50, batch=5),
    TruncatedPoisson(G, rate=0.1, limit=3, population=20, neighbours="zero_out"),
], ids=lambda c: type(c).__name__)  # fmt: skip
def test_curves_are_those_of_the_pairs_from_above(cost: Cost) -> None:
    edges = np.linspace(-40, 300, 200_001)
    for order in (1.5, 2.0, 5.0, 12.0):
        values = []
        for pair in cost.pairs() or ():
            log_p, log_q = pair.log_cells(edges)
            some = (log_p > -np.inf) & (log_q > -np.inf)
            values.append(np.logaddexp.reduce(order * log_p[some] + (1 - order) * log_q[some]) / (order - 1))
        assert max(values) * (1 - 1e-9) - 1e-8 <= cost.rdp(order) <= max(values) * 1.01


@pytest.mark.parametrize("bins", [2, 10, 1000])
def test_moments_of_allocations(bins: int) -> None:
    cost = RandomAllocation(G, bins=bins)
    second = (math.e + bins - 1) / bins
    third = (math.e**3 + 3 * (bins - 1) * math.e + (bins - 1) * (bins - 2)) / bins**2
    assert math.log(second) * (1 - 1e-9) <= cost.rdp(2.0) <= math.log(second) * 1.005
    assert math.log(third) / 2 * (1 - 1e-9) <= cost.rdp(3.0) <= math.log(third) / 2 * 1.005
    rng = np.random.default_rng(0)
    ratio = np.exp(rng.standard_normal((20_000, min(bins, 50))) - 0.5).mean(axis=1)
    if bins <= 50:  # adding: the mean of Z^(1-α), here by simulation
        assert math.log(np.mean(ratio**-2.0)) / 2 <= cost.rdp(3.0) * 1.05
    orders = np.array([1.0, 1.3, 2.0, 7.5, 60.0, 1e4])
    assert np.all(np.diff(cost.rdp(orders)) >= -1e-12)
    assert np.all(cost.rdp(orders) <= G.rdp(orders) + 1e-12)


# -- laws -------------------------------------------------------------------------------------------------------------

sigmas = st.floats(0.4, 5.0)
counts = st.integers(1, 30)


def builders(sigma: float, rate: float, bins: int) -> list[Cost]:
    noise = Gaussian(sigma=sigma)
    moved = Gaussian(sigma=sigma, neighbours="replace_one")
    return [
        RandomAllocation(noise, bins=bins),
        RandomAllocation(noise, bins=bins, picks=2),
        WithoutReplacement(moved, population=1000, batch=math.ceil(1000 * rate)),
        PoissonSubsampled(noise, rate=rate, neighbours="replace_one"),
        PoissonSubsampled(noise, rate=rate).group(2),
        TruncatedPoisson(noise, rate=rate, limit=110, population=1000, neighbours="zero_out"),
        TruncatedPoisson(noise, rate=rate, limit=110, population=1000, neighbours="replace_one"),
    ]


@settings(max_examples=6, deadline=None)
@given(
    sigma=sigmas,
    rate=st.floats(0.01, 0.5),
    bins=st.integers(2, 200),
    k=counts,
    which=st.integers(0, 6),
    log_delta=st.floats(-9, -2),
)
def test_more_noise_fewer_releases_or_a_larger_delta_never_cost_more(
    sigma: float, rate: float, bins: int, k: int, which: int, log_delta: float
) -> None:
    delta, slack = 10.0**log_delta, 1 + 2e-3  # answers on different grids
    cost = k * builders(sigma, rate, bins)[which]
    epsilon = cost.epsilon(delta)
    assert optimal_lower(cost, delta) <= epsilon * (1 + 1e-9)
    assert cost.delta(epsilon) <= delta * (1 + 1e-9)
    assert (k * builders(1.3 * sigma, rate, bins)[which]).epsilon(delta) <= epsilon * slack + 1e-9
    assert ((k + 1) * builders(sigma, rate, bins)[which]).epsilon(delta) * slack + 1e-9 >= epsilon
    assert cost.epsilon(min(3 * delta, 0.9)) <= epsilon * slack + 1e-9
    unsampled = 2 * k * Gaussian(sigma=sigma).group(2)  # every record in every batch, twice over, replaced
    assert epsilon <= unsampled.epsilon(delta) * slack


@settings(max_examples=8, deadline=None)
@given(sigma=sigmas, bins=st.integers(2, 500))
def test_more_bins_never_cost_more_and_allocation_beats_no_sampling(sigma: float, bins: int) -> None:
    noise = Gaussian(sigma=sigma)
    few, many = (RandomAllocation(noise, bins=n).epsilon(1e-6) for n in (bins, 2 * bins))
    assert many <= few * (1 + 2e-3) + 1e-9
    assert few <= noise.epsilon(1e-6) * (1 + 1e-9)


def test_limits_that_never_bind_are_poisson_and_whole_batches_are_plain() -> None:
    poisson = PoissonSubsampled(G, rate=0.2)
    unbound = TruncatedPoisson(G, rate=0.2, limit=50, population=50, neighbours="zero_out")
    assert (10 * unbound).epsilon(1e-5) == pytest.approx((10 * poisson).epsilon(1e-5), rel=1e-6)
    assert WithoutReplacement(MOVED, population=7, batch=7).epsilon(1e-5) == MOVED.epsilon(1e-5)
    assert RandomAllocation(G, bins=1).epsilon(1e-5) == G.epsilon(1e-5)
    assert RandomAllocation(G, bins=4, picks=4).epsilon(1e-5) == (4 * G).epsilon(1e-5)
    everybody = PoissonSubsampled(G, rate=1.0, neighbours="replace_one")
    assert everybody.epsilon(1e-5) == Gaussian(sigma=1.0, sensitivity=2.0).epsilon(1e-5)
    assert PoissonSubsampled(G, rate=0.3).group(1) == PoissonSubsampled(G, rate=0.3)
    assert PoissonSubsampled(G, rate=1.0).group(3).epsilon(1e-5) == G.group(3).epsilon(1e-5)
    for free in (RandomAllocation(Gaussian(mu=0.0), bins=10), PoissonSubsampled(G, rate=0.0, neighbours="replace_one")):
        assert free.epsilon(1e-6) == 0.0


def test_the_chance_that_a_batch_is_cut() -> None:
    for population, rate, limit in ((1000, 0.1, 110), (12, 0.4, 3), (50, 0.02, 5), (300_000, 0.001, 330), (5, 1.0, 2)):
        with mpmath.workdps(40):
            q, n = mpmath.mpf(rate), population - 1
            term = mpmath.binomial(n, limit) * q**limit * (1 - q) ** (n - limit)
            cut = share = mpmath.mpf(0)
            for m in range(limit, n + 1):
                cut += term
                share += term * q * limit / (m + 1)
                if m < n:
                    term = term * (n - m) / (m + 1) * q / (1 - q) if rate < 1 else mpmath.mpf(m + 1 == n)
                if m > limit + 20_000 or (cut and term < cut * mpmath.mpf(10) ** -40 and rate < 1):
                    break
            expected = float(cut), float(share / cut)
        found = truncation(population, rate, limit)
        assert found[0] == pytest.approx(expected[0], rel=1e-8)
        assert expected[1] * (1 - 1e-12) <= found[1] <= expected[1] * (1 + 1e-8)


# -- the algebra around them ------------------------------------------------------------------------------------------

EVERY: list[Cost] = [
    RandomAllocation(Gaussian(sigma=2.0), bins=50, picks=3),
    RandomAllocation(Laplace(scale=2.0), bins=5),
    WithoutReplacement(Laplace(scale=3.0, neighbours="replace_one"), population=100, batch=7),
    PoissonSubsampled(Gaussian(sigma=2.0), rate=0.25, neighbours="replace_one"),
    PoissonSubsampled(Gaussian(sigma=2.0, neighbours="zero_out"), rate=0.25),
    PoissonSubsampled(Gaussian(sigma=2.0), rate=0.25).group(4),
    TruncatedPoisson(Gaussian(sigma=2.0), rate=0.1, limit=5, population=30, neighbours="zero_out"),
    TruncatedPoisson(Gaussian(sigma=2.0), rate=0.1, limit=5, population=30, neighbours="replace_one"),
]


@pytest.mark.parametrize("cost", EVERY, ids=repr)
def test_they_survive_json(cost: Cost) -> None:
    for one in (cost, 3 * cost):
        again = from_dict(to_dict(one))
        assert again == one and hash(again) == hash(one) and again.epsilon(1e-5) == one.epsilon(1e-5)


@pytest.mark.parametrize("cost", EVERY, ids=repr)
def test_plans_and_ledgers_take_them(cost: Cost) -> None:
    relation = str(cost.neighbours)
    plan = Plan([Release("step", cost, times=5), Release("count", Gaussian(sigma=9.0, neighbours=relation))],
                neighbours=relation)  # fmt: skip
    assert plan.cost.epsilon(1e-6) >= (5 * cost).epsilon(1e-6) * (1 - 1e-3)

    class Step:
        def __init__(self) -> None:
            self.cost = cost

        def release(self, value: object, rng: object = None) -> object:
            return value

    ledger = Ledger(60.0, 1e-5, neighbours=relation)
    for _ in range(2):
        ledger.release(Step(), 0.0, label="step")
    # A filter adds up Rényi curves, never loss distributions: it charges no less than the sum of these.
    assert (2 * cost).epsilon(1e-5) <= ledger.spent().epsilon * (1 + 1e-9) <= 60.0


def test_relations_do_not_mix() -> None:
    limited = TruncatedPoisson(G, rate=0.1, limit=5, population=30, neighbours="zero_out")
    with pytest.raises(NeighboursMismatch, match=r"zero_out|add_remove"):
        limited + G
    assert (limited + Gaussian(sigma=3.0, neighbours="zero_out")).neighbours == "zero_out"
    assert zero("zero_out").epsilon(0.0) == 0.0
    with pytest.raises(ParameterError, match="costs must"):
        parallel(limited, limited)


def test_a_relation_that_is_only_a_label_changes_no_price() -> None:
    """Two parts of which one loses the record and one gains it: add/remove costs under the label of replace-one."""
    for inner in (G, Laplace(scale=1.0)):
        part = PoissonSubsampled(inner, rate=0.1)
        moved = parallel(part, part, neighbours="replace_one")
        assert moved.epsilon(1e-5) >= (2 * part).epsilon(1e-5) * (1 - 1e-9) > 0.1


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: RandomAllocation(G, bins=0), "bins"),
    (lambda: RandomAllocation(G, bins=3, picks=4), "picks"),
    (lambda: RandomAllocation(MOVED, bins=3), "cost"),
    (lambda: RandomAllocation(3, bins=3), "cost"),  # type: ignore[arg-type]
    (lambda: WithoutReplacement(G, population=10, batch=3), "cost"),
    (lambda: WithoutReplacement(MOVED, population=10, batch=11), "batch"),
    (lambda: WithoutReplacement(MOVED, population=10.5, batch=3), "population"),  # type: ignore[arg-type]
    (lambda: PoissonSubsampled(MOVED, rate=0.1), "neighbours"),
    (lambda: PoissonSubsampled(MOVED, rate=0.1, neighbours="replace_one"), "neighbours"),
    (lambda: PoissonSubsampled(Laplace(scale=1.0), rate=0.1, neighbours="replace_one"), "cost"),
    (lambda: TruncatedPoisson(G, rate=0.1, limit=3, population=10, neighbours="add_remove"), "neighbours"),
    (lambda: TruncatedPoisson(MOVED, rate=0.1, limit=3, population=10, neighbours="replace_one"), "neighbours"),
    (lambda: TruncatedPoisson(Laplace(scale=1.0), rate=0.1, limit=3, population=10, neighbours="zero_out"), "cost"),
    (lambda: TruncatedPoisson(G, rate=0.1, limit=0, population=10, neighbours="zero_out"), "limit"),
    (lambda: PoissonSubsampled(G, rate=0.1).group(2).group(10**6), "records"),
    (lambda: dp_sgd(noise_multiplier=1.0, steps=10), "rate"),
    (lambda: dp_sgd(noise_multiplier=1.0, rate=0.1), "steps"),
    (lambda: dp_sgd(noise_multiplier=1.0, rate=0.1, steps=10, epochs=1), "steps"),
    (lambda: dp_sgd(noise_multiplier=0.0, rate=0.1, steps=10), "noise_multiplier"),
    (lambda: dp_sgd(noise_multiplier=1.0, batch_size=10, steps=10), "dataset_size"),
    (lambda: dp_sgd(noise_multiplier=1.0, batch_size=10, dataset_size=5, steps=10), "batch_size"),
    (lambda: dp_sgd(noise_multiplier=1.0, rate=0.1, steps=10, limit=7), "dataset_size"),
    (lambda: dp_sgd(noise_multiplier=1.0, rate=0.1, steps=10, sampler="shuffle"), "sampler"),
    (lambda: dp_sgd(noise_multiplier=1.0, rate=0.1, steps=10, sampler="without_replacement"), "batch_size"),
]


@pytest.mark.parametrize(("make", "name"), BAD)
def test_bad_input_names_the_value(make: Callable[[], object], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name


def test_selections_in_bins_are_priced_from_above_only() -> None:
    cost = 5 * RandomAllocation(BoundedRange(1.0), bins=20)
    assert 0 < cost.epsilon(1e-5) <= (5 * BoundedRange(1.0)).epsilon(1e-5) and optimal_lower(cost, 1e-5) == 0.0


def test_two_sided_pairs_turn_round() -> None:
    pair = (TruncatedPoisson(G, rate=0.3, limit=2, population=5, neighbours="zero_out").pairs() or ())[0]
    back = pair.reversed().reversed()
    for epsilon in (-1.0, -0.1, 0.0, 0.4, 2.0):
        assert float(back.log_delta(epsilon)) == pytest.approx(float(pair.log_delta(epsilon)), abs=1e-9)
        there, here = (math.exp(float(p.log_delta(e))) for p, e in ((pair, -epsilon), (pair.reversed(), epsilon)))
        assert here == pytest.approx(1 - math.exp(epsilon) + math.exp(epsilon) * there, abs=1e-8)
    assert isinstance((WithoutReplacement(MOVED, population=9, batch=2).pairs() or ())[0], TwoSidedPair)


# -- DP-SGD -----------------------------------------------------------------------------------------------------------


def test_dp_sgd_is_the_cost_of_its_sampler() -> None:
    step = PoissonSubsampled(Gaussian(sigma=1.1), rate=0.01)
    assert dp_sgd(rate=0.01, noise_multiplier=1.1, steps=500) == 500 * step
    assert dp_sgd(rate=0.01, noise_multiplier=1.1, epochs=5) == 500 * step
    assert dp_sgd(batch_size=10, dataset_size=1000, noise_multiplier=1.1, epochs=5) == 500 * step
    assert dp_sgd(sample_size=10, dataset_size=1000, noise_multiplier=1.1, epochs=0.101) == 11 * step
    moved = Gaussian(sigma=1.1, sensitivity=2.0, neighbours="replace_one")
    fixed = dp_sgd(batch_size=10, dataset_size=1000, noise_multiplier=1.1, epochs=1, sampler="without_replacement")
    assert fixed == 100 * WithoutReplacement(moved, population=1000, batch=10)
    bins = dp_sgd(batch_size=30, dataset_size=1000, noise_multiplier=1.1, steps=34, sampler="balls_in_bins")
    assert bins == 2 * RandomAllocation(Gaussian(sigma=1.1), bins=33)
    limited = dp_sgd(rate=0.01, dataset_size=1000, noise_multiplier=1.1, steps=3, limit=20)
    assert limited.neighbours == "zero_out"
    replaced = dp_sgd(rate=0.01, noise_multiplier=1.1, steps=3, neighbours="replace_one")
    assert replaced == 3 * PoissonSubsampled(Gaussian(sigma=1.1), rate=0.01, neighbours="replace_one")
    with pytest.raises(ParameterError, match=r"2411\.04205"):
        dp_sgd(batch_size=10, dataset_size=1000, noise_multiplier=1.1, steps=3, sampler="shuffle")


def test_noise_and_steps_of_dp_sgd_for_a_target() -> None:
    sigma = calibrate(
        lambda s: dp_sgd(batch_size=50, dataset_size=1000, noise_multiplier=s, epochs=3, sampler="balls_in_bins"),
        epsilon=1.0,
        delta=1e-5,
    )
    cost = dp_sgd(batch_size=50, dataset_size=1000, noise_multiplier=sigma, epochs=3, sampler="balls_in_bins")
    assert 0.99 < cost.epsilon(1e-5) <= 1.0
    steps = affordable(lambda n: dp_sgd(rate=0.05, noise_multiplier=2.0, steps=n), epsilon=1.0, delta=1e-5)
    prices = [dp_sgd(rate=0.05, noise_multiplier=2.0, steps=n).epsilon(1e-5) for n in (steps, steps + 1)]
    assert prices[0] <= 1.0 < prices[1]


def test_counts_that_can_be_afforded() -> None:
    assert affordable(lambda n: n * PureDP(0.1), epsilon=1.0, delta=0.0) == 10
    assert affordable(lambda n: n * PureDP(2.0), epsilon=1.0, delta=0.0) == 0
    assert affordable(lambda n: n * PureDP(1e-9), epsilon=1.0, delta=0.0, most=77) == 77
    with pytest.raises(ParameterError, match="most"):
        affordable(lambda n: n * PureDP(0.1), epsilon=1.0, delta=0.0, most=0)


# -- the mechanism ----------------------------------------------------------------------------------------------------


def test_a_mechanism_on_a_sample_of_fixed_size() -> None:
    noise = DiscreteLaplaceMechanism(scale=2.0, neighbours="replace_one")
    mechanism = FixedSizeSubsampledMechanism(noise, population=6, batch=2, query=lambda x: int(x.sum()))
    assert mechanism.cost == WithoutReplacement(noise.cost, population=6, batch=2)
    ledger = Ledger(5.0, 0.0, neighbours="replace_one")
    assert isinstance(ledger.release(mechanism, np.ones(6, dtype=int), label="ones"), int)
    for records in (np.ones(5, dtype=int), 3):
        with pytest.raises(ParameterError, match="records must"):
            mechanism.check(records)
    with pytest.raises(ParameterError, match="cost must be a replace-one cost"):
        FixedSizeSubsampledMechanism(DiscreteLaplaceMechanism(scale=2.0), population=6, batch=2, query=len)


def test_every_set_of_the_size_is_as_likely() -> None:
    source = SeededSource(np.random.default_rng(7))
    for records, batch in ((4, 2), (4, 3), (3, 3), (5, 1)):
        sets = list(itertools.combinations(range(records), batch))
        found = dict.fromkeys(sets, 0)
        rounds = 1500 * len(sets)
        for _ in range(rounds):
            found[tuple(np.flatnonzero(fixed_size_sample(records, batch, source)).tolist())] += 1
        assert all(abs(count - 1500) < 6 * math.sqrt(1500) for count in found.values())


@pytest.mark.parametrize("trials", [50, 10**4, 10**9, 7 * 10**12])
def test_shares_of_a_binomial_keep_their_digits_at_any_number_of_trials(trials: int) -> None:
    from ledgerwood.accounting.costs.fixed_batches import _binomial

    rate = min(10.0 / trials, 0.3)
    sizes = np.arange(0, min(trials, 60) + 1.0)
    found, log_rest = _binomial(trials, rate, sizes)
    with mpmath.workdps(60):
        p = mpmath.mpf(rate)
        exact = [mpmath.binomial(trials, int(k)) * p ** int(k) * (1 - p) ** (trials - int(k)) for k in sizes]
        rest = 1 - sum(exact) if trials > 60 else mpmath.mpf(0)
    assert found == pytest.approx([float(x) for x in exact], rel=1e-11)
    assert rest <= mpmath.exp(log_rest)
