"""The same question asked of other judges: mpmath at 50 digits, autodp, dp-accounting and prv-accountant.

``python -m ledgerwood.verification.oracles`` prints the table of agreements and disagreements;
``--write docs/explanation/peers.md`` writes it as the page of the documentation. The peers are optional
(``pip install 'ledgerwood[peers,verification]'``).
"""

from ledgerwood.verification.oracles.high_precision import exact_epsilon, exact_rdp
from ledgerwood.verification.oracles.peers import PEERS, Answer, Peer
from ledgerwood.verification.oracles.questions import QUESTIONS, Question
from ledgerwood.verification.oracles.table import Row, Verdict, answer_all, judge, page

__all__ = [
    "PEERS",
    "QUESTIONS",
    "Answer",
    "Peer",
    "Question",
    "Row",
    "Verdict",
    "answer_all",
    "exact_epsilon",
    "exact_rdp",
    "judge",
    "page",
]
