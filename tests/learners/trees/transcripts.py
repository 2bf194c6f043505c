"""Run a training on one data set, then replay its outputs on a neighbour: every release is then seen on both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.planned_noise import GaussianSums, LaplaceSums, Selections
from ledgerwood.mechanisms.randomness import SeededSource


@dataclass
class Line:
    label: str
    mechanism: Any
    value: Any
    output: Any
    key: tuple[int, int] | None = None


class Recording:
    """A session that remembers; ``change`` may replace the mechanism (to plant a bug)."""

    def __init__(self, source: Any, change: Any = None) -> None:
        self.source, self.change, self.lines, self.key = source, change, [], None

    def sample_key(self) -> tuple[int, int]:
        first, second = self.source.words(2)
        self.key = int(first), int(second)
        return self.key

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        drawn = mechanism if self.change is None else self.change(mechanism)
        output = drawn.release(value, self.source)
        self.lines.append(Line(label, mechanism, value, output, self.key))
        self.key = None
        return output


class Replaying:
    """A session that gives the outputs of another training, and remembers what it was asked."""

    def __init__(self, lines: list[Line]) -> None:
        self.given, self.lines = lines, []

    def sample_key(self) -> tuple[int, int]:
        key = self.given[len(self.lines)].key
        assert key is not None
        return key

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        recorded = self.given[len(self.lines)]
        self.lines.append(Line(label, mechanism, value, recorded.output, recorded.key))
        return recorded.output


def train(settings, domain, plan, data, session, seed=0):
    columns, labels = data
    records = LocalAggregator(columns, labels, n_threads=1)
    return boost(settings, domain, records, session, plan, rng=np.random.default_rng(seed))


def both(settings, domain, plan, first, second, source, change=None, seed=0):
    """Return the lines of a training on ``first``, and of its replay on ``second``."""
    recording = Recording(source, change)
    model = train(settings, domain, plan, first, recording, seed)
    replaying = Replaying(recording.lines)
    again = train(settings, domain, plan, second, replaying, seed)
    return recording.lines, replaying.lines, model, again


def loss(lines: list[Line], others: list[Line]) -> float:
    """Return log P(outputs | first) - log P(outputs | second), by the stated distributions."""
    total = 0.0
    for line, other in zip(lines, others, strict=True):
        m, out = line.mechanism, np.asarray(line.output, dtype=np.float64)
        a, b = np.asarray(line.value, dtype=np.float64), np.asarray(other.value, dtype=np.float64)
        if isinstance(m, GaussianSums):
            total += float(((out - b) ** 2 - (out - a) ** 2).sum() / (2 * m.sigma**2))
        elif isinstance(m, LaplaceSums):
            total += float((np.abs(out - b) - np.abs(out - a)).sum() / m.scale)
        else:
            assert isinstance(m, Selections)
            inner = m._mechanism()
            rows = np.arange(len(out))
            logs = [inner.log_probabilities(v)[rows, line.output] for v in (line.value, other.value)]
            total += float((logs[0] - logs[1]).sum())
    return total


def half_noise(mechanism: Any) -> Any:
    """The bug: half of the noise at the same claimed cost."""
    name = "range_sensitivity" if isinstance(mechanism, Selections) else "sensitivity"
    return replace(mechanism, **{name: getattr(mechanism, name) / 2})


def seeded(rng: Any) -> SeededSource:
    return SeededSource(rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng))
