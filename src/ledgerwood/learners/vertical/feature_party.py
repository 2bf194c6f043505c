"""Party B: holds features, releases them once, answers for split values, and may go offline in between."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import flight

from ledgerwood._files import owned, read_json, write_json
from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError, ProtocolError, ReleaseRefused
from ledgerwood.learners.data.frames import columns_of, raw_columns
from ledgerwood.learners.vertical.messages import (
    LARGEST_REQUEST,
    MOST_ORDINALS,
    VERSION,
    Request,
    Stale,
    Unauthenticated,
    from_json,
    id_digest,
    to_json,
    unpack_splits,
)
from ledgerwood.learners.vertical.release import ReleaseStatement
from ledgerwood.learners.vertical.release_store import Stored, existing_release, keep_release
from ledgerwood.learners.vertical.tls import Identity, tls_location
from ledgerwood.learners.vertical.transformer import OrderPreservingTransformer, describe

log = logging.getLogger("ledgerwood.opboost")
_BATCH_BYTES = 1 << 22
_REFUSED = "refused_offers.json"


class FeatureParty:
    """The features of one party, and the one release of them.

    Who holds the token and the key learns from an offer whether a list of ids is this party's. That is what aligning
    needs, but whoever knows all ids but one could try every candidate for the last. So refused offers are counted in
    the folder, and after ``refusals`` of them nothing is compared, not even the right list. To allow as many again,
    find out who sent them and delete ``refused_offers.json`` from the folder.

    Parameters
    ----------
    name
        Of the party; part of the ledger's entries. Letters, digits, spaces, ``.``, ``_`` and ``-``.
    transformer
        An `OrderPreservingTransformer`; `declare` was called, or will be with the names of the table.
    table
        Called when the release is made, and not before: returns the table and the ids of its rows, in order.
    state
        A folder of this party's own: the ledger's journal and the released columns.
    key
        Shared with party A, for the digest of the ids.
    budget
        The epsilon of one record for all that is ever released from this folder; just enough for one release if None.
    refusals
        How many offers with other ids are refused before no more are compared, over all partners and restarts.

    >>> import tempfile
    >>> from ledgerwood.learners.vertical import OrderPreservingTransformer
    >>> transformer = OrderPreservingTransformer(epsilon=1.0, domain={"age": (0, 100)}).declare(["age"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FeatureParty("bank", transformer, lambda: ([[23.0]], ["id1"]), folder, key=b"k" * 16) as party:
    ...         party.label.startswith("opboost bank")
    True
    """

    def __init__(
        self,
        name: str,
        transformer: OrderPreservingTransformer,
        table: Callable[[], tuple[Any, Sequence[Any]]],
        state: str | Path,
        *,
        key: bytes,
        budget: float | None = None,
        refusals: int = 10,
    ) -> None:
        if not re.fullmatch(r"[\w.][\w .-]{0,63}", name):
            raise ParameterError("name", "be of letters, digits, spaces and . _ - only, at most 64", name)
        columns = transformer.release_.columns
        if max(column.outputs for column in columns) > MOST_ORDINALS:  # before anything is charged
            rule = f"be so few that no column can show more than {MOST_ORDINALS} values"
            raise ParameterError("levels", rule, transformer.levels)
        if transformer.random_state is not None:
            raise ParameterError("random_state", "be None: a seeded release is not private", "<seed>")
        if refusals < 1:
            raise ParameterError("refusals", "be at least 1", refusals)
        self.name, self.transformer, self.state, self.refusals = name, transformer, Path(state), refusals
        self._table, self._key = table, key
        self._stored: Stored | None = None
        self._mutex = threading.Lock()
        self._stack = ExitStack()
        self._stack.enter_context(owned(self.state))
        try:
            cost = transformer.release_.cost.epsilon(0.0)
            budget = cost * (1 + 1e-9) if budget is None else budget
            journal = self.state / "ledger.jsonl"
            self.ledger = Ledger.open(journal, budget, 0.0, neighbours="replace_one")
            self._stack.callback(self.ledger.close)
        except BaseException:
            self._stack.close()
            raise

    @property
    def label(self) -> str:
        """The name of the release in the ledger: the party and a fingerprint of all public parameters."""
        text = json.dumps(describe(self.transformer), sort_keys=True).encode()
        return f"opboost {self.name} {hashlib.blake2b(text, digest_size=8).hexdigest()}"

    def offer(self, rows: int, ids: str) -> Stored:
        """The release, for a partner with as many rows and the same ids; made now if it does not exist."""
        with self._mutex:
            if self._refused() >= self.refusals:
                log.error(
                    "%d offers with other ids were refused. Whoever sent them holds the token and may be searching for "
                    "an id; find out who, then delete %s from the state folder",
                    self.refusals, _REFUSED,
                )  # fmt: skip
                raise ProtocolError(
                    f"party {self.name!r} has refused {self.refusals} offers with other ids and compares no more, "
                    "whatever the ids; ask its operator to allow it again"
                )
            known = existing_release(self.state / "release") if self._stored is None else _rows_and_ids(self._stored)
            table: Any = None
            if known is None:
                table, own_ids = self._table()
                held = len(raw_columns(table)[0])
                if len(own_ids) != held:
                    raise ParameterError("table", f"have a row for each of its {len(own_ids)} ids", held)
                known = held, id_digest(own_ids, self._key)
            if rows != known[0]:
                self._refuse(f"party {self.name!r} holds another number of rows than {rows}; align them first")
            if not secrets.compare_digest(ids.encode(), known[1].encode()):
                self._refuse(f"the ids of party {self.name!r} are others, in another order, or under another key")
            if self._stored is None:
                self._stored = keep_release(
                    self.state / "release",
                    self.ledger,
                    self.transformer.release_,
                    lambda: self._encode(table),
                    self.label,
                    known[1],
                )
                write_json(self.state / "statement.json", self.statement().to_dict())
            return self._stored

    @property
    def stored(self) -> Stored:
        """The release that was offered."""
        if self._stored is None:
            raise ProtocolError("nothing has been offered yet: say hello first")
        return self._stored

    def values(self, splits: Sequence[tuple[int, int]]) -> list[float]:
        """The randomized value of each (column, ordinal), all of which must exist."""
        stored = self.stored
        for column, ordinal in splits:
            if column >= len(stored.values) or ordinal >= len(stored.values[column]):
                raise ProtocolError(f"there is no ordinal {ordinal} in column {column}")
        return [stored.values[column][ordinal] for column, ordinal in splits]

    def statement(self) -> ReleaseStatement:
        """What the release guarantees."""
        return ReleaseStatement(self.transformer.release_, self.transformer.method, 1, 1, refusals=self.refusals)

    def close(self) -> None:
        """Release the folder."""
        self._stack.close()

    def __enter__(self) -> FeatureParty:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _refused(self) -> int:
        """How many offers were refused so far."""
        kept = read_json(self.state / _REFUSED)
        return 0 if kept is None else int(kept["refused"])

    def _refuse(self, reason: str) -> NoReturn:
        """Count a refusal, on disk before it is answered, so that no restart or crash makes it free."""
        refused = self._refused() + 1
        write_json(self.state / _REFUSED, {"refused": refused}, mode=0o600)
        log.warning("refused %d of at most %d offers with other ids", refused, self.refusals)
        raise ProtocolError(reason)

    def _encode(self, table: Any) -> list[Any]:
        columns = self.transformer.release_.columns
        cells = columns_of(table, self.transformer.names_in_)
        return [column.encode(own) for column, own in zip(columns, cells, strict=True)]


def _rows_and_ids(stored: Stored) -> tuple[int, str]:
    return stored.rows, stored.ids


class _Sessions:
    """Open sessions with the last number used in each; the oldest gives way, those that never said hello first.

    Anybody with a certificate may open sessions, so they must not drive out the sessions of those with the token.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: OrderedDict[bytes, int] = OrderedDict()
        self._greeted: OrderedDict[bytes, None] = OrderedDict()
        self._mutex = threading.Lock()

    def open(self) -> bytes:
        session = secrets.token_bytes(16)
        with self._mutex:
            self._last[session] = 0
            while len(self._last) - len(self._greeted) > self._most:
                del self._last[next(each for each in self._last if each not in self._greeted)]
        return session

    def use(self, request: Request) -> None:
        with self._mutex:
            last = self._last.get(request.session)
            if last is None:
                raise Stale("the session is not open here: the server was restarted, or the request is an old one")
            if request.number <= last:
                raise Unauthenticated("the request was used before")
            self._last[request.session] = request.number
            if request.kind != "hello" and request.session not in self._greeted:
                raise ProtocolError("say hello first, with the number of rows and the digest of their ids")

    def greet(self, session: bytes) -> None:
        with self._mutex:
            if session in self._last:
                self._greeted[session] = None
            while len(self._greeted) > self._most:
                del self._last[self._greeted.popitem(last=False)[0]]


class FeatureServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a `FeatureParty` over Arrow Flight with mutual TLS.

    Parameters
    ----------
    party
        What to serve.
    location
        ``grpc+tls://host:port``; port 0 takes a free one, see ``port``. Other schemes, which are without TLS, are
        refused.
    identity
        Certificate, key, and the authority that client certificates must come from.
    token
        Shared with party A; requests are sealed with it.
    most_sessions
        How many may be open at a time.

    A server and a client in one process: see :func:`~ledgerwood.learners.vertical.train_vertical`.

    >>> issubclass(FeatureServer, flight.FlightServerBase)
    True
    """

    def __init__(
        self, party: FeatureParty, location: str, identity: Identity, token: bytes, *, most_sessions: int = 1024
    ) -> None:
        tls_location(location)
        if len(token) < 16:
            raise ParameterError("token", "have at least 16 bytes", f"<{len(token)} bytes>")
        self._party, self._token, self._sessions = party, token, _Sessions(most_sessions)
        super().__init__(
            location,
            tls_certificates=[(identity.certificate, identity.key)],
            verify_client=True,
            root_certificates=identity.authority,
        )

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """``open``, ``hello`` and ``splits``."""
        return iter([_answered(lambda: self._answer(action.type, action.body))])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """``columns``: the record batches from a given row on."""
        return _answered(lambda: self._columns(ticket.ticket))

    def _answer(self, kind: str, body: Any) -> bytes:
        if kind == "open":
            return VERSION.to_bytes(2, "little") + self._sessions.open()
        if body.size > LARGEST_REQUEST:  # refused before it is copied
            raise ProtocolError(f"a request has at most {LARGEST_REQUEST} bytes, this one has {body.size}")
        request = self._opened(body.to_pybytes(), kind)
        if kind == "hello":
            return self._hello(request)
        values = self._party.values(unpack_splits(request.body))
        log.info("answered %d splits", len(values))
        return bytes(pa.array(values, type=pa.float64()).buffers()[1] or b"")[: 8 * len(values)]

    def _opened(self, data: bytes, kind: str) -> Request:
        request = Request.open(data, self._token)
        if request.kind != kind:
            raise ProtocolError(f"a request of kind {request.kind!r} came as {kind!r}")
        self._sessions.use(request)
        return request

    def _hello(self, request: Request) -> bytes:
        asked = from_json(request.body)
        rows, ids = asked.get("rows"), asked.get("ids")
        if not isinstance(rows, int) or not isinstance(ids, str):
            raise ProtocolError("a hello says how many rows there are and the digest of their ids")
        stored = self._party.offer(rows, ids)
        self._sessions.greet(request.session)
        log.info("hello: %d rows, %d columns", stored.rows, len(stored.columns))
        return to_json(
            {
                "party": self._party.name,
                "rows": stored.rows,
                "columns": [column.to_json() for column in stored.columns],
                "digest": stored.digest,
                "transformer": describe(self._party.transformer),
            }
        )

    def _columns(self, ticket: bytes) -> Any:
        asked = from_json(self._opened(ticket, "columns").body)
        start, stored = asked.get("start"), self._party.stored
        if not isinstance(start, int) or not 0 <= start <= stored.rows:
            raise ProtocolError(f"a stream starts at a row of 0 .. {stored.rows}")
        log.info("sending rows %d .. %d", start, stored.rows)
        fields = [pa.field(column.name, pa.from_numpy_dtype(column.dtype), nullable=False) for column in stored.columns]
        schema = pa.schema(fields, metadata={"version": str(VERSION)})
        # zstd's lightest level: few levels take few bits, and whatever it saves exceeds the cost of the handshake
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))
        return flight.GeneratorStream(schema, _batches(stored, schema, start), options=options)


def _batches(stored: Stored, schema: Any, start: int) -> Iterator[Any]:
    mapped = stored.mapped()  # now, so that an error is answered in our words
    step = max(1024, _BATCH_BYTES // max(1, stored.row_bytes))

    def batch(first: int) -> Any:
        last = min(first + step, stored.rows)
        arrays = [
            pa.Array.from_buffers(field.type, last - first, [None, pa.py_buffer(column[first:last])])
            for field, column in zip(schema, mapped, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return map(batch, range(start, stored.rows, step))


def _answered(answer: Callable[[], Any]) -> Any:
    """The answer, or a refusal in words that never quote data."""
    try:
        return answer()
    except Unauthenticated as error:
        log.warning("refused: %s", error)
        mark = "[stale]" if isinstance(error, Stale) else "[refused]"
        raise flight.FlightUnauthenticatedError(f"{mark} {error}") from None
    except (ProtocolError, ReleaseRefused) as error:
        log.warning("refused: %s", error)
        raise flight.FlightServerError(f"[refused] {error}") from None
    except ParameterError as error:  # about this party's own table and settings: not for the other to read
        log.error("%s", error)
        raise flight.FlightInternalError("[refused] the other party met an error of its own; see its log") from None
    except Exception as error:
        # the text of an unknown error may quote a cell, so only its kind and its place are kept
        place = traceback.extract_tb(error.__traceback__)[-1]
        log.error("an error of this party: %s in %s, line %s", type(error).__name__, place.name, place.lineno)
        raise flight.FlightInternalError("[refused] the other party met an error of its own; see its log") from None
