"""Is the noise really drawn afresh? Same second, same seed, forked processes, two threads.

Noise seeded with the clock's second, or copied by a fork, repeats; whoever knows the second can subtract it. These are
tests of the mechanism's randomness, not of one pair: each compares outputs that ought to be independent bit for bit.
One output says little if there are few (a coin agrees with another every second time), so runs of outputs are
compared, long enough to tell two coins apart.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from ledgerwood.verification.auditor.encoding import OutputEncoder, row_keys
from ledgerwood.verification.auditor.sampling import Mechanism, draw_outputs

__all__ = ["Determinism", "check_determinism", "forks_repeat", "is_clock_seeded"]


@dataclass(frozen=True, slots=True)
class Determinism:
    """What repeats. Each field is True if the outputs were equal where they ought to differ (``None``: not tested)."""

    #: different generators, within one second of the clock
    same_second: bool
    #: equal generators give equal outputs (wanted: otherwise the mechanism has a randomness of its own)
    same_seed: bool
    #: two forked processes with different generators
    forked: bool | None
    #: two threads with different generators
    threads: bool
    #: equal within a second, different in the next: seeded with the clock
    clock: bool

    @property
    def sound(self) -> bool:
        """Whether no noise was seen to repeat."""
        return not (self.same_second or self.forked or self.threads or self.clock)

    def __str__(self) -> str:
        found = [
            text
            for seen, text in (
                (self.clock, "outputs change with the clock's second only: the noise is seeded with the clock"),
                (self.same_second and not self.clock, "outputs do not depend on the generator"),
                (self.forked, "two forked processes draw the same noise"),
                (self.threads, "two threads draw the same noise"),
                (not self.same_seed, "equal seeds give different outputs: the generator is ignored"),
            )
            if seen
        ]
        return "; ".join(found) or "no noise was seen to repeat"


_CALLS = 16  # within one second
_DISTINCT = 8  # different outputs in a run: no other run is equal to it by chance
_SHORT = 4  # outputs of the later runs, if all of the first differ
_RUN = 256  # outputs of a run, if there are fewer different ones
_PATIENCE = 2.0  # seconds for the first run; the others are as long
_CHANCE = 1e-6  # below it, equal outputs are not luck


def _rng(*key: int) -> np.random.Generator:
    return default_rng(SeedSequence(20231, spawn_key=key))


def _same(*outputs: Any) -> bool:
    """Bit-for-bit equality of outputs of any type."""
    encoded = OutputEncoder.fit(list(outputs))(list(outputs))
    return bool(np.unique(row_keys(encoded.numbers)).size == 1)


def _one(mechanism: Mechanism, data: Any, *key: int) -> Any:
    return draw_outputs(mechanism, data, 1, _rng(*key))[0]


def is_clock_seeded(mechanism: Mechanism, data: Any) -> bool:
    """Whether different generators agree within a second and equal ones differ across seconds (takes two seconds).

    Independent outputs pass for such with a probability below 1e-9, however rarely they differ.
    """
    early = _within_a_second(mechanism, data)
    if not early or not _same(*early):
        return False
    late = _within_a_second(mechanism, data)
    return bool(late) and _same(*late) and not _same(early[0], late[0])


def forks_repeat(mechanism: Mechanism, data: Any) -> bool:
    """Whether forked processes draw the same noise; also if that could not be found out."""
    return _forked(mechanism, data, len(_first_run(mechanism, data))) is not False


def _within_a_second(mechanism: Mechanism, data: Any) -> list[Any]:
    """Outputs under different generators, all of one second; none if the mechanism is slower than the clock."""
    for _ in range(3):
        _wait_for_next_second()
        second = int(time.time())
        outputs = [_one(mechanism, data, 1, i) for i in range(_CALLS)]
        if int(time.time()) == second:
            return outputs
    return []


def _wait_for_next_second() -> None:
    time.sleep(1.0 - time.time() % 1.0 + 0.01)


def check_determinism(mechanism: Mechanism, data: Any) -> Determinism:
    """Compare outputs within one second, under one seed, in forked processes and in threads.

    Examples
    --------
    >>> check_determinism(lambda data, rng: data + rng.laplace(), 1.0).sound
    True
    >>> print(check_determinism(lambda data, rng: data, 1.0))
    outputs do not depend on the generator; two forked processes draw the same noise; two threads draw the same noise
    """
    began = int(time.time())
    first = _first_run(mechanism, data)
    seconds = int(time.time()) - began
    length = _SHORT if len(first) == _DISTINCT else len(first)
    keys = _keys(first)
    still = _stands_still(first)
    # a run may begin in one second and end in another
    suspect = still or int(np.count_nonzero(keys[1:] != keys[:-1])) <= seconds
    clock = suspect and is_clock_seeded(mechanism, data)
    same_second = still or clock
    same_seed = _same_runs(*(_run(mechanism, data, length, 3) for _ in range(2)))
    in_threads: list[list[Any]] = [[], []]

    def work(i: int) -> None:
        in_threads[i] = _run(mechanism, data, length, 4, i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    forked = _forked(mechanism, data, length)
    return Determinism(same_second, same_seed, forked, _same_runs(*in_threads), clock)


def _run(mechanism: Mechanism, data: Any, count: int, *key: int) -> list[Any]:
    """Outputs under as many different generators."""
    return [_one(mechanism, data, *key, i) for i in range(count)]


def _first_run(mechanism: Mechanism, data: Any) -> list[Any]:
    """Outputs under different generators until enough of them differ, or enough were seen."""
    start, outputs = time.monotonic(), _run(mechanism, data, _DISTINCT, 2)
    while len(outputs) < _RUN and np.unique(_keys(outputs)).size < _DISTINCT and time.monotonic() - start < _PATIENCE:
        outputs += [_one(mechanism, data, 2, len(outputs) + i) for i in range(_DISTINCT)]
    return outputs


def _stands_still(outputs: list[Any]) -> bool:
    """Whether the first outputs are equal, and this many equal ones are not luck at the frequency of the commonest."""
    if not _same(*outputs[:_DISTINCT]):
        return False
    _, counts = np.unique(_keys(outputs), return_counts=True)
    return bool(counts.size == 1 or (counts.max() / len(outputs)) ** _DISTINCT < _CHANCE)


def _keys(outputs: list[Any]) -> NDArray[np.uint64]:
    return row_keys(OutputEncoder.fit(outputs)(outputs).numbers)


def _same_runs(first: list[Any], second: list[Any]) -> bool:
    keys = _keys([*first, *second])
    return bool(np.array_equal(keys[: len(first)], keys[len(first) :]))


def _forked(mechanism: Mechanism, data: Any, count: int) -> bool | None:
    if "fork" not in multiprocessing.get_all_start_methods():
        return None
    context = multiprocessing.get_context("fork")
    keys = []
    for i in range(2):
        receiver, sender = context.Pipe(duplex=False)

        def work(i: int = i, sender: Any = sender) -> None:
            outputs = _run(mechanism, data, count, 5, i)
            sender.send([int(row_keys(OutputEncoder.fit([output])([output]).numbers)[0]) for output in outputs])

        process = context.Process(target=work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the threads of numpy's BLAS
            process.start()
        sender.close()
        try:
            keys.append(receiver.recv() if receiver.poll(60) else None)
        except EOFError:
            keys.append(None)
        process.join(1)
        if process.is_alive():
            process.terminate()
    return None if None in keys else keys[0] == keys[1]
