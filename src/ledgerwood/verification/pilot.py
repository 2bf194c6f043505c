"""A few outputs first: how fast is the mechanism, and is it fit to be audited?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng

from ledgerwood.verification.determinism import is_clock_seeded
from ledgerwood.verification.features import Encoded, Encoder, Outputs, Raised, has_nan, row_keys
from ledgerwood.verification.sampling import Draws, Mechanism, draw_outputs
from ledgerwood.verification.search import Pair

__all__ = ["Pilot", "run_pilot"]

_OUTPUTS = 400
_SECONDS = 2.0  # a slow mechanism is not kept longer than about this per input
_SHARE = 0.05  # of a time budget, per input
_STREAM = 0


@dataclass(frozen=True, slots=True)
class Pilot:
    """What the first outputs say. ``fatal``: no audit is possible; ``clock``: the clock alone decides the noise."""

    outputs: int
    per_output: float
    problems: tuple[str, ...]
    fatal: bool
    clock: bool
    inputs_differ: bool


def run_pilot(draws: Draws, pair: Pair, samples: int, seconds: float | None = None) -> Pilot:
    """Draw a few outputs on both inputs of a pair, within a small part of the time there is."""
    most = _SECONDS if seconds is None else min(_SECONDS, _SHARE * seconds)
    start = time.monotonic()
    probe = draw_outputs(draws.mechanism, pair.first, 3, default_rng(SeedSequence(draws.entropy, spawn_key=(99,))))
    each = (time.monotonic() - start) / 3
    count = int(max(10, min(_OUTPUTS, samples // 20, most / max(each, 1e-9))))
    if all(isinstance(output, Raised) for output in probe):
        count = 10
    start = time.monotonic()
    both = (draws.draw(0, count, _STREAM), draws.draw(1, count, _STREAM))
    per_output = (time.monotonic() - start) / (2 * count)
    if draws.vectorised:  # the cost of a call is not the cost of an output
        start = time.monotonic()
        draw_outputs(draws.mechanism, pair.first, 20 * count, default_rng(SeedSequence(draws.entropy, spawn_key=(98,))))
        per_output = min(per_output, (time.monotonic() - start) / (20 * count))
    kinds = sorted({output.kind for outputs in both for output in outputs if isinstance(output, Raised)})
    if kinds and all(isinstance(output, Raised) for outputs in both for output in outputs):
        return Pilot(2 * count, per_output, (f"every call raised {', '.join(kinds)}",), True, False, False)
    encoder = Encoder.fit(*both)
    first, second = (encoder(outputs) for outputs in both)
    problems = [f"the output is nan in {bad:,} of {2 * count:,} pilot outputs"] if (bad := _nans(both)) else []
    constant = all(np.unique(row_keys(side.numbers)).size == 1 for side in (first, second))
    clock = constant and is_clock_seeded(draws.mechanism, pair.first)
    if constant and not clock:
        problems.append("ignores its generator: the output never changed")
    elif not clock and not _reproducible(draws.mechanism, pair.first, encoder):
        problems.append(
            "ignores its generator: equal seeds give different outputs, so the outputs may not be independent "
            "and the seed does not reproduce this audit"
        )
    differ = bool(_key(first) != _key(second))
    return Pilot(2 * count, per_output, tuple(problems), False, clock, differ)


def _nans(both: tuple[Outputs, Outputs]) -> int:
    """Outputs that are nan, or have nan among their numbers."""
    bad = 0
    for outputs in both:
        if isinstance(outputs, np.ndarray) and outputs.dtype.kind == "f":
            bad += int(np.count_nonzero(np.isnan(outputs.reshape(len(outputs), -1)).any(axis=1)))
        else:
            bad += sum(map(has_nan, outputs))
    return bad


def _key(encoded: Encoded) -> int:
    return int(row_keys(encoded.numbers[:1])[0])


def _reproducible(mechanism: Mechanism, data: Any, encoder: Encoder) -> bool:
    runs = [draw_outputs(mechanism, data, 5, default_rng(12345)) for _ in range(2)]
    first, second = (row_keys(encoder(outputs).numbers) for outputs in runs)
    return bool(np.array_equal(first, second))
