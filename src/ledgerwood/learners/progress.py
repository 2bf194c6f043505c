"""Showing how far a fit is: public facts only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ledgerwood.learners.door import Callback, Progress


@contextlib.contextmanager
def watching(verbose: Any, callbacks: Sequence[Callback] | None) -> Iterator[tuple[Callback, ...]]:
    """Yield the callbacks of a fit: the user's, and a progress bar (rich, else lines) when ``verbose``."""
    own = tuple(callbacks or ())
    if not verbose:
        yield own
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        yield (*own, _line)
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("private fit", total=None)
        yield (*own, lambda event: bar.update(task, completed=event.done, total=event.total, description=told(event)))


def _line(event: Progress) -> None:
    if event.done == event.total or event.done % max(1, event.total // 10) == 0:
        print(f"{event.done}/{event.total} {told(event)} ({event.seconds:.1f} s)", file=sys.stderr)


def told(event: Progress) -> str:
    """Return a progress as a few words.

    >>> told(Progress("leaf", 12, 50, 2.0, trees=4, rows_per_second=6e6, spent=0.25))
    'leaf, 4 trees, 6.0e+06 rows/s, 25 % of the budget spent'
    """
    trees = f"{event.trees} trees, " if event.trees else ""
    return f"{event.label}, {trees}{event.rows_per_second:.1e} rows/s, {100 * event.spent:.0f} % of the budget spent"
