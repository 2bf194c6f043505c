"""Budgets in a PostgreSQL database, against a real server: many processes, kills, lost commits, restored backups."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from database_server import Server, binaries

from ledgerwood.accounting import Gaussian, Ledger, Plan, PureDP, Release
from ledgerwood.accounting.ledger import database
from ledgerwood.errors import (
    BudgetExceeded,
    JournalError,
    JournalTampered,
    LedgerClosed,
    MissingDependency,
    ParameterError,
)

pytestmark = pytest.mark.skipif(
    binaries() is None or importlib.util.find_spec("psycopg") is None, reason="needs PostgreSQL's programs and psycopg"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    try:
        database.initialize(running.url())
        yield running
    finally:
        running.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def sql(server: Server, *statements: str, user: str = "owner") -> list[Any]:
    import psycopg

    with psycopg.connect(server.url(user=user), autocommit=True) as connection:
        for statement in statements:
            found = connection.execute(statement)  # type: ignore[arg-type]
        return found.fetchall() if found.description else []


def together(count: int, work: Callable[[int, int], None]) -> list[bytes]:
    """Run work(i, pipe) in forked processes; return what each wrote. A failure in one fails the test."""
    pipes, children = [], []
    for i in range(count):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            code = 1
            try:
                work(i, writing)
                code = 0
            except BaseException as error:
                os.write(writing, f"\n{type(error).__name__}: {error}".encode())
            os._exit(code)
        os.close(writing)
        pipes.append(reading)
        children.append(child)
    said = []
    for reading in pipes:
        with os.fdopen(reading, "rb") as file:
            said.append(file.read())
    for child, text in zip(children, said):
        assert os.waitpid(child, 0)[1] == 0, text.decode()
    return said


# ---- opening


def test_a_budget_is_opened_continued_and_kept_to_its_terms(server: Server, name: str) -> None:
    with Ledger.open(server.url(), 1.0, 1e-6, name=name) as ledger:
        ledger.charge(PureDP(0.25), "first")
        spent, anchor = ledger.spent(), ledger.anchor
        assert name in repr(ledger) and ledger.path is None
    with Ledger.open(server.url(), name=name, anchor=str(anchor)) as again:
        assert again.spent() == spent and again.journal()[0].at is not None
    with Ledger.open(server.url(), 1.0, 1e-6, name=name) as same:
        assert same.id == again.id
    with pytest.raises(ParameterError, match="epsilon"):
        Ledger.open(server.url(), 2.0, 1e-6, name=name)
    with pytest.raises(ParameterError, match="epsilon must be given"):
        Ledger.open(server.url(), name=f"no {name}")
    with pytest.raises(ParameterError, match="name must be the name of a budget"):
        Ledger.open(server.url(), 1.0, 1e-6)
    with pytest.raises(ParameterError, match="in a database only"):
        Ledger.open("file.jsonl", 1.0, 1e-6, name=name)
    assert (name, 2) in database.budgets(server.url())
    assert f"no {name}" not in dict(database.budgets(server.url()))


def test_openers_at_the_same_time_make_one_budget(server: Server, name: str) -> None:
    def opens(i: int, pipe: int) -> None:
        with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
            os.write(pipe, ledger.id.encode())

    assert len(set(together(12, opens))) == 1
    assert dict(database.budgets(server.url()))[name] == 1


def test_what_a_file_ledger_does_a_database_ledger_does(server: Server, name: str, tmp_path: Path) -> None:
    plan = Plan([Release("sums", Gaussian, times=2, share=1.0)]).calibrate(epsilon=0.25, delta=1e-7)

    def use(ledger: Ledger) -> None:
        ledger.pay(plan, "training").charge_release(plan["sums"].priced(), "training: sums")
        with ledger.parallel("regions") as parts:
            for i in range(3):
                parts[i].charge(PureDP(0.125), "region")
        first, second = ledger.split([0.5, 0.25])
        first.charge(PureDP(0.0625), "worker")
        ledger.merge(first)
        first.close()
        second.close()
        with pytest.raises(BudgetExceeded):
            ledger.charge(PureDP(0.9), "too much")

    with Ledger.open(server.url(), 1.0, 1e-6, name=name) as shared, Ledger.open(tmp_path / "a.jsonl", 1.0, 1e-6) as own:
        use(shared)
        use(own)
        assert shared.spent() == own.spent() and shared.odometer() == own.odometer()
        assert [e.kind for e in shared.journal()] == [e.kind for e in own.journal()]
        spent = shared.spent()
        (split,) = (number for number, e in enumerate(shared.journal(), 1) if e.kind == "split")
    with Ledger.open(server.url(), name=name) as again:
        assert again.spent() == spent
        again.merge(f"{name}.{split}-1")  # a sub-ledger by its name
        assert again.spent().amount == pytest.approx(0.4375)


def test_a_planned_budget_follows_its_plan(server: Server, name: str) -> None:
    plan = Plan([Release("sums", Gaussian, times=2, share=1.0)]).calibrate(epsilon=0.5, delta=1e-7)
    with Ledger.open(server.url(), plan=plan, name=name) as ledger:
        ledger.charge(plan["sums"].priced(), "sums")
    with Ledger.open(server.url(), name=name) as again:
        assert again.spent().fraction == pytest.approx(0.5)


def test_a_file_is_moved_once_and_closed(server: Server, name: str, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.jsonl", 1.0, 0.0) as ledger:
        for i in range(3):
            ledger.charge(PureDP(0.125), f"{i}")
        spent, anchor = ledger.spent(), ledger.anchor
        ledger.move_to(server.url(), name)
        ledger.move_to(server.url(), name)  # as after a crash: nothing more happens
        with pytest.raises(LedgerClosed):
            ledger.charge(PureDP(0.125), "twice")
        with pytest.raises(LedgerClosed, match="closed before"):
            ledger.move_to(server.url(), f"{name} 2")
    with Ledger.open(server.url(), name=name, anchor=anchor) as moved:
        assert moved.spent() == spent
        moved.charge(PureDP(0.125), "here")
    with Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0) as other, pytest.raises(ParameterError, match="new budget"):
        other.move_to(server.url(), name)


def here(*words: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "ledgerwood", *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_the_command_line_prepares_opens_imports_and_shows(server: Server, name: str, tmp_path: Path) -> None:
    url = server.url()
    assert "ledgerwood_spend" in here("budget", "init", url, cwd=tmp_path)
    here("budget", "open", url, "--name", name, "-e", "1", "-d", "1e-6", cwd=tmp_path)
    with Ledger.open(url, name=name) as ledger:
        ledger.charge(PureDP(0.25), "rows")
    shown = json.loads(here("budget", "show", url, "--name", name, "--json", cwd=tmp_path))
    assert shown["spent"]["amount"] == 0.25 and name in shown["journal"]
    assert "rows" in here("budget", "history", url, "--name", name, cwd=tmp_path)
    here("budget", "open", "b.jsonl", "-e", "1", "-d", "0", cwd=tmp_path)
    assert "name must be given" in here("budget", "import", "b.jsonl", url, cwd=tmp_path, code=2)
    here("budget", "import", "b.jsonl", url, "--name", f"{name}, moved", cwd=tmp_path)
    assert (f"{name}, moved", 1) in database.budgets(url)


# ---- many at once


def spending(server: Server, name: str, processes: int, requests: int, costs: list[Any]) -> tuple[int, list[float]]:
    """Let processes spend at once; return how many releases came out, and the epsilons that were refused."""

    def spend(i: int, pipe: int) -> None:
        choose = random.Random(i)
        admitted, refused = 0, []
        with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
            for k in range(requests):
                cost = choose.choice(costs)
                try:
                    ledger.charge(cost, f"{i}:{k}")
                    admitted += 1
                except BudgetExceeded:
                    refused.append(cost.pure_epsilon())
        os.write(pipe, json.dumps([admitted, refused]).encode())

    said = [json.loads(text) for text in together(processes, spend)]
    return sum(admitted for admitted, _ in said), [epsilon for _, refused in said for epsilon in refused]


def check_many(server: Server, name: str, requests: int, equal: float, mixed: list[float]) -> None:
    admitted, _ = spending(server, name, 32, requests, [PureDP(equal)])
    with Ledger.open(server.url(), name=name) as ledger:
        assert admitted == len(ledger.journal()) == round(1 / equal)  # exactly what one process is admitted
        assert ledger.remaining().amount == 0.0
    admitted, refused = spending(server, f"{name}, mixed", 32, requests, [PureDP(epsilon) for epsilon in mixed])
    alone = Ledger(1.0, 0.0)
    with Ledger.open(server.url(), name=f"{name}, mixed") as ledger:
        assert admitted == len(ledger.journal()) and refused
        for entry in ledger.journal():  # one process admits the same in this order ...
            assert entry.cost is not None
            alone.charge(entry.cost, entry.label)
        assert alone.spent() == ledger.spent()
        assert min(refused) > ledger.remaining().amount  # ... and nothing that was refused


def test_thirty_two_processes_are_admitted_what_one_would_be(server: Server, name: str) -> None:
    check_many(server, name, 6, 0.008, [0.001, 0.007, 0.0123])


@pytest.mark.slow
def test_thirty_two_processes_of_five_hundred_requests(server: Server, name: str) -> None:
    check_many(server, name, 500, 0.0001, [0.00001, 0.0001, 0.00123])


def killed_at_random(server: Server, name: str, rounds: int, of_server: int) -> None:
    """Kill clients, and now and then the server, in the middle of spending: what came out is on record."""
    with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
        begun = ledger.id
    choose, drawn = random.Random(rounds), 0
    for i in range(rounds):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException), Ledger.open(server.url(), name=name) as ledger:
                while True:
                    ledger.charge(PureDP(1e-6), "request")
                    os.write(writing, b"x")  # the release comes out
            os._exit(0)
        os.close(writing)
        drawn += len(os.read(reading, 1))  # it has begun to spend
        time.sleep(choose.random() * 0.05)
        if i % of_server == of_server - 1:
            server.kill()
            server.start()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as file:
            drawn += len(file.read())
    with Ledger.open(server.url(), name=name) as ledger:
        recorded = len(ledger.journal())
        assert ledger.id == begun and rounds <= drawn <= recorded <= drawn + rounds
        assert ledger.spent().amount == pytest.approx(recorded * 1e-6, rel=1e-12)
        ledger.charge(PureDP(1e-6), "usable")


def test_kills_at_random_points_lose_nothing(server: Server, name: str) -> None:
    killed_at_random(server, name, 20, 10)


@pytest.mark.slow
def test_five_hundred_kills_lose_nothing(server: Server, name: str) -> None:
    killed_at_random(server, name, 500, 5)


# ---- the commit


class Losing:
    """A connection that is lost in its next commit: before the server has it, or before its answer arrives."""

    def __init__(self, connection: Any, before: Callable[[Any], None]) -> None:
        self._connection, self._before = connection, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        import psycopg

        self._before(self._connection)
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_without_an_answer_draws_nothing_and_is_looked_up(server: Server, name: str, after: bool) -> None:
    drawn = []

    class Noise:
        cost = PureDP(0.25)

        def release(self, value: object, rng: object = None) -> None:
            drawn.append(value)

    with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
        ledger.release(Noise(), 1, label="a")
        journal: Any = ledger._journal
        journal._connection = Losing(journal._connection, lambda c: c.commit() if after else None)
        with pytest.raises(JournalError, match="counts as spent" if after else "it is not on record"):
            ledger.release(Noise(), 2, label="b")
        assert drawn == [1]
        assert ledger.spent().amount == (0.5 if after else 0.25)  # the same ledger reads on
        ledger.release(Noise(), 3, label="c")
        assert drawn == [1, 3] and [e.label for e in ledger.journal()] == (["a", "b", "c"] if after else ["a", "c"])


def test_a_connection_that_the_server_ends_is_made_again(server: Server) -> None:
    def end(pid: int) -> None:
        assert sql(server, f"SELECT pg_terminate_backend({pid}, 5000)") == [(True,)]

    with Ledger.open(server.url(), 1.0, 0.0, name="ended") as ledger:
        journal: Any = ledger._journal
        end(journal._connection.info.backend_pid)
        ledger.charge(PureDP(0.25), "after")

        class Ended(Losing):
            def commit(self) -> None:  # the server ends it between the record and its commit
                end(self._connection.info.backend_pid)
                self._connection.commit()

        journal._connection = Ended(journal._connection, lambda c: None)
        with pytest.raises(JournalError, match="it is not on record; nothing was drawn"):
            ledger.charge(PureDP(0.25), "lost")
        assert ledger.spent().amount == 0.25


def test_a_server_without_fsync_is_refused_and_commits_are_synchronous(server: Server, name: str) -> None:
    def set_to(value: str, *statements: str) -> None:
        sql(server, *statements)
        sql(server, "SELECT pg_reload_conf()")
        while sql(server, "SHOW fsync") != [(value,)]:
            time.sleep(0.05)

    with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
        set_to("off", "ALTER SYSTEM SET fsync = off")
        try:
            with pytest.raises(JournalError, match="fsync = off"):
                Ledger.open(server.url(), name=name)
            time.sleep(0.5)  # the ledger's own backend reads its settings between two commands
            with pytest.raises(JournalError, match="fsync = off"):
                ledger.charge(PureDP(0.25), "unsafe")
        finally:
            set_to("on", "ALTER SYSTEM RESET fsync")
    sql(server, "ALTER ROLE owner SET synchronous_commit = off")
    try:
        with Ledger.open(server.url(), name=name) as again:
            journal: Any = again._journal
            assert journal._connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
            journal._connection.rollback()
            with journal.locked():
                assert journal._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        sql(server, "ALTER ROLE owner RESET synchronous_commit")


# ---- against whoever can write


def tamper(server: Server, *statements: str) -> None:
    """As a superuser, who can switch the triggers off."""
    sql(server, "SET session_replication_role = replica", *statements)


def test_a_restored_backup_is_detected_by_who_kept_the_head(server: Server, name: str) -> None:
    live = Ledger.open(server.url(), 1.0, 0.0, name=name)
    live.charge(PureDP(0.125), "before the backup")
    (head,) = sql(server, f"SELECT count, hash FROM ledgerwood.budgets WHERE name = '{name}'")
    live.charge(PureDP(0.5), "after the backup")
    anchor = live.anchor
    tamper(
        server,
        f"DELETE FROM ledgerwood.records WHERE budget = '{name}' AND n >= {head[0]}",
        f"UPDATE ledgerwood.budgets SET count = {head[0]}, hash = '{head[1]}' WHERE name = '{name}'",
    )
    with pytest.raises(JournalTampered, match="old backup"):
        Ledger.open(server.url(), name=name, anchor=anchor)
    with pytest.raises(JournalTampered, match="old backup"):
        live.charge(PureDP(0.125), "x")
    live.close()
    with Ledger.open(server.url(), name=name) as fresh:  # nobody told it
        for _ in range(2):
            fresh.charge(PureDP(0.01), "another history")
    with pytest.raises(JournalTampered):
        Ledger.open(server.url(), name=name, anchor=anchor)


CHANGES = [
    "UPDATE ledgerwood.records SET line = replace(line, '0.125', '0.001') WHERE budget = '{name}' AND n = 1",
    "DELETE FROM ledgerwood.records WHERE budget = '{name}' AND n = 1",
    "DELETE FROM ledgerwood.records WHERE budget = '{name}' AND n = 2",
    "UPDATE ledgerwood.records SET n = CASE n WHEN 1 THEN 2 ELSE 1 END WHERE budget = '{name}' AND n > 0",
    "UPDATE ledgerwood.budgets SET count = 2 WHERE name = '{name}'",
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_edited_records_are_detected(server: Server, number: int) -> None:
    with Ledger.open(server.url(), 1.0, 0.0, name=f"edited {number}") as ledger:
        ledger.charge(PureDP(0.125), "a")
        ledger.charge(PureDP(0.25), "b")
    sql(server, "ALTER TABLE ledgerwood.records DROP CONSTRAINT records_pkey")
    try:
        tamper(server, CHANGES[number].format(name=f"edited {number}"))
        with pytest.raises(JournalTampered):
            Ledger.open(server.url(), name=f"edited {number}")
    finally:
        sql(server, "ALTER TABLE ledgerwood.records ADD PRIMARY KEY (budget, n)")


def test_records_are_only_appended_to_and_roles_keep_apart(server: Server, name: str) -> None:
    import psycopg

    with Ledger.open(server.url(), 1.0, 0.0, name=name) as ledger:
        ledger.charge(PureDP(0.125), "a")
    for statement in (
        "UPDATE ledgerwood.records SET line = ''",
        "DELETE FROM ledgerwood.records",
        "TRUNCATE ledgerwood.records",
        "DELETE FROM ledgerwood.budgets",
        "UPDATE ledgerwood.budgets SET count = 0",
    ):
        with pytest.raises(psycopg.Error, match="only appended"):
            sql(server, statement)
    assert database.initialize(server.url()) == []  # again: harmless
    users = {"reader": "read", "spender": "spend", "opener": "open"}
    sql(server, *(f"CREATE USER {user} IN ROLE ledgerwood_{role}" for user, role in users.items()))
    with Ledger.open(server.url(user="reader"), name=name) as reader:
        assert reader.spent().amount == 0.125
        with pytest.raises(JournalError, match="permission denied"):
            reader.charge(PureDP(0.125), "r")
    with Ledger.open(server.url(user="spender"), 1.0, 0.0, name=name) as spender:
        spender.charge(PureDP(0.125), "s")
        with pytest.raises(JournalError, match="permission denied"):
            Ledger.open(server.url(user="spender"), 1.0, 0.0, name=f"{name} 2")
    with Ledger.open(server.url(user="opener"), 1.0, 0.0, name=f"{name} 3") as opener:
        opener.charge(PureDP(0.125), "o")
    for statement in ("UPDATE ledgerwood.records SET line = ''", "DELETE FROM ledgerwood.budgets"):
        with pytest.raises(psycopg.Error, match="permission denied"):
            sql(server, statement, user="spender")


def test_no_server_no_tables_and_no_psycopg_say_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JournalError, match="cannot open the database 'privacy' at /nowhere") as refused:
        Ledger.open("postgresql://me:secret@/privacy?host=/nowhere", 1.0, 0.0, name="a")
    assert "secret" not in str(refused.value)
    sql(server, "CREATE DATABASE bare")
    with pytest.raises(JournalError, match="ledgerwood budget init"):
        Ledger.open(server.url("bare"), 1.0, 0.0, name="a")

    def absent(module: str) -> Any:
        raise ImportError(module)

    monkeypatch.setattr("ledgerwood.accounting.ledger.database.importlib.import_module", absent)
    with pytest.raises(MissingDependency, match=r"ledgerwood\[postgres\]"):
        Ledger.open(server.url(), name="a")
