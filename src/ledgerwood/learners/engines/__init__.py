"""Where the records of a training live: partitions on disk or on a cluster, with the same bits as in memory."""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

if TYPE_CHECKING:
    from ledgerwood.learners.data.partitions import Partitions
    from ledgerwood.learners.engines.dask import DaskEngine

_HOME = {"DaskEngine": "dask", "Partitions": ".data.partitions"}

__all__ = ["DaskEngine", "Partitions"]

__getattr__ = at_first_use(__name__, _HOME)
