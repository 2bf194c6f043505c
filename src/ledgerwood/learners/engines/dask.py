"""Partitions on a Dask cluster: workers sum, the driver adds noise.

Each query is one task per worker about the parts assigned to it. A task is a function of its arguments: the parts,
the log so far, the query. What a worker remembers (bin codes, scores) is soft state in a cache of this module, with the
position in the log that it has reached. Entries are applied from exactly there, once, in order; a worker whose memory
is elsewhere refuses, and is sent its parts and the whole log. So tasks may run twice, late, or at the same time, and a
killed worker costs time and changes no bit. No task draws noise, and nothing that depends on data is logged. Exact sums
cross the wire: the cluster is inside the trust boundary; give the client TLS (``distributed.Security``).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ledgerwood._version import __version__
from ledgerwood.errors import EngineLost, ParameterError
from ledgerwood.learners.data.columns import Ints, Key
from ledgerwood.learners.data.privacy_unit import Identities
from ledgerwood.learners.engines.interface import (
    EngineQuery,
    Log,
    Op,
    Records,
    apply,
    part_digest,
    unit_identities,
)

__all__ = ["DaskEngine", "DaskSums"]

_CACHE: dict[tuple[str, int], PartState] = {}
_LOCK = threading.Lock()
"""Guards the cache itself; each part has a lock of its own."""
_RETRIES = 8
_OPEN = "open"
"""The first query: the worker loads its parts and returns nothing."""
_WINDOW = 16
"""Parts whose identities are gathered together."""
_POLL = 1.0
"""Seconds between two looks at whether a worker is still there."""
_PATIENCE = 120
"""Seconds to wait for a worker when there is none."""
_GONE = (
    "the cluster is gone; the release under way was not made. Fit again with a new client: with the same checkpoint "
    "the training goes on where it was"
)


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
    >>> engine.sums([])
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

    def check(self) -> None:
        """Raise if the cluster cannot be used; asked before anything is released."""
        self._checked()

    def sums(self, records: Sequence[Records]) -> DaskSums:
        """Open parts on the workers and return the object that sums over them.

        A part that cannot be read raises here, before anything is charged.
        """
        found = DaskSums(self._checked(), records, self.threads_per_task)
        found.query(_OPEN)
        return found

    def digests(self, parts: Sequence[Any], key: bytes) -> list[str]:
        """Return a keyed digest of each part, taken by the workers."""
        return self.each(part_digest, parts, key)

    def identities(self, parts: Sequence[Any], unit: Key, key: bytes) -> Iterator[Identities]:
        """Yield the identities of the rows of each part; the driver holds those of a few parts at a time."""
        for at in range(0, len(parts), _WINDOW):
            yield from self.each(unit_identities, parts[at : at + _WINDOW], unit, key)

    def each(self, function: Callable[..., Any], parts: Sequence[Any], *arguments: Any) -> list[Any]:
        """Return a function of each part, computed by the workers."""
        client = self._checked()
        try:
            found = client.gather([client.submit(function, part, *arguments, pure=False) for part in parts])
            return list(found)
        except Exception as error:
            if _is_ours(error):
                raise
            raise EngineLost(_GONE) from error

    def _checked(self) -> Any:
        if self.client is None:
            raise ParameterError("engine", "have a client: DaskEngine(client)", None)
        _check_workers(self.client)
        return self.client


class DaskSums:
    """Exact sums over parts on a cluster."""

    def __init__(self, client: Any, records: Sequence[Records], threads: int) -> None:
        self._client, self._records, self._threads = client, list(records), threads
        self._run, self._log = uuid.uuid4().hex, Log()
        self._known: dict[str, int] = {}  # worker -> entries of the log it has seen
        self._homes: dict[str, list[int]] = {}

    def broadcast(self, name: str, argument: Any) -> None:
        """Add something public to the log."""
        if name == "start" and self._log.ops:
            self._run = uuid.uuid4().hex
            self._known.clear()
        self._log.broadcast(name, argument)

    def query(self, name: str, *arguments: Any) -> Ints:
        """Query every worker about its parts, and again, on workers that are there, for what was lost."""
        total: Ints | None = None
        waiting = list(range(len(self._records)))
        for _ in range(_RETRIES):
            futures = []
            for worker, own in self._assigned(waiting).items():
                futures.append((worker, own, self._submit(worker, own, (name, arguments))))
            waiting = []
            for worker, own, future in futures:
                try:
                    found = self._result(worker, future)
                except Exception as error:
                    if _is_ours(error):
                        raise
                    self._present()  # says so if it is the scheduler that died
                    self._forget(worker)
                    waiting += own
                    continue
                if found is None:  # the worker lacks state: give it the parts and the whole log
                    self._known.pop(worker, None)
                    waiting += own
                    continue
                self._known[worker] = len(self._log.ops)
                total = found if total is None else total + found
            if not waiting:
                assert total is not None
                return total
        raise EngineLost(
            f"{len(waiting)} of {len(self._records)} parts could not be summed after {_RETRIES} attempts. {_GONE}"
        )

    def _submit(self, worker: str, own: Sequence[int], query: EngineQuery) -> Any:
        """Give a worker its task: with the parts and the whole log only if it has not seen them."""
        known = self._known.get(worker)
        parts = {number: self._records[number] if known is None else None for number in own}
        task = (self._run, parts, known or 0, self._log.ops[known or 0 :], query, self._threads)
        try:
            return self._client.submit(answer, *task, workers=[worker], allow_other_workers=True, pure=False, retries=0)
        except Exception as error:
            raise EngineLost(_GONE) from error

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
        if getattr(self._client, "status", "running") != "running":  # it would try to reconnect for minutes
            raise EngineLost(_GONE)
        try:
            return sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        except Exception as error:
            raise EngineLost(_GONE) from error

    def _assigned(self, parts: Sequence[int]) -> dict[str, list[int]]:
        """Return which worker sums which parts: the one that did before if it is there, else the least loaded one."""
        present = self._present()
        if not present:
            try:
                self._client.wait_for_workers(1, timeout=_PATIENCE)
            except Exception as error:
                raise EngineLost(_GONE) from error
            present = self._present()
        for gone in set(self._homes) - set(present):
            self._forget(gone)
        home = {part: worker for worker, own in self._homes.items() for part in own}
        for part in parts:
            if part not in home:
                least = min(present, key=lambda worker: (len(self._homes.get(worker, ())), worker))
                self._homes.setdefault(least, []).append(part)
                self._known.pop(least, None)  # it needs this part, and the log from its beginning
                home[part] = least
        found: dict[str, list[int]] = {}
        for part in parts:
            found.setdefault(home[part], []).append(part)
        return found

    def _forget(self, worker: str) -> None:
        self._homes.pop(worker, None)
        self._known.pop(worker, None)


class PartState:
    """A part in a worker's memory, and how far in the log it is.

    Parameters
    ----------
    part
        The part as it was opened, before anything was broadcast.

    Examples
    --------
    >>> state = PartState([])
    >>> state.answer(0, [("append", 5)], ("count", (5,)))
    1
    >>> state.answer(0, [("append", 5)], ("count", (5,)))  # the same task again
    1
    >>> state.answer(0, [("append", 5), ("append", 5)], ("count", (5,)))
    2
    >>> state.answer(0, [("append", 5)], ("count", (5,))) is None  # a query about the past
    True
    """

    def __init__(self, part: Any) -> None:
        self._part, self._seen, self._lock = part, 0, threading.Lock()

    def answer(self, known: int, ops: Sequence[Op], query: EngineQuery) -> Ints | None:
        """Bring the part to the end of ``ops``, which begin at position ``known`` of the log, and answer there.

        None if that is not possible: the log begins after the part's position or ends before it, or an earlier call
        failed. A call that fails leaves nothing behind, for it may have applied half of an entry.
        """
        position = known + len(ops)
        with self._lock:
            if self._part is None or not known <= self._seen <= position:
                return None
            part, self._part = self._part, None  # put back when all went well
            apply(part, ops[self._seen - known :])
            name, arguments = query
            found: Ints = np.zeros(1, dtype=np.int64) if name == _OPEN else getattr(part, name)(*arguments)
            self._part, self._seen = part, position
            return found


def answer(
    run: str, parts: Mapping[int, Records | None], known: int, ops: Sequence[Op], query: EngineQuery, threads: int
) -> Ints | None:
    """Sum a query over some parts on a worker; None if it lacks a part, or its memory is elsewhere in the log."""
    with _LOCK:
        for old in [key for key in _CACHE if key[0] != run]:
            del _CACHE[old]
        new = {number: records for number, records in parts.items() if (run, number) not in _CACHE}
    if any(records is None for records in new.values()):
        return None
    # Outside the locks: a part that is itself a Dask computation needs the worker to go on.
    opened = {number: PartState(records.open(threads)) for number, records in new.items() if records is not None}
    with _LOCK:
        for number, fresh in opened.items():
            _CACHE.setdefault((run, number), fresh)
        held = {number: _CACHE.get((run, number)) for number in parts}
    total: Ints | None = None
    for number, state in held.items():
        try:
            found = None if state is None else state.answer(known, ops, query)
        except BaseException:
            with _LOCK:
                if _CACHE.get((run, number)) is state:
                    del _CACHE[run, number]
            raise
        if found is None:
            return None
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
    except Exception as error:
        state = repr(error)  # a scheduler hands a worker's error on as text
        if "ModuleNotFoundError" in state or "ImportError" in state:
            raise ParameterError("workers", "have ledgerwood installed", state) from None
        raise EngineLost(_GONE) from error
    other = {worker: v for worker, v in found.items() if v != __version__}
    if other:
        raise ParameterError("workers", f"have ledgerwood {__version__}", sorted(set(other.values())))
