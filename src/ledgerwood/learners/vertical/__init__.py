"""Vertical boosting: order-preserving randomization (OpBoost, Li et al. 2022), then any learner on what was released.

Names are imported at first use: declaring needs neither scikit-learn nor Arrow Flight.
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

if TYPE_CHECKING:
    from ledgerwood.learners.vertical.feature_client import FeatureClient as FeatureClient
    from ledgerwood.learners.vertical.feature_party import FeatureParty as FeatureParty
    from ledgerwood.learners.vertical.feature_party import FeatureServer as FeatureServer
    from ledgerwood.learners.vertical.messages import id_digest as id_digest
    from ledgerwood.learners.vertical.model import VerticalModel as VerticalModel
    from ledgerwood.learners.vertical.model import split_ordinals as split_ordinals
    from ledgerwood.learners.vertical.model import with_values as with_values
    from ledgerwood.learners.vertical.recommendation import Recommendation as Recommendation
    from ledgerwood.learners.vertical.recommendation import recommend as recommend
    from ledgerwood.learners.vertical.release import ReleaseStatement as ReleaseStatement
    from ledgerwood.learners.vertical.tls import Authority as Authority
    from ledgerwood.learners.vertical.tls import Identity as Identity
    from ledgerwood.learners.vertical.training import train_vertical as train_vertical
    from ledgerwood.learners.vertical.transformer import OrderPreservingTransformer as OrderPreservingTransformer

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

__all__ = sorted(_HOME)

__getattr__ = at_first_use(__name__, _HOME)
