"""Party A's connection to a party B: the columns, resumed until whole, and the values of splits."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import flight

from ledgerwood._files import put_in_place, read_json, sync, write_json
from ledgerwood.errors import ParameterError, PartyRefused, PartyUnreachable, ProtocolError
from ledgerwood.learners.vertical.messages import (
    MOST_SPLITS,
    VERSION,
    Request,
    WireColumn,
    from_json,
    pack_splits,
    to_json,
)
from ledgerwood.learners.vertical.release_store import file_digest, map_columns
from ledgerwood.learners.vertical.tls import Identity, tls_location
from ledgerwood.learners.vertical.transformer import rebuild

log = logging.getLogger("ledgerwood.opboost")
_LONGEST_WAIT = 5.0
_SYNC_BYTES = 128 << 20  # progress is made durable this often


@dataclass(frozen=True)
class Received:
    """The columns of a party, whole and checked."""

    party: str
    rows: int
    columns: tuple[WireColumn, ...]
    transformer: Any
    path: Path

    def mapped(self) -> list[NDArray[Any]]:
        """The columns, straight from the file."""
        return map_columns(self.path, self.columns, self.rows)


@dataclass
class FeatureClient:
    """One party B, as party A sees it.

    Parameters
    ----------
    location, identity, token
        As in `FeatureServer`.
    rows, ids
        The number of rows and the keyed digest of their ids (`id_digest`): both must be those of the other party.
    state
        A folder of party A's for what this party sends.
    attempts, wait
        How often a dropped connection is made anew, and the seconds before the first time (doubled each
        time, up to five).
    timeout
        Seconds to wait for an answer; the first one may have to wait for the release to be made.
    largest_answer
        Bytes of one message; a larger one breaks the connection off.
    """

    location: str
    identity: Identity
    token: bytes = field(repr=False)
    rows: int
    ids: str
    state: Path
    attempts: int = 5
    wait: float = 0.2
    timeout: float = 600.0
    largest_answer: int = 64 << 20
    _client: Any = field(default=None, init=False, repr=False)
    _session: bytes = field(default=b"", init=False, repr=False)
    _number: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        tls_location(self.location)

    def columns(self) -> Received:
        """The party's columns: those received before, or fetched from where the last attempt stopped."""
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.state / "columns.bin"
        kept = self._kept()
        if kept is not None and path.exists():
            return _received(kept, path)
        for attempt in range(self.attempts + 1):
            try:
                return self._fetch(self._hello())
            except (PartyUnreachable, _Dropped) as error:
                self.close()
                if attempt == self.attempts:
                    raise PartyUnreachable(f"{self.location}: {error}; gave up after {attempt + 1} attempts") from error
                log.warning("%s: %s; trying again", self.location, error)
                time.sleep(min(self.wait * 2**attempt, _LONGEST_WAIT))
        raise AssertionError("unreachable")  # pragma: no cover

    def values(self, splits: Sequence[tuple[int, int]]) -> list[float]:
        """The randomized value of each (column, ordinal)."""
        values: list[float] = []
        most = MOST_SPLITS // 2
        for attempt in range(self.attempts + 1):
            try:
                if not self._session:  # the connection that brought the columns may still be there
                    self._check(self._hello())
                for first in range(len(values), len(splits), most):
                    asked = splits[first : first + most]
                    answer = self._act("splits", pack_splits(asked))
                    if len(answer) != 8 * len(asked):
                        raise ProtocolError(f"asked for {len(asked)} split values, got {len(answer)} bytes")
                    values.extend(np.frombuffer(answer, dtype="<f8").tolist())
                return values
            except PartyUnreachable as error:
                self.close()
                if attempt == self.attempts:
                    raise
                log.warning("%s: %s; trying again", self.location, error)
                time.sleep(min(self.wait * 2**attempt, _LONGEST_WAIT))
        raise AssertionError("unreachable")  # pragma: no cover

    def close(self) -> None:
        """Close the connection. Harmless when repeated."""
        if self._client is not None:
            self._client.close()
        self._client, self._session, self._number = None, b"", 0

    def __enter__(self) -> FeatureClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- talking

    def _hello(self) -> dict[str, Any]:
        self.close()
        self._client = flight.connect(
            self.location,
            tls_root_certs=self.identity.authority,
            cert_chain=self.identity.certificate,
            private_key=self.identity.key,
            generic_options=[("grpc.max_receive_message_length", self.largest_answer)],
        )
        opened = self._call(lambda: self._one_result("open", b""))
        if int.from_bytes(opened[:2], "little") != VERSION or len(opened) != 18:
            theirs = int.from_bytes(opened[:2], "little")
            raise ProtocolError(f"this side speaks version {VERSION} of the protocol, the other {theirs}")
        self._session = opened[2:]
        return from_json(self._act("hello", to_json({"rows": self.rows, "ids": self.ids})))

    def _seal(self, kind: str, body: bytes) -> bytes:
        self._number += 1
        return Request(kind, self._session, self._number, body).seal(self.token)

    def _act(self, kind: str, body: bytes) -> bytes:
        sealed = self._seal(kind, body)
        return self._call(lambda: self._one_result(kind, sealed))

    def _one_result(self, kind: str, body: bytes) -> bytes:
        options = flight.FlightCallOptions(timeout=self.timeout)
        results = list(itertools.islice(self._client.do_action(flight.Action(kind, body), options), 2))
        if len(results) != 1:
            raise ProtocolError(f"expected one answer to {kind!r}, got {len(results) or 'none'}")
        return bytes(results[0].body.to_pybytes())

    def _call(self, ask: Any) -> bytes:
        try:
            answer: bytes = ask()
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            self._translate(error)
        return answer

    def _translate(self, error: Exception) -> NoReturn:
        text, location = str(error), self.location
        if "[stale] " in text:
            raise PartyUnreachable(f"{location} has forgotten the session: it was restarted") from error
        if "[refused] " in text:
            reason = text.split("[refused] ", 1)[1].split(". Detail:")[0].split(". gRPC client debug")[0]
            raise PartyRefused(f"{location} refused: {reason}") from error
        if isinstance(error, flight.FlightCancelledError):  # gRPC does not say which of the two it was
            raise PartyUnreachable(
                f"{location} broke off: the connection dropped, or a message had more than {self.largest_answer} bytes"
            ) from error
        if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
            raise PartyUnreachable(
                f"{location} does not answer, or the certificates of the two sides do not fit: {type(error).__name__}"
            ) from error
        if isinstance(error, OSError):
            raise PartyUnreachable(f"{location}: {type(error).__name__}") from error
        raise ProtocolError(f"{location}: {text.split('. gRPC client debug')[0][:300]}") from error

    # ---- the columns

    def _kept(self) -> dict[str, Any] | None:
        """The manifest of a fetch that was begun, for the same rows as now."""
        kept = read_json(self.state / "manifest.json")
        if kept is None:
            return None
        if (kept["rows"], kept["ids"]) != (self.rows, self.ids):
            raise ParameterError(
                "state", "be a folder of the same ids in the same order", self.state.name,
                "What it holds was received for others; use a new folder.",
            )  # fmt: skip
        manifest: dict[str, Any] = kept["manifest"]
        return manifest

    def _check(self, manifest: dict[str, Any]) -> Received:
        """What a manifest announces; it must be the one of an interrupted fetch, if there was one."""
        if manifest.get("rows") != self.rows or not isinstance(manifest.get("digest"), str):
            raise ProtocolError(f"the other party offers another number of rows than the {self.rows} here")
        known = self._kept()
        if known is not None and known != manifest:
            raise ProtocolError(
                "the other party offers other columns than before; a second release would be one too many"
            )
        return _received(manifest, self.state / "columns.bin")

    def _fetch(self, manifest: dict[str, Any]) -> Received:
        offered = self._check(manifest)
        columns = offered.columns
        if self._kept() is None:
            kept = {"rows": self.rows, "ids": self.ids, "manifest": manifest}
            write_json(self.state / "manifest.json", kept)
        draft, final = self.state / "columns.part", self.state / "columns.bin"
        if final.exists():
            return offered
        done = self._progress(draft, self.rows * sum(column.bytes for column in columns))
        self._stream(draft, columns, done)
        if file_digest(draft) != manifest["digest"]:
            (self.state / "progress.json").unlink(missing_ok=True)
            raise ProtocolError("the columns received do not have the digest of the manifest; fetch them again")
        put_in_place(draft, final)
        return offered

    def _progress(self, draft: Path, size: int) -> int:
        """The first row that is not on disk yet."""
        progress = read_json(self.state / "progress.json")
        if progress is not None and draft.exists() and draft.stat().st_size == size:
            return int(progress["rows"])
        with open(draft, "wb") as file:
            file.truncate(size)
            sync(file)
        write_json(self.state / "progress.json", {"rows": 0})
        return 0

    def _stream(self, draft: Path, columns: tuple[WireColumn, ...], start: int) -> None:
        row, waiting = start, 0
        with open(draft, "r+b") as file:
            try:
                reader = self._client.do_get(flight.Ticket(self._seal("columns", to_json({"start": start}))))
                while row < self.rows:
                    try:
                        batch = reader.read_chunk().data
                    except StopIteration:
                        raise _Dropped(f"the stream ended after {row} of {self.rows} rows") from None
                    row = _take(batch, columns, file.fileno(), row, self.rows)
                    waiting += batch.nbytes
                    if waiting >= _SYNC_BYTES:
                        self._flush(file, row)
                        waiting = 0
                _expect_end(reader, self.rows)
            except (flight.FlightError, pa.ArrowException) as error:
                self._flush(file, row)
                self._translate(error)
            except _Dropped:
                self._flush(file, row)
                raise
            self._flush(file, row)

    def _flush(self, file: Any, row: int) -> None:
        sync(file)
        write_json(self.state / "progress.json", {"rows": row})


class _Dropped(Exception):
    """The stream ended early; the rest can be had."""


def _take(batch: Any, columns: tuple[WireColumn, ...], handle: int, row: int, rows: int) -> int:
    """Check a batch, write it to its rows of each column, and return the row after it."""
    types = [pa.from_numpy_dtype(column.dtype) for column in columns]
    if [field.type for field in batch.schema] != types or not 0 < batch.num_rows <= rows - row:
        raise ProtocolError("a batch does not have the columns or the rows announced")
    start = 0
    for array, column in zip(batch.columns, columns, strict=True):
        if array.null_count:
            raise ProtocolError("a batch has missing entries")
        numbers = array.to_numpy(zero_copy_only=True)
        if numbers.max() >= column.ordinals and not _only_withheld(numbers, column):
            raise ProtocolError("a batch has ordinals that were not announced")
        _write_at(handle, memoryview(numbers).cast("B"), start + row * column.bytes)
        start += rows * column.bytes
    return row + int(batch.num_rows)


def _only_withheld(numbers: NDArray[Any], column: WireColumn) -> bool:
    """Whether all numbers beyond the ordinals mean "not shown"."""
    return bool((numbers[numbers >= column.ordinals] == np.iinfo(column.dtype).max).all())


def _write_at(handle: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(handle, data, offset)
        data, offset = data[written:], offset + written


def _expect_end(reader: Any, rows: int) -> None:
    try:
        reader.read_chunk()
    except StopIteration:
        return
    raise ProtocolError(f"the stream has more than the {rows} rows announced")


def _received(manifest: dict[str, Any], path: Path) -> Received:
    """What a manifest announces, if its parts are of the known form and fit each other."""
    party, offered = manifest.get("party"), manifest.get("columns")
    if not isinstance(party, str) or not isinstance(offered, list):
        raise ProtocolError("the other party's manifest is not of the known form")
    columns = tuple(WireColumn.from_json(column) for column in offered)
    transformer = rebuild(manifest.get("transformer"))
    if [column.name for column in columns] != transformer.get_feature_names_out().tolist():
        raise ProtocolError("the columns offered are not those that the other party describes")
    return Received(party, manifest["rows"], columns, transformer, path)
