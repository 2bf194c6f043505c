"""Vertical boosting: order-preserving randomization (OpBoost, Li et al. 2022), then any learner on what was released.

Names are imported at first use: declaring needs neither scikit-learn nor Arrow Flight.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.vertical.feature_client import FeatureClient
    from ledgerwood.learners.vertical.feature_party import FeatureParty, FeatureServer
    from ledgerwood.learners.vertical.messages import id_digest
    from ledgerwood.learners.vertical.model import VerticalModel, split_ordinals, with_values
    from ledgerwood.learners.vertical.recommendation import Recommendation, recommend
    from ledgerwood.learners.vertical.release import ReleaseStatement
    from ledgerwood.learners.vertical.tls import Authority, Identity
    from ledgerwood.learners.vertical.training import train_vertical
    from ledgerwood.learners.vertical.transformer import OrderPreservingTransformer

_HOME = {
    "Authority": "tls",
    "FeatureClient": "feature_client",
    "FeatureParty": "feature_party",
    "FeatureServer": "feature_party",
    "Identity": "tls",
    "OrderPreservingTransformer": "transformer",
    "Recommendation": "recommendation",
    "ReleaseStatement": "release",
    "VerticalModel": "model",
    "id_digest": "messages",
    "recommend": "recommendation",
    "split_ordinals": "model",
    "train_vertical": "training",
    "with_values": "model",
}

__all__ = [
    "Authority",
    "FeatureClient",
    "FeatureParty",
    "FeatureServer",
    "Identity",
    "OrderPreservingTransformer",
    "Recommendation",
    "ReleaseStatement",
    "VerticalModel",
    "id_digest",
    "recommend",
    "split_ordinals",
    "train_vertical",
    "with_values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
