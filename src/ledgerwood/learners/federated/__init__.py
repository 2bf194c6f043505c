"""Training on rows that many parties hold: the server sees noisy sums only.

Names are imported at first use: declaring a task needs no Flower.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.federated.coordinator import Coordinator, Federation
    from ledgerwood.learners.federated.flower import identities, write_app, write_parties
    from ledgerwood.learners.federated.party import Node, Party
    from ledgerwood.learners.federated.task import FederatedTask

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

__all__ = [
    "Coordinator",
    "FederatedTask",
    "Federation",
    "Node",
    "Party",
    "identities",
    "write_app",
    "write_parties",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
