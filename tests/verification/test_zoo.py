"""The zoo: every entry runs, samples its distribution, has the published exact truth, and every judge is right."""

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ledgerwood.verification.exact.check import check
from ledgerwood.verification.strategies import gradient_histograms, score_pairs
from ledgerwood.verification.zoo import ZOO, scoreboard
from ledgerwood.verification.zoo.__main__ import main
from ledgerwood.verification.zoo.leaks import grid_preimages
from ledgerwood.verification.zoo.noise import SIGMA

CORRECT = [entry for entry in ZOO.values() if entry.correct]
BROKEN = [entry for entry in ZOO.values() if not entry.correct]
FINITE = [entry for entry in ZOO.values() if entry.distribution is not None]

#: False alarms of all goodness-of-fit tests in this file together: below 1e-7 (each p-value is compared with 1e-9).
LEVEL = 1e-9


def named(entries):
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry.name)


def test_there_are_25_broken_and_21_correct_entries():
    assert (len(BROKEN), len(CORRECT)) == (25, 21)


@named(CORRECT)
def test_a_correct_entry_is_proved_at_its_pair(entry):
    verdict = entry.verdict()
    assert verdict.holds, str(verdict)
    assert entry.reason.startswith(("Proof", "Exact check"))


@named(BROKEN)
def test_a_broken_entry_is_refuted_at_its_pair(entry):
    verdict = entry.verdict()
    assert verdict.violated, str(verdict)
    assert verdict.event is not None


@named([entry for entry in ZOO.values() if entry.known_epsilon is not None])
def test_the_exact_epsilon_at_the_pair_is_the_recorded_one(entry):
    found = entry.exact_epsilon()
    if entry.known_epsilon == math.inf:
        assert found.lower == math.inf
    else:
        assert found.lower - 6e-5 <= entry.known_epsilon <= found.upper + 6e-5
        assert found.upper - found.lower <= 2e-5


@named(list(ZOO.values()))
def test_outputs_are_vectorised_and_reproducible(entry):
    for data in entry.pair:
        outputs = entry.sample(data, 50, np.random.default_rng(1))
        again = entry.sample(data, 50, np.random.default_rng(1))
        assert len(outputs) == 50
        assert np.array_equal(outputs, again)
        assert np.all(np.isfinite(outputs))
        assert np.shape(entry(data, np.random.default_rng(1))) == outputs.shape[1:]


@named(FINITE)
def test_the_sampler_has_the_exact_distribution(entry):
    n = 200_000
    for data in entry.pair:
        distribution = {
            key: getattr(p, "midpoint", lambda p=p: float(p))() for key, p in entry.distribution(data).items()
        }
        values, counts = np.unique(entry.sample(data, n, np.random.default_rng(7)), axis=0, return_counts=True)
        seen = dict(zip((tuple(v) if isinstance(v, list) else v for v in values.tolist()), counts.tolist()))
        assert seen.keys() <= distribution.keys()  # nothing outside the support
        common = [key for key, p in distribution.items() if n * p >= 5]
        observed = [seen.get(key, 0) for key in common]
        expected = [n * distribution[key] for key in common]
        if sum(expected) < n * (1 - 1e-9):
            observed.append(n - sum(observed))
            expected.append(n - sum(expected))
        if len(observed) > 1:
            assert stats.chisquare(observed, np.array(expected) * n / sum(expected)).pvalue > LEVEL


CONTINUOUS = {
    "laplace": lambda x, d: stats.laplace.cdf(x, d[0], 10),
    "report_noisy_max_3": lambda x, d: np.prod([stats.laplace.cdf(x, q, 20) for q in d], axis=0),
    "analytic_gaussian": lambda x, d: stats.norm.cdf(x, d[0], float(SIGMA)),
    "leaf_sum_clipped": lambda x, d: stats.laplace.cdf(x, np.clip(d, -1, 1).sum()),
    "boost_leaf_unclipped": lambda x, d: stats.laplace.cdf(x, sum(d)),
    "boost_no_subsampling": lambda x, d: stats.laplace.cdf(x, sum(d)),
    "poisson_subsampled_laplace": lambda x, d: (
        (1 - 0.1 * sum(d)) * stats.laplace.cdf(x) + 0.1 * sum(d) * stats.laplace.cdf(x, 1)
    ),
    "float_sum_reordering": lambda x, d: stats.laplace.cdf(x, {2089: 1025.0, 2088: 1004.0}[len(d)]),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_sampler_has_the_continuous_distribution_of_its_proof(name):
    entry = ZOO[name]
    for data in entry.pair:
        outputs = entry.sample(data, 20_000, np.random.default_rng(3))
        assert stats.kstest(outputs, lambda x, data=data: CONTINUOUS[name](x, data)).pvalue > LEVEL


def test_the_discrete_samplers_without_a_finite_distribution_have_theirs():
    for name, weight in (
        ("discrete_laplace", lambda k: np.exp(-np.abs(k))),
        ("discrete_gaussian", lambda k: np.exp(-(k**2) / (2 * float(SIGMA) ** 2))),
        ("timing_discrete_laplace", lambda k: np.exp(-np.abs(k))),
    ):
        outputs = ZOO[name].sample((1,), 40_000, np.random.default_rng(2))
        values = outputs if outputs.ndim == 1 else outputs[:, 0]
        support = np.arange(-4, 7)
        p = weight(support - 1) / weight(np.arange(-100, 101)).sum()
        observed = [*(np.sum(values == k) for k in support), np.sum((values < -4) | (values > 6))]
        expected = 40_000 * np.append(p, 1 - p.sum())
        assert stats.chisquare(observed, expected).pvalue > LEVEL


# -- correct entries at other pairs: exact, by search ---------------------------------------------------------

MODEST = settings(max_examples=20, deadline=None)
queries = st.lists(st.integers(-2, 3), min_size=1, max_size=4)


def neighbouring_queries(draw_moves=(-1, 0, 1)):
    return queries.flatmap(
        lambda q: st.tuples(
            st.just(tuple(q)),
            st.lists(st.sampled_from(draw_moves), min_size=len(q), max_size=len(q)).map(
                lambda m: tuple(a + b for a, b in zip(q, m))
            ),
        )
    )


def assert_proved(name, first, second):
    verdict = check(ZOO[name].exact(first, second), ZOO[name].claim)
    assert verdict.holds, str(verdict)


@pytest.mark.parametrize("name", ["report_noisy_max_1", "report_noisy_max_2", "svt_1", "svt_2"])
@MODEST
@given(pair=neighbouring_queries())
def test_noisy_comparisons_keep_their_claim_at_other_pairs(name, pair):
    assert_proved(name, *pair)


@pytest.mark.parametrize("name", ["exponential_gumbel", "permute_and_flip"])
@MODEST
@given(pair=score_pairs((2, 6), range=2))
def test_selections_keep_their_claim_at_other_pairs(name, pair):
    assert_proved(name, *pair)


def test_local_mechanisms_keep_their_claim_at_all_pairs():
    for first in range(8):
        for second in range(first):
            assert_proved("randomised_response_k", first, second)
            assert_proved("rappor", (first,), (second,))
    for count in range(5):
        assert_proved("truncated_geometric", (count,), (count + 1,))


@MODEST
@given(st.lists(st.floats(-1e6, 1e6), max_size=4), st.floats(-1e300, 1e300))
def test_a_clipped_leaf_sum_keeps_its_claim_whatever_the_labels(labels, extra):
    assert_proved("leaf_sum_clipped", labels, [*labels, extra])


@MODEST
@given(gradient_histograms(1.0, bins=8))
def test_noisy_histograms_keep_their_claim(pair):
    """Rows with Hessian 1/4, which is the largest."""
    rows = [tuple((b, g / max(n, 1), 0.25) for b, (g, n) in enumerate(h) for _ in range(int(n))) for h in pair]
    more, less = (np.asarray(h) for h in pair)
    moved = int(np.flatnonzero(more[:, 1] - less[:, 1])[0])
    extra = (moved, float(more[moved, 0] - less[moved, 0]), 0.25)
    assert_proved("noisy_hist_then_best_split", rows[1], (*rows[1], extra))


# -- details ----------------------------------------------------------------------------------------------------


def test_numpy_attains_every_output_of_its_own_laplace_sampler():
    """The preimage search finds a grid point for outputs that surely have one: it misses none."""
    rng = np.random.default_rng(11)
    for center in (0.0, 1.0, -3.5, 1000.0):
        for output in (center + rng.laplace(scale=10.0, size=300)).tolist():
            assert grid_preimages(output, center, 10.0) >= 1


def test_most_outputs_of_one_input_are_unattainable_from_the_other():
    outputs = (1.0 + np.random.default_rng(12).laplace(scale=10.0, size=300)).tolist()
    missing = sum(grid_preimages(output, 0.0, 10.0) == 0 for output in outputs)
    assert missing >= 200


def test_the_rounded_parameters_of_the_literature_are_refuted_by_a_hair():
    from ledgerwood.accounting import ApproxDP, PureDP
    from ledgerwood.verification.exact import textbook
    from ledgerwood.verification.exact.intervals import interval

    geometric = ZOO["truncated_geometric"]
    assert check(geometric.exact(*geometric.pair), PureDP(0.11778)).violated
    gaussian = textbook.gaussian_pair(interval(1) / Fraction("3.7306"), knots=[1])
    assert check(gaussian, ApproxDP(1.0, 1e-5)).violated
    one_less = textbook.gaussian_pair(interval(1) / (SIGMA - Fraction(1, 10**6)), knots=[1])
    assert check(one_less, ApproxDP(1.0, 1e-5)).violated  # SIGMA is the least with six decimals


def test_the_reference_page_lists_every_entry_with_its_number():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "zoo.md").read_text(encoding="utf-8")
    for entry in ZOO.values():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{entry.name}` |")]
        found = entry.exact_epsilon()
        assert row.endswith(
            ("| infinite |" if found.lower == math.inf else f"{found.lower:.5g} |", f"{found.upper:.5g} |")
        )


def test_the_scoreboard_shows_what_the_audit_certified_and_names_a_false_flag(monkeypatch, capsys):
    def audit(f, claim, pair, samples, seed, confidence):
        assert pair == f.pair
        return SimpleNamespace(epsilon_lower=0.123, flagged=True, samples=samples)

    monkeypatch.setattr(scoreboard, "audit", audit)
    assert main(["--audit", "--samples", "1000", "svt_4"]) == 0
    assert "0.1230   yes" in capsys.readouterr().out
    assert main(["--audit", "--samples", "1000", "laplace"]) == 0
    printed = capsys.readouterr().out
    assert "<- false flag" in printed
    assert "1 of 1 correct flagged" in printed


def test_the_scoreboard_fails_if_the_exact_verifier_is_wrong(monkeypatch, capsys):
    from ledgerwood.verification.zoo import __main__ as command

    mislabelled = dataclasses.replace(ZOO["svt_4"], correct=True)
    monkeypatch.setattr(command, "ZOO", {"svt_4": mislabelled})
    assert main([]) == 1
    assert "<- wrong" in capsys.readouterr().out


def test_the_scoreboard_prints_and_succeeds(capsys):
    assert main(["svt_4", "laplace"]) == 0
    printed = capsys.readouterr().out
    assert "0.17247" in printed
    assert "1/1 broken refuted, 1/1 correct proved" in printed
    assert main(["--json", "svt_5"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["exact_lower"] == "inf"
    with pytest.raises(SystemExit):
        main(["no_such_entry"])
