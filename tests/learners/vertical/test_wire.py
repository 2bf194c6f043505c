"""Ordinals and messages: what is packed comes back, and nothing else is accepted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.errors import ProtocolError
from ledgerwood.learners.vertical.messages import (
    KINDS,
    LARGEST_REQUEST,
    Request,
    WireColumn,
    from_json,
    id_digest,
    pack_splits,
    to_json,
    unpack_splits,
)
from ledgerwood.learners.vertical.release import WITHHELD
from ledgerwood.learners.vertical.release_store import ordinals


@settings(deadline=None)
@given(st.integers(2, 600), st.data())
def test_ordinals_and_their_table_give_the_values_back(size: int, data: st.DataObject) -> None:
    values = np.cumsum(np.random.default_rng(size).uniform(0.5, 2.0, size))
    outputs = np.array(data.draw(st.lists(st.integers(-1, size - 1), max_size=700)), dtype=np.int32)
    numbers, table = ordinals(outputs, values)
    shown = outputs != WITHHELD
    assert np.array_equal(np.array(table)[numbers[shown]], values[outputs[shown]]) if shown.any() else table == ()
    assert (numbers[~shown] == np.iinfo(numbers.dtype).max).all()
    assert len(table) == len(np.unique(outputs[shown])) <= np.iinfo(numbers.dtype).max
    assert list(table) == sorted(table)
    WireColumn("c", numbers.dtype.name, len(table))  # is one that can be sent


def test_a_column_of_255_values_takes_two_bytes_so_that_a_hidden_cell_has_a_number() -> None:
    outputs = np.arange(255, dtype=np.int32)
    assert ordinals(outputs[:254], np.arange(300.0))[0].dtype == np.uint8
    assert ordinals(outputs, np.arange(300.0))[0].dtype == np.uint16


@given(
    st.sampled_from(sorted(KINDS)),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=200),
)
def test_a_sealed_request_opens_under_its_token_only(kind: str, session: bytes, number: int, body: bytes) -> None:
    request = Request(kind, session, number, body)
    sealed = request.seal(b"token")
    assert Request.open(sealed, b"token") == request
    with pytest.raises(ProtocolError, match="not sealed"):
        Request.open(sealed, b"other")


@given(st.binary(max_size=300))
def test_no_bytes_but_sealed_ones_open(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Request.open(data, b"token")


def test_a_request_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        Request.open(bytes(LARGEST_REQUEST + 1), b"token")


@given(st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), max_size=50))
def test_splits_survive_packing(splits: list[tuple[int, int]]) -> None:
    packed = pack_splits(splits)
    assert unpack_splits(packed) == splits and len(packed) == 4 * len(splits)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":2}', b'{"version":"1"}', b"\xff"])
def test_json_of_another_version_or_form_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        from_json(data)
    assert from_json(to_json({"rows": 3})) == {"version": 1, "rows": 3}


@pytest.mark.parametrize("column", [["a", "uint32", 3], ["a", "uint8", 300], ["a", "uint8"], "a", [1, "uint8", 3]])
def test_a_column_of_an_unknown_form_is_refused(column: object) -> None:
    with pytest.raises(ProtocolError):
        WireColumn.from_json(column)


def test_the_digest_of_ids_cannot_be_confused_by_joining() -> None:
    assert id_digest(["ab", "c"], b"k" * 16) != id_digest(["a", "bc"], b"k" * 16)
    assert id_digest(["ab", "c"], b"k" * 16) != id_digest(["ab", "c"], b"l" * 16)
    many = [str(i) for i in range(70_000)]
    assert id_digest(many, b"k" * 16) == id_digest(iter(many), b"k" * 16) != id_digest(many[:-1], b"k" * 16)
