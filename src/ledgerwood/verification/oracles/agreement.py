"""The questions every accountant is asked: ε at δ, or the Rényi divergence at an order.

Agreements and disagreements, as a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledgerwood.accounting.accountant.certified import optimal_lower
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, RandomizedResponse
from ledgerwood.accounting.costs.guarantees import PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import MethodUnavailable
from ledgerwood.verification.oracles.high_precision import exact_epsilon, exact_rdp
from ledgerwood.verification.oracles.peers import PEERS, Answer, Peer

__all__ = ["PRICES", "QUESTIONS", "RENYI", "Agreement", "Question", "Row", "answer_all", "judge", "page"]


@dataclass(frozen=True, slots=True)
class Question:
    """A cost with a δ (what is its ε?) or with an order (what is its Rényi divergence?).

    >>> from ledgerwood.accounting import Gaussian
    >>> Question("one Gaussian", Gaussian(sigma=2.0), delta=1e-6).order is None
    True
    """

    label: str
    cost: Cost
    delta: float | None = None
    order: float | None = None


_ADULT = 1 / 32561

_SUBSAMPLED = PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)

PRICES = (
    Question("Gaussian, σ = 50, 1000 times", 1000 * Gaussian(sigma=50.0), delta=1e-5),
    Question("Gaussian, σ = 1", Gaussian(sigma=1.0), delta=1e-18),
    Question("Gaussian, σ = 1", Gaussian(sigma=1.0), delta=1e-300),
    Question("Laplace, b = 1", Laplace(scale=1.0), delta=1e-5),
    Question("Laplace, b = 10, 100 times", 100 * Laplace(scale=10.0), delta=1e-5),
    Question("Laplace, b = 10, 100 times", 100 * Laplace(scale=10.0), delta=1e-18),
    Question("pure 0.1-DP, 200 times", 200 * PureDP(0.1), delta=1e-5),
    Question("pure 0.1-DP, 2000 times", 2000 * PureDP(0.1), delta=1e-5),
    Question(
        "randomized response, ε = 0.1, 200 times", 200 * RandomizedResponse(0.1, neighbours="replace_one"), delta=1e-5
    ),
    Question("discrete Gaussian, σ = 1", DiscreteGaussian(sigma=1.0), delta=1e-5),
    Question("discrete Gaussian, σ = 10, 100 times", 100 * DiscreteGaussian(sigma=10.0), delta=1e-5),
    Question("selection, ε = 1", BoundedRange(1.0), delta=1e-5),
    Question("selection, ε = 0.1, 20 times", 20 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 0.1, 200 times", 200 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 0.1, 2000 times", 2000 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 1, 20 times", 20 * BoundedRange(1.0), delta=1e-15),
    Question(
        "DP-XGB: 200 selections of 0.0339, 50 Gaussians of σ = 45",
        200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0),
        delta=_ADULT,
    ),
    Question("subsampled Gaussian, q = 0.01, σ = 1", _SUBSAMPLED, delta=1e-5),
    Question("subsampled Gaussian, q = 0.01, σ = 1, 10 000 times", 10_000 * _SUBSAMPLED, delta=1e-5),
)

RENYI = (
    *(
        Question(f"selection, ε = {size:g}", BoundedRange(size), order=order)
        for size, order in [
            (1e-12, 1.0),
            (1e-12, 1 + 1e-6),
            (1e-9, 2.0),
            (1e-8, 1.0),
            (1e-8, 1 + 1e-10),
            (0.0, 2.0),
            (0.01, 1000.0),
            (0.1, 10.0),
            (1.0, 10.0),
            (10.0, 1.0),
            (10.0, 2.0),
            (1000.0, 1.0),
            (1000.0, 2.0),
        ]
    ),
    Question("pure DP, ε = 1e-9", PureDP(1e-9), order=2.0),
    Question("pure DP, ε = 1", PureDP(1.0), order=4.0),
    Question("Laplace, b = 10", Laplace(scale=10.0), order=2.5),
    Question("Laplace, b = 1e8", Laplace(scale=1e8), order=2.5),
    *(
        Question("subsampled Gaussian, q = 0.01, σ = 2.5", PoissonSubsampled(Gaussian(sigma=2.5), rate=0.01), order=a)
        for a in (1.1, 1.5, 2.5, 8.0)
    ),
)

QUESTIONS = (*PRICES, *RENYI)

#: Two numbers agree when they differ by less than this, relatively.
TOLERANCE = 1e-6


class Agreement(StrEnum):
    """What an answer is worth.

    >>> judge(Answer(value=0.5), lower=0.9, ours=1.0) is Agreement.TOO_SMALL
    True
    """

    AGREES = "agrees"
    LOOSE = "loose"
    TOO_SMALL = "too small"  # below the truth: a claim that does not hold
    FAILS = "fails"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Row:
    """One question with every answer. ``lower`` and ``upper`` enclose the truth; equal digits where it is exact.

    >>> from ledgerwood.accounting import Gaussian
    >>> [row] = answer_all([Question("one Gaussian", Gaussian(sigma=2.0), delta=1e-6)], peers=())
    >>> row.exact, row.lower <= row.ours
    (True, True)
    """

    question: Question
    ours: float
    lower: float
    exact: bool
    answers: tuple[tuple[Peer, Answer], ...]

    def verdicts(self) -> tuple[Agreement, ...]:
        """One verdict per peer."""
        return tuple(judge(answer, lower=self.lower, ours=self.ours) for _, answer in self.answers)


def judge(answer: Answer, *, lower: float, ours: float) -> Agreement:
    """Compare an answer with the truth's lower end and with our upper end.

    >>> judge(Answer(value=0.5), lower=1.0, ours=1.0)
    <Agreement.TOO_SMALL: 'too small'>
    """
    if not answer.offered:
        return Agreement.ABSENT
    if answer.value is None or not math.isfinite(answer.value):
        return Agreement.FAILS
    if answer.value < lower * (1 - TOLERANCE):
        return Agreement.TOO_SMALL
    if answer.lower is not None and answer.lower > ours * (1 + TOLERANCE):
        return Agreement.FAILS
    return Agreement.LOOSE if answer.value > ours * (1 + TOLERANCE) else Agreement.AGREES


def answer(question: Question, peers: Sequence[Peer] = PEERS) -> Row:
    """Ask everyone one question."""
    cost = question.cost
    if question.order is not None:
        ours, truth = float(cost.rdp(question.order)), exact_rdp(cost, question.order)
        lower = ours if truth is None else float(truth)
    else:
        assert question.delta is not None
        ours, truth = cost.epsilon(question.delta), exact_epsilon(cost, question.delta)
        try:
            lower = optimal_lower(cost, question.delta) if truth is None else float(truth)
        except MethodUnavailable:
            lower = 0.0
    answers = tuple((peer, peer.ask(cost, delta=question.delta, order=question.order)) for peer in peers)
    return Row(question, ours, lower, truth is not None, answers)


def answer_all(questions: Iterable[Question] = QUESTIONS, peers: Sequence[Peer] = PEERS) -> list[Row]:
    """Ask everyone everything.

    >>> from ledgerwood.accounting import Gaussian
    >>> len(answer_all([Question("one Gaussian", Gaussian(sigma=2.0), order=8.0)], peers=()))
    1
    """
    return [answer(question, peers) for question in questions]


# -- the page ----------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return f"{value:.6g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.4e}"


def _cell(row: Row, answer: Answer, verdict: Agreement) -> str:
    if verdict is Agreement.ABSENT:
        return "–"
    if answer.value is None:
        return f"**fails**: {answer.failure}"
    if not math.isfinite(answer.value):
        return f"**fails**: {answer.value}"
    shown = _number(answer.value)
    if verdict is Agreement.AGREES:
        return shown
    if verdict is Agreement.FAILS:
        return f"**fails**: its lower end {_number(answer.lower or 0.0)} is too large"
    if verdict is Agreement.TOO_SMALL:
        return f"**{shown}, too small**"
    change = answer.value / row.ours - 1
    return f"{shown} (+{100 * change:.2g} %)" if change < 1 else f"{shown} ({change + 1:.3g} times)"


def _table(rows: Sequence[Row], head: str) -> list[str]:
    peers = [peer for peer, _ in rows[0].answers]
    shown = [i for i in range(len(peers)) if any(row.answers[i][1].offered for row in rows)]
    names = [peers[i].name for i in shown]
    lines = [f"| question | {head} | truth | Ledgerwood | {' | '.join(names)} |", "|---" * (4 + len(names)) + "|"]
    for row in rows:
        q = row.question
        at = f"{q.delta:.4g}" if q.delta is not None else f"{q.order:.12g}"
        truth = _number(row.lower) if row.exact else f"in [{_number(row.lower)}, {_number(row.ours)}]"
        verdicts = row.verdicts()
        cells = [_cell(row, row.answers[i][1], verdicts[i]) for i in shown]
        lines.append(f"| {q.label} | {at} | {truth} | {_number(row.ours)} | {' | '.join(cells)} |")
    return lines


def _counts(rows: Sequence[Row]) -> list[str]:
    lines = ["| library | agrees | looser | too small | fails | has no such mechanism |", "|---|---|---|---|---|---|"]
    for i, (peer, _) in enumerate(rows[0].answers):
        asked = [row for row in rows if row.answers[i][1].failure != "no such question"]
        verdicts = [row.verdicts()[i] for row in asked]
        lines.append(f"| {peer.name} | " + " | ".join(str(verdicts.count(v)) for v in Agreement) + " |")
    return lines


def _versions(rows: Sequence[Row]) -> str:
    from importlib.metadata import version

    packages = dict.fromkeys(peer.package for peer, _ in rows[0].answers)
    return ", ".join(f"{name} {version(name)}" for name in packages)


def page(rows: Sequence[Row]) -> str:
    """The documentation page, in Markdown.

    >>> from ledgerwood.accounting import Gaussian
    >>> cost = Gaussian(sigma=2.0)
    >>> rows = answer_all([Question("a price", cost, delta=1e-6), Question("a curve", cost, order=8.0)], peers=())
    >>> "## ε at δ" in page(rows)
    True
    """
    prices = [row for row in rows if row.question.delta is not None]
    curves = [row for row in rows if row.question.order is not None]
    excess = max(row.ours / row.lower - 1 for row in rows if row.exact and row.lower > 0)
    below = [row for row in rows if row.ours < row.lower * (1 - 1e-12)]
    introduction = _INTRODUCTION.format(
        versions=_versions(rows), below=len(below), questions=len(rows), excess=f"{excess:.1e}"
    )
    lines = [
        *introduction.splitlines(),
        *_counts(rows),
        "",
        "## ε at δ",
        "",
        *_table(prices, "δ"),
        "",
        "## Rényi divergence at an order",
        "",
        *_table(curves, "α"),
        "",
        _REMARKS,
    ]
    return "\n".join(lines)


_INTRODUCTION = """\
# Agreement with other libraries

The same question put to this library, to mpmath at 50 digits, and to other accountants. This page is written by
`python -m ledgerwood.verification.oracles --write docs/explanation/peers.md`; do not edit it by hand.

Versions: {versions}. Every library is asked in its own words, by
the best of its documented routes at default settings; prv-accountant with an ε error of 0.01 and a δ error of δ/1000
(its upper end counts). A selection (exponential mechanism) has no event in dp-accounting 0.6.0; its RDP accountant is
given the zCDP event of ε²/8.

- **truth**: mpmath, or this library's certified interval where no exact formula exists;
- a number alone lies between the truth and ours, to 1e-6;
- (+x %) and (x times) mark a valid bound that is looser than ours;
- **too small** is below the truth: a privacy claim that does not hold;
- **fails** is an exception, nan, or an infinite answer where a finite one exists;
- – means that the library has no such mechanism.

This library is below the truth in {below} of {questions} questions, and at most {excess} (relative) above it where the
truth has a formula.

"""

_REMARKS = """\
## What lies behind the differences

- **autodp** prices a selection by ε²/8-zCDP and takes the minimum with its pure-DP curve
  log(sinh(αε) − sinh((α−1)ε)) − log sinh ε. That difference cancels: for small ε near α = 1 it gives 0 or a negative
  number, and the minimum keeps it. Composition is through Rényi DP only.
- **dp-accounting 0.6.0, PLD**: a self-composed randomized response is priced as a single one (the count is dropped for
  that event), so 200 repetitions seem to cost what one does. Written out as 200 events it is right, which is what
  {func}`ledgerwood.accounting.interop.to_dp_accounting` does. For δ below about 1e-15 the truncated tails exceed δ
  and the answer is infinite.
- **dp-accounting 0.6.0, RDP**: at fractional orders the subsampled Gaussian sums the absolute values of an alternating
  series, so the curve is too large there (valid, loose).
- **prv-accountant** reports an interval whose width is the chosen ε error; for δ below about 1e-15 it refuses.
"""
