"""The auditor on small mechanisms: what it flags, what it lets pass, how it shares its outputs."""

import json
import math

import numpy as np
import pytest
from tests.kit.samplers import GRID, Vectorized, gaussian, geometric, laplace

from ledgerwood.accounting import ZCDP, ApproxDP, Gaussian, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor import sampling
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.choice import propose
from ledgerwood.verification.auditor.encoding import Encoded


def test_a_correct_laplace_passes_and_its_bound_is_close_below_the_claim():
    report = audit(laplace(1.0), PureDP(1.0), pair=([0.0], [1.0]), samples=200_000, seed=1)
    assert report.passed and not report.flagged
    assert 0.93 < report.epsilon_lower <= 1.0
    assert report.verdict == "no violation found"


def test_half_the_noise_is_flagged_from_the_given_pair():
    report = audit(laplace(0.5), PureDP(1.0), pair=([0.0], [1.0]), samples=50_000, seed=1)
    assert report.flagged and not report.passed
    assert 1.5 < report.epsilon_lower <= 2.0


def test_the_bound_does_not_exceed_the_truth_more_often_than_stated():
    wrong = 0
    for seed in range(15):
        report = audit(laplace(1.0), PureDP(0.5), pair=([0.0], [1.0]), samples=4_000, seed=seed, confidence=0.9)
        wrong += report.epsilon_lower > 1.0
    assert wrong <= 9  # P(Bin(15, 0.1) > 9) < 2e-7


@pytest.mark.slow
def test_no_more_than_the_stated_share_of_audits_is_wrong():
    runs, wrong = 400, 0
    for seed in range(runs):
        report = audit(laplace(1.0), PureDP(1.0), pair=([0.0], [1.0]), samples=5_000, seed=seed, confidence=0.95)
        wrong += report.epsilon_lower > 1.0
    assert wrong <= 47  # P(Bin(400, 0.05) > 47) < 1e-6


def test_the_same_seed_gives_the_same_report_and_another_seed_another():
    runs = [audit(laplace(1.0), PureDP(1.0), pair=([0.0], [1.0]), samples=5_000, seed=seed) for seed in (3, 3, 4)]
    assert runs[0].certificates == runs[1].certificates
    assert runs[0].certificates != runs[2].certificates


def test_an_infinite_leak_certifies_ln_n_minus_4_8():
    def sometimes_tells(data, n, rng):
        return np.where(rng.random(n) < 0.05, data[0], -1.0)

    report = audit(Vectorized(sometimes_tells), PureDP(0.1), pair=([3.0], [4.0]), samples=200_000, seed=1)
    fresh = report.certificates[0].n
    assert report.flagged
    assert report.epsilon_lower >= math.log(fresh) - 4.8


def test_a_float64_laplace_is_flagged_by_its_lattice():
    naive = Vectorized(lambda data, n, rng: data[0] + rng.laplace(0, 10.0, n))
    report = audit(naive, PureDP(0.1), pair=([0.0], [1.0]), samples=200_000, seed=1)
    assert report.flagged
    assert report.epsilon_lower >= 5.0
    assert "lowest bit" in report.event


def test_a_float64_gaussian_is_flagged_by_its_low_bits():
    naive = Vectorized(lambda data, n, rng: data[0] + rng.normal(0, 5.0, n))
    report = audit(naive, ApproxDP(1.0, 1e-5), pair=([0.0], [1.0]), samples=100_000, seed=1)
    assert report.flagged
    assert "lowest bit" in report.event


def test_a_correct_gaussian_passes_its_gdp_claim_and_mu_is_close():
    report = audit(gaussian(2.0), Gaussian(mu=0.5), pair=([0.0], [1.0]), samples=300_000, seed=2)
    assert report.passed
    assert 0.47 < report.mu_lower <= 0.5


def test_a_gaussian_with_too_little_noise_is_flagged_on_mu_and_on_its_profile():
    report = audit(gaussian(1.0), Gaussian(mu=0.7), pair=([0.0], [1.0]), samples=100_000, seed=2)
    assert report.flagged
    assert 0.95 < report.mu_lower <= 1.0
    assert all(certificate.contradicts for certificate in report.certificates)


def test_a_composition_of_pure_costs_is_tested_at_its_worst_point_not_at_its_pure_epsilon_alone():
    """100 coins of epsilon 0.2 claimed as 100 of 0.1: pure 20 for 10, which no audit sees, but 5.9 for 2.3."""
    keep = 1 / (1 + math.exp(-0.2))

    def coins(data, n, rng):
        return rng.binomial(100, keep if data else 1 - keep, n)

    assert audit(Vectorized(coins), 100 * PureDP(0.1), pair=(0, 1), samples=20_000, seed=1).flagged
    assert audit(Vectorized(coins), 100 * PureDP(0.2), pair=(0, 1), samples=20_000, seed=1).passed


def test_zcdp_claims_are_tested_at_their_worst_point():
    assert audit(gaussian(1.0), ZCDP(0.5), pair=([0.0], [1.0]), samples=60_000, seed=1).passed
    assert audit(gaussian(1.0), ZCDP(0.1), pair=([0.0], [1.0]), samples=60_000, seed=1).flagged


@pytest.mark.slow
def test_the_square_root_of_two_error_of_a_gaussian_is_flagged_with_two_million_samples():
    sigma = 3.7306  # calibrated for epsilon = 1 at delta = 1e-5 and L2 sensitivity 1; the truth is sqrt(2)
    pair = ([1.0, 0.0], [0.0, 1.0])
    point = audit(gaussian(sigma), ApproxDP(1.0, 1e-5), pair=pair, seed=1)
    assert point.flagged and point.epsilon_lower <= 1.46517
    curve = audit(gaussian(sigma), Gaussian(mu=1 / sigma), pair=pair, seed=1)
    assert curve.flagged
    assert 0.97 * math.sqrt(2) / sigma < curve.mu_lower <= math.sqrt(2) / sigma


def test_noise_used_twice_is_found_in_the_difference():
    def twice(data, n, rng):
        noise = np.round(rng.laplace(0, 1.0, (n, 1)) * GRID) / GRID
        return data + noise

    report = audit(Vectorized(twice), PureDP(2.0), pair=([3.0, 5.0], [3.0, 4.0]), samples=20_000, seed=1)
    assert report.flagged
    assert report.epsilon_lower > 7


def test_the_pair_is_searched_from_the_schema_of_queries():
    def noisy_max_value(data, n, rng):  # releases the value of the maximum: epsilon is k/2 times the claim
        return np.round((data + rng.laplace(0, 2 / 0.5, (n, data.size))).max(axis=1) * GRID) / GRID

    schema = {"queries": 5, "sensitivity": 1.0}
    report = audit(Vectorized(noisy_max_value), PureDP(0.5), schema=schema, samples=300_000, seed=1)
    assert report.flagged
    assert report.pairs_tried > 10


def test_an_exact_row_threshold_is_found_from_the_schema_of_a_table():
    def splits(data, rng):
        left = sum(row[0] < 0.5 for row in data)
        return left >= 20 and len(data) - left >= 20, round(float(rng.laplace()), 3)

    schema = {"columns": [(0, 1), (0, 1)], "rows": 60, "thresholds": [20]}
    report = audit(splits, PureDP(0.1), schema=schema, samples=4_000, seed=1)
    assert report.flagged
    assert "exactly 20 rows" in report.pair_origin


def test_few_outputs_try_few_pairs_and_leave_most_of_them_for_the_certificate():
    schema = {"columns": [(0, 1), (0, 1)], "rows": 60, "thresholds": [20]}
    report = audit(lambda data, rng: int(rng.integers(5)), PureDP(0.1), schema=schema, samples=150, seed=1)
    assert report.passed and report.samples == 150
    assert report.pairs_tried == 2
    assert report.certificates[0].n >= 50


@pytest.mark.parametrize("seed", range(3))
def test_a_leak_beyond_doubt_is_found_by_trials_of_twenty_outputs(seed):
    """As many trainings as a slow learner allows; the root is split at one of twenty pairs only."""

    def tree(data, rng):
        left = int(np.count_nonzero(data[:, 0] < 0.5))
        leaves = [round(float(value), 6) for value in rng.laplace(size=3)]
        return {"leaves": leaves[:2]} if left >= 50 and len(data) - left >= 50 else {"leaf": leaves[2]}

    schema = {"columns": [(0, 1), (0, 1)], "rows": 100, "thresholds": [50]}
    report = audit(tree, PureDP(0.1), schema=schema, samples=2_400, seed=seed)
    assert report.flagged and report.epsilon_lower > 5.0
    assert report.pair_origin.startswith("exactly 50 rows at each end")


def test_the_report_is_json_and_a_picture():
    import matplotlib

    matplotlib.use("Agg")
    report = audit(laplace(0.5), PureDP(1.0), pair=([0.0], [1.0]), samples=5_000, seed=1)
    content = json.loads(report.to_json())
    assert content["flagged"] is True and content["format"] == "ledgerwood-audit-1"
    assert content["certificates"][0]["hits1"] > content["certificates"][0]["hits2"]
    left, right = report.plot()
    assert left.get_title() == "violation: PureDP(epsilon=1.0)" and right.get_ylabel()
    shown = [text.get_text() for text in right.texts]
    assert shown == [f"≥ {math.floor(c.bound * 1e4) / 1e4:.4f}" for c in report.certificates]
    assert all(c.event.split()[0] in label.get_text() for c, label in zip(report.certificates, right.get_xticklabels()))
    import matplotlib.pyplot as plt

    plt.close("all")


def test_the_picture_shows_an_event_at_the_very_end_and_says_why_there_was_no_audit():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rare = audit(
        lambda data, rng: 9 if data and rng.random() < 0.1 else 0, PureDP(1.0), pair=(1, 0), samples=2000, seed=1
    )
    assert rare.picture is not None
    left, _ = rare.plot()
    shaded = [patch.get_extents().transformed(left.transData.inverted()).width for patch in left.patches]
    assert min(shaded) > 0.02 * (rare.picture.edges[-1] - rare.picture.edges[0])
    left, _ = audit(lambda data, rng: 1 / 0, PureDP(1.0), pair=(1, 0), samples=2000, seed=1).plot()
    assert left.texts[0].get_text() == "every call raised ZeroDivisionError"
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"f": 3}, "f"),
        ({"claim": 0.1}, "claim"),
        ({"pair": None}, "pair"),
        ({"pair": (1, 2, 3)}, "pair"),
        ({"pair": None, "schema": {"nothing": 1}}, "schema"),
        ({"confidence": 1.0}, "confidence"),
        ({"samples": 10}, "samples"),
        ({"seconds": -1}, "seconds"),
    ],
)
def test_bad_parameters_are_refused_by_name(change, name):
    arguments = {"f": laplace(1.0), "claim": PureDP(1.0), "pair": ([0.0], [1.0]), "samples": 1000, **change}
    with pytest.raises(ParameterError) as caught:
        audit(**arguments)
    assert caught.value.name == name


def test_three_tenths_of_the_outputs_choose_an_event_and_a_tenth_one_that_is_seen_on_one_input_only():
    report = audit(geometric(0.39), PureDP(0.25), pair=(1, 0), samples=30_000, seed=3)
    (certificate,) = report.certificates
    assert certificate.n == 21_000 and certificate.earlier == ()
    assert report.flagged and report.samples == 30_000
    never = audit(lambda data, rng: data, PureDP(0.25), pair=(0, 2), samples=30_000, seed=3)
    assert never.certificates[0].n == 27_000 and never.certificates[0].hits2 == 0


def test_an_early_end_saves_outputs_and_keeps_the_confidence():
    leak = audit(geometric(0.39), PureDP(0.05), pair=(1, 0), samples=30_000, seed=3, stop_early=True)
    assert leak.flagged and leak.samples == 15_300 and leak.confidence == 0.99
    assert leak.certificates[0].confidence == pytest.approx(0.9975)
    hopeless = audit(geometric(0.39), PureDP(2.0), pair=(1, 0), samples=30_000, seed=3, stop_early=True)
    assert not hopeless.flagged and hopeless.samples == 15_300
    close = audit(geometric(0.39), PureDP(0.5), pair=(1, 0), samples=30_000, seed=3, stop_early=True)
    assert close.samples == 30_000 and close.certificates[0].confidence == pytest.approx(0.9925)


def test_pairs_of_a_table_are_neighbours_in_the_claims_relation():
    def noisy_sum(table, rng):  # in steps of 1/64, which hide the floats; the number of rows is public
        return len(table), math.floor(64 * (table[:, 0].sum() + rng.laplace())) / 64

    schema = {"columns": [(0, 1)], "rows": 6}
    assert not audit(noisy_sum, PureDP(1, neighbours="replace_one"), schema=schema, samples=10_000, seed=1).flagged
    assert audit(noisy_sum, PureDP(1), schema=schema, samples=10_000, seed=1).flagged


def test_a_report_without_a_seed_says_how_to_repeat_it():
    def coin(data, rng):
        return int(rng.random() < 0.4 + 0.2 * data)

    first = audit(coin, PureDP(1.0), pair=(0, 1), samples=2_000)
    again = audit(coin, PureDP(1.0), pair=(0, 1), samples=2_000, seed=first.seed)
    assert again.epsilon_lower == first.epsilon_lower and again.seed == first.seed


def test_the_grid_of_floats_is_looked_at_in_every_field():
    rng = np.random.default_rng(2)
    fields = rng.integers(0, 2**20, size=(2, 4_000, 100)) / 64  # the same coarse grid for both inputs
    fields[0, :, 90] += 2.0**-30
    first, second = (Encoded(side, tuple(f"y[{j}]" for j in range(100))) for side in fields)
    proposed = propose(first, second, classifiers=False)
    assert "lowest bit of y[90]" in [getattr(proposal, "name", "") for proposal in proposed]


def test_all_bounds_of_a_report_share_its_error():
    """Of the profile and of mu, each with an event of its own."""
    for early in (False, True):
        report = audit(gaussian(2.0), Gaussian(mu=0.5), pair=([0.0], [1.0]), samples=20_000, seed=1, stop_early=early)
        assert len(report.certificates) >= 2
        assert sum(1 - certificate.confidence for certificate in report.certificates) <= 0.01 + 1e-12


def test_guesses_are_counted_in_a_poisson_number_of_outputs_and_events_in_a_fixed_one():
    drawn = {0.0: 0, 1.0: 0}

    def both_ways(data, n, rng):
        drawn[float(data)] += n
        return np.round(16 * (data + rng.laplace(0, 0.25, n))) / 16

    for claim, guessed in ((PureDP(4.0), True), (Gaussian(mu=5.0), False)):
        gaps = set()
        for seed in (2, 3):
            drawn.update({0.0: 0, 1.0: 0})
            report = audit(Vectorized(both_ways), claim, pair=(0.0, 1.0), samples=20_000, seed=seed)
            assert {certificate.guess for certificate in report.certificates} == {guessed}
            gaps.add(drawn[0.0] - drawn[1.0])  # the pilot asks more of the first input, but always the same
        assert len(gaps) == 1 + guessed


def test_a_relation_that_the_schema_declares_is_kept():
    """With a claim for replaced records: the number of rows leaks if a record is added or removed, and only then."""

    def rows(data, rng):
        return len(data) + 100 * int(rng.integers(2))

    for relation, flagged in (("add_remove", True), ("replace_one", False)):
        schema = {"columns": [(0, 1)], "rows": 6, "relation": relation}
        report = audit(rows, PureDP(1.0, neighbours="replace_one"), schema=schema, samples=1_000, seed=1)
        assert report.flagged == flagged


@pytest.mark.parametrize(
    ("mechanism", "arguments"),
    [
        (geometric(0.39), {"claim": PureDP(0.5), "pair": (1, 0)}),
        (laplace(1.0), {"claim": PureDP(1.0), "pair": ([0.0], [1.0])}),
        (laplace(1.0), {"claim": PureDP(1.0), "pair": ([0.0], [1.0]), "stop_early": True}),
        (laplace(0.1), {"claim": PureDP(1.0), "pair": ([0.0], [9.0])}),
        (gaussian(1.0), {"claim": Gaussian(mu=1.0), "pair": ([0.0], [1.0])}),
        (laplace(1.0), {"claim": PureDP(1.0), "schema": {"queries": 1}}),
    ],
)
def test_no_output_is_drawn_twice(monkeypatch, mechanism, arguments):
    """Each generator serves once: an output that helped to choose an event is never counted for it."""
    drawn, run = [], sampling._run

    def logged(mechanism, data, count, key):
        drawn.append((key, count))
        return run(mechanism, data, count, key)

    monkeypatch.setattr(sampling, "_run", logged)
    report = audit(mechanism, samples=6_000, seed=1, **arguments)
    keys = [key for key, _ in drawn]
    assert len(set(keys)) == len(keys)
    if not report.certificates[0].guess and "schema" not in arguments:
        first = [count for (_, stream, which, _), count in drawn if stream and not which]  # but for the pilot
        assert sum(first) == report.samples
