"""Where the records of a training live: partitions on disk or on a cluster, with the same bits as in memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.data.partitions import Partitions
    from ledgerwood.learners.engines.dask import DaskEngine

_HOME = {"DaskEngine": "ledgerwood.learners.engines.dask", "Partitions": "ledgerwood.learners.data.partitions"}

__all__ = ["DaskEngine", "Partitions"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
