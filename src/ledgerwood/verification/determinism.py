"""Is the noise really drawn afresh? Same second, same seed, forked processes, two threads.

Noise seeded with the clock's second, or copied by a fork, repeats; whoever knows the second can subtract it. These are
tests of the mechanism's randomness, not of one pair: each compares outputs that ought to be independent bit for bit.
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

from ledgerwood.verification.features import Encoder, row_keys
from ledgerwood.verification.sampling import Mechanism, draw_outputs

__all__ = ["Determinism", "check_determinism", "is_clock_seeded"]


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


def _rng(*key: int) -> np.random.Generator:
    return default_rng(SeedSequence(20231, spawn_key=key))


def _same(*outputs: Any) -> bool:
    """Bit-for-bit equality of outputs of any type."""
    encoded = Encoder.fit(list(outputs))(list(outputs))
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
    different = [_one(mechanism, data, 2, i) for i in range(8)]
    same_second = _same(*different)
    same_seed = _same(_one(mechanism, data, 3), _one(mechanism, data, 3))
    clock = same_second and is_clock_seeded(mechanism, data)
    in_threads: list[Any] = [None, None]

    def work(i: int) -> None:
        in_threads[i] = _one(mechanism, data, 4, i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return Determinism(same_second, same_seed, _forked(mechanism, data), _same(*in_threads), clock)


def _forked(mechanism: Mechanism, data: Any) -> bool | None:
    if "fork" not in multiprocessing.get_all_start_methods():
        return None
    context = multiprocessing.get_context("fork")
    keys = []
    for i in range(2):
        receiver, sender = context.Pipe(duplex=False)

        def work(i: int = i, sender: Any = sender) -> None:
            output = _one(mechanism, data, 5, i)
            encoded = Encoder.fit([output])([output])
            sender.send(int(row_keys(encoded.numbers)[0]))

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
