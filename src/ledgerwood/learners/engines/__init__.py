"""Where the records of a training live: partitions on disk or on a cluster, with the same bits as in memory."""

from importlib import import_module
from typing import Any

_HOME = {
    "DaskEngine": "dask",
    "Partitions": "ledgerwood.learners.data.partitions",
}

__all__ = ["DaskEngine", "Partitions"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
