"""Vertical boosting: order-preserving desensitisation (P1, OpBoost), then any learner on what was released.

Names are imported at first use: declaring needs neither scikit-learn nor Arrow Flight.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certificates import Authority, Identity
    from .choices import Recommendation, recommend
    from .messages import id_digest
    from .model import VerticalModel
    from .party_a import FeatureClient
    from .party_b import FeatureParty, FeatureServer
    from .splits import split_ordinals, with_values
    from .statement import ReleaseStatement
    from .training import train_vertical
    from .transformer import OrderPreservingTransformer

_HOME = {
    "Authority": "certificates",
    "FeatureClient": "party_a",
    "FeatureParty": "party_b",
    "FeatureServer": "party_b",
    "Identity": "certificates",
    "OrderPreservingTransformer": "transformer",
    "Recommendation": "choices",
    "ReleaseStatement": "statement",
    "VerticalModel": "model",
    "id_digest": "messages",
    "recommend": "choices",
    "split_ordinals": "splits",
    "train_vertical": "training",
    "with_values": "splits",
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
