"""The exact verifier against independent oracles: subsets by brute force, mpmath, quadrature, printed numbers."""

import itertools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from ledgerwood.accounting import RDP, ZCDP, ApproxDP, BoundedRange, Gaussian, PureDP, RandomizedResponse
from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.check import check
from ledgerwood.verification.exact.distributions import Cell, Pair
from ledgerwood.verification.exact.exponential_sums import laplace_cdf, laplace_density, product, shifted
from ledgerwood.verification.exact.intervals import ONE, hull, interval, logarithm, normal_cdf, total

EPSILON = Fraction(1, 10)


@st.composite
def rational_pairs(draw, most=5):
    """Two rational distributions on the same few outcomes, zeros included."""
    k = draw(st.integers(1, most))
    weights = st.lists(st.integers(0, 12), min_size=k, max_size=k).filter(any)
    first, second = draw(weights), draw(weights)
    return (
        {i: Fraction(w, sum(first)) for i, w in enumerate(first)},
        {i: Fraction(w, sum(second)) for i, w in enumerate(second)},
    )


def worse(pair, delta=0.0):
    return max(pair.epsilon(delta).lower, pair.swapped().epsilon(delta).lower)


# -- the quantities ------------------------------------------------------------------------------------------


@given(rational_pairs(), st.floats(-3, 3))
def test_delta_is_the_best_of_all_events(pair, epsilon):
    p, q = pair
    with mpmath.workdps(400):  # epsilon may be as small as 1e-300, and the verifier sees it
        factor = mpmath.exp(mpmath.mpf(epsilon))
        exact = max(
            sum(mpmath.mpf(p[o].numerator) / p[o].denominator for o in event)
            - factor * sum(mpmath.mpf(q[o].numerator) / q[o].denominator for o in event)
            for size in range(len(p) + 1)
            for event in itertools.combinations(p, size)
        )
    found = Pair.from_distributions(p, q).delta(epsilon)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-15


@given(rational_pairs())
def test_max_divergence_is_the_log_of_the_exact_largest_ratio(pair):
    p, q = pair
    found = Pair.from_distributions(p, q)
    impossible = any(p[o] > 0 and q[o] == 0 for o in p)
    ratio = found.max_ratio()
    if impossible:
        assert ratio is None
        assert found.max_divergence().lower == math.inf
    else:
        assert ratio == max(p[o] / q[o] for o in p if q[o])
        with mpmath.workdps(40):
            exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        bounds = found.max_divergence()
        assert bounds.lower <= exact <= bounds.upper


@given(rational_pairs(), st.sampled_from([1.0, 1.5, 2.0, 7.0, 40.0]))
def test_renyi_divergence_encloses_its_definition(pair, order):
    p, q = (
        {o: w + Fraction(1, 7) for o, w in distribution.items()} for distribution in pair
    )  # keep the supports equal
    p, q = ({o: w / sum(distribution.values()) for o, w in distribution.items()} for distribution in (p, q))
    with mpmath.workdps(50):
        mp = {
            o: (mpmath.mpf(p[o].numerator) / p[o].denominator, mpmath.mpf(q[o].numerator) / q[o].denominator) for o in p
        }
        if order == 1:
            exact = sum(a * mpmath.log(a / b) for a, b in mp.values())
        else:
            exact = mpmath.log(sum(a**order * b ** (1 - order) for a, b in mp.values())) / (order - 1)
    found = Pair.from_distributions(p, q).renyi(order)
    assert found.lower <= exact + mpmath.mpf(10) ** -40
    assert exact - mpmath.mpf(10) ** -40 <= found.upper
    assert found.upper - found.lower <= 1e-14 * max(1, found.upper)


@given(rational_pairs(), st.floats(1e-6, 0.9))
def test_epsilon_inverts_delta(pair, delta):
    found = Pair.from_distributions(*pair)
    epsilon = found.epsilon(delta)
    if math.isfinite(epsilon.upper):
        assert found.delta(epsilon.upper).upper <= delta
    if math.isfinite(epsilon.lower):
        assert found.delta(epsilon.lower - 1e-9).lower > delta
        assert epsilon.upper - epsilon.lower <= 1e-12 * max(1, abs(epsilon.lower))


@given(rational_pairs(), st.floats(-2, 2))
def test_the_two_directions_are_one_curve(pair, gamma):
    forward = Pair.from_distributions(*pair)
    left = forward.delta(-gamma)
    right = forward.swapped().delta(gamma)
    assert left.lower <= -math.expm1(-gamma) + math.exp(-gamma) * right.upper + 1e-14
    assert left.upper >= -math.expm1(-gamma) + math.exp(-gamma) * right.lower - 1e-14


@given(rational_pairs(), st.floats(0, 1), st.floats(0.001, 0.3))
def test_no_outcome_of_the_worst_event_can_be_spared(pair, epsilon, delta):
    p, q = pair
    event = Pair.from_distributions(p, q).worst_event(epsilon, delta)
    if event is None:
        return

    def breaks(outcomes):
        return float(sum(p[o] for o in outcomes)) - math.exp(epsilon) * float(sum(q[o] for o in outcomes)) > delta

    size = len(event.outcomes)
    assert breaks(event.outcomes)
    assert not any(
        breaks(smaller) for k in range(size) for smaller in itertools.combinations(p, k) if abs(k - size) >= 1
    )


@given(st.lists(st.integers(1, 9), min_size=4, max_size=8), st.floats(0.0, 2.0))
def test_a_cut_tail_widens_the_answer_and_never_loses_the_truth(weights, epsilon):
    mass = sum(weights)
    p = {i: Fraction(w, mass) for i, w in enumerate(weights)}
    q = {i: Fraction(w, mass) for i, w in enumerate(reversed(weights))}
    whole = Pair.from_distributions(p, q)
    kept = range(len(weights) - 2)
    tails = tuple(sum(distribution[i] for i in distribution if i not in kept) for distribution in (p, q))
    cut = Pair.from_distributions({i: p[i] for i in kept}, {i: q[i] for i in kept}, tails=tails)
    assert cut.delta(epsilon).lower <= whole.delta(epsilon).lower
    assert whole.delta(epsilon).upper <= cut.delta(epsilon).upper
    assert cut.max_divergence().lower <= whole.max_divergence().upper
    assert cut.max_divergence().upper == math.inf


def test_unresolved_mass_may_belong_to_a_known_outcome():
    """P = Q = (1/2, 1/2), but a fifth of Q is not resolved: nothing may be certified."""
    half = Fraction(1, 2)
    pair = Pair.from_distributions(
        {0: half, 1: half}, {0: Fraction(3, 10), 1: half}, tails=(Fraction(0), Fraction(1, 5))
    )
    assert pair.delta(0.0).lower == 0
    assert pair.max_divergence().lower <= 0
    assert pair.epsilon(0.01).lower <= 0
    assert pair.worst_event(0.0) is None


def test_a_privacy_loss_distribution_gives_the_same_answers_as_its_pair():
    losses, probabilities = [1.5, 0.25, -0.75], [0.25, 0.5, 0.25]
    pair = Pair.from_losses(losses, probabilities)
    assert pair.max_divergence().upper == 1.5
    expected = sum(p * max(0, 1 - math.exp(0.1 - loss)) for loss, p in zip(losses, probabilities))
    assert pair.delta(0.1).lower == pytest.approx(expected, rel=1e-14)
    infinite = Pair.from_losses([math.inf, 0.0], [0.01, 0.99])
    assert infinite.max_divergence().lower == math.inf
    assert infinite.delta(5.0).lower == pytest.approx(0.01)
    with pytest.raises(ParameterError, match="losses"):
        Pair.from_losses([-1.0, 0.0], [0.5, 0.5])


def test_distributions_that_are_not_distributions_are_refused():
    with pytest.raises(ParameterError, match="sum to one exactly"):
        Pair.from_distributions({0: Fraction(1, 2)}, {0: Fraction(1)})
    with pytest.raises(ParameterError, match="negative"):
        Pair.from_distributions({0: Fraction(3, 2), 1: Fraction(-1, 2)}, {0: 1})
    with pytest.raises(ParameterError, match="sum to one"):
        Pair.from_distributions({0: 0.5, 1: 0.4}, {0: 0.5, 1: 0.5})
    with pytest.raises(ParameterError, match="delta"):
        Pair.from_distributions({0: 1}, {0: 1}).epsilon(1.0)
    with pytest.raises(ParameterError, match="order"):
        Pair.from_distributions({0: 1}, {0: 1}).renyi(0.5)


# -- cells of a continuous output ----------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 3, 40])
def test_cells_enclose_the_closed_form_of_the_laplace_pair(cells):
    pair = textbook.laplace_pair(0, 1, 1, cells=cells)
    for gamma in (0.0, 0.3, 0.9):
        exact = -math.expm1((gamma - 1) / 2)
        found = pair.delta(gamma)
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= 0.3 / cells
    for order in (1.0, 2.0, 10.0):
        found = pair.renyi(order)
        if order == 1:
            exact = math.exp(-1)
        else:
            a = order
            exact = math.log(a / (2 * a - 1) * math.exp(a - 1) + (a - 1) / (2 * a - 1) * math.exp(-a)) / (a - 1)
        assert found.lower <= exact <= found.upper


def test_gaussian_delta_is_exact_at_its_knots_in_both_directions():
    for mu in (0.1, 0.7, 2.0):
        pair = textbook.gaussian_pair(mu, knots=[0.5, 1])
        for epsilon in (0.5, 1.0):
            with mpmath.workdps(40):
                m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
                exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            for side in (pair, pair.swapped()):
                found = side.delta(epsilon)
                assert found.lower <= exact <= found.upper
                assert found.upper - found.lower <= 3e-16


@given(st.floats(-12, 12))
def test_the_normal_distribution_function_is_enclosed(x):
    found = normal_cdf(x).bounds()
    with mpmath.workdps(60):
        exact = mpmath.ncdf(mpmath.mpf(x))
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 3e-16


def test_discrete_gaussian_agrees_with_a_plain_sum():
    sigma = 3.0
    k = np.arange(-200, 201)
    p = np.exp(-(k**2) / (2 * sigma**2))
    p /= p.sum()
    q = np.roll(p, 2)
    pair = textbook.discrete_gaussian_pair(2, 3)
    for epsilon in (0.0, 0.5, 2.0):
        expected = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        found = pair.delta(epsilon)
        assert found.lower == pytest.approx(expected, rel=1e-12)
        assert found.upper == pytest.approx(expected, rel=1e-12)


# -- distributions in closed form -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [7, 12, 40])
def test_a_discrete_gaussian_cut_early_still_encloses_the_truth(reach):
    truth = textbook.discrete_gaussian_pair(1, 3)
    cut = textbook.discrete_gaussian_pair(1, 3, reach=reach)
    for epsilon in (0.0, 0.4, 1.0):
        assert cut.delta(epsilon).lower <= truth.delta(epsilon).lower
        assert truth.delta(epsilon).upper <= cut.delta(epsilon).upper
    known = {cell.outcome: cell.p for cell in truth.cells}
    for cell in cut.cells:
        assert not interval(cell.p).surely_above(known[cell.outcome])
        assert not interval(known[cell.outcome]).surely_above(cell.p)


def sums_to_one(distribution):
    mass = total(distribution.values()).bounds()
    return mass.lower <= 1 <= mass.upper and mass.upper - mass.lower <= 1e-15


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5), st.sampled_from(["laplace", "exponential"]))
def test_noisy_max_agrees_with_quadrature(scores, noise):
    distribution = textbook.noisy_max_distribution(scores, 4, noise)
    assert sums_to_one(distribution)
    family = {"laplace": stats.laplace, "exponential": stats.expon}[noise](scale=4)

    def integrand(z, i):
        others = [family.cdf(z - s) for j, s in enumerate(scores) if j != i]
        return family.pdf(z - scores[i]) * math.prod(others)

    value, _ = integrate.quad(integrand, -250, 250, args=(0,), points=sorted({*scores}), limit=400)
    assert distribution[0].midpoint() == pytest.approx(value, abs=1e-7)


def test_permute_and_flip_is_noisy_max_with_exponential_noise():
    for scores in ([0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1], [3, -2, 0, 1]):
        flip = textbook.permute_and_flip_distribution(scores, Fraction(1, 2))
        noisy = textbook.noisy_max_distribution(scores, 2, "exponential")
        assert sums_to_one(flip)
        for i in flip:
            assert (flip[i] - noisy[i]).midpoint() == pytest.approx(0, abs=1e-30)


def test_sparse_vector_agrees_with_quadrature():
    queries, threshold = [0, 2, 1, -1], 0.5
    distribution = textbook.above_threshold_distribution(queries, threshold, threshold_scale=2, query_scale=4)
    assert sums_to_one(distribution)

    def integrand(r):
        below = [stats.laplace.cdf(threshold + r - q, scale=4) for q in queries]
        return stats.laplace.pdf(r, scale=2) * below[0] * below[1] * (1 - below[2])

    value, _ = integrate.quad(integrand, -80, 80, points=[0, -0.5, 1.5, 0.5], limit=400)
    assert distribution["001"].midpoint() == pytest.approx(value, abs=1e-9)


def test_the_released_value_of_a_sparse_vector_agrees_with_simulation():
    rng = np.random.default_rng(5)
    queries, n = np.array([0, 1]), 400_000
    distribution = textbook.above_threshold_value_distribution(
        queries.tolist(), 1, threshold_scale=2, query_scale=3, edges=[-1, 2]
    )
    assert sums_to_one(distribution)
    noisy = queries + rng.laplace(scale=3, size=(n, 2))
    accepted = noisy >= 1 + rng.laplace(scale=2, size=(n, 1))
    value = noisy[:, 1]
    hits = (~accepted[:, 0] & accepted[:, 1] & (value >= -1) & (value < 2)).sum()
    p = distribution[("01", "[-1, 2)")].midpoint()
    assert abs(hits - n * p) < 6.5 * math.sqrt(n * p * (1 - p))  # false alarm below 1e-10


def test_published_values_are_reproduced():
    def svt(data, threshold, scales):
        return textbook.above_threshold_distribution(data, threshold, threshold_scale=scales[0], query_scale=scales[1])

    ones, halves = ([1] * 10, [2] * 5 + [0] * 5), ([0] * 5 + [1] * 5, [1] * 5 + [0] * 5)
    e = EPSILON
    svt1 = Pair.from_distributions(*(svt(d, Fraction(1, 2), (2 / e, 4 / e)) for d in ones))
    svt2 = Pair.from_distributions(*(svt(d, 1, (2 / e, 4 / e)) for d in halves))
    svt4 = Pair.from_distributions(*(svt(d, 1, (4 / e, Fraction(4, 3) / e)) for d in ones))
    noisy_max = Pair.from_distributions(
        *(textbook.noisy_max_distribution(d, 2 / e) for d in ([1] * 5, [0, 2, 2, 2, 2]))
    )
    assert worse(svt1) == pytest.approx(0.08853, abs=5e-6)
    assert worse(svt2) == pytest.approx(0.08748, abs=5e-6)
    assert worse(svt4) == pytest.approx(0.17247, abs=5e-6)
    assert worse(noisy_max) == pytest.approx(0.09461, abs=5e-6)


def threshold_bits_probability(queries, threshold, bits, *, threshold_scale, query_scale):
    """Probability of a whole bit string when the sparse vector never stops (Lyu et al. 2017, Algorithm 6)."""
    below = [shifted(laplace_cdf(Fraction(query), scale=query_scale), Fraction(threshold)) for query in queries]
    factors = product(f.complement() if bit == "1" else f for f, bit in zip(below, bits, strict=True))
    return (laplace_density(Fraction(0), scale=threshold_scale) * factors).integral()


@pytest.mark.parametrize(("k", "expected"), [(2, 0.076), (4, 0.158), (8, 0.331), (10, 0.42003), (12, 0.510)])
def test_algorithm_six_of_the_sparse_vector_grows_with_the_number_of_queries(k, expected):
    """Never stops: 2^k strings, equal when they agree in the number of ones in either half."""
    half = k // 2
    worst = 0.0
    for ones in itertools.product(range(half + 1), repeat=2):
        bits = "".join("1" * n + "0" * (half - n) for n in ones)
        p, q = (
            threshold_bits_probability(d, 1, bits, threshold_scale=2 / EPSILON, query_scale=2 / EPSILON)
            for d in ([1] * k, [2] * half + [0] * half)
        )
        worst = max(worst, abs((logarithm(p) - logarithm(q)).midpoint()))
    assert worst == pytest.approx(expected, abs=5e-4 if k != 10 else 5e-6)


# -- claims --------------------------------------------------------------------------------------------------


def randomized_response(k, epsilon):
    one_hot = [[int(i == j) for i in range(k)] for j in (0, 1)]
    return textbook.exponential_mechanism_pair(*one_hot, rate=epsilon)


def test_tight_claims_are_proved_without_any_tolerance():
    assert check(randomized_response(8, 1), PureDP(1.0), tolerance=0).holds
    assert check(textbook.laplace_pair(0, 1, 10), PureDP(0.1), tolerance=0).holds
    assert check(textbook.discrete_laplace_pair(3, 5, 1), PureDP(2.0), tolerance=0).holds


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
def test_a_claim_smaller_by_a_hair_is_refuted(epsilon):
    pair = randomized_response(3, epsilon)
    assert check(pair, PureDP(epsilon)).holds
    verdict = check(pair, PureDP(epsilon * (1 - 1e-9)))
    assert verdict.violated
    assert verdict.event.epsilon_lower > epsilon * (1 - 1e-9)


def test_five_per_cent_of_sensitivity_are_seen_at_1_0042():
    verdict = check(
        textbook.exponential_mechanism_pair([-3] + [0] * 8, [-2] + [-1] * 8, Fraction(105, 200)), PureDP(1.0)
    )
    assert verdict.violated
    assert verdict.value.lower == pytest.approx(1.00421, abs=5e-6)
    assert verdict.event.outcomes == (0,)
    assert "second against first" in str(verdict)


def test_an_approximate_claim_names_a_smallest_event():
    pair = textbook.gaussian_pair(interval(1) / Fraction("3.7306"), knots=[1])
    verdict = check(pair, ApproxDP(1.0, 1e-5))
    assert verdict.violated  # the rounded sigma of the literature is too small by a hair
    assert verdict.value.lower == pytest.approx(1.00014e-5, rel=1e-5)
    assert check(textbook.gaussian_pair(interval(1) / Fraction("3.730632"), knots=[1]), ApproxDP(1.0, 1e-5)).holds


def test_bounded_range_holds_for_the_exponential_mechanism_and_fails_for_permute_and_flip():
    scores = [0, 0], [0, 1]
    exponential_mechanism = textbook.exponential_mechanism_pair(*scores, rate=1)
    flip = Pair.from_distributions(*(textbook.permute_and_flip_distribution(s, 1) for s in scores))
    assert check(exponential_mechanism, BoundedRange(1.0)).holds
    assert check(exponential_mechanism, BoundedRange(0.999)).violated
    assert check(flip, PureDP(1.0)).holds
    verdict = check(flip, BoundedRange(1.0))
    assert verdict.violated
    assert verdict.value.lower == pytest.approx(1 + math.log(2 - math.exp(-1)), rel=1e-12)


def test_a_curve_claim_is_decided_over_all_orders():
    pair = randomized_response(2, 1)
    worst = max(pair.renyi(a).upper / a for a in np.linspace(1, 3, 400))
    assert check(pair, ZCDP(worst * 1.01)).holds
    verdict = check(pair, ZCDP(worst * 0.98))
    assert verdict.violated
    assert "order" in verdict.quantity
    assert check(pair, RDP(lambda alpha: 0.5 * alpha)).holds
    assert check(pair, RDP(lambda alpha: 0.05 * alpha)).violated


def test_a_profile_claim_is_decided_over_all_epsilons():
    pair = Pair.from_distributions({0: Fraction(3, 5), 1: Fraction(2, 5)}, {0: Fraction(2, 5), 1: Fraction(3, 5)})
    assert check(pair, Gaussian(mu=0.8)).holds
    assert check(pair, Gaussian(mu=0.3)).violated
    assert check(pair, 2 * PureDP(0.5)).holds
    assert check(pair, 2 * PureDP(0.3)).violated  # two such releases cannot move a probability by 0.2


def test_a_violation_between_the_ends_of_the_axis_is_not_overlooked():
    """Claims that hold at both ends and break in the middle."""
    pair = randomized_response(2, 1)
    low, high = pair.renyi(1.0).upper, pair.renyi(1.6).lower
    step = RDP(lambda alpha: np.where(np.asarray(alpha) < 1.7, (low + high) / 2, 2.0))
    verdict = check(pair, step)
    assert verdict.violated
    assert "order 1." in verdict.quantity

    class Step:
        def delta(self, epsilon):
            return 0.9 if epsilon < 0.3 else 0.01

    verdict = check(pair, Step())
    assert verdict.violated
    assert 0.3 <= float(verdict.quantity.split("=")[1]) < 1


def test_unresolved_mass_leaves_a_pure_claim_undecided():
    distribution = {0: Fraction(1, 2), 1: Fraction(49, 100)}
    verdict = check(Pair.from_distributions(distribution, distribution, tails=(Fraction(1, 100),) * 2), PureDP(1.0))
    assert verdict.status == "undecided"
    assert "lies in" in str(verdict)
    assert check(
        Pair.from_distributions(distribution, distribution, tails=(Fraction(1, 100),) * 2), ApproxDP(1.0, 0.01)
    ).holds


def test_a_repeated_loss_is_no_error():
    assert Pair.from_losses([0.5, 0.5, -0.5], [0.375, 0.375, 0.25]).max_divergence().upper == 0.5


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_a_probability_that_may_be_zero_is_enclosed_at_every_order(order):
    small = Fraction(1, 1000)
    vague = Pair((Cell(0, hull(0, small), interval(small)), Cell(1, hull(1 - small, 1), interval(1 - small))))
    found = vague.renyi(order)
    for p in (Fraction(0), small / 3, small):
        exact = Pair.from_distributions({0: p, 1: 1 - p}, {0: small, 1: 1 - small}).renyi(order)
        assert found.lower <= exact.lower
        assert exact.upper <= found.upper
    assert found.upper < 0.01


def test_an_infinite_loss_is_allowed_only_within_the_mass_that_is_given_up():
    """An event of probability 1/1000 that the other input cannot give."""
    p = {0: Fraction(999, 1000), 1: Fraction(1, 1000)}
    pair = Pair.from_distributions(p, {0: Fraction(1)})
    assert check(pair, 2 * ApproxDP(0.1, 1e-3)).holds
    assert not check(pair, 2 * ApproxDP(0.1, 1e-4)).holds
    assert check(pair, Gaussian(mu=1.0)).violated


def test_an_uncertain_zero_never_refutes():
    """A probability known only to lie in [0, 1e-9] is not a zero."""
    p, q = interval(Fraction(1, 10**9)), hull(0, Fraction(1, 10**9))
    pair = Pair((Cell("rare", p, q), Cell("rest", ONE - p, ONE - q)))
    assert check(pair, PureDP(1.0)).status == "undecided"


def test_randomized_response_with_two_answers_is_decided_at_its_epsilon_and_a_touched_profile_soon_left_undecided():
    pair = Pair.from_distributions({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)})
    assert check(pair, RandomizedResponse(math.log(3))).holds
    assert check(pair, RandomizedResponse(1.09)).violated
    start = time.process_time()
    assert check(pair, PureDP(math.log(3)) + PureDP(0.1)).status == "undecided"  # equal at epsilon = 0
    assert time.process_time() - start < 10.0  # it took 46 seconds
