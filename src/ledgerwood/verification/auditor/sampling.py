"""Draw outputs of a black box: in seeded batches, on all cores if it is slow, with a bar if it takes long.

A batch's generator depends on the seed, the stream and the batch's number only, so that a run is reproduced by its seed
whatever the number of processes. An exception is an output (``Raised``), never a crash of the audit. If ``sample``
raises, a whole batch of equal outputs is not a set of independent draws, and nothing can be certified from it
(``Draws.one_by_one``).
"""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.encoding import Outputs, Raised, count_nans
from ledgerwood.verification.auditor.tuning import LIMITS

__all__ = ["Draws", "InputPair", "ProgressBar"]


_ATOMS = (bool, int, float, complex, str, bytes, type(None))  # never change once returned

Mechanism = Callable[..., Any]


class ProgressBar:
    """A plain bar on a terminal's stderr, for runs longer than three seconds."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start, self.shown = total, 0, time.monotonic(), 0.0
        self.live = sys.stderr.isatty()

    def advance(self, count: int) -> None:
        """Count finished outputs and redraw at most five times a second."""
        self.done += count
        now = time.monotonic()
        if self.live and now - self.start > 3.0 and now - self.shown > 0.2:
            self.shown = now
            done = min(self.done, self.total)  # the pilot's outputs come on top
            filled = round(30 * done / self.total)
            sys.stderr.write(f"\raudit [{'#' * filled}{'.' * (30 - filled)}] {done:,} of {self.total:,} outputs")
            sys.stderr.flush()

    def close(self) -> None:
        """End the bar's line."""
        if self.live and self.shown:
            sys.stderr.write("\n")


@dataclass(slots=True)
class Draws:
    """A black box and the inputs it may be asked about; a context that owns the worker processes."""

    mechanism: Mechanism
    inputs: list[Any]
    entropy: int
    progress: ProgressBar
    raised: dict[str, int] = field(default_factory=dict)
    drawn: int = 0  # outputs so far
    nans: int = 0  # and how many of them are nan, or have nan among their fields
    _pool: Pool | None = None
    _adopted: int = 0  # inputs that the workers inherited; later ones travel with the job

    @property
    def vectorized(self) -> bool:
        """Whether the mechanism draws many outputs in one call."""
        return callable(getattr(self.mechanism, "sample", None))

    def __enter__(self) -> Draws:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
            self._pool = None
        self.progress.close()

    def one_by_one(self) -> None:
        """Ask for one output per call from now on: an exception then stands for one output, not for a whole batch."""
        self.mechanism = _OneByOne(self.mechanism)
        self.raised.clear()
        self.drawn = self.nans = 0

    def copied(self) -> None:
        """Copy every output from now on: the mechanism returns one object again and again, and changes it."""
        self.mechanism = _Copied(self.mechanism)

    def use_all_cores(self, expected_seconds: float) -> None:
        """Start worker processes if the rest of the run is long enough to pay for them."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        can_fork = "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.current_process().daemon
        long = expected_seconds > LIMITS.parallel_seconds
        if self._pool is None and can_fork and cores > 1 and long and self._outputs_travel():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the threads of numpy's BLAS
                context = multiprocessing.get_context("fork")
                self._adopted = len(self.inputs)
                self._pool = context.Pool(cores, initializer=_adopt, initargs=(self.mechanism, list(self.inputs)))

    def _outputs_travel(self) -> bool:
        """Whether outputs can be sent from one process to another; a class made inside a function cannot."""
        rng = default_rng(SeedSequence(self.entropy, spawn_key=(97,)))
        try:
            for data in self.inputs[:2]:
                pickle.loads(pickle.dumps(_call(self.mechanism, data, rng)))
        except Exception:
            return False
        return True

    def draw(self, which: int, count: int, stream: int) -> Outputs:
        """``count`` outputs on input ``which`` from one stream, in one piece."""
        parts = list(self.batches(which, count, stream))
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.concatenate(parts)
        return [output for part in parts for output in part]

    def batches(self, which: int, count: int, stream: int) -> Iterator[Outputs]:
        """The same outputs batch by batch."""
        size = LIMITS.batch if self.vectorized else max(1, min(2000, count // 64))
        sizes = [size] * (count // size) + ([count % size] if count % size else [])
        keys = [(self.entropy, stream, which, i) for i in range(len(sizes))]
        data = self.inputs[which]
        if self._pool is None:
            results: Iterator[Outputs] = (_run(self.mechanism, data, n, key) for n, key in zip(sizes, keys))
        else:
            source = (which, None) if which < self._adopted else (-1, data)
            results = self._pool.imap(_run_adopted, [(source, n, key) for n, key in zip(sizes, keys)])
        for outputs in results:
            for output in outputs if not isinstance(outputs, np.ndarray) else ():
                if isinstance(output, Raised):
                    self.raised[output.kind] = self.raised.get(output.kind, 0) + 1
            self.drawn += len(outputs)
            self.nans += count_nans(outputs)
            self.progress.advance(len(outputs))
            yield outputs


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """A vectorized mechanism, called for single outputs."""

    mechanism: Mechanism

    def __call__(self, data: Any, rng: Generator) -> Any:
        return draw_outputs(self.mechanism, data, 1, rng)[0]


@dataclass(frozen=True, slots=True)
class _Copied:
    """A mechanism whose outputs are copied before its next call changes them."""

    mechanism: Mechanism

    def __call__(self, data: Any, rng: Generator) -> Any:
        return copy.deepcopy(self.mechanism(data, rng))


Key = tuple[int, ...]

Job = tuple[tuple[int, Any], int, Key]

_inherited: tuple[Mechanism, Sequence[Any]] | None = None


def _adopt(mechanism: Mechanism, inputs: Sequence[Any]) -> None:
    global _inherited
    _inherited = (mechanism, inputs)


def _run_adopted(job: Job) -> Outputs:
    assert _inherited is not None
    (which, data), count, key = job
    return _run(_inherited[0], _inherited[1][which] if which >= 0 else data, count, key)


def _run(mechanism: Mechanism, data: Any, count: int, key: Key) -> Outputs:
    return draw_outputs(mechanism, data, count, default_rng(SeedSequence(key[0], spawn_key=key[1:])))


def draw_outputs(mechanism: Mechanism, data: Any, count: int, rng: Generator) -> Outputs:
    """``count`` outputs from one generator; the type of an exception stands for the output it prevented."""
    sample = getattr(mechanism, "sample", None)
    if callable(sample):
        try:
            outputs = _items(sample(data, count, rng))
        except (Exception, SystemExit) as error:
            return [Raised(type(error).__name__)] * count
        if (given := _length(outputs)) != count:
            raise ParameterError("sample", f"return {count} outputs, in an array or a list", given)
        return outputs.copy() if isinstance(outputs, np.ndarray) else [_read(output) for output in outputs]
    return [_call(mechanism, data, rng) for _ in range(count)]


def _call(mechanism: Mechanism, data: Any, rng: Generator) -> Any:
    try:
        return _read(mechanism(data, rng))
    except (Exception, SystemExit) as error:
        return Raised(type(error).__name__)


def _length(outputs: Any) -> int | str:
    """How many outputs there are, or the type of what cannot be counted."""
    try:
        return len(outputs)
    except TypeError:
        return type(outputs).__name__


def _items(output: Any) -> Any:
    """An iterator's items, which can be read once only; anything else as it is."""
    return list(itertools.islice(output, LIMITS.most_iterated)) if isinstance(output, Iterator) else output


def _read(output: Any) -> Any:
    """An output that no later call changes."""
    return output if type(output) in _ATOMS else _own(_items(output))


def _own(output: Any, depth: int = 0) -> Any:
    """Copies of arrays, lists and mappings: a mechanism may fill one buffer again and again, and return that."""
    kind = type(output)
    if kind in _ATOMS or depth > LIMITS.copy_depth:
        return output
    if isinstance(output, np.ndarray) or kind is bytearray:
        return output.copy()
    if kind is list or kind is tuple:
        return kind([_own(item, depth + 1) for item in output])
    return {key: _own(item, depth + 1) for key, item in output.items()} if kind is dict else output


def returns_itself(outputs: Sequence[Any]) -> bool:
    """Whether some of these outputs are one object that may change."""
    objects = [id(output) for output in outputs if type(output) not in _ATOMS and not isinstance(output, tuple)]
    return len(set(objects)) < len(objects)


@dataclass(frozen=True, slots=True, eq=False)
class InputPair:
    """Two neighbouring inputs and how the pair was made."""

    first: Any
    second: Any
    origin: str
