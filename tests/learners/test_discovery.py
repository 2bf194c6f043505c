"""Learning bounds and categories: sensitivities by brute force, the set's distribution exactly, units."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ledgerwood.accounting import Plan, Release
from ledgerwood.learners import Column, PublicMetadata
from ledgerwood.learners.data.privacy_unit import keep_rows
from ledgerwood.learners.training.discovery import (
    BINS,
    SelectionCost,
    SetSelection,
    bounds_from,
    histogram_sensitivity,
    log_histogram,
    releases,
    value_counts,
)
from ledgerwood.learners.training.public_metadata import complete_plan

FLOATS = st.floats(width=64)


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=6), st.tuples(FLOATS, FLOATS), st.tuples(FLOATS, FLOATS))
@settings(deadline=None, max_examples=150)
def test_one_record_moves_the_histograms_no_further_than_stated(rows, more, other) -> None:
    def counts(records):
        return np.concatenate([log_histogram(np.array([r[j] for r in records])) for j in range(2)])

    assert np.linalg.norm(counts([*rows, more]) - counts(rows)) <= histogram_sensitivity(2, "add_remove")
    moved = np.linalg.norm(counts([*rows, more]) - counts([*rows, other]))
    assert moved <= histogram_sensitivity(2, "replace_one")


@given(st.floats(min_value=-(2.0**39), max_value=2.0**39, allow_nan=False))
@settings(deadline=None, max_examples=200)
def test_a_value_lies_in_its_bin(value: float) -> None:
    [(low, high)] = bounds_from(1000 * log_histogram(np.array([value]))[None], sigma=1.0)
    assert low <= value <= high


def test_bounds_cover_the_bins_that_stand_out() -> None:
    counts = np.zeros((2, BINS))
    counts[0, [BINS // 2 - 3, BINS // 2 + 20]] = 1000
    (low, high), nothing = bounds_from(counts, sigma=10.0)
    assert (low, high) == (-(2.0**-13), 2.0**4) and nothing == (-4.0, 4.0)


@pytest.mark.parametrize(("rows", "neighbours"), [(1, "add_remove"), (3, "add_remove"), (1, "replace_one")])
@pytest.mark.parametrize("sigma", [2.0, 20.0])
def test_the_selected_set_is_as_private_as_it_says(rows: int, neighbours: str, sigma: float) -> None:
    """One column, values a and b. The output is a set, distributed as a product of normal tails, so delta is exact."""
    mechanism = SetSelection(sigma, SelectionCost(1, rows, 1e-4, neighbours))

    def distribution(counts: dict[str, int]) -> dict[tuple[str, ...], float]:
        keep = {v: norm.sf((mechanism.threshold - 0.5 - c) / sigma) if c else 0.0 for v, c in counts.items()}
        sets = itertools.product(*([(v,), ()] for v in keep))
        return {
            tuple(itertools.chain(*s)): math.prod(keep[v] if (v,) in s else 1 - keep[v] for v in keep) for s in sets
        }

    stated = {epsilon: mechanism.cost.delta(epsilon) * (1 + 1e-9) for epsilon in (0.0, 0.2, 1.0)}
    worst = 0.0
    far = round(mechanism.threshold)
    for a in (0, 1, 2, far - 1, far, far + 5):
        for b in (0, 1, far):
            here = {"a": a, "b": b}
            if neighbours == "add_remove":
                others = [{"a": a + rows, "b": b}]
            else:
                others = [{"a": a + 1, "b": b - 1}] if b else []
            for there in others:
                p, q = distribution(here), distribution(there)
                for x, y in ((p, q), (q, p)):
                    for epsilon, bound in stated.items():
                        exact = sum(max(0.0, x[s] - math.exp(epsilon) * y.get(s, 0.0)) for s in x)
                        assert exact <= bound
                        worst = max(worst, exact / bound)
    assert worst > 0.1, "the bound is not so loose that this test could not fail"


def test_only_plain_values_can_be_categories() -> None:
    assert value_counts(np.array(["a", None, float("nan"), ["x"], "a"], dtype=object)) == Counter({"a": 2})


def test_the_slice_is_as_stated_and_the_unit_is_not_priced_twice() -> None:
    columns = (Column("x", "number"), Column("c", "category"))
    from ledgerwood.accounting import Gaussian

    for rows in (1, 4):
        metadata = PublicMetadata(columns, "classification", 1000, 1.0, 1e-3, classes=(0, 1), max_rows_per_unit=rows)
        plan = complete_plan(Plan([Release("train", Gaussian, times=3, share=1.0)]), metadata, releases(metadata, 1.0))
        spends = {row["label"]: row["spend"] for row in plan.table()}
        assert spends["bounds"] == pytest.approx(0.05, rel=1e-6)
        assert spends["categories"] == pytest.approx(0.05, rel=1e-6)
        assert plan["categories"].priced() == SetSelection(plan["categories"].scale, SelectionCost.of(metadata)).cost
        assert plan.cost.epsilon(1e-3) <= 1.0 + 1e-12


# ---- units


@given(
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=30),
    st.integers(1, 3),
    st.sampled_from("abcde"),
)
@settings(deadline=None, max_examples=150)
def test_removing_a_unit_leaves_the_rows_kept_of_all_others(units: list[str], k: int, gone: str) -> None:
    """So at most k rows change: the group that costs are priced for."""
    table = np.array(units, dtype=object)
    kept = keep_rows(table, k, key=b"key")
    assert max(Counter(table[kept]).values()) <= k
    rest = np.flatnonzero(table != gone)
    if len(rest):
        again = rest[keep_rows(table[rest], k, key=b"key")]
        assert again.tolist() == [row for row in kept.tolist() if units[row] != gone]


def test_which_rows_stay_depends_on_the_key() -> None:
    units = np.zeros(100, dtype=np.int64)
    assert keep_rows(units, 3, b"one").tolist() != keep_rows(units, 3, b"two").tolist()
