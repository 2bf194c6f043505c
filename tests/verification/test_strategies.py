"""The public strategies keep their relation, reach the nasty corners, and find small sensitivity errors."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import PureDP
from ledgerwood.errors import ParameterError, PrivacyViolation
from ledgerwood.verification import decorator
from ledgerwood.verification.decorator import verify, verify_mechanism
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.check import check
from ledgerwood.verification.strategies import (
    Leaf,
    Split,
    gradient_histograms,
    mechanism_parameters,
    neighbouring_datasets,
    score_pairs,
    trees,
)

SCHEMA = {"columns": [(0.0, 1.0), (-5.0, 5.0)], "rows": 6, "edges": [[0.25, 0.5], [0.0]], "thresholds": [20]}
QUICK = settings(max_examples=20_000, deadline=None, database=None, phases=[Phase.generate])


def rows_of(table):
    return Counter(tuple(row) for row in np.ascontiguousarray(table).view(np.int64).tolist())


@given(neighbouring_datasets("add_remove", SCHEMA))
def test_add_remove_neighbours_differ_by_exactly_one_row(pair):
    more, less = sorted(pair, key=len, reverse=True)
    assert len(more) == len(less) + 1
    assert more.shape[1] == less.shape[1] == 2
    assert sum((rows_of(more) - rows_of(less)).values()) == 1
    assert not rows_of(less) - rows_of(more)


@given(neighbouring_datasets("replace_one", SCHEMA))
def test_replace_one_neighbours_have_one_row_in_place_of_another(pair):
    first, second = pair
    assert first.shape == second.shape
    assert sum((rows_of(first) - rows_of(second)).values()) <= 1


@given(neighbouring_datasets("add_remove", SCHEMA, hostile=False))
def test_without_hostility_the_declared_bounds_are_kept(pair):
    for table in pair:
        assert np.all((table[:, 0] >= 0) & (table[:, 0] <= 1))
        assert np.all((table[:, 1] >= -5) & (table[:, 1] <= 5))


@pytest.mark.parametrize(
    "corner",
    [
        pytest.param(lambda t: np.isnan(t).any(), id="nan"),
        pytest.param(lambda t: bool(np.any((t == 0) & np.signbit(t))), id="minus zero"),
        pytest.param(lambda t: bool(np.any(np.abs(t[:, 1]) > 1e300)), id="huge label"),
        pytest.param(lambda t: bool(np.any(t[:, 0] == 0.5)), id="exactly on an edge"),
        pytest.param(lambda t: bool(np.any(t[:, 0] == math.nextafter(0.5, 0))), id="one float beside an edge"),
        pytest.param(lambda t: len(t) >= 4 and len(np.unique(t, axis=0)) == 1, id="all rows tied"),
        pytest.param(lambda t: len(t) >= 3 and bool(np.all(t[:, 0] < 0.25)), id="an empty leaf"),
        pytest.param(lambda t: max(rows_of(t).values(), default=0) == 20, id="a group of exactly twenty"),
        pytest.param(lambda t: len(t) == 0, id="no rows"),
    ],
)
def test_the_corners_where_mechanisms_fail_are_reached(corner):
    find(neighbouring_datasets("add_remove", SCHEMA), lambda pair: corner(pair[1]) or corner(pair[0]), settings=QUICK)


@given(
    st.sampled_from([Fraction(1, 10), Fraction(2), Fraction(7, 3)]).flatmap(
        lambda r: st.tuples(st.just(r), score_pairs((1, 6), r))
    )
)
def test_scores_move_by_half_the_range_at_most(drawn):
    width, (first, second) = drawn
    assert len(first) == len(second)
    assert all(abs(a - b) <= width / 2 for a, b in zip(first, second))


@given(score_pairs((1, 6), 3, monotone=True))
def test_monotone_scores_move_together(pair):
    moves = [b - a for a, b in zip(*pair)]
    assert all(0 <= m <= 3 for m in moves) or all(-3 <= m <= 0 for m in moves)


@given(gradient_histograms(clip=2.0))
def test_histograms_differ_by_one_clipped_row_and_stay_consistent(pair):
    with_it, without = pair
    change = with_it - without
    assert np.count_nonzero(change[:, 1]) == 1
    assert change[:, 1].sum() == 1
    assert np.abs(change[:, 0]).max() <= 2.0
    assert np.all(np.abs(without[:, 0]) <= 2.0 * without[:, 1])


@given(gradient_histograms(clip=1.0), st.sampled_from([0.0, 0.5, 1.0]))
def test_one_row_moves_a_split_score_by_more_than_minus_three_and_at_most_one(pair, penalty):
    """The range sensitivity 4 of the score, on which the learners rest."""

    def score(side):
        g, n = side.sum(axis=0)
        return g * g / (n + penalty) if n + penalty else 0.0

    for cut in range(1, 4):
        with_it, without = (score(h[:cut]) + score(h[cut:]) for h in pair)
        assert -3 < with_it - without <= 1 + 1e-12


def test_the_range_of_the_split_score_nearly_reaches_four():
    """Planted: a bound of 3.2 on the range would be falsified."""

    def spread(pair):
        changes = []
        for cut in range(1, 4):
            with_it, without = (
                sum(s[0] ** 2 / s[1] if s[1] else 0.0 for s in (h[:cut].sum(axis=0), h[cut:].sum(axis=0))) for h in pair
            )
            changes.append(with_it - without)
        return max(changes) - min(changes)

    find(gradient_histograms(1.0, rows=12), lambda pair: spread(pair) > 3.2, settings=QUICK)


@given(mechanism_parameters())
def test_parameters_are_in_their_domains(parameters):
    assert parameters.epsilon > 0
    assert 0 <= parameters.delta < 1
    assert 0 < parameters.sensitivity < math.inf
    assert parameters.candidates >= 1


@given(trees(features=2, depth=3))
def test_trees_keep_their_depth_and_features(tree):
    def depth(node):
        if isinstance(node, Leaf):
            return 0
        assert isinstance(node, Split)
        assert 0 <= node.feature < 2
        return 1 + max(depth(node.left), depth(node.right))

    assert depth(tree) <= 3


def test_bad_arguments_are_refused():
    with pytest.raises(ParameterError, match="neighbours"):
        neighbouring_datasets("swap", SCHEMA)
    with pytest.raises(ParameterError, match="columns"):
        neighbouring_datasets("add_remove", {"columns": [(1, 0)]})
    with pytest.raises(ParameterError, match="columns"):
        neighbouring_datasets("add_remove", {"colums": [(0, 1)]})
    with pytest.raises(ParameterError, match="edges"):
        neighbouring_datasets("add_remove", {"columns": [(0, 1)], "edges": [[0.5], [1]]})
    with pytest.raises(ParameterError, match="k must"):
        score_pairs(0)
    with pytest.raises(ParameterError, match="range"):
        score_pairs(2, 0)
    with pytest.raises(ParameterError, match="clip"):
        gradient_histograms(0.0)


# -- falsification -------------------------------------------------------------------------------------------


def exponential_mechanism(rate):
    @verify_mechanism(claim=PureDP(1.0), pairs=score_pairs(k=(2, 16), range=2))
    def mechanism(scores):
        return {cell.outcome: cell.p for cell in textbook.exponential_mechanism_pair(scores, scores, rate).cells}

    return mechanism


def test_a_correct_exponential_mechanism_is_proved_at_every_pair_tried():
    verify(exponential_mechanism(Fraction(1, 2)))


@pytest.mark.parametrize("excess", [Fraction(101, 100), Fraction(105, 100), Fraction(2)])
def test_a_sensitivity_error_is_falsified_and_shrunk(excess):
    with pytest.raises(PrivacyViolation) as caught:
        verify(exponential_mechanism(excess / 2))
    error = caught.value
    assert len(error.first) <= 3  # shrunk from up to sixteen candidates
    pair = textbook.exponential_mechanism_pair(error.first, error.second, excess / 2)
    assert check(pair, PureDP(1.0)).violated
    assert all(score.denominator == 1 for score in error.first)
    assert "first  = [" in str(error)


def test_a_claim_that_cannot_be_proved_is_not_a_pass():
    from ledgerwood.verification.exact.intervals import hull

    half = hull(Fraction(1, 3), Fraction(2, 3))

    @verify_mechanism(claim=PureDP(0.5), pairs=[(0, 1)])
    def vague(data):
        return {0: half, 1: half}

    with pytest.raises(PrivacyViolation, match="undecided"):
        verify(vague)


def test_a_program_is_verified_by_enumeration():
    def program(keep):
        @verify_mechanism(claim=PureDP(math.log(3)), pairs=[(0, 1)], method="program")
        def randomized_response(bit, source):
            return bit if source.draw({True: keep, False: 1 - keep}) else 1 - bit

        return randomized_response

    verify(program(Fraction(3, 4)))
    with pytest.raises(PrivacyViolation, match="violated"):
        verify(program(Fraction(4, 5)))


class Report:
    """Stands for the auditor's report; the auditor has tests of its own."""

    epsilon_lower, samples = 0.7, 1000

    def __init__(self, flagged, problems=()):
        self.flagged, self.passed = flagged, not flagged and not problems

    def __str__(self):
        return "a violation" if self.flagged else "not audited"


@pytest.mark.parametrize(
    ("report", "fails"), [(Report(False), False), (Report(True), True), (Report(False, ["returns nan"]), True)]
)
def test_an_audit_fails_the_test_unless_it_is_complete_and_flags_nothing(monkeypatch, report, fails):
    asked = []

    def audit(f, claim, pair=None, **options):
        asked.append((f, claim, pair, options))
        return report

    monkeypatch.setattr(decorator, "audit", audit)

    @verify_mechanism(claim=PureDP(0.5), pairs=[(0, 1)], method="audit", samples=1000, seed=3)
    def noisy(data, rng):
        return data + rng.laplace()

    if fails:
        with pytest.raises(PrivacyViolation, match=r"noisy: (a violation|not audited)"):
            verify(noisy)
    else:
        verify(noisy)
    assert asked == [(noisy, PureDP(0.5), (0, 1), {"samples": 1000, "seed": 3, "confidence": 0.99})]


@pytest.mark.parametrize(("options", "each"), [({}, 0.9975), ({"confidence": 0.8}, 0.95)])
def test_the_pairs_of_an_audit_share_the_error(monkeypatch, options, each):
    """One false alarm on any of them fails the test."""
    asked = []

    def audit(f, claim, pair=None, **options):
        asked.append(options["confidence"])
        return Report(False)

    monkeypatch.setattr(decorator, "audit", audit)

    @verify_mechanism(claim=PureDP(0.5), pairs=[(0, 1), (1, 0), (1, 2), (2, 1)], method="audit", **options)
    def noisy(data, rng):
        return data + rng.laplace()

    verify(noisy)
    assert asked == pytest.approx([each] * 4)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"pairs": []}, "pairs"),  # nothing was verified, and passed
        ({"pairs": [0, 1]}, "pairs"),
        ({"claim": 1.0}, "claim"),
        ({"examples": 0}, "examples"),
    ],
)
def test_a_verification_that_could_check_nothing_is_refused(options, name):
    with pytest.raises(ParameterError, match=name):
        verify_mechanism(**{"claim": PureDP(1.0), "pairs": [(0, 1)], **options})


@pytest.mark.parametrize("distribution", [None, [0.5, 0.5]])
def test_what_is_no_distribution_is_named(distribution):
    with pytest.raises(ParameterError, match="mapping from outcome to probability"):
        verify(verify_mechanism(claim=PureDP(1.0), pairs=[(0, 1)])(lambda data: distribution))


def test_the_decorator_refuses_what_it_cannot_use():
    with pytest.raises(ParameterError, match="pairs"):
        verify_mechanism(claim=PureDP(1.0))
    with pytest.raises(ParameterError, match="method"):
        verify_mechanism(claim=PureDP(1.0), pairs=[(0, 1)], method="guess")
    with pytest.raises(ParameterError, match="audit"):
        verify_mechanism(claim=PureDP(1.0), pairs=[(0, 1)], samples=10)
    with pytest.raises(ParameterError, match="verify_mechanism"):
        verify(lambda data: {0: 1})
