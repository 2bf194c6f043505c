"""A few outputs first: how fast is the mechanism, and is it fit to be audited?"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng

from ledgerwood.verification.auditor.determinism import forks_repeat, is_clock_seeded
from ledgerwood.verification.auditor.encoding import Encoded, OutputEncoder, Raised, row_keys
from ledgerwood.verification.auditor.sampling import Draws, InputPair, Mechanism, draw_outputs, returns_itself
from ledgerwood.verification.auditor.tuning import LIMITS

__all__ = ["Pilot", "run_pilot"]

_STREAM = 0


@dataclass(frozen=True, slots=True)
class Pilot:
    """What the first outputs say. ``fatal``: no audit is possible; ``clock``: the clock alone decides the noise."""

    outputs: int
    per_output: float
    found: tuple[str, ...]
    fatal: bool
    clock: bool
    inputs_differ: bool
    draws: Draws
    notes: tuple[str, ...] = ()
    copied_by_fork: bool = False

    @property
    def may_fork(self) -> bool:
        """Whether processes draw different noise: a generator of the mechanism's own would be copied to all of them."""
        return not self.found and not self.copied_by_fork

    @property
    def problems(self) -> tuple[str, ...]:
        """What was found, and how many of all outputs drawn by now are nan: a rare one may come after the pilot."""
        nans, drawn = self.draws.nans, self.draws.drawn
        return ((f"the output is nan in {nans:,} of {drawn:,} outputs",) if nans else ()) + self.found


def run_pilot(draws: Draws, pair: InputPair, samples: int, seconds: float | None = None, *, own: bool = False) -> Pilot:
    """Draw a few outputs on both inputs of a pair, within a small part of the time there is."""
    most = LIMITS.pilot_seconds if seconds is None else min(LIMITS.pilot_seconds, LIMITS.pilot_share * seconds)
    start = time.monotonic()
    rng = default_rng(SeedSequence(draws.entropy, spawn_key=(99,)))
    probe = list(draw_outputs(draws.mechanism, pair.first, 1, rng))
    each = time.monotonic() - start
    for _ in range(2):  # the first call may import and compile
        start = time.monotonic()
        probe.extend(draw_outputs(draws.mechanism, pair.first, 1, rng))
        each = min(each, time.monotonic() - start)
        if seconds is not None and 2 * LIMITS.least_outputs * each > seconds and not draws.vectorized:
            slow = f"too slow: at {each:.3g} s per output the time allows {int(seconds / (2 * each))} outputs per input"
            return Pilot(len(probe), each, (slow,), True, False, False, draws)
    count = int(max(10, min(LIMITS.pilot_outputs, samples // 20, most / max(each, 1e-9))))
    if all(isinstance(output, Raised) for output in probe):
        count = 10
    if not draws.vectorized and returns_itself(probe):
        draws.copied()
    before = _state(pair.first)
    start = time.monotonic()
    both = (draws.draw(0, count, _STREAM), draws.draw(1, count, _STREAM))
    per_output = (time.monotonic() - start) / (2 * count)
    if draws.vectorized:  # the cost of a call is not the cost of an output
        start = time.monotonic()
        draw_outputs(draws.mechanism, pair.first, 20 * count, default_rng(SeedSequence(draws.entropy, spawn_key=(98,))))
        per_output = min(per_output, (time.monotonic() - start) / (20 * count))
    kinds = sorted({output.kind for outputs in both for output in outputs if isinstance(output, Raised)})
    if kinds and all(isinstance(output, Raised) for outputs in both for output in outputs):
        return Pilot(2 * count, per_output, (f"every call raised {', '.join(kinds)}",), True, False, False, draws)
    if _state(pair.first) != before:
        changes = "changes its input, so that every output is about other data: let it work on a copy"
        return Pilot(2 * count, per_output, (changes,), True, False, False, draws)
    encoder = OutputEncoder.fit(*both)
    first, second = (encoder(outputs) for outputs in both)
    found: list[str] = []
    notes: list[str] = []
    constant = all(np.unique(row_keys(side.numbers)).size == 1 for side in (first, second))
    clock = constant and is_clock_seeded(draws.mechanism, pair.first)
    if constant and not clock:
        found.append("ignores its generator: the output never changed")
    elif not clock and not _reproducible(
        draws.mechanism, pair.first, encoder, int(LIMITS.replay_seconds / max(each, 1e-9))
    ):
        if own:
            notes.append("the mechanism draws its own randomness: the seed does not reproduce this audit")
            found += _repetitions(first, second)
        else:
            found.append(
                "ignores its generator: equal seeds give different outputs, so the outputs may not be independent and "
                'the seed does not reproduce this audit; if a library draws its own noise, say randomness="own"'
            )
    copied = bool(notes) and forks_repeat(draws.mechanism, pair.first)
    differ = bool(_key(first) != _key(second))
    return Pilot(2 * count, per_output, tuple(found), False, clock, differ, draws, tuple(notes), copied)


def _repetitions(*sides: Encoded) -> list[str]:
    """Whether an output repeats the one before it more often than chance would have it: noise that is not drawn afresh."""
    for side in sides:
        _, place, counts = np.unique(side.keys, return_inverse=True, return_counts=True)
        n = len(place) - 1
        if n < 1:
            continue
        repeats = int(np.count_nonzero(place[1:] == place[:-1]))
        chance = float(np.sum((counts / counts.sum()) ** 2))
        if repeats > n * chance + 6.0 * np.sqrt(n * chance * (1.0 - chance)) + 6.0:
            return [f"the outputs are not independent: {repeats:,} of {n:,} repeat the one before"]
    return []


def _state(data: Any) -> bytes:
    """What an array, a list or a mapping holds; nothing of other inputs, which may keep notes on how they are used."""
    if not isinstance(data, (np.ndarray, list, dict, set, bytearray)):
        return b""
    try:
        return pickle.dumps(data)
    except Exception:
        return b""


def _key(encoded: Encoded) -> int:
    return int(row_keys(encoded.numbers[:1])[0])


def _reproducible(mechanism: Mechanism, data: Any, encoder: OutputEncoder, most: int) -> bool:
    """Whether equal seeds give equal outputs; as many as time allows, for those of a coin may agree by chance."""
    count = max(5, min(most, LIMITS.pilot_outputs))
    runs = [draw_outputs(mechanism, data, count, default_rng(12345)) for _ in range(2)]
    first, second = (row_keys(encoder(outputs).numbers) for outputs in runs)
    return bool(np.array_equal(first, second))
