"""Which event an audit certifies, seen through the bound that it certifies.

Each leak below has a best event, whose bound follows from its exact probabilities. The median of a few audits must come
near it: how the event is found is the auditor's affair.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ledgerwood.accounting import ApproxDP, Gaussian, PureDP
from ledgerwood.verification import audit, lower_bound
from ledgerwood.verification.auditor.certificate.counts import estimated_bound_of_guesses
from ledgerwood.verification.auditor.certificate.hypotheses import Hypothesis
from ledgerwood.verification.auditor.choice import _value, choose, learned
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.events import Guess, OutputEvent
from ledgerwood.verification.auditor.scores import BoostedTrees, Field, FrequencyRatios, Linear


@dataclass
class Drawn:
    """A mechanism that draws many outputs at once."""

    sample: object


def reports_of(sample, claim, samples, pair=(1, 0), audits=3):
    """Audits of ``sample(data, n, rng)``."""
    return [audit(Drawn(sample), claim, pair=pair, samples=samples, seed=seed) for seed in range(audits)]


def median_bound(sample, claim, samples, **options):
    return float(np.median([report.epsilon_lower for report in reports_of(sample, claim, samples, **options)]))


def on_a_grid(values):
    """Multiples of 1/16: floats would leak by their last bits."""
    return np.round(16 * values) / 16


def best(p1, p2, samples):
    """What the best event certifies if all outputs could count it as often as is to be expected."""
    return lower_bound(round(samples * p1), round(samples * p2), samples)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_laplace_noise_is_cut_where_the_ratio_stops_growing_and_not_in_a_lucky_tail(scale):
    samples, tail = 200_000, 0.5 * math.exp(-1 / scale)
    bound = median_bound(lambda x, n, rng: on_a_grid(x + rng.laplace(0, scale, n)), PureDP(1 / scale), samples)
    assert 0.9 * best(0.5, tail, samples) < bound <= 1 / scale


def test_an_event_that_holds_almost_always_does_not_win():
    """Its bound is nearly 0 and it proves nothing; a weak leak may look worse, and may still be certified."""

    def sample(x, n, rng):
        return np.stack([rng.random(n) > 1e-4, rng.random(n) < 0.5 + 0.01 * x], axis=1).astype(float)

    assert median_bound(sample, PureDP(0.01), 500_000) > 0.4 * best(0.51, 0.5, 500_000)


def test_a_weak_leak_is_found_among_many_fields():
    """A shift of a thirtieth of the spread in one field of ten."""

    def sample(x, n, rng):
        outputs = rng.normal(size=(n, 10))
        outputs[:, 7] += 0.03 * x
        return on_a_grid(outputs)

    assert median_bound(sample, PureDP(0.01), 300_000, audits=3) > 0.005


def test_a_weak_leak_of_many_values_is_cut_at_the_ends():
    """The log-odds of a binomial are straight: raw counts would choose between thresholds by luck."""
    samples, tails = 200_000, [binom.sf(range(40, 160), 200, p) for p in (0.505, 0.5)]
    bound = median_bound(lambda x, n, rng: rng.binomial(200, 0.5 + 0.005 * x, n), PureDP(0.1), samples)
    assert bound > 0.8 * max(best(p1, p2, samples) for p1, p2 in zip(*tails, strict=True))


def test_mu_is_not_sought_in_a_lucky_tail():
    """It is the same at every threshold of Gaussian noise, and surest in the middle."""
    reports = reports_of(lambda x, n, rng: on_a_grid(rng.normal(0.38 * x, 1, n)), Gaussian(mu=0.3), 100_000)
    mu = [report.mu_lower for report in reports]
    assert 0.9 * 0.38 < np.median(mu) < 0.38
    assert all(report.flagged for report in reports)


def test_few_outputs_are_ordered_by_their_own_frequencies():
    p = {1: [0.5, 0.3, 0.15, 0.05], 0: [0.5, 0.32, 0.17, 0.01]}
    bound = median_bound(lambda x, n, rng: rng.choice([7.0, 1.0, 5.0, 3.0], n, p=p[x]), PureDP(1.0), 20_000)
    assert bound > 0.9 * best(0.05, 0.01, 20_000)


def test_a_delta_costs_and_sends_the_event_further_out():
    def sample(x, n, rng):
        return on_a_grid(rng.normal(x, 3.73, n))

    exact, loose = (median_bound(sample, ApproxDP(1.0, delta), 300_000, audits=3) for delta in (1e-5, 1e-3))
    assert 1.0 > exact > 0.6 and exact > loose > 0.1


def test_both_directions_are_guessed_where_both_are_informative():
    reports = reports_of(lambda x, n, rng: on_a_grid(x + rng.laplace(0, 0.25, n)), PureDP(4.0), 20_000)
    assert sum(report.certificates[0].guess for report in reports) >= 2
    assert np.median([report.epsilon_lower for report in reports]) > 3.5


def test_a_field_that_is_informative_only_beside_others_is_found():
    """Three thresholds send a row to one of two leaves, and its gradient moves that leaf only.

    Its epsilon is 1; a leaf read without the thresholds has log(.512 e + .488) = .63.
    """

    def sample(x, n, rng):
        thresholds, leaves = rng.random((n, 3)), rng.laplace(size=(n, 2))
        leaves[np.arange(n), (thresholds > 0.2).all(axis=1).astype(int)] += x
        return np.hstack([thresholds, on_a_grid(leaves)])

    assert median_bound(sample, PureDP(1.0), 200_000, audits=3) > 0.7


def test_a_narrow_bump_is_not_smoothed_away():
    """One bin in fifty holds the leak, .05 against .01; its neighbours in order of their ratios say nothing of it."""

    def bump(x, n, rng):
        narrow = rng.random(n) < (0.05 if x else 0.01)
        return np.where(narrow, 0.5 + 0.001 * rng.random(n), rng.random(n))

    assert median_bound(bump, PureDP(0.05), 10_000) > 0.6  # 0 if the ratios of bins are smoothed


def test_one_value_among_many_that_never_repeat_is_an_event():
    """One output in a hundred against one in two thousand: with 10,000 of them epsilon is known to be 1.9 at best."""

    def one_value(x, n, rng):
        return np.where(rng.random(n) < (0.01 if x else 0.0005), 0.7, rng.normal(size=n))

    assert median_bound(one_value, PureDP(0.05), 10_000) > 0.9


def test_whether_a_large_integer_is_even_may_give_the_input_away():
    def parity(x, n, rng):
        return 2 * rng.integers(10**6, size=n) + ((rng.random(n) < 0.8) == bool(x))

    (report,) = reports_of(parity, PureDP(0.5), 10_000, audits=1)
    assert report.flagged and report.epsilon_lower > 1.2 and "lowest bit" in report.event


SCORES = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0]), min_size=9, max_size=9).map(np.array)
RULES = st.builds(
    lambda kind, ends, one, other: (
        OutputEvent(Field(0, "y"), ends[1], one, other) if kind else Guess(Field(0, "y"), *ends, one)
    ),
    st.booleans(),
    st.sampled_from([(-1.0, 0.25), (0.0, 1.0), (0.25, 0.5)]),
    st.booleans(),
    st.booleans(),
)


@given(RULES, SCORES, SCORES)
def test_the_counts_of_a_rule_are_its_definition(rule, first, second):
    if isinstance(rule, Guess):
        guesses_first = [s >= rule.high if rule.rising else s <= rule.low for s in (first, second)]
        guesses_second = [s <= rule.low if rule.rising else s >= rule.high for s in (first, second)]
        expected = (
            np.count_nonzero(guesses_first[0]) + np.count_nonzero(guesses_second[1]),
            np.count_nonzero(guesses_first[1]) + np.count_nonzero(guesses_second[0]),
        )
    else:
        hits = [np.count_nonzero(s >= rule.threshold if rule.above else s <= rule.threshold) for s in (first, second)]
        expected = tuple(hits[::-1] if rule.swapped else hits)
    assert counts_of(rule, first, second) == expected


def counts_of(rule, *sides):
    counts = [rule.tally(scores, side) for side, scores in enumerate(sides)]
    return counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]


def ratio(hits1, hits2, n, z):
    return Hypothesis("epsilon", 1.0).estimated_bound(hits1, hits2, n, z)


@settings(deadline=None, max_examples=50)
@given(SCORES.flatmap(lambda s: st.tuples(st.just(s), SCORES)), st.sampled_from([None, 0.0, 0.1]))
def test_the_counts_of_a_candidate_are_those_of_its_rule_and_no_other_rule_is_worth_more(sides, claimed_delta):
    """Against every cut and every pair of cuts, one by one."""
    first, second = (Encoded(side[:, None], ("y",)) for side in sides)
    found = choose([Field(0, "y")], first, second, ratio, fresh=20, claimed_delta=claimed_delta)
    for candidate in found:
        assert counts_of(candidate.rule, *sides) == (candidate.hits1, candidate.hits2)
    cuts = sorted({*sides[0], *sides[1]})
    events = [OutputEvent(Field(0, "y"), cut, above, way) for cut in cuts for above in (0, 1) for way in (0, 1)]
    z = 2.33 * math.sqrt(9 / 20) + math.sqrt(2 * math.log(2))
    values = [float(_value(lambda z, r=r: ratio(*map(np.float64, counts_of(r, *sides)), 9, z), z)[0]) for r in events]
    event = max((c.value for c in found if isinstance(c.rule, OutputEvent)), default=-math.inf)
    assert event == pytest.approx(max(values))
    if claimed_delta is not None:
        guesses = [Guess(Field(0, "y"), a, b, way) for a in cuts for b in cuts if a < b for way in (0, 1)]
        counts = [tuple(map(np.float64, counts_of(guess, *sides))) for guess in guesses]
        values = [
            float(_value(lambda z, c=c: estimated_bound_of_guesses(*c, 9, claimed_delta, z), z)[0]) for c in counts
        ]
        guess = max((c.value for c in found if isinstance(c.rule, Guess)), default=-math.inf)
        assert guess == pytest.approx(max(values, default=-math.inf))


def test_a_guess_says_which_input_it_means():
    guess = Guess(Field(0, "y"), 1.0, 3.0, rising=False)
    assert str(guess) == "second input if y >= 3, first if <= 1"


def test_positive_bounds_rank_by_themselves_and_others_by_the_errors_that_are_missing():
    bounds, bolder = np.array([0.3, -1e-5, -0.01, -math.inf]), np.array([0.4, 1e-5, 0.01, 0.0])
    values, _ = _value(lambda z: bounds if z == 2.0 else bolder, 2.0)
    assert values == pytest.approx([0.3, -0.5, -0.5, -math.inf])


@pytest.mark.parametrize("z", [1.0, 2.33, 5.0])
def test_the_estimated_bound_falls_with_every_hit_on_the_other_input_and_grows_with_those_on_the_likelier(z):
    hits = np.arange(0.0, 1001.0)
    assert np.all(np.diff(ratio(np.float64(900.0), hits, 1000, z)[:800]) < 0)
    grown = ratio(hits, np.float64(0.0), 1000, z)
    assert np.all(np.diff(grown[np.isfinite(grown)]) > 0)


@pytest.mark.parametrize(("hits1", "hits2", "n"), [(500, 100, 10_000), (9_000, 0, 10_000), (4_100, 3_600, 10_000)])
def test_the_estimated_bound_is_about_what_is_certified(hits1, hits2, n):
    estimated = float(ratio(np.float64(hits1), np.float64(hits2), n, 2.33))
    assert estimated == pytest.approx(lower_bound(hits1, hits2, n), rel=0.05)


def test_a_learned_score_is_cut_out_of_fold_and_noise_promises_nothing():
    """Scored by what they taught, 40 fields of noise would be worth more than one that leaks a little."""
    rng = np.random.default_rng(3)
    first, second = (Encoded(rng.normal(size=(300, 40)), tuple(f"y[{j}]" for j in range(40))) for _ in range(2))
    found = choose([Linear.fit, BoostedTrees.fit], first, second, ratio, fresh=700, claimed_delta=0.0)
    assert max(candidate.bound for candidate in found) <= 0.1


def test_a_learned_score_keeps_the_cut_between_the_values_that_it_tells_apart():
    first, second = (Encoded(np.repeat([0.0, 1.0], counts)[:, None], ("y",)) for counts in ((900, 300), (300, 900)))
    rows = np.random.default_rng(1).permutation(1200)
    first, second = (Encoded(side.numbers[rows], side.names) for side in (first, second))
    found = choose([partial(FrequencyRatios.fit, 0, "y")], first, second, ratio, fresh=2_000, claimed_delta=0.0)
    for candidate in found:
        rule = learned(candidate, first, second)
        assert counts_of(rule, rule.score(first), rule.score(second)) == (candidate.hits1, candidate.hits2)
