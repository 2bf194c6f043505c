"""The loop: its noise-free limits, its costs, and degenerate designs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from linear_designs import ExactSession, LedgerSession, rows_of

from ledgerwood.accounting import Plan
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.integer_rows import IntegerRows
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, LOSSES, LinearLoss, loss_named
from ledgerwood.learners.linear.plan import CROSS_PRODUCTS, EIGENVALUE, GRADIENTS, LinearSettings, plan_linear
from ledgerwood.learners.linear.ridge import noise_aware_inverse, paper_inverse, paper_ridge
from ledgerwood.learners.linear.sensitivity import DIAGONAL, RowBound
from ledgerwood.mechanisms import SeededSource


def problem(seed: int = 0, rows: int = 400, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = rng.integers(-ENTRY_ONE, ENTRY_ONE + 1, (rows, columns))
    score = design @ rng.normal(size=columns) / ENTRY_ONE + 0.3 + 0.5 * rng.normal(size=rows)
    return design, (score > 0).astype(np.int64)


def with_intercept(design: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(design), 1)), design / ENTRY_ONE])


def bound_of(rows: IntegerRows, neighbours: str = "add_remove") -> RowBound:
    return RowBound(rows.columns * ENTRY_ONE**2, neighbours)


def calibrated(wanted: LinearSettings, neighbours: str = "add_remove", epsilon: float = 1.0) -> Plan:
    return plan_linear(wanted, neighbours).calibrate(epsilon=epsilon, delta=1e-5)


def exact_fit(rows: IntegerRows, wanted: LinearSettings) -> np.ndarray:
    """The weights with no noise at all, the plan's noise only shaping the ridge."""
    return boost(rows, bound_of(rows), wanted, calibrated(wanted, epsilon=1e6), ExactSession())


def test_one_squared_round_without_noise_is_ridge_regression() -> None:
    design, labels = problem()
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named("squared"))
    X, y = with_intercept(design), 2.0 * labels - 1
    noise = calibrated(wanted, epsilon=1e6)[CROSS_PRODUCTS].scale * bound_of(rows).square / ENTRY_ONE**2
    reference = np.linalg.solve(X.T @ X + noise * np.sqrt(X.shape[1]) * np.eye(X.shape[1]), X.T @ y)
    assert np.allclose(exact_fit(rows, wanted)[0], reference, atol=1e-5)


def test_squared_boosting_without_noise_converges_to_least_squares() -> None:
    design, _ = problem()
    rng = np.random.default_rng(5)
    X = with_intercept(design)
    y = np.clip(X @ np.array([0.1, 0.3, -0.2, 0.15]) + 0.05 * rng.normal(size=len(X)), -1, 1)
    rows = rows_of(design, np.rint(y * GRADIENT_ONE).astype(np.int64), intercept=ENTRY_ONE, coded=False)
    reference = np.linalg.lstsq(X, y, rcond=None)[0]
    weights = exact_fit(rows, LinearSettings(loss_named("squared"), rounds=50, clip=2.0))
    assert np.allclose(weights[0], reference, atol=1e-4)


class CountedRows:
    """Rows that count how often they are passed over for gradients."""

    def __init__(self, rows: IntegerRows) -> None:
        self.rows, self.passes, self.columns, self.gram = rows, 0, rows.columns, rows.gram

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        self.passes += 1
        return self.rows.gradient_sum(loss, weights, clip)


def test_residuals_that_cannot_be_clipped_need_one_pass_in_all() -> None:
    design, labels = problem()
    rows = CountedRows(rows_of(design, labels, intercept=ENTRY_ONE))
    wanted = LinearSettings(loss_named("squared"), rounds=20, clip=16.0)
    plan, session = calibrated(wanted, epsilon=1e6), ExactSession()
    weights = boost(rows, bound_of(rows.rows), wanted, plan, session)
    assert rows.passes == 1
    X, y = with_intercept(design), 2.0 * labels - 1
    assert np.allclose(weights[0], np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)
    sizes = [mechanism.sensitivity / ENTRY_ONE / GRADIENT_ONE for _, mechanism, _ in session.seen[1:]]
    assert sizes[0] == pytest.approx(2.0)  # norm 2, residuals of at most 1
    before = np.linalg.solve(X.T @ X, X.T @ y)  # the weights after the first round, but for the ridge
    assert sizes[1] == pytest.approx(2 * (1 + 2 * np.linalg.norm(before)), rel=0.01)


def test_residuals_that_may_be_clipped_need_a_pass_each_round() -> None:
    design, labels = problem()
    rows = CountedRows(rows_of(design, labels, intercept=ENTRY_ONE))
    wanted = LinearSettings(loss_named("squared"), rounds=5, clip=1.0)
    boost(rows, bound_of(rows.rows), wanted, calibrated(wanted), ExactSession())
    assert rows.passes == 5  # the first round's X'y, and four


def newton(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Maximum likelihood by iteratively reweighted least squares."""
    w = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ w))
        w += np.linalg.solve((X.T * (p * (1 - p))) @ X, X.T @ (y - p))
    return w


def test_logistic_boosting_without_noise_converges_to_maximum_likelihood() -> None:
    design, labels = problem()
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named("logistic"), rounds=400, step_size=4.0)
    assert np.allclose(exact_fit(rows, wanted)[0], newton(with_intercept(design), labels), atol=5e-3)


def test_a_full_logistic_step_never_raises_the_loss() -> None:
    design, labels = problem(3)
    rows, X = rows_of(design, labels, intercept=ENTRY_ONE), with_intercept(design)
    losses = []
    for rounds in (1, 2, 4, 8, 16):
        w = exact_fit(rows, LinearSettings(loss_named("logistic"), rounds=rounds, step_size=4.0))[0]
        losses.append(float(np.mean(np.logaddexp(0, X @ w) - labels * (X @ w))))
    assert losses == sorted(losses, reverse=True)


def test_hinge_boosting_without_noise_separates_what_can_be_separated() -> None:
    design, _ = problem()
    X = with_intercept(design)
    margin = X @ np.array([0.1, 1.0, -0.7, 0.4])
    keep = np.abs(margin) > 0.2
    design, labels = design[keep], (margin[keep] > 0).astype(np.int64)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    weights = exact_fit(rows, LinearSettings(loss_named("hinge"), rounds=100))
    assert np.mean((with_intercept(design) @ weights[0] > 0) == labels) > 0.99


def test_one_against_the_rest_without_noise_is_each_class_alone() -> None:
    design, _ = problem()
    labels = (design[:, 0] > 0).astype(np.int64) + (design[:, 1] > 1000)
    wanted = LinearSettings(loss_named("logistic"), rounds=20, step_size=4.0, clip=3.0)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    together = boost(rows, bound_of(rows), wanted, calibrated(wanted, epsilon=1e6), ExactSession(), outputs=3)
    for k in range(3):
        alone = exact_fit(rows_of(design, labels == k, intercept=ENTRY_ONE), wanted)
        assert np.allclose(together[k], alone[0], atol=1e-4)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("paper", [False, True])
def test_what_is_released_costs_exactly_what_the_plan_says(neighbours: str, paper: bool) -> None:
    design, labels = problem(rows=50)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named("logistic"), rounds=7, shares=(0.5, 1.0, 0.7), clip_decay=0.9, paper=paper)
    plan = calibrated(wanted, neighbours)
    session = LedgerSession(plan, SeededSource(np.random.default_rng(0)))
    boost(rows, bound_of(rows, neighbours), wanted, plan, session)
    labels_seen = [entry.label for entry in session.ledger.journal()]
    assert labels_seen == [CROSS_PRODUCTS, *([EIGENVALUE] if paper else []), *[GRADIENTS] * 7]
    assert session.ledger.spent().epsilon <= 1.0
    if paper:  # nothing of the plan is left over
        assert session.ledger.spent().epsilon > 0.999


def test_shares_are_ratios_of_gaussian_parameters() -> None:
    plan = calibrated(LinearSettings(loss_named("squared"), rounds=9, shares=(1.0, 2.0, 0.5)))
    mu = {label: 1 / plan[label].scale for label in (CROSS_PRODUCTS, EIGENVALUE, GRADIENTS)}
    assert mu[GRADIENTS] * 3 / mu[CROSS_PRODUCTS] == pytest.approx(2.0)
    assert mu[EIGENVALUE] / mu[CROSS_PRODUCTS] == pytest.approx(0.5)


def test_noise_has_the_stated_size() -> None:
    design, labels = problem(rows=50)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named("logistic"), rounds=3)
    plan, session = calibrated(wanted), ExactSession()
    boost(rows, bound_of(rows), wanted, plan, session)
    for label, mechanism, _ in session.seen:
        assert mechanism.sigma / mechanism.sensitivity == pytest.approx(plan[label].scale, rel=1e-12)
    assert session.seen[0][1].sensitivity == pytest.approx(DIAGONAL * 4 * ENTRY_ONE**2, rel=1e-12)
    first, second = session.seen[1][1], session.seen[2][1]
    assert first.sensitivity == pytest.approx(ENTRY_ONE * GRADIENT_ONE, rel=0.01)  # norm 2, gradients 1/2
    assert second.sensitivity > first.sensitivity


degenerate = st.one_of(
    hnp.arrays(np.int64, st.tuples(st.integers(0, 4), st.integers(1, 9)), elements=st.sampled_from([-ENTRY_ONE, 0, 7])),
    st.integers(0, 6).map(lambda n: np.zeros((n, 3), dtype=np.int64)),
    st.integers(1, 6).map(lambda n: np.full((n, 4), ENTRY_ONE)),
    hnp.arrays(np.int64, (5, 1), elements=st.integers(-ENTRY_ONE, ENTRY_ONE)).map(lambda x: np.hstack([x, x, -x])),
)


@given(degenerate, st.sampled_from(LOSSES), st.booleans(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_degenerate_designs_take_the_same_path(design: np.ndarray, loss: str, paper: bool, seed: int) -> None:
    """Constant, collinear, wide, empty and zero designs: finite weights, the same releases, no warning."""
    rows = rows_of(design, np.arange(len(design)) % 2, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named(loss), rounds=3, shares=(1.0, 1.0, 1.0 if paper else 0.0), paper=paper)
    plan = PLANS[loss, paper]
    session = LedgerSession(plan, SeededSource(np.random.default_rng(seed)))
    weights = boost(rows, bound_of(rows), wanted, plan, session)
    assert weights.shape == (1, design.shape[1] + 1)
    assert np.isfinite(weights).all()
    assert len(session.ledger.journal()) == (5 if paper else 4)


PLANS = {
    (loss, paper): calibrated(
        LinearSettings(loss_named(loss), rounds=3, shares=(1.0, 1.0, 1.0 if paper else 0.0), paper=paper)
    )
    for loss in LOSSES
    for paper in (False, True)
}


def test_the_projection_is_onto_the_cone() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.normal(size=(6, 6))
    noisy = noisy + noisy.T
    inverse = noise_aware_inverse(noisy, noise=0.5, ridge=1.0)
    values = np.linalg.eigvalsh(inverse)
    assert (values > 0).all()
    assert values.max() <= 1 / (0.5 * np.sqrt(6)) * (1 + 1e-9)


def test_the_papers_ridge_shrinks_with_the_smallest_eigenvalue() -> None:
    ridges = [paper_ridge(10, 1.0, smallest, 1.0) for smallest in (-5.0, 0.0, 5.0, 1e9)]
    assert ridges[0] == ridges[1] > ridges[2] > ridges[3] == 0.0
    gram = np.diag([2.0, 3.0])
    assert np.allclose(paper_inverse(gram, 1.0, 1e-3), np.diag([1 / 3, 1 / 4]))


def test_without_its_release_the_smallest_eigenvalue_is_read_off_the_noisy_matrix() -> None:
    design, labels = problem(rows=3000)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    wanted = LinearSettings(loss_named("squared"), rounds=2, shares=(1.0, 1.0, 0.0), paper=True)
    session = ExactSession()
    weights = boost(rows, bound_of(rows), wanted, calibrated(wanted), session)
    assert [label for label, _, _ in session.seen] == [CROSS_PRODUCTS, GRADIENTS, GRADIENTS]
    # 3000 rows have a smallest eigenvalue far above the noise: no ridge is needed, so two exact rounds are two steps
    X, y = with_intercept(design), 2.0 * labels - 1
    first = np.linalg.solve(X.T @ X, X.T @ y)
    clipped = np.clip(y - X @ first, -1, 1)
    assert np.allclose(weights[0], first + np.linalg.solve(X.T @ X, X.T @ clipped), atol=1e-4)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_loop_releases_what_is_planned_within_its_sensitivities(paper: bool, outputs: int) -> None:
    design, labels = problem(rows=1)
    rows = rows_of(design, labels, intercept=ENTRY_ONE)
    shares = (1.0, 1.0, 0.5 if paper else 0.0)
    wanted = LinearSettings(loss_named("squared"), rounds=4, shares=shares, clip=1.5, clip_decay=0.9, paper=paper)
    session = ExactSession()
    plan = calibrated(wanted)
    boost(rows, bound_of(rows), wanted, plan, session, outputs)
    bound, clip = bound_of(rows), math.ceil(wanted.clip * GRADIENT_ONE)
    numbers = outputs * rows.columns
    limits = {  # how many numbers, their L2 sensitivity, and the most that a single record adds to one of them
        CROSS_PRODUCTS: (rows.columns * (rows.columns + 1) // 2, bound.gram(plain=paper), 239 * ENTRY_ONE**2),
        EIGENVALUE: (1, bound.eigenvalue(), bound.eigenvalue()),
        GRADIENTS: (numbers, bound.gradient_sum(clip, rounded=numbers), clip * ENTRY_ONE + 1),
    }
    assert [label for label, _, _ in session.seen] == [run.label for run in plan.runs() for _ in range(run.times)]
    for label, mechanism, value in session.seen:
        length, sensitivity, largest = limits[label]
        assert np.size(value) == length
        assert mechanism.sensitivity <= sensitivity * (1 + 1e-12)
        assert np.abs(value).max() <= largest
