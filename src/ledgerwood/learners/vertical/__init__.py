"""Vertical boosting: order-preserving desensitisation (P1, OpBoost), then any learner on what was released.

Names are imported at first use, so that declaring costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .statement import ReleaseStatement
    from .transformer import OrderPreservingTransformer

_HOME = {
    "OrderPreservingTransformer": "transformer",
    "ReleaseStatement": "statement",
}

__all__ = ["OrderPreservingTransformer", "ReleaseStatement"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
