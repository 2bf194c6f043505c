"""Never looser than a peer, never below a lower bound."""

from __future__ import annotations

import pytest

from ledgerwood.verification.oracles import Agreement, Question
from ledgerwood.verification.oracles.agreement import PRICES, RENYI, TOLERANCE, Row, answer

for package in ("mpmath", "autodp", "dp_accounting", "prv_accountant"):
    pytest.importorskip(package)

LONG = ("10 000 times", "2000 times")
SHORT = [q for q in (*PRICES, *RENYI) if not q.label.endswith(LONG) and q.delta != 1e-300]


def check(row: Row) -> None:
    assert row.ours >= row.lower * (1 - 1e-12), "below the truth"
    for (peer, said), verdict in zip(row.answers, row.verdicts()):
        if verdict in (Agreement.AGREES, Agreement.LOOSE):  # sound answers only
            assert said.value is not None
            assert row.ours <= said.value * (1 + TOLERANCE), f"looser than {peer.name}"


@pytest.mark.parametrize("question", SHORT, ids=lambda q: f"{q.label} at {q.delta or q.order}")
def test_no_peer_has_a_tighter_sound_answer(question: Question) -> None:
    check(answer(question))


@pytest.mark.slow
@pytest.mark.parametrize("question", [q for q in PRICES if q not in SHORT], ids=lambda q: q.label)
def test_no_peer_has_a_tighter_sound_answer_on_long_compositions(question: Question) -> None:
    check(answer(question))


def test_the_check_can_fail() -> None:
    row = answer(PRICES[0])
    worse = Row(row.question, row.ours * 1.0001, row.lower, row.exact, row.answers)
    with pytest.raises(AssertionError, match="looser than"):
        check(worse)
    better = Row(row.question, row.ours * 0.9999, row.lower, row.exact, row.answers)
    with pytest.raises(AssertionError, match="below the truth"):
        check(better)
