"""Training on rows that many parties hold: the server sees noisy sums only.

Names are imported at first use: declaring a task needs no Flower.
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

if TYPE_CHECKING:
    from ledgerwood.learners.federated.coordinator import Coordinator as Coordinator
    from ledgerwood.learners.federated.coordinator import Federation as Federation
    from ledgerwood.learners.federated.flower import identities as identities
    from ledgerwood.learners.federated.flower import write_app as write_app
    from ledgerwood.learners.federated.flower import write_parties as write_parties
    from ledgerwood.learners.federated.party import Node as Node
    from ledgerwood.learners.federated.party import Party as Party
    from ledgerwood.learners.federated.task import FederatedTask as FederatedTask

_HOME = {
    "Coordinator": "coordinator",
    "FederatedTask": "task",
    "Federation": "coordinator",
    "Node": "party",
    "Party": "party",
    "identities": "flower",
    "write_app": "flower",
    "write_parties": "flower",
}

__all__ = sorted(_HOME)

__getattr__ = at_first_use(__name__, _HOME)
