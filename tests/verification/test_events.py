"""Choosing events: smoothing, counting, ranking, and what a claim says about them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ledgerwood.accounting import RDP, ZCDP, ApproxDP, BoundedRange, Gaussian, Laplace, PureDP, RandomizedResponse
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.certificate.hypotheses import read_claim
from ledgerwood.verification.auditor.choice import Candidate, are_few, choose, choose_atoms, different, propose
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.events import (
    Guess,
    OutputEvent,
    _at_or_above,
    _at_or_below,
    _cells,
    _hits,
    _Thresholds,
    relearn,
)
from ledgerwood.verification.auditor.scores import Atoms, ColumnScore, Design, Linear, TreeScore
from ledgerwood.verification.auditor.smoothing import smooth

counts = st.lists(st.integers(0, 2000), min_size=1, max_size=200)


@settings(deadline=None, max_examples=40)
@given(counts, st.data())
def test_smoothing_keeps_every_cell_and_stays_finite(ones, data):
    zeros = data.draw(st.lists(st.integers(0, 2000), min_size=len(ones), max_size=len(ones)))
    a, b = np.array(ones, float), np.array(zeros, float)
    first, second = smooth(a, b, np.arange(float(a.size)))
    assert first + second == pytest.approx(a + b)
    assert np.all(first >= 0) and np.all(second >= 0)


def test_smoothing_follows_a_jump_and_flattens_a_lucky_tail():
    a, b = np.full(100, 1000.0), np.full(100, 1000.0)
    a[50:], b[50:] = 4000.0, 400.0
    first, second = smooth(a, b, np.arange(float(a.size)))
    assert first[[10, 90]] / second[[10, 90]] == pytest.approx([1.0, 10.0], rel=0.05)
    lucky = np.full(100, 1000.0)
    lucky[-1] = 1120.0  # nearly four standard errors
    first, second = smooth(lucky, np.full(100, 1000.0), np.arange(100.0))
    assert first[-1] / second[-1] < 1.04


def test_smoothing_takes_a_straight_line_for_what_it_is():
    places = np.linspace(-4, 4, 120)
    total, share = np.round(4000 * np.exp(-(places**2) / 2)) + 4, 1 / (1 + np.exp(-places / 2))
    rng = np.random.default_rng(5)
    ones = rng.binomial(total.astype(int), share).astype(float)
    first, second = smooth(ones, total - ones, places)
    odds = np.log(first / second)
    assert odds == pytest.approx(places / 2, abs=0.1)  # in the tails too, where a cell holds five outputs
    nowhere = np.where(places < 3.9, places, math.inf)
    assert np.all(np.isfinite(smooth(ones, total - ones, nowhere)))


@given(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=30))
def test_cells_count_values_at_above_and_below_every_cut(values):
    scores, cuts = np.sort(values), np.array([-1.0, 0.5, 1.0])
    cells = _cells(scores, cuts)
    assert cells.sum() == len(values)
    assert _at_or_above(cells).tolist() == [np.count_nonzero(scores >= cut) for cut in cuts]
    assert _at_or_below(cells).tolist() == [np.count_nonzero(scores <= cut) for cut in cuts]


def encoded(values):
    return Encoded(np.asarray(values, float).reshape(len(values), -1), ("y",))


def test_the_chosen_cut_of_a_laplace_is_where_the_ratio_stops_growing():
    rng = np.random.default_rng(1)
    first, second = encoded(rng.laplace(0, 1, 90_000)), encoded(rng.laplace(1, 1, 90_000))
    best = choose([ColumnScore(0, "y")], first, second, read_claim(PureDP(1.0)).promise, fresh=100_000)[0]
    low, high = (-0.6, 0.3) if not best.rule.above else (0.7, 1.6)
    assert low < best.rule.cut < high
    assert best.rule.swapped == best.rule.above


def test_a_lucky_tail_event_does_not_win():
    rng = np.random.default_rng(2)
    first, second = encoded(rng.laplace(0, 10, 60_000)), encoded(rng.laplace(1, 10, 60_000))
    best = choose(propose(first, second), first, second, read_claim(PureDP(0.1)).promise, fresh=100_000)[0]
    assert best.hits1 > 3_000


def test_what_proves_nothing_never_wins():
    """An event that holds almost always promises 0; a faint leak may promise less, and may still be true."""
    rng = np.random.default_rng(4)
    rows = 30_000
    sides = []
    for p in (0.5, 0.51):
        always = (rng.random(rows) > 1e-4).astype(float)
        sides.append(Encoded(np.stack([always, (rng.random(rows) < p).astype(float)], axis=1), ("always", "leak")))
    scores = [ColumnScore(0, "always"), ColumnScore(1, "leak")]
    promise = read_claim(PureDP(0.01)).promise
    best = choose(scores, *sides, promise, fresh=10_000, forgiven=0.0)[0]
    assert best.rule.score.name == "leak"
    certain, faint = (Candidate(best.rule, *promised, 1, 1, 2, 0.0) for promised in ((-1e-5, 1e-5), (-0.01, 0.02)))
    assert certain.promise > faint.promise and certain.worth == pytest.approx(-1.0) and faint.worth == -0.5
    assert Candidate(best.rule, 0.3, 0.1, 1, 1, 2, 0.0).worth == 0.3
    assert Candidate(best.rule, -math.inf, 0.0, 0, 0, 2, 0.0).worth == -math.inf


def test_a_leak_too_faint_for_a_quick_look_is_found_among_many_fields():
    """A shift of a fiftieth of the spread: two standard errors on the rows of the quick look, seven on all."""
    rng = np.random.default_rng(6)
    names = tuple(f"y[{j}]" for j in range(50))
    first, second = (Encoded(rng.normal(size=(250_000, 50)), names) for _ in range(2))
    first.numbers[:, 17] += 0.02
    columns, promise = [ColumnScore(j, name) for j, name in enumerate(names)], read_claim(PureDP(0.01)).promise
    assert choose(columns, first, second, promise, fresh=250_000, forgiven=0.0)[0].rule.score.name == "y[17]"


@pytest.mark.parametrize("seed", range(6))
def test_the_cuts_of_a_faint_leak_are_compared_by_smoothed_counts(seed):
    """The log-odds of a binomial are straight: the best guesses promise .0708, those that raw counts prefer .055."""
    rng = np.random.default_rng(seed)
    first, second = (encoded(rng.binomial(20, p, 60_000)) for p in (0.5, 0.505))
    promise, fresh = read_claim(PureDP(0.1)).promise, 200_000
    rule = choose([ColumnScore(0, "y")], first, second, promise, fresh=fresh, forgiven=0.0)[0].rule
    values = np.arange(21.0)
    hits = np.zeros(2)
    for side, p in enumerate((0.5, 0.505)):
        law = fresh * binom.pmf(values, 20, p)
        hits += sum(many * np.array(rule.tally(values[i : i + 1], side)) for i, many in enumerate(law))
    assert rule.promise(promise, tuple(hits), fresh, 2.33) > 0.065


@given(st.data())
def test_counts_of_a_rule_are_read_off_the_cuts(data):
    grid = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0])
    s1, s2 = (np.array(data.draw(st.lists(grid, min_size=9, max_size=9))) for _ in range(2))
    low, high = data.draw(st.sampled_from([(-1.0, 0.25), (0.0, 1.0), (0.25, 0.5)]))
    one, other = data.draw(st.booleans()), data.draw(st.booleans())
    column = ColumnScore(0, "y")
    for rule in (OutputEvent(column, high, one, other), Guess(column, low, high, one)):
        assert _Thresholds.of(s1, s2, few=None, at=rule.cuts).hits(rule) == _hits(rule, s1, s2)


@pytest.mark.parametrize("seed", [4, 7, 22, 31])
def test_mu_is_not_sought_in_a_lucky_tail(seed):
    """It is the same at every cut of Gaussian noise, and surest in the middle."""
    rng = np.random.default_rng(seed)
    first, second = encoded(rng.normal(0.38, 1, 30_000)), encoded(rng.normal(0, 1, 30_000))
    promise = read_claim(Gaussian(mu=0.3)).mu.promise
    best = choose([ColumnScore(0, "y")], first, second, promise, fresh=100_000, alike=True)[0]
    assert 0.15 < best.hits1 / best.rows < 0.9


def test_events_that_are_complements_are_not_different():
    rng = np.random.default_rng(3)
    first, second = encoded(rng.laplace(0, 1, 30_000)), encoded(rng.laplace(1, 1, 30_000))
    ranked = choose([ColumnScore(0, "y")], first, second, read_claim(PureDP(1.0)).promise, fresh=30_000)
    assert 1 <= len(different(ranked, first, second, 3)) <= 2


class Forgetful:
    """A score that reads another field after it was learned again."""

    name = "forgetful"

    def __init__(self, field=0):
        self.field = field

    def __call__(self, rows):
        return rows.numbers[:, self.field]

    def relearn(self, first, second, memo):
        return Forgetful(1)


def two_fields(rows):
    return Encoded(np.array(rows, dtype=float), ("y", "z"))


def _routed(shift, rows, rng):
    """Three thresholds send a row to one of two leaves; its gradient moves that leaf only."""
    thresholds, leaves = rng.random((rows, 3)), rng.laplace(size=(rows, 2))
    leaves[np.arange(rows), (thresholds > 0.2).all(axis=1).astype(int)] += shift
    return Encoded(np.hstack([thresholds, rng.random((rows, 8)), leaves]), tuple(f"y[{j}]" for j in range(13)))


def _likelihood(score, first, second):
    return -np.logaddexp(0, -score(first)).mean() - np.logaddexp(0, score(second)).mean()


def test_a_small_tree_is_learned_again_from_more_rows():
    rng = np.random.default_rng(8)
    first, second, fresh1, fresh2 = (_routed(shift, 60_000, rng) for shift in (1.0, 0.0, 1.0, 0.0))
    linear = Linear.fit(Design.fit(first.numbers), first, second)
    tree = TreeScore.fit(linear, first.part(0, 8_000), second.part(0, 8_000))
    assert tree is not None
    finer = tree.relearn(first, second, {})
    assert _likelihood(finer, fresh1, fresh2) > _likelihood(tree, fresh1, fresh2) + 0.01


def test_the_leaves_of_a_tree_score_their_log_odds():
    rng = np.random.default_rng(3)
    first, second = (two_fields(rng.random((20_000, 2)) < chance) for chance in ((0.6, 0.5), (0.2, 0.5)))
    linear = Linear.fit(Design.fit(np.concatenate([first.numbers, second.numbers])), first, second)
    tree = TreeScore.fit(linear, first, second)
    assert np.allclose(tree(two_fields([[1, 0], [0, 1]])), [np.log(3), -np.log(2)], atol=0.15)


def test_rare_outputs_of_a_small_law_are_ordered_behind_frequent_ones():
    """Four rows against none look like infinite odds, and are luck."""
    first, second = (
        Encoded(np.repeat([0.0, 1.0, 2.0], counts)[:, None], ("y",))
        for counts in ((3_000, 1_000, 4), (1_000, 3_004, 0))
    )
    (best, *_) = choose_atoms(first, second, read_claim(PureDP(0.5)).promise, fresh=10_000)
    scores = best.rule.score(Encoded(np.array([[0.0], [2.0], [1.0]]), ("y",)))
    assert scores[0] > scores[1] >= 0.0 > scores[2]


def test_a_tree_of_many_rows_is_the_same_every_time_and_leaves_numpys_generator_alone():
    """Beyond 200,000 rows scikit-learn draws those that are binned."""
    rng = np.random.default_rng(14)
    first, second = (Encoded(rng.laplace(size=(101_000, 2)) + shift, tuple("ab")) for shift in (0.3, 0.0))
    linear = Linear.fit(Design.fit(first.numbers), first.part(0, 2_000), second.part(0, 2_000))
    before = np.random.get_state()[2]
    one, other = (TreeScore.fit(linear, first, second)(first) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert np.random.get_state()[2] == before


def test_an_output_scores_the_same_in_every_batch():
    """Else its hits would not be independent draws."""
    rng = np.random.default_rng(15)
    numbers = np.round(rng.laplace(size=(2, 2_000, 5)), 2) + 0.3 * np.arange(2)[:, None, None]
    numbers[:, ::11, 2], numbers[:, ::13, 3], numbers[:, ::17, 4] = np.nan, np.inf, 1e200
    first, second = (Encoded(side, tuple("abcde")) for side in numbers)
    for score in propose(first, second):
        whole = score(first)
        for start, stop in ((0, 1), (5, 6), (10, 17), (100, 400)):
            np.testing.assert_array_equal(score(first.part(start, stop)), whole[start:stop], err_msg=score.name)


@pytest.mark.parametrize("swapped", [False, True])
def test_an_event_of_one_input_only_is_not_learned_again_into_one_of_both(swapped):
    sides = two_fields([[1, 1], [1, 0], [0, 0], [0, 0]]), two_fields([[0, 1], [0, 0], [0, 0], [0, 0]])
    first, second = sides[::-1] if swapped else sides
    event = OutputEvent(Forgetful(), 0.5, True, swapped)
    assert relearn(event, first, second, {}, never=True) is event  # was seen on one input only
    assert relearn(event, first, second, {}, never=False) is not event


def test_an_event_that_cannot_stay_as_frequent_is_not_learned_again():
    first, second = two_fields([[1, 0], [1, 0], [0, 0], [0, 0]]), two_fields([[0, 0]] * 4)
    event = OutputEvent(Forgetful(), 0.5, True, False)  # afterwards it would hold always, or never
    assert relearn(event, first, second, {}, never=False) is event


def test_a_law_of_few_outputs_is_cut_at_its_own_frequencies():
    rng = np.random.default_rng(8)
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.5, 0.32, 0.17, 0.01])
    first, second = (encoded(rng.choice([7.0, 1.0, 5.0, 3.0], 20_000, p=law)) for law in (p, q))
    promise = read_claim(PureDP(1.0)).promise
    best = choose_atoms(first, second, promise, fresh=20_000)[0]
    assert isinstance(best.rule, OutputEvent) and not best.rule.swapped
    assert best.rule(encoded([7.0, 1.0, 5.0, 3.0])).tolist() == [False, False, False, True]
    assert are_few(first, second) and not are_few(encoded(rng.random(20_000)), second)
    some, many = (encoded(rng.integers(values, size=20_000)) for values in (40, 41))
    assert are_few(some, some) and not are_few(many, many)
    once = encoded([1.0, 1.0, 2.0, 3.0, 4.0])
    assert choose_atoms(once, encoded([5.0, 5.0, 6.0, 7.0, 8.0]), promise, fresh=10) == []


def test_a_guess_at_a_delta_is_cut_further_out():
    rng = np.random.default_rng(9)
    first, second = encoded(rng.normal(0, 3.7, 300_000)), encoded(rng.normal(1, 3.7, 300_000))
    found = []
    for delta in (1e-5, 1e-3):
        claim = read_claim(ApproxDP(1.0, delta))
        ranked = choose([ColumnScore(0, "y")], first, second, claim.promise, fresh=300_000, forgiven=claim.forgiven)
        guess = next(c for c in ranked if isinstance(c.rule, Guess))
        assert guess.rule.delta == delta and guess.rule.low < -2 and guess.rule.high > 3
        found.append(guess.promise)
    assert found[0] > found[1] > 0.1


def test_a_guess_counts_right_and_wrong_on_either_input():
    guess = Guess(ColumnScore(0, "y"), 1.0, 3.0, rising=False)  # low: first input, high: second
    scores = np.array([0.0, 1.0, 2.0, 3.0, 3.0, 4.0])
    assert guess.tally(scores, 0) == (2, 3)
    assert guess.tally(scores, 1) == (3, 2)
    assert str(guess) == "second input if y >= 3, first if <= 1"


def test_the_guess_chosen_for_a_laplace_leaves_out_the_middle():
    rng = np.random.default_rng(1)
    first, second = encoded(rng.laplace(0, 0.2, 90_000)), encoded(rng.laplace(1, 0.2, 90_000))
    promise = read_claim(PureDP(1.0)).promise
    best = choose([ColumnScore(0, "y")], first, second, promise, fresh=100_000, forgiven=0.0)[0]
    assert isinstance(best.rule, Guess) and not best.rule.rising
    assert -0.3 < best.rule.low < 0.25 and 0.75 < best.rule.high < 1.3
    assert all(
        isinstance(c.rule, OutputEvent) for c in choose([ColumnScore(0, "y")], first, second, promise, fresh=100_000)
    )


def test_a_guess_learned_again_is_as_frequent_as_before():
    rng = np.random.default_rng(2)
    first, second = (Encoded(rng.normal(m, 1.0, (4000, 2)), ("y", "z")) for m in (0.0, 1.0))
    guess = Guess(Forgetful(), -1.0, 2.0, rising=False)
    again = relearn(guess, first, second, {}, never=False)
    assert again.score.field == 1 and again.low < again.high
    for side, rows in enumerate((first, second)):
        before, after = guess.tally(rows.numbers[:, 0], side), again.tally(rows.numbers[:, 1], side)
        assert sum(after) == pytest.approx(sum(before), rel=0.2)


def test_atoms_score_the_log_ratio_of_frequencies():
    first, second = encoded([0] * 900 + [1] * 100), encoded([0] * 300 + [1] * 700)
    score = Atoms.fit(None, first, second)
    assert score is not None
    assert score(encoded([0, 1, 5])) == pytest.approx([math.log(900.5 / 300.5), math.log(100.5 / 700.5), 0.0])
    assert Atoms.fit(None, encoded(np.arange(1000.0)), encoded(np.arange(1000.0, 2000.0))) is None


def test_the_compiled_linear_score_is_the_matrix_product():
    rng = np.random.default_rng(4)
    rows = Encoded(rng.normal(size=(500, 4)), ("a", "b", "c", "d"))
    rows.numbers[3, 1] = math.nan
    design = Design.fit(rows.numbers)
    weights = rng.normal(size=2 * design.width + 1)
    assert Linear(design, weights)(rows) == pytest.approx(design(rows) @ weights[:-1] + weights[-1], abs=1e-4)


def test_logistic_regression_finds_the_direction():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(4000, 3)), rng.normal([1.0, 0.0, -1.0], size=(4000, 3))
    names = ("a", "b", "c")
    linear = Linear.fit(Design.fit(np.concatenate([a, b])), Encoded(a, names), Encoded(b, names))
    assert np.mean(linear(Encoded(a, names)) > 0) > 0.7
    assert np.mean(linear(Encoded(b, names)) < 0) > 0.7


@pytest.mark.parametrize(
    ("claim", "epsilon", "delta"),
    [(PureDP(0.3), 0.3, 0.0), (ApproxDP(1.0, 1e-5), 1.0, 1e-5), (RandomizedResponse(0.5), 0.5, 0.0)],
)
def test_point_claims_are_tested_at_their_own_point(claim, epsilon, delta):
    (point,) = read_claim(claim).points
    assert (point.claimed, point.delta) == pytest.approx((epsilon, delta))


def test_profile_claims_are_tested_at_many_points_and_gaussian_ones_on_mu():
    reading = read_claim(Gaussian(mu=0.5))
    assert reading.is_profile and reading.mu is not None and reading.mu.claimed == 0.5
    assert read_claim(2 * Gaussian(mu=0.5)).mu.claimed == pytest.approx(math.sqrt(0.5))
    assert read_claim(ZCDP(0.1)).mu is None
    worst = reading.worst(700.0, 300.0, 1000)
    assert worst in reading.points
    assert math.exp(worst.claimed) * 0.3 + worst.delta < 0.7  # the counts contradict that point


@pytest.mark.parametrize(
    ("claim", "epsilon", "delta"),
    [
        (100 * PureDP(0.1), 10.0, 0.0),
        (PureDP(0.3) + PureDP(0.4), 0.7, 0.0),
        (50 * ApproxDP(0.1, 1e-6), 5.0, 5e-5),
        (BoundedRange(0.5), 0.5, 0.0),
        (Laplace(scale=2.0), 0.5, 0.0),
    ],
)
def test_a_claim_that_says_more_than_its_pure_epsilon_is_a_profile_that_ends_there(claim, epsilon, delta):
    reading = read_claim(claim)
    assert reading.is_profile and reading.mu is None
    assert (reading.points[-1].claimed, reading.points[-1].delta) == pytest.approx((epsilon, delta), rel=1e-4)
    assert all(a.claimed < b.claimed and a.delta >= b.delta for a, b in pairwise(reading.points))


@pytest.mark.parametrize("claim", [10_000 * PureDP(0.5), PureDP(400) + PureDP(390), ZCDP(1e4), Gaussian(mu=60)])
def test_a_claim_of_almost_nothing_is_contradicted_by_nothing(claim):
    reading = read_claim(claim)
    violations = reading.promise(np.array([500.0, 1000.0]), np.array([400.0, 0.0]), 1000, 2.0)
    assert np.isfinite(violations).all() and (violations < 0).all()


@pytest.mark.parametrize(("knots", "odds"), [((-1, 1), (-1, 1)), ((-1, 0.5, 1), (-0.3, 0.0, 0.5))])
def test_smoothing_keeps_the_corners_of_ramps(knots, odds):
    """Where the worst event ends: a penalised fit rounds them off."""
    places = np.linspace(-3, 3, 121)
    truth = np.interp(places, knots, odds)
    share = 1 / (1 + np.exp(-truth))
    first, second = smooth(2_000 * share, 2_000 * (1 - share), places)
    assert np.abs(np.log(first / second) - truth).max() < 0.03


def test_reading_a_short_renyi_curve_warns_of_nothing():
    assert read_claim(RDP({2: 0.1, 4: 0.2})).is_profile  # warnings are errors here


def test_what_is_not_a_cost_is_refused():
    with pytest.raises(ParameterError, match="claim"):
        read_claim("epsilon = 1")


def test_a_narrow_bump_is_not_smoothed_away():
    """One bin in fifty holds the leak, .05 against .01; its neighbours in order of their ratios say nothing of it."""

    def bump(data, rng):
        narrow = rng.random() < (0.05 if data else 0.01)
        return 0.5 + 0.001 * rng.random() if narrow else rng.random()

    bounds = [audit(bump, PureDP(0.05), pair=(1, 0), samples=10_000, seed=s).epsilon_lower for s in range(200, 205)]
    assert np.median(bounds) > 0.6  # 0 if the ratios of bins are smoothed


def test_one_value_among_many_that_never_repeat_is_an_event():
    """One output in a hundred against one in two thousand: with 10,000 of them epsilon is known to be 1.9 at best."""

    def one_value(data, rng):
        return 0.7 if rng.random() < (0.01 if data else 0.0005) else rng.normal()

    bounds = [audit(one_value, PureDP(0.05), pair=(1, 0), samples=10_000, seed=s).epsilon_lower for s in range(5)]
    assert np.median(bounds) > 0.9
    rng = np.random.default_rng(3)
    assert Atoms.fit(None, encoded(rng.normal(size=3000)), encoded(rng.normal(size=3000))) is None


def test_whether_a_large_integer_is_even_may_tell_the_input():
    def parity(data, rng):
        return 2 * int(rng.integers(10**6)) + int((rng.random() < 0.8) == data)

    report = audit(parity, PureDP(0.5), pair=(True, False), samples=10_000, seed=1)
    assert report.flagged and report.epsilon_lower > 1.2 and "lowest bit" in report.event
