"""Budgets in a PostgreSQL database: journals that many machines share.

The same lines as in a journal file, chained by the same hashes, in the table ``ledgerwood.records``; the number of
records and the last hash, which a file keeps in its anchor, in ``ledgerwood.budgets``, one row for each named budget.

Order of events for one record: begin, lock the budget's row, read what others recorded, let the caller decide, insert
the record and move the head, commit with ``synchronous_commit``. Only after the commit has returned may noise be drawn.
The lock is the row's and ends with the transaction (no session locks, which connection poolers drop). If the connection
is lost in the commit, nothing is drawn; whether the record is there is looked up by its id.

psycopg is imported when a database is opened (``pip install 'ledgerwood[postgres]'``). TLS, passwords and time limits
are libpq's: in the URL, in its environment variables, in its service file.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

from ledgerwood.accounting.ledger.journal import GENESIS, Anchor, Record, seal, unseal
from ledgerwood.errors import JournalError, JournalTampered, MissingDependency, ParameterError

ROLES = {
    "ledgerwood_read": "see what was spent",
    "ledgerwood_spend": "spend from budgets that are open",
    "ledgerwood_open": "open budgets, and spend",
}

_TABLES = """
CREATE SCHEMA IF NOT EXISTS ledgerwood;
CREATE TABLE IF NOT EXISTS ledgerwood.budgets (
    name text PRIMARY KEY CHECK (name <> ''),
    count bigint NOT NULL CHECK (count >= 0),
    hash text NOT NULL CHECK (length(hash) = 64)
);
CREATE TABLE IF NOT EXISTS ledgerwood.records (
    budget text NOT NULL REFERENCES ledgerwood.budgets (name),
    n bigint NOT NULL CHECK (n >= 0),
    id uuid NOT NULL UNIQUE,
    line text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (budget, n)
);
CREATE OR REPLACE FUNCTION ledgerwood.append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'budgets' AND TG_OP = 'UPDATE' THEN
        IF NEW.name = OLD.name AND NEW.count > OLD.count THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'the records of a privacy budget are only appended to';
END $$;
DROP TRIGGER IF EXISTS append_only ON ledgerwood.records;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledgerwood.records
    FOR EACH ROW EXECUTE FUNCTION ledgerwood.append_only();
DROP TRIGGER IF EXISTS not_emptied ON ledgerwood.records;
CREATE TRIGGER not_emptied BEFORE TRUNCATE ON ledgerwood.records
    FOR EACH STATEMENT EXECUTE FUNCTION ledgerwood.append_only();
DROP TRIGGER IF EXISTS append_only ON ledgerwood.budgets;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledgerwood.budgets
    FOR EACH ROW EXECUTE FUNCTION ledgerwood.append_only();
DROP TRIGGER IF EXISTS not_emptied ON ledgerwood.budgets;
CREATE TRIGGER not_emptied BEFORE TRUNCATE ON ledgerwood.budgets
    FOR EACH STATEMENT EXECUTE FUNCTION ledgerwood.append_only();
"""

_RIGHTS = """
GRANT USAGE ON SCHEMA ledgerwood TO ledgerwood_read, ledgerwood_spend, ledgerwood_open;
GRANT SELECT ON ledgerwood.budgets, ledgerwood.records TO ledgerwood_read, ledgerwood_spend, ledgerwood_open;
GRANT UPDATE (count, hash) ON ledgerwood.budgets TO ledgerwood_spend, ledgerwood_open;
GRANT INSERT (budget, n, id, line) ON ledgerwood.records TO ledgerwood_spend, ledgerwood_open;
GRANT INSERT ON ledgerwood.budgets TO ledgerwood_open;
"""

_LOCK = """
SELECT current_setting('fsync'), CASE WHEN current_setting('synchronous_commit') <> 'remote_apply'
    THEN set_config('synchronous_commit', 'on', true) END
FROM ledgerwood.budgets WHERE name = %s FOR UPDATE
"""
_NEW = "INSERT INTO ledgerwood.budgets (name, count, hash) VALUES (%s, 0, %s) ON CONFLICT DO NOTHING"
_READ = """
SELECT b.count, b.hash, r.line FROM ledgerwood.budgets b
LEFT JOIN ledgerwood.records r ON r.budget = b.name AND r.n >= %s WHERE b.name = %s ORDER BY r.n
"""
_APPEND = """
WITH head AS (
    UPDATE ledgerwood.budgets SET count = %(n)s + %(more)s, hash = %(hash)s
    WHERE name = %(name)s AND count = %(n)s AND hash = %(before)s RETURNING name
)
INSERT INTO ledgerwood.records (budget, n, id, line)
SELECT head.name, new.n, new.id, new.line FROM head, unnest(%(ns)s::bigint[], %(ids)s::uuid[], %(lines)s::text[])
AS new (n, id, line)
"""


_UNSAFE = "the server runs with fsync = off: what it committed can be lost; nothing was released"


def is_database(place: object) -> bool:
    """Whether a place names a database rather than a file.

    >>> is_database("postgresql://localhost/budgets"), is_database("budget.jsonl")
    (True, False)
    """
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def initialize(url: str) -> list[str]:
    """Make the tables, the triggers and the roles where they are missing; return the roles that could not be made.

    Needs the right to create a schema in the database. Harmless when repeated.
    """
    missing = []
    with _connected(url) as connection:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('ledgerwood'))")  # two of these at once
            connection.execute(_TABLES)
        for role in ROLES:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                with contextlib.suppress(_psycopg().errors.DuplicateObject):
                    try:
                        connection.execute(f"CREATE ROLE {role} NOLOGIN")
                    except _psycopg().errors.InsufficientPrivilege:
                        missing.append(role)
        if not missing:
            connection.execute(_RIGHTS)
    return missing


class DatabaseJournal:
    """The records of one named budget in a database. As :class:`~ledgerwood.accounting.ledger.journal.Journal`.

    Parameters
    ----------
    url
        ``postgresql://user@host/database?sslmode=verify-full``: anything that libpq takes.
    name
        The budget's name in the database.
    anchor
        An anchor kept by the user. The records must pass through it.
    """

    path = None

    def __init__(self, url: str, name: str, anchor: Anchor | None = None) -> None:
        if not isinstance(name, str) or not name or "\x00" in name:
            raise ParameterError("name", "be the name of a budget in the database", name)
        self.url, self.name = url, name
        self.count, self._hash = 0, GENESIS
        self._kept = anchor
        self.broken = False
        self._connection: Any = None
        self._locks = False
        self._rows: list[tuple[int, str, str | None]] = []
        self._connect()

    @property
    def anchor(self) -> Anchor:
        """How far this process has read: the chain's head, which shows a restored backup."""
        return Anchor(self.count, self._hash)

    @contextlib.contextmanager
    def locked(self, *, writing: bool = True) -> Iterator[None]:
        """Hold the lock on the budget's row, for a record; or only read what is committed.

        A connection that was lost since the last time is made again: nothing was begun on it.
        """
        if self.broken:
            raise JournalError(f"the budget {self.name!r} is closed here; nothing was released. Open it again")
        try:
            self._begin(writing=writing)
        except _psycopg().OperationalError:
            self._drop()
            self._begin_again(writing=writing)
        except _psycopg().Error as error:
            self._drop()
            raise self._failed(error) from error
        self._locks = writing
        try:
            yield
        finally:
            self._locks = False
            if self._connection is not None:
                with contextlib.suppress(_psycopg().Error):
                    self._connection.rollback()

    def replay(self) -> list[Record]:
        """Read all records and check them against the kept anchor."""
        return self.catch_up()

    def catch_up(self) -> list[Record]:
        """Return the records that are new to this process, in one snapshot with the head they lead to."""
        rows, self._rows = self._rows, []
        if not rows:
            if self.count:
                raise JournalTampered(f"the budget {self.name!r} is gone from the database; nothing was released")
            return []
        records = []
        for _, _, line in rows:
            if line is None:
                continue
            try:
                body, self._hash = unseal(self._hash, line.encode())
            except (JournalTampered, ValueError) as error:
                self.broken = True
                raise JournalTampered(
                    f"record {self.count} of the budget {self.name!r}: {error}. If the database was restored from a "
                    "backup, what was spent after it is missing"
                ) from None
            self.count += 1
            records.append(body)
            if self._kept is not None and self._kept.count == self.count and self._kept.hash != self._hash:
                raise JournalTampered(f"record {self.count - 1} of {self.name!r} is not the one the anchor names")
        if (rows[0][0], rows[0][1]) != (self.count, self._hash):
            self.broken = True
            raise JournalTampered(
                f"the budget {self.name!r} has {rows[0][0]} records in the database and {self.count} were seen: "
                "records were removed, or the database was restored from an old backup; nothing was released"
            )
        if self._kept is not None and self.count < self._kept.count:
            raise JournalTampered(
                f"the budget {self.name!r} has {self.count} records, the anchor names {self._kept.count}: records were "
                "removed, or the database was restored from an old backup"
            )
        return records

    def append(self, body: Record) -> Record:
        """Insert one record and return it (with its number) once it is committed."""
        return self.append_all([body])[0]

    def append_all(self, bodies: list[Record]) -> list[Record]:
        """Insert records in one transaction and return them once they are committed."""
        if not self._locks:
            raise JournalError(f"the budget {self.name!r} was opened for reading; nothing was released")
        records, lines, head = [], [], self._hash
        for i, body in enumerate(bodies):
            record = {"n": self.count + i, **body}
            line, head = seal(head, record)
            records.append(record)
            lines.append(line.decode().rstrip("\n"))
        ids = [str(uuid.uuid4()) for _ in lines]
        given = {"n": self.count, "more": len(lines), "hash": head, "before": self._hash, "name": self.name}
        given |= {"ns": [self.count + i for i in range(len(lines))], "ids": ids, "lines": lines}
        try:
            self._lock()  # again, should this be the second record under one lock; its head is compared below
            done = self._connection.execute(_APPEND, given)
        except _psycopg().Error as error:
            self._drop()
            raise self._failed(error) from error
        if done.rowcount != len(lines):
            raise JournalError(f"another process wrote to the budget {self.name!r} meanwhile; nothing was released")
        try:
            self._connection.commit()
        except _psycopg().Error as error:
            self._drop()
            raise JournalError(
                f"the connection to the budget {self.name!r} was lost while a record was committed: "
                f"{self._looked_up(ids[-1])}; nothing was drawn or released"
            ) from error
        except BaseException:  # an interrupt: the record may be there, so this process must not go on as if it were not
            self.broken = True
            raise
        self.count, self._hash = self.count + len(lines), head
        return records

    def child(self, name: str) -> DatabaseJournal:
        """Return the records of a sub-ledger."""
        return DatabaseJournal(self.url, f"{self.name}.{name}")

    def close(self) -> None:
        """Close the connection. Harmless when repeated."""
        self.broken = True
        self._drop()

    def __str__(self) -> str:
        return f"{self.name} in {_place(self.url)}"

    def _connect(self) -> None:
        try:
            connection = _psycopg().connect(self.url, application_name=f"ledgerwood {self.name}"[:63])
        except _psycopg().Error as error:
            raise JournalError(f"cannot open {_place(self.url)}: {_first_line(error)}") from error
        connection.isolation_level = _psycopg().IsolationLevel.READ_COMMITTED
        connection.prepare_threshold = None  # poolers hand a connection's statements to another
        self._connection, self._process = connection, os.getpid()
        try:
            (synced, found) = connection.execute(
                "SELECT current_setting('fsync'), to_regclass('ledgerwood.records') IS NOT NULL"
            ).fetchone()
            connection.rollback()
        except _psycopg().Error as error:
            self._drop()
            raise JournalError(f"cannot read {_place(self.url)}: {_first_line(error)}") from error
        if synced != "on":
            self._drop()
            raise JournalError(_UNSAFE)
        if not found:
            self._drop()
            raise JournalError(f"{_place(self.url)} has no tables for budgets: run 'ledgerwood budget init URL' first")

    def _begin_again(self, *, writing: bool) -> None:
        try:
            self._begin(writing=writing)
        except _psycopg().Error as error:
            self._drop()
            raise self._failed(error) from error

    def _begin(self, *, writing: bool) -> None:
        """Lock the row if something is to be written, and read what is new."""
        if self._connection is None:
            self._connect()
        if writing:
            self._lock()
        self._rows = self._connection.execute(_READ, (self.count, self.name)).fetchall()

    def _lock(self) -> None:
        row = self._connection.execute(_LOCK, (self.name,)).fetchone()
        if row is None and self.count == 0:  # opened the first time; of two such openers one waits here
            self._connection.execute(_NEW, (self.name, GENESIS))
            row = self._connection.execute(_LOCK, (self.name,)).fetchone()
        if row is not None and row[0] != "on":
            raise JournalError(_UNSAFE)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with contextlib.suppress(Exception):
                connection.close()

    def _failed(self, error: BaseException) -> JournalError:
        return JournalError(
            f"the budget {self.name!r} could not be reached: {_first_line(error)}; nothing was released"
        )

    def _looked_up(self, record: str) -> str:
        """Say whether a record whose commit was not answered is there; the next reading counts it if it is."""
        try:
            with _connected(self.url) as connection:
                row = connection.execute("SELECT n FROM ledgerwood.records WHERE id = %s", (record,)).fetchone()
        except (JournalError, _psycopg().Error):
            return f"the server does not answer, and whether record {record} counts is seen when it does"
        return f"record {record} is there as number {row[0]} and counts as spent" if row else "it is not on record"


def budgets(url: str) -> list[tuple[str, int]]:
    """Return the names of a database's budgets, and how many records each has."""
    with _connected(url) as connection:
        found = connection.execute("SELECT name, count FROM ledgerwood.budgets ORDER BY name").fetchall()
    return [(str(name), int(count)) for name, count in found]


@contextlib.contextmanager
def _connected(url: str) -> Iterator[Any]:
    try:
        connection = _psycopg().connect(url, autocommit=True)
    except _psycopg().Error as error:
        raise JournalError(f"cannot open {_place(url)}: {_first_line(error)}") from error
    try:
        yield connection
    finally:
        connection.close()


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError:
        raise MissingDependency("psycopg", "a budget in a database", "postgres") from None


def _place(url: str) -> str:
    """A URL without its password."""
    found = _psycopg().conninfo.conninfo_to_dict(url)
    return f"the database {found.get('dbname', '')!r} at {found.get('host', 'this machine')}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
