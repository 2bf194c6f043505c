"""Drives a training with a table and observes all of it: what reaches the mechanisms, and all else that leaves.

Mechanisms answer without looking at the values, and all coins are seeded, so that two runs on neighbouring tables have
the same history: then only what reaches the mechanisms may differ, by no more than they claim.
"""

from __future__ import annotations

import contextlib
import io
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerwood.learners.training import estimator
from ledgerwood.learners.training.discovery import SetSelection
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism
from ledgerwood.mechanisms.randomness import SeededSource

N = 60
"""The released number of rows, whatever the table has."""


@dataclass
class Observed:
    """All that a training gave away, and what its mechanisms were asked to hide."""

    values: list[Any] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)


def moved(a: Any, b: Any) -> float:
    """How far two exact values are apart in L2: arrays, or counts of values."""
    if isinstance(a, list):
        return float(np.sqrt(sum((x[key] - y[key]) ** 2 for x, y in zip(a, b, strict=True) for key in x | y)))
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return float(np.sqrt((difference**2).sum()))


def check_neighbours(one: Observed, other: Observed) -> None:
    """Assert that two observations differ in what the mechanisms hide alone, and there by no more than they claim."""
    assert one.rest == other.rest
    assert one.claims == other.claims
    assert [np.shape(value) for value in one.values] == [np.shape(value) for value in other.values]
    for a, b, claim in zip(one.values, other.values, one.claims, strict=True):
        assert moved(a, b) <= claim * (1 + 1e-12)


@contextlib.contextmanager
def blindfolded(found: Observed) -> Iterator[None]:
    """Let mechanisms note what they are given, and answer from seeds."""
    gaussian, select, laplace = (m.release for m in (GaussianMechanism, SetSelection, DiscreteLaplaceMechanism))

    def seeded() -> SeededSource:
        return SeededSource(np.random.default_rng(len(found.values)))

    def of_sums(self: GaussianMechanism, value: Any, rng: Any = None) -> Any:
        found.values.append(np.array(value))
        found.claims.append(float(self.sensitivity))
        return gaussian(self, np.zeros_like(value), seeded())

    def of_sets(self: SetSelection, value: Any, rng: Any = None) -> Any:
        found.values.append([Counter(counts) for counts in value])
        found.claims.append(float(self.sensitivity.in_l2))
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(GaussianMechanism, "release", gaussian)
            select(self, value, seeded())  # which must not raise, whatever the values
            return select(self, [Counter({"red": 10**6, "green": 10**6}) for _ in value], seeded())

    def of_counts(self: Any, value: Any, rng: Any = None) -> Any:
        found.values.append(np.array(value))
        if np.ndim(value):
            found.claims.append(float(self.sensitivity.l1))
            return laplace(self, np.zeros_like(value), seeded())
        found.claims.append(float(self.sensitivity))
        laplace(self, value, seeded())  # which must not raise, whatever the value
        return N

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", of_sums)
        patch.setattr(DiscreteLaplaceMechanism, "release", of_counts)
        patch.setattr(SetSelection, "release", of_sets)
        patch.setattr(estimator, "source_for", lambda _: SeededSource(np.random.default_rng(11)))
        yield


def observe(train: Callable[[], Any], files: Sequence[Path] = ()) -> Observed:
    """Run a training; ``train`` returns whatever else should be the same for neighbours."""
    found = Observed()
    out, err = io.StringIO(), io.StringIO()
    with blindfolded(found), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                found.rest["result"] = train()
            except (Exception, SystemExit) as error:
                found.rest["error"] = traceback.format_exception_only(error)
    found.rest["printed"] = out.getvalue(), err.getvalue()
    found.rest["warned"] = [(one.category, str(one.message)) for one in told]
    found.rest["files"] = {path.name: path.read_bytes() for path in files if path.exists()}
    return found


def facts_of(model: Any) -> Any:
    """The plan, the statement and the shape of a fitted model."""
    return (
        model.plan_.to_json(),
        str(model.privacy_statement()),
        model.privacy_statement().to_dict(),
        repr(model.columns_),
    )
