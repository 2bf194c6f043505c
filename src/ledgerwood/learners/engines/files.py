"""Arrays in unlinked files: as private as the process, gone with it, and not in memory while they rest."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Files"]


class Files:
    """Makes arrays that live in unlinked files of a folder; None for the system's temporary one."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._maps: list[mmap.mmap] = []

    def empty(self, shape: Any, dtype: Any) -> NDArray[Any]:
        """Return an array of zeros in a file of its own."""
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(dir=self._folder) as file:  # the mapping keeps the storage
            file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype, count).reshape(shape)

    def rest(self) -> None:
        """Give the pages back; their content stays in the files."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
