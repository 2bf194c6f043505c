"""Steps that may be taken once: a memory that does not depend on anyone else's.

Between two messages a client's state lives with its transport. If that loses a step (a process killed after its reply
left, a store rolled back), the same masks would cover a second vector, and the difference of the two would be seen
without them. So a party notes each step of a round in its own folder before it takes it, and never takes one twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Once"]


@dataclass
class Once:
    """Says whether a step of a session is taken for the first time; durable if it has a folder.

    >>> once = Once()
    >>> once.first(bytes(32), "mask"), once.first(bytes(32), "mask")
    (True, False)
    """

    folder: Path | None = None
    _seen: set[tuple[bytes, str]] = field(default_factory=set, init=False, repr=False)

    def first(self, session: bytes, step: str) -> bool:
        """Note the step and return whether it is new. On disk before the answer."""
        if self.folder is None:
            new = (session, step) not in self._seen
            self._seen.add((session, step))
            return new
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self.folder / f"{session.hex()}.{step}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the entry itself, not the empty file, is what must last
        finally:
            os.close(folder)
        return True
