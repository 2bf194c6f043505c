"""The same questions, answered independently: mpmath at 50 digits, autodp, dp-accounting and prv-accountant.

``python -m ledgerwood.verification.oracles`` prints the table of agreements and disagreements;
``--write docs/explanation/peers.md`` writes it as the page of the documentation. The peers are optional
(``pip install 'ledgerwood[peers,verification]'``).
"""

from ledgerwood.verification.oracles.agreement import QUESTIONS, Agreement, Question, Row, answer_all, judge, page
from ledgerwood.verification.oracles.high_precision import exact_epsilon, exact_rdp
from ledgerwood.verification.oracles.peers import PEERS, Answer, Peer

__all__ = [
    "PEERS",
    "QUESTIONS",
    "Agreement",
    "Answer",
    "Peer",
    "Question",
    "Row",
    "answer_all",
    "exact_epsilon",
    "exact_rdp",
    "judge",
    "page",
]
