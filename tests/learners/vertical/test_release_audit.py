"""The auditor looks at whole released columns, end to end: it must find nothing, and find a planted leak."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ledgerwood.accounting import PureDP
from ledgerwood.learners.vertical import OrderPreservingTransformer
from ledgerwood.learners.vertical.release_store import ordinals
from ledgerwood.mechanisms import SeededSource
from ledgerwood.verification import audit

DOMAIN: dict[Any, Any] = {"age": (0.0, 9.0), "colour": ["red", "green"]}
#: Two tables that differ in the first record.
PAIR = ([[1.0, "red"], [6.0, "green"]], [[8.0, "green"], [6.0, "green"]])


class ColumnRelease:
    """The ordinals and the table of values that leave the party, for many draws of one table."""

    def __init__(self, method: str, **kwargs: Any) -> None:
        self.transformer = OrderPreservingTransformer(method, epsilon=0.8, domain=DOMAIN, **kwargs)
        self.transformer.declare(list(DOMAIN))

    def outputs(self, data: Any, n: int, rng: np.random.Generator) -> Any:
        release = self.transformer.release_
        table = np.array(data * n, dtype=object)
        codes = [column.encode(table[:, i]) for i, column in enumerate(release.columns)]
        return release.release(codes, SeededSource(rng)).reshape(-1, n, len(data)).transpose(1, 2, 0)

    def sample(self, data: Any, n: int, rng: np.random.Generator) -> Any:
        drawn = self.outputs(data, n, rng)
        sent = []
        columns = [column for column in self.transformer.release_.columns for _ in column.names]
        for one in drawn:  # what crosses the wire: ranks among the values that occur, and those values
            ranked = [ordinals(one[:, i], column.values) for i, column in enumerate(columns)]
            sent.append(
                [x for numbers, table in ranked for x in (*numbers.tolist(), *table, *(-1.0,) * (2 - len(table)))]
            )
        return np.array(sent)


@pytest.mark.parametrize("method", ["global_map", "adj_map", "grr"])
def test_the_auditor_finds_nothing_in_a_released_column(method: str) -> None:
    release = ColumnRelease(method)
    claim = release.transformer.release_.cost
    report = audit(release, claim, pair=PAIR, samples=6000, seed=4)
    assert report.passed, report
    assert report.epsilon_lower <= claim.epsilon(0.0)


def test_the_auditor_sees_a_column_that_is_sent_unperturbed() -> None:
    class Leaky(ColumnRelease):
        """The mistake of the authors' code: a column without a privacy configuration goes out as it is."""

        def sample(self, data: Any, n: int, rng: np.random.Generator) -> Any:
            sent = super().sample(data, n, rng)
            return np.column_stack([sent, np.full(n, float(data[0][0]))])

    leaky = Leaky("global_map")
    report = audit(leaky, leaky.transformer.release_.cost, pair=PAIR, samples=4000, seed=4)
    assert report.flagged


def test_the_auditor_sees_half_of_the_promised_noise() -> None:
    release = ColumnRelease("global_map")
    report = audit(
        release, PureDP(0.5 * release.transformer.release_.cost.epsilon(0.0)), pair=PAIR, samples=12_000, seed=4
    )
    assert report.flagged
