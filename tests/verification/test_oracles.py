"""The accountants against mpmath at 50 digits, and the table of agreements."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    BoundedRange,
    Cost,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
)
from ledgerwood.verification.oracles import PEERS, QUESTIONS, Agreement, Answer, exact_epsilon, exact_rdp, judge, page
from ledgerwood.verification.oracles import high_precision as hp
from ledgerwood.verification.oracles.__main__ import main
from ledgerwood.verification.oracles.agreement import PRICES, RENYI, answer

mpmath = pytest.importorskip("mpmath")
for package in ("autodp", "dp_accounting", "prv_accountant"):
    pytest.importorskip(package)

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "peers.md"


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-14, 3).map(lambda x: 10.0**x),
    st.one_of(st.just(1.0), st.floats(-14, 9).map(lambda x: 1.0 + 10.0**x)),
)
def test_theorem_1_is_the_supremum_of_the_papers_formula(size: float, order: float) -> None:
    truth = hp.bounded_range_renyi(size, order, digits=25)
    assert abs(mpmath.mpf(BoundedRange(size).rdp(order)) / truth - 1) < 1e-12


EXACT = [
    1000 * Gaussian(sigma=50.0),
    3 * Gaussian(sigma=2.0) + Gaussian(mu=0.5),
    Laplace(scale=2.0),
    Laplace(scale=0.5, sensitivity=3.0),
    20 * PureDP(0.1),
    15 * RandomizedResponse(0.7, k=4),
    RandomizedResponse(2.0, k=10),
    BoundedRange(1.0),
    DiscreteGaussian(sigma=1.0),
    DiscreteGaussian(sigma=4.0, sensitivity=3),
    PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01),
    PoissonSubsampled(Gaussian(sigma=0.5), rate=0.3),
]


@pytest.mark.parametrize("delta", [1e-2, 1e-30])
@pytest.mark.parametrize("cost", EXACT, ids=repr)
def test_the_price_is_the_exact_one_from_above(cost: Cost, delta: float) -> None:
    truth = exact_epsilon(cost, delta, digits=18)
    assert truth is not None
    assert mpmath.mpf(cost.epsilon(delta)) >= truth * (
        1 - mpmath.mpf(2) ** -53
    )  # sums of pure ε are rounded to nearest
    assert cost.epsilon(delta) <= float(truth) * (1 + 1e-6) + 1e-15


@pytest.mark.parametrize("order", [1.01, 2.0, 19.3])
@pytest.mark.parametrize("cost", [c for c in EXACT if not isinstance(c, DiscreteGaussian)], ids=repr)
def test_the_renyi_curve_is_the_integral_of_its_definition(cost: Cost, order: float) -> None:
    truth = exact_rdp(cost, order, digits=18)
    assert truth is not None
    assert cost.rdp(order) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("order", [1.01, 2.0, 7.3])
def test_the_discrete_gaussian_is_charged_at_least_its_own_divergence(order: float) -> None:
    cost = DiscreteGaussian(sigma=0.7, sensitivity=2)
    assert float(hp.discrete_gaussian_rdp(0.7, 2, order)) <= cost.rdp(order) * (1 + 1e-15)


def test_the_subsampling_oracle_is_the_worse_of_two_integrals() -> None:
    mp, mu, rate, epsilon = mpmath.mp, 1.0, 0.3, 0.1  # below −log(1 − q) both directions are positive

    def base(x: float) -> float:
        return mp.npdf(x)

    def mixed(x: float) -> float:
        return (1 - rate) * mp.npdf(x) + rate * mp.npdf(x - mu)

    both = []
    for p, q in ((mixed, base), (base, mixed)):
        zero = mp.findroot(lambda x, p=p, q=q: p(x) - mp.exp(epsilon) * q(x), 0.5 if p is mixed else -0.5)
        ends = [zero, 12] if p is mixed else [-12, zero]
        both.append(float(mp.quad(lambda x, p=p, q=q: p(x) - mp.exp(epsilon) * q(x), ends)))
    assert both[0] > 1.05 * both[1] > 0
    assert float(hp.subsampled_gaussian_delta(mu, rate, epsilon)) == pytest.approx(max(both), rel=1e-10)
    assert PoissonSubsampled(Gaussian(mu=mu), rate=rate).delta(epsilon) == pytest.approx(max(both), rel=1e-8)


def test_costs_without_a_formula_have_no_oracle() -> None:
    assert exact_epsilon(2 * BoundedRange(0.1), 1e-5) is None
    assert exact_epsilon(PureDP(0.1) + Laplace(scale=1.0), 1e-5) is None
    assert exact_rdp(Laplace(scale=1.0), 1.0) is None


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (Answer(value=1.0), Agreement.AGREES),
        (Answer(value=1.1), Agreement.LOOSE),
        (Answer(value=0.9), Agreement.TOO_SMALL),
        (Answer(value=-1.0), Agreement.TOO_SMALL),
        (Answer(value=float("inf")), Agreement.FAILS),
        (Answer(failure="nan"), Agreement.FAILS),
        (Answer(value=1.2, lower=1.1), Agreement.FAILS),
        (Answer(failure="none", offered=False), Agreement.ABSENT),
    ],
)
def test_an_answer_is_judged_against_the_truth(said: Answer, verdict: Agreement) -> None:
    assert judge(said, lower=1.0, ours=1.0) is verdict


def _row(label: str, order: float | None = None, delta: float | None = None) -> dict[str, Agreement]:
    found = [q for q in QUESTIONS if q.label == label and (q.order, q.delta) == (order, delta)]
    assert len(found) == 1
    row = answer(found[0])
    return dict(zip((peer.name for peer in PEERS), row.verdicts()))


@pytest.mark.skipif(version("autodp") != "0.2.3.1", reason="the table speaks of autodp 0.2.3.1")
def test_the_table_sees_that_autodp_returns_zero_near_order_one() -> None:
    assert _row("selection, ε = 1e-08", order=1.0)["autodp"] is Agreement.TOO_SMALL
    assert _row("selection, ε = 0", order=2.0)["autodp"] is Agreement.FAILS
    assert _row("selection, ε = 1000", order=1.0)["autodp"] is Agreement.FAILS
    assert _row("selection, ε = 1", order=10.0)["autodp"] is Agreement.LOOSE


@pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="the table speaks of dp-accounting 0.6.0")
def test_the_table_sees_that_dp_accounting_forgets_a_count() -> None:
    verdicts = _row("randomized response, ε = 0.1, 200 times", delta=1e-5)
    assert verdicts["dp-accounting PLD"] is Agreement.TOO_SMALL
    assert verdicts["dp-accounting RDP"] is Agreement.LOOSE


def test_the_page_shows_every_question_and_every_peer() -> None:
    rows = [answer(q) for q in (*PRICES[:2], *RENYI[:7])]
    text = page(rows)
    for row in rows:
        assert row.question.label in text
    for peer in PEERS:
        assert peer.name in text
    assert "**fails**: inf" in text and "too small**" in text


def test_the_committed_page_has_a_row_for_every_question() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for question in QUESTIONS:
        at = f"{question.delta:.4g}" if question.delta is not None else f"{question.order:.12g}"
        assert any(line.startswith(f"| {question.label} | {at} |") for line in rows), question.label


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ledgerwood.verification.oracles.__main__ as command

    monkeypatch.setattr(command, "answer_all", lambda: [answer(q) for q in (PRICES[0], RENYI[7])])
    main(["--write", str(tmp_path / "deep" / "page.md")])
    assert "Gaussian, σ = 50" in (tmp_path / "deep" / "page.md").read_text(encoding="utf-8")
