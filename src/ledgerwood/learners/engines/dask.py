"""Partitions on a Dask cluster: workers sum, the driver adds noise.

Each question is one task per worker about the parts assigned to it. A task is a function of its arguments: the parts,
the log so far, the question. What a worker remembers (codes, scores) is soft state in a cache of this module; a
worker that has none of it asks for the whole log and rebuilds. So a killed worker costs time and changes no bit. No
task draws noise, and nothing that depends on data is logged. Exact sums cross the wire: the cluster is inside the
trust boundary; give the client TLS (``distributed.Security``).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._version import __version__
from ledgerwood.errors import EngineLost, ParameterError
from ledgerwood.learners.engines.replay import Log, Op, Question, Records, apply, part_digest
from ledgerwood.learners.trees.local import LocalAggregator
from ledgerwood.learners.trees.seam import Channel, Edges, PartialTree, Sample, Structure, Task, Tree

__all__ = ["DaskAggregator", "DaskEngine"]

Ints = NDArray[np.int64]

_CACHE: dict[tuple[str, int], tuple[LocalAggregator, int]] = {}
_LOCK = threading.Lock()
_RETRIES = 8
_POLL = 1.0
"""Seconds between two looks at whether a worker is still there."""
_PATIENCE = 120
"""Seconds to wait for a worker when there is none."""


class DaskEngine:
    """Trains on the workers of a Dask client. Cloning shares the client; pickling drops it.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    threads_per_task
        Threads that a task may use on its worker.

    Examples
    --------
    >>> engine = DaskEngine(None)
    >>> engine.aggregator([])
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: engine must have a client: DaskEngine(client), got engine=None
    """

    def __init__(self, client: Any, *, threads_per_task: int = 1) -> None:
        self.client, self.threads_per_task = client, threads_per_task

    def __getstate__(self) -> dict[str, Any]:
        return {"client": None, "threads_per_task": self.threads_per_task}

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        return self

    def __sklearn_clone__(self) -> DaskEngine:
        return self

    def aggregator(self, parts: Sequence[Records]) -> DaskAggregator:
        """Return the aggregator of some parts on this cluster."""
        return DaskAggregator(self._checked(), parts, self.threads_per_task)

    def digests(self, parts: Sequence[Any], key: bytes) -> list[str]:
        """Return a keyed digest of each part, taken by the workers."""
        client = self._checked()
        try:
            futures = [client.submit(part_digest, part, key, pure=False) for part in parts]
            return [str(digest) for digest in client.gather(futures)]
        except Exception as error:
            if _is_ours(error):
                raise
            raise EngineLost(
                "the cluster was lost before anything was released. Fit again with a new client"
            ) from error

    def _checked(self) -> Any:
        if self.client is None:
            raise ParameterError("engine", "have a client: DaskEngine(client)", None)
        _check_workers(self.client)
        return self.client


class DaskAggregator:
    """Exact sums over parts on a cluster."""

    def __init__(self, client: Any, parts: Sequence[Records], threads: int) -> None:
        self._client, self._parts, self._threads = client, list(parts), threads
        self._run, self._log = uuid.uuid4().hex, Log()
        self._known: dict[str, int] = {}  # worker -> entries of the log it has seen
        self._homes: dict[str, list[int]] = {}

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self._parts[0].columns)

    def start(self, task: Task) -> None:
        self._run = uuid.uuid4().hex
        self._known.clear()
        self._log.tell("start", task)

    def bin(self, edges: Edges) -> None:
        self._log.tell("bin", edges)

    def sample(self, sample: Sample | None) -> None:
        self._log.tell("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._log.tell("add", list(trees))

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        return self._ask(("histogram", (tree, features, channel)))

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        return self._ask(("leaf_sums", (list(trees), channel)))

    # ---- inside

    def _ask(self, question: Question) -> Ints:
        """Ask every worker about its parts; ask again, on workers that are there, for what was lost."""
        total: Ints | None = None
        waiting = list(range(len(self._parts)))
        for _ in range(_RETRIES):
            futures = []
            for worker, own in self._assigned(waiting).items():
                known = self._known.get(worker, 0)
                task = (self._run, [(i, self._parts[i]) for i in own], known, self._log.ops[known:], question)
                futures.append((worker, own, self._submit(worker, (*task, self._threads))))
            waiting = []
            for worker, own, future in futures:
                try:
                    answer = self._result(worker, future)
                except Exception as error:
                    if _is_ours(error):
                        raise
                    self._forget(worker)
                    waiting += own
                    continue
                if answer is None:  # the worker lacks state: give it the whole log
                    self._known[worker] = 0
                    waiting += own
                    continue
                self._known[worker] = len(self._log.ops)
                total = answer if total is None else total + answer
            if not waiting:
                assert total is not None
                return total
        raise EngineLost(
            f"{len(waiting)} of {len(self._parts)} parts could not be summed after {_RETRIES} attempts; nothing of "
            f"them was released. Check the cluster, then fit again with a new client"
        )

    def _result(self, worker: str, future: Any) -> Ints | None:
        """Wait for an answer as long as its worker is there: a task whose worker died may wait for it for ever."""
        while True:
            try:
                found: Ints | None = future.result(timeout=_POLL)
                return found
            except TimeoutError:
                if worker not in self._present():
                    future.cancel()
                    raise

    def _present(self) -> list[str]:
        try:
            return sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        except Exception as error:
            raise EngineLost("the scheduler is gone; nothing was released. Fit again with a new client") from error

    def _submit(self, worker: str, task: tuple[Any, ...]) -> Any:
        try:
            return self._client.submit(answer, *task, workers=[worker], allow_other_workers=True, pure=False, retries=0)
        except Exception as error:
            raise EngineLost("the scheduler is gone; nothing was released. Fit again with a new client") from error

    def _assigned(self, parts: Sequence[int]) -> dict[str, list[int]]:
        """Return which worker sums which parts: the one that did before if it is there, else the least loaded one."""
        present = self._present()
        if not present:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
            present = self._present()
        for gone in set(self._homes) - set(present):
            self._forget(gone)
        home = {part: worker for worker, own in self._homes.items() for part in own}
        for part in parts:
            if part not in home:
                least = min(present, key=lambda worker: (len(self._homes.get(worker, ())), worker))
                self._homes.setdefault(least, []).append(part)
                home[part] = least
        found: dict[str, list[int]] = {}
        for part in parts:
            found.setdefault(home[part], []).append(part)
        return found

    def _forget(self, worker: str) -> None:
        self._homes.pop(worker, None)
        self._known.pop(worker, None)


def answer(
    run: str, parts: Sequence[tuple[int, Records]], known: int, ops: Sequence[Op], question: Question, threads: int
) -> Ints | None:
    """Sum a question over some parts on a worker; None if the log does not begin where the worker's memory ends."""
    total: Ints | None = None
    with _LOCK:
        for old in [key for key in _CACHE if key[0] != run]:
            del _CACHE[old]
        for number, records in parts:
            aggregator, seen = _CACHE.get((run, number), (None, 0))
            if aggregator is None or seen < known:
                if known:
                    return None
                aggregator, seen = records.open(threads), 0
            apply(aggregator, ops[seen - known :])
            _CACHE[run, number] = aggregator, known + len(ops)
            name, arguments = question
            found: Ints = getattr(aggregator, name)(*arguments)
            total = found if total is None else total + found
    return total


def _is_ours(error: BaseException) -> bool:
    """Whether a task failed for a public reason that trying again does not mend."""
    return isinstance(error, EngineLost | ParameterError | TypeError | ImportError)


def _version() -> str:
    return str(__version__)


def _check_workers(client: Any) -> None:
    """Refuse a cluster whose workers lack this package or have another version of it."""
    try:
        found = client.run(_version)
    except ModuleNotFoundError as error:
        raise ParameterError("workers", "have ledgerwood installed", str(error)) from None
    other = {worker: v for worker, v in found.items() if v != __version__}
    if other:
        raise ParameterError("workers", f"have ledgerwood {__version__}", sorted(set(other.values())))
