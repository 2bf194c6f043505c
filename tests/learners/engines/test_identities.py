"""Who a row is about: found in bounded memory, the same in any order and any parts; samples of rows go by it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_engines import BOUNDS, CATEGORIES, FEATURES, frame, model, pieces, same
from tests.kit.tree_definitions import siphash

from ledgerwood.errors import ParameterError
from ledgerwood.learners import Schema
from ledgerwood.learners.data.privacy_unit import identities, keep_rows, kept, record_numbers
from ledgerwood.learners.engines import Partitions, out_of_core
from ledgerwood.learners.trees.aggregator import BinEdges, Sample, Structure, Task
from ledgerwood.learners.trees.local_aggregator import LocalAggregator

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")
NAMES = st.sampled_from(["a", "b", "c", "\0", "\ud800", None, 1, 1.0, -0.0, 2**80, float("nan"), float("inf")])


def by_id(**options: Any) -> Any:
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1], unit="id")
    return model("xgb", rows=0.5, schema=schema, **options)


def with_id(seed: int = 1) -> pd.DataFrame:
    data = frame()
    return data.assign(id=[f"record {i}" for i in np.random.default_rng(seed).permutation(len(data))])


@pytest.mark.parametrize("seed", range(3))
def test_sampled_rows_with_an_id_are_the_same_in_any_order_and_any_parts(seed: int) -> None:
    data = with_id()
    columns = [*FEATURES, "id"]
    whole = by_id().fit(data[columns], data["y"])
    shuffled = data.iloc[np.random.default_rng(seed).permutation(len(data))]
    assert same(by_id(n_threads=1).fit(shuffled[columns], shuffled["y"]).forest_, whole.forest_)
    for cuts in ([], [1, 399], [100, 200, 300]):
        parts = Partitions.of_frames(pieces(shuffled, cuts), target="y")
        assert same(by_id(engine="out_of_core").fit(parts).forest_, whole.forest_)
    by_place = model("xgb", rows=0.5).fit(shuffled[FEATURES], shuffled["y"])
    assert not same(by_place.forest_, model("xgb", rows=0.5).fit(data[FEATURES], data["y"]).forest_)


def test_repeated_and_missing_ids_are_one_record_and_stop_nothing() -> None:
    data = with_id()
    data["id"] = np.where(np.arange(len(data)) % 3 == 0, None, data["id"])
    data.loc[5:9, "id"] = "the same"
    columns = [*FEATURES, "id"]
    whole = by_id().fit(data[columns], data["y"])
    parts = Partitions.of_frames(pieces(data, [7, 100]), target="y")
    assert same(by_id(engine="out_of_core").fit(parts).forest_, whole.forest_)
    assert whole.privacy_statement().details["rows_per_unit"] == 1
    several = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1], unit="id", max_rows_per_unit=2)
    with pytest.raises(ParameterError, match="be 1 if a privacy unit may have several rows"):
        model("xgb", rows=0.5, schema=several).fit(data[columns], data["y"])


@given(st.lists(NAMES, min_size=1, max_size=40), st.integers(1, 3), st.lists(st.integers(0, 40), max_size=3))
@settings(deadline=None, max_examples=150)
def test_parts_keep_the_rows_of_memory_and_no_two_records_share_a_number(
    names: list[Any], k: int, cuts: list[int]
) -> None:
    column = np.empty(len(names), dtype=object)
    column[:] = names
    ends = [0, *sorted(min(cut, len(names)) for cut in cuts), len(names)]
    sizes = np.diff(ends).tolist()
    units = [identities(column[a:b], b"key") for a, b in itertools.pairwise(ends)]
    found = out_of_core.grouped(units, sizes, k, b"key", bucket_rows=4)  # several files
    masks = [np.ones(n, dtype=bool) if rows.keep is None else rows.keep for n, rows in zip(sizes, found)]
    keep = np.concatenate(masks)
    assert np.flatnonzero(keep).tolist() == keep_rows(column, k, b"key").tolist()
    if k == 1:
        numbers = np.concatenate([rows.numbers[slice(None) if rows.keep is None else rows.keep] for rows in found])
        assert sorted(numbers.tolist()) == list(range(int(keep.sum())))
        alone = identities(column, b"key")
        assert numbers.tolist() == record_numbers(alone[kept(alone, 1, b"key")]).tolist()
    doubled = record_numbers(identities(np.r_[column, column], b"key"))
    assert len(set(doubled.tolist())) == 2 * len(names)


def test_no_text_is_the_missing_unit() -> None:
    names = np.array([None, "\0", "\0\0", "", "None"], dtype=object)
    assert len({tuple(one) for one in identities(names, b"key").tolist()}) == 5


def test_a_record_is_sampled_by_the_hash_of_its_number() -> None:
    n, rng = 200, np.random.default_rng(0)
    numbers = rng.permutation(n).astype(np.uint64) * np.uint64(2**40)
    column = np.arange(n, dtype=np.float32)
    records = LocalAggregator([column], np.zeros(n, dtype=np.int32), numbers=numbers, first_record=17, n_threads=2)
    records.start(Task("squared"))
    records.bin(BinEdges((np.arange(1, n, dtype=np.float32),), (0,)))
    root = Structure(0, np.empty(0, dtype=np.int32), np.empty((0, 256), dtype=np.uint8))
    key, rate = (123, 2**63 + 5), 3 * 2**30
    records.sample(Sample(rate, key, 9))
    counts = records.histogram(root, np.array([0], dtype=np.int32), "count")[0, 0, 0, :n, 1]
    assert counts.tolist() == [int(siphash(key, 9, int(number)) % 2**32 < rate) for number in numbers]
    assert 0 < counts.sum() < n
