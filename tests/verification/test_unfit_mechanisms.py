"""What raises, returns nan, ignores its generator or is too slow is reported as such, never as a pass."""

import math
import time

import numpy as np
import pytest
from tests.kit.samplers import Vectorized, gaussian

from ledgerwood.accounting import Gaussian, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor import sampling
from ledgerwood.verification.auditor.audit import audit


def test_a_mechanism_that_raises_is_reported_and_not_passed():
    report = audit(lambda data, rng: 1 / 0, PureDP(1.0), pair=(0, 1), samples=1_000, seed=1)
    assert not report.passed and not report.flagged
    assert report.verdict == "not audited"
    assert "ZeroDivisionError" in str(report)


def test_an_exception_on_one_input_only_is_a_leak():
    def divide(data, rng):
        return round(1 / data + rng.laplace(), 3)

    report = audit(divide, PureDP(1.0), pair=(1, 0), samples=3_000, seed=1)
    assert report.flagged
    assert "raised" in str(report) and not report.passed


def test_a_batch_that_raises_is_not_a_batch_of_outputs():
    """Both inputs have one distribution; a third of these was flagged when a failed batch counted as outputs."""

    def fails(data, n, rng):
        if n >= 500 and rng.random() < 0.4:
            raise ArithmeticError
        return rng.geometric(0.3, n)

    reports = [audit(Vectorized(fails), PureDP(0.5), pair=(0, 1), samples=8_000, seed=seed) for seed in range(12)]
    assert not any(report.flagged for report in reports)
    failed = [report for report in reports if report.problems]
    assert len(failed) > 6
    assert all(report.verdict == "not audited" and "whole batches" in str(report) for report in failed)


def test_a_vectorised_mechanism_that_fails_in_the_pilot_is_asked_for_single_outputs():
    def fails(data, n, rng):
        outputs = rng.geometric(0.3, n)
        if np.any(outputs > 12):  # one output in seventy
            raise ArithmeticError
        return outputs

    report = audit(Vectorized(fails), PureDP(0.5), pair=(0, 1), samples=3_000, seed=1)
    assert not report.flagged and report.certificates
    assert "calls raised: ArithmeticError" in str(report) and not report.passed


def test_a_vectorised_exception_on_one_input_only_is_a_leak():
    def divide(data, n, rng):
        return np.round(np.full(n, 1 // int(data)) + rng.laplace(size=n), 3)

    report = audit(Vectorized(divide), PureDP(1.0), pair=(1, 0), samples=3_000, seed=1)
    assert report.flagged
    assert "raised" in str(report) and not report.passed


def test_nan_outputs_are_reported_and_not_passed():
    def sometimes_nan(data, rng):
        return math.nan if rng.random() < 0.2 else round(data + rng.laplace(), 3)

    report = audit(sometimes_nan, PureDP(1.0), pair=(0.0, 1.0), samples=3_000, seed=1)
    assert not report.passed
    assert "nan" in str(report)


@pytest.mark.parametrize("wrap", [float, lambda x: {"mean": x, "count": 1}, lambda x: (1, [x])])
def test_a_nan_too_rare_for_the_pilot_is_reported_and_not_passed(wrap):
    def rarely_nan(data, rng):
        return wrap(math.nan if rng.random() < 1e-3 else float(rng.integers(3)))

    report = audit(rarely_nan, PureDP(1.0), pair=(0.0, 1.0), samples=5_000, seed=1)
    assert not report.passed and not report.flagged
    assert any("the output is nan in " in problem for problem in report.problems)


def test_a_rare_nan_of_a_vectorised_mechanism_is_reported_and_not_passed():
    def draw(data, n, rng):
        return np.where(rng.random(n) < 1e-4, np.nan, np.where(rng.random(n) < 0.5, np.inf, -np.inf))

    assert "nan" in str(audit(Vectorized(draw), PureDP(1.0), pair=(0.0, 1.0), samples=100_000, seed=1))


def test_a_mechanism_slower_than_the_time_there_is_is_called_so_at_once():
    calls = []

    def slow(data, rng):
        calls.append(1)
        time.sleep(0.2)
        return rng.random()

    report = audit(slow, PureDP(1.0), pair=(0.0, 1.0), seconds=1.0, seed=1)
    assert not report.passed and "too slow" in str(report)
    assert len(calls) <= 3


@pytest.mark.parametrize(("outputs", "seen"), [(3, "'int'"), (None, "'NoneType'"), ([1], "1"), (np.zeros((2, 9)), "2")])
def test_a_sample_that_is_no_list_of_outputs_is_named(outputs, seen):
    class Odd:
        def sample(self, data, n, rng):
            return outputs

    with pytest.raises(ParameterError, match=f"sample must return .* outputs.*{seen}"):
        audit(Odd(), PureDP(1.0), pair=(0.0, 1.0), samples=1000, seed=1)


def test_nan_in_a_field_of_an_output_is_reported_and_not_passed():
    def sometimes_nan(data, rng):
        return {"mean": math.nan if rng.random() < 0.2 else 1.0, "count": int(rng.geometric(0.5))}

    report = audit(sometimes_nan, PureDP(1.0), pair=(0.0, 1.0), samples=3_000, seed=1)
    assert not report.passed and "nan" in str(report)


def test_counts_too_small_for_a_bound_certify_zero_and_say_so():
    report = audit(gaussian(1e3), Gaussian(mu=1.0), pair=([0.0], [1.0]), samples=100, seed=1)
    assert report.mu_lower == 0.0 and all(certificate.bound >= 0.0 for certificate in report.certificates)
    assert "mu >= 0.0000 (claimed 1; these counts certify nothing)" in str(report)


def test_a_mechanism_that_ignores_its_generator_is_reported():
    own = np.random.default_rng(5)

    def ignores(data, rng):
        return round(data + own.laplace(), 3)

    report = audit(ignores, PureDP(1.0), pair=(0.0, 1.0), samples=3_000, seed=1)
    assert not report.passed
    assert "ignores its generator" in str(report)


def test_a_mechanism_that_changes_its_input_is_not_audited():
    def in_place(data, rng):
        data += rng.geometric(0.5, data.shape) - rng.geometric(0.5, data.shape)
        return data.copy()

    report = audit(in_place, PureDP(1.0), pair=(np.array([3, 0]), np.array([4, 0])), samples=1000, seed=2)
    assert not report.passed and not report.flagged and "changes its input" in str(report)


def test_a_mechanism_that_sorts_its_input_is_audited():
    def median(data, rng):
        data.sort()
        return data[1] + int(rng.geometric(0.9) - rng.geometric(0.9))

    assert audit(median, PureDP(5.0), pair=([3, 1, 2], [5, 4, 3]), samples=1000, seed=2).passed


def test_a_coin_that_ignores_its_generator_is_reported_and_no_process_copies_it(monkeypatch):
    """Forked processes would all toss the same coins, and a bound from equal ones would be wrong."""
    monkeypatch.setattr(sampling.Draws, "use_all_cores", lambda *_: pytest.fail("asked for more processes"))
    own = np.random.default_rng(5)
    for _ in range(10):
        report = audit(lambda data, rng: bool(own.random() < 0.9), PureDP(1.0), pair=(0.0, 1.0), samples=1000, seed=1)
        assert "ignores its generator" in str(report)


def test_an_output_that_never_changes_is_not_a_pass():
    report = audit(lambda data, rng: 7, PureDP(1.0), pair=(0.0, 1.0), samples=1_000, seed=1)
    assert not report.passed and not report.flagged
    assert "never changed" in str(report)


def test_an_exact_answer_is_flagged():
    report = audit(lambda data, rng: data, PureDP(1.0), pair=(0.0, 1.0), samples=1_000, seed=1)
    assert report.flagged


def test_noise_seeded_with_the_clock_is_flagged():
    def clocked(data, rng):
        return data + np.random.default_rng(int(time.time())).laplace()

    report = audit(clocked, PureDP(0.1), pair=(0.0, 1.0), samples=1_000, seed=1)
    assert report.flagged
    assert report.epsilon_lower == math.inf
    assert "clock" in str(report)


def test_a_mechanism_too_slow_for_its_time_budget_is_reported():
    def slow(data, rng):
        time.sleep(0.02)
        return round(data + rng.laplace(), 3)

    report = audit(slow, PureDP(1.0), pair=(0.0, 1.0), samples=100_000, seconds=1.0, seed=1)
    assert not report.passed
    assert "too slow" in str(report)


def test_the_time_budget_lowers_the_number_of_outputs():
    def leisurely(data, rng):
        time.sleep(0.0005)
        return int(data + rng.geometric(0.5))

    report = audit(leisurely, PureDP(1.0), pair=(0, 1), samples=1_000_000, seconds=3.0, seed=1)
    assert 100 <= report.samples < 10_000
