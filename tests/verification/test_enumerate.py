"""Programs by enumeration: whole small learners, adaptive composition, cut-off noise, and samplers bit by bit."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.reference_tree import ReferenceTree, add_remove_pairs, clamped_discrete_laplace
from tests.kit.sampler_distribution import distribution_of_sampler, sampler_pair

from ledgerwood.accounting import ApproxDP, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact.check import check
from ledgerwood.verification.exact.enumeration import (
    DiscreteDistribution,
    discrete_laplace,
    distribution_of,
    pair_of,
    verify_domain,
)

HALF = Fraction(1, 2)
EIGHT_ROWS = [(b, y) for b in range(4) for y in (-1, 1)]
SIX_ROWS = [(b, y) for b in range(3) for y in (-1, 1)]


# -- the enumerator ----------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_sequence_of_outcomes_is_run_once_with_its_product_probability(weights):
    distributions = [DiscreteDistribution(tuple(range(len(w))), tuple(Fraction(x, sum(w)) for x in w)) for w in weights]
    found = distribution_of(
        lambda data, source: tuple(source.draw(distribution) for distribution in distributions), None
    )
    expected = {
        combination: math.prod(
            (distribution.probabilities[i] for distribution, i in zip(distributions, combination)), start=Fraction(1)
        )
        for combination in itertools.product(*(range(len(w)) for w in weights))
    }
    assert found.probabilities == expected
    assert found.tail == 0
    assert found.runs == len(expected)


def test_draws_may_depend_on_earlier_draws():
    def program(data, source):
        if source.draw({True: HALF, False: HALF}):
            return "short"
        return source.select([1, 2, 1])

    assert distribution_of(program, None).probabilities == {
        "short": HALF,
        0: Fraction(1, 8),
        1: Fraction(1, 4),
        2: Fraction(1, 8),
    }


def test_too_many_runs_are_refused():
    with pytest.raises(ParameterError, match="limit"):
        distribution_of(lambda data, source: sum(source.select([1, 1]) for _ in range(20)), None, limit=1000)


@given(st.integers(-6, 6), st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=10))
def test_clamped_noise_is_the_unclamped_distribution_gathered_at_its_ends(value, ratio):
    found = clamped_discrete_laplace(value, ratio, -2, 3)
    wide = discrete_laplace(ratio, 60)
    gathered = {z: Fraction(0) for z in range(-2, 4)}
    for k, p in zip(wide.outcomes, wide.probabilities):
        gathered[min(max(value + k, -2), 3)] += p
    for z, p in zip(found.outcomes, found.probabilities):
        assert 0 <= p - gathered[z] <= wide.tail


# -- a whole learner over all neighbouring pairs ------------------------------------------------------------


def test_the_exact_epsilon_of_a_learner_is_found_over_all_pairs_and_meets_its_price():
    """Four bins, depth two, up to three rows: 360 pairs; the worst is known as a fraction."""
    tree = ReferenceTree()
    found = verify_domain(tree, add_remove_pairs(EIGHT_ROWS, most_rows=3))
    assert found.pairs == 360
    assert found.delta == 0
    assert found.ratio == Fraction(121, 18)
    assert math.log(found.ratio) in found.epsilon
    assert found.epsilon.upper <= tree.claim.epsilon(0)
    again = pair_of(tree, *found.pair)
    assert again.max_ratio() == found.ratio
    worst = max(again.cells, key=lambda cell: cell.p / cell.q)
    assert worst.p / worst.q == found.ratio


def test_ranking_by_logarithms_agrees_with_rationals_at_every_pair():
    tree = ReferenceTree(bins=3, depth=1, low=-1, high=1)
    pairs = list(add_remove_pairs(SIX_ROWS, most_rows=3))
    exact = max(pair_of(tree, *both).max_ratio() for pair in pairs for both in (pair, pair[::-1]))
    assert verify_domain(tree, pairs).ratio == exact


def test_a_leaf_that_skips_its_noise_when_empty_is_caught_with_the_pair():
    found = verify_domain(ReferenceTree(skip_empty=True), add_remove_pairs(EIGHT_ROWS, most_rows=1))
    assert found.ratio is None
    assert found.epsilon.lower == math.inf
    more, less = sorted(found.pair, key=len, reverse=True)
    assert (len(more), len(less)) == (1, 0)


def test_too_little_noise_in_the_leaves_is_caught():
    honest, greedy = ReferenceTree(bins=3), ReferenceTree(bins=3, ratio=Fraction(1, 8))
    found = verify_domain(greedy, add_remove_pairs(SIX_ROWS, most_rows=2))
    assert found.epsilon.lower > honest.claim.epsilon(0)


@pytest.mark.slow
def test_depth_two_four_bins_eight_rows_over_all_51480_pairs():
    tree = ReferenceTree()
    found = verify_domain(tree, add_remove_pairs(EIGHT_ROWS, most_rows=8))
    assert found.pairs == 51_480
    assert found.ratio == Fraction(44_742_721, 4_632_968)
    assert found.epsilon.upper <= tree.claim.epsilon(0)


# -- composition and cut-off noise ---------------------------------------------------------------------------


def adaptive(rows, source):
    """Two steps: the second one's noise depends on what the first released."""
    count = sum(rows)
    first = source.draw(clamped_discrete_laplace(count, HALF, 0, 2))
    ratio = HALF if first == 0 else Fraction(1, 3)
    return first, source.draw(clamped_discrete_laplace(2 * count, ratio, 0, 3))


def test_an_adaptive_composition_of_two_steps_costs_what_its_worst_branch_costs():
    pairs = [((1,) * n, (1,) * (n + 1)) for n in range(6)]
    found = verify_domain(adaptive, pairs)
    # step one: ratio 2; step two moves by 2, at ratio 3 each in the worst branch
    assert found.ratio == 2 * 3**2
    verdict = check(pair_of(adaptive, *found.pair), PureDP(math.log(18)))
    assert verdict.holds
    assert check(pair_of(adaptive, *found.pair), PureDP(math.log(18) - 1e-6)).violated


def noisy_count(reach):
    return lambda rows, source: sum(rows) + source.discrete_laplace(HALF, reach)


@pytest.mark.parametrize("reach", [3, 10, 30])
def test_cut_off_noise_adds_its_tail_to_the_certified_interval(reach):
    found = verify_domain(noisy_count(reach), [((), (1,))])
    outside = 2 * HALF ** (reach + 1) / (1 + HALF)
    at_the_edge = (1 - HALF) / (1 + HALF) * HALF**reach
    assert found.ratio == 2
    assert found.delta == pytest.approx(float(outside + at_the_edge), rel=1e-8)
    assert found.delta >= float(outside + at_the_edge)
    assert math.log(2) - 7 * float(outside) <= found.epsilon.lower <= math.log(2)
    assert found.epsilon.upper == math.inf
    pair = pair_of(noisy_count(reach), (), (1,))
    # closed form of the uncut distribution: P(z <= 0) - e^0.3 Q(z <= 0)
    truth = Fraction(2, 3) - Fraction(math.exp(0.3)) * Fraction(1, 3)
    bounds = pair.delta(0.3)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper - bounds.lower <= 3 * float(outside) + 1e-12
    assert check(pair, ApproxDP(math.nextafter(math.log(2), 1), found.delta)).holds


# -- samplers, bit by bit ---------------------------------------------------------------------------------------


def biased_coin(source, numerator=1, denominator=3):
    """Bernoulli(1/3) by comparing bits with the binary expansion."""
    remainder = numerator
    while True:
        remainder *= 2
        bit, remainder = divmod(remainder, denominator)
        if int(source.words(1)[0]) != bit:
            return int(bit)


def test_a_sampler_is_shown_to_have_its_distribution_by_feeding_it_every_bit_string():
    distribution = distribution_of_sampler(biased_coin, most_bits=12)
    assert distribution.unresolved == Fraction(1, 2**12)
    assert 1 / 3 in distribution.probability(1)
    assert distribution.contradicts({1: Fraction(1, 3), 0: Fraction(2, 3)}) is None
    assert distribution.contradicts({1: Fraction(34, 100), 0: Fraction(66, 100)}) is not None


def test_a_biased_sampler_is_contradicted_exactly():
    def modulo_die(source):
        return int(source.words(1)[0]) % 6

    distribution = distribution_of_sampler(modulo_die, word_bits=3, most_bits=3)
    assert distribution.unresolved == 0
    assert distribution.probabilities[0] == Fraction(1, 4)
    assert distribution.contradicts({i: Fraction(1, 6) for i in range(6)}) == 0


def test_the_time_of_a_sampler_is_an_output_like_any_other():
    """Randomised response whose number of bits depends on the secret: correct by value, broken by time."""

    def response(secret):
        def sampler(source):
            if secret and int(source.words(1)[0]):  # a second fair bit in place of the first
                return int(source.words(1)[0])
            return int(source.words(1)[0])

        return sampler

    by_value = sampler_pair(*(distribution_of_sampler(response(s)) for s in (0, 1)))
    by_time = sampler_pair(*(distribution_of_sampler(response(s), observe_bits=True) for s in (0, 1)))
    assert check(by_value, PureDP(0.0)).holds
    assert check(by_time, PureDP(10.0)).violated


def test_bad_depths_are_refused():
    with pytest.raises(ParameterError, match="most_bits"):
        distribution_of_sampler(biased_coin, word_bits=4, most_bits=3)


def test_a_loop_without_end_is_an_error_not_a_hang():
    def until_heads(bit, source):
        while source.draw({"tails": Fraction(1, 2), "heads": Fraction(1, 2)}) == "tails":
            pass
        return bit

    def until_tails(bit, source):  # each sequence ends, there is no last one
        while source.draw({"tails": Fraction(1, 2), "heads": Fraction(1, 2)}) == "heads":
            pass
        return bit

    for program in (until_heads, until_tails):
        with pytest.raises(ParameterError, match="at most 1000 draws"):
            distribution_of(program, 0)


def test_randomness_of_its_own_is_refused():
    own = itertools.count()
    with pytest.raises(ParameterError, match="draw all its randomness"):
        distribution_of(lambda bit, source: next(own) % 2, 0)


def test_a_program_that_changes_its_distributions_from_run_to_run_is_refused():
    calls = itertools.count()

    def fickle(bit, source):
        sides = 3 if next(calls) < 5 else 2
        return int(source.draw({side: Fraction(1, sides) for side in range(sides)}) > 5)

    with pytest.raises(ParameterError, match="data and its draws alone"):
        distribution_of(fickle, 0)
