"""Theorem 5.1 of Li et al.: exactly, by enumeration of all outcomes; and that the printed sum is no lower bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from benchmarks.opboost.split_survival import printed_beta, split_survives
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.mechanisms.local import AdjMap, Domain, GeneralizedRandomizedResponse, GlobalMap

MECHANISMS = (
    GlobalMap(Domain(1, 5), 0.7),
    AdjMap.from_epsilon(Domain(1, 5), 2, epsilon=0.7, alpha=2.0),
    GeneralizedRandomizedResponse(Domain(1, 5), 1.5),
)
sides = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(MECHANISMS), sides, sides)
def test_the_formula_is_the_sum_over_all_outcomes(mechanism: GlobalMap, left: list[int], right: list[int]) -> None:
    distributions = [mechanism.probabilities(x) for x in left + right]
    total = printed = 0.0
    for outputs in itertools.product(range(5), repeat=len(distributions)):
        chance = float(np.prod([distribution[o] for distribution, o in zip(distributions, outputs, strict=True)]))
        lefts, rights = outputs[: len(left)], outputs[len(left) :]
        if max(lefts) < min(rights):
            total += chance
            printed += chance * lefts.count(max(lefts))  # once for each value tied for largest
    assert split_survives(mechanism, left, right) == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert printed_beta(mechanism, left, right) == pytest.approx(printed, rel=1e-9, abs=1e-12)


def test_theorem_5_1_as_printed_counts_ties_and_exceeds_one() -> None:
    sure = GlobalMap(Domain(1, 10), 100.0)
    assert split_survives(sure, [2, 2, 2], [9]) == pytest.approx(1.0)
    assert printed_beta(sure, [2, 2, 2], [9]) == pytest.approx(3.0)
