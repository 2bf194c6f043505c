"""Processes that die, and processes that race: never an under-count, never a lost record."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_cases import run_driver

_COMMON = """
import json, os, random, signal, sys, time
sys.path.insert(0, os.getcwd())
from ledgerwood.accounting import Ledger, PureDP
from ledgerwood.accounting.ledger import journal as journal_module

class Drawing:
    '''Tells the parent, through a pipe, that noise was drawn: the release may be out from here on.'''
    cost = PureDP(0.001)
    def __init__(self, pipe):
        self.pipe = pipe
    def release(self, value, rng=None):
        os.write(self.pipe, b'x')
        return 0

def child(work):
    '''Fork; run work(pipe) in the child; return its pid and the reading end.'''
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            work(writing)
        finally:
            os._exit(1)
    os.close(writing)
    return pid, reading

def drawn(reading):
    count = 0
    while chunk := os.read(reading, 65536):
        count += len(chunk)
    os.close(reading)
    return count

def recorded(path):
    with Ledger.open(path) as ledger:
        releases = sum(entry.kind == 'release' for entry in ledger.journal())
        assert abs(ledger.spent().amount - 0.001 * releases) < 1e-12
        return releases, sum(entry.kind == 'torn' for entry in ledger.journal())
"""

_KILLED = (
    _COMMON
    + """
folder, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
path = os.path.join(folder, 'budget.jsonl')
Ledger.open(path, 1000.0, 0.0).close()

def spend(pipe):
    ledger = Ledger.open(path)
    while True:
        ledger.release(Drawing(pipe), 0, label='r')

before, lost, most = 0, 0, 0
for i in range(kills):
    pid, reading = child(spend)
    first = len(os.read(reading, 1)) if i % 2 else 0  # every other kill falls after the first release
    time.sleep(random.uniform(0.0, 0.02))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    out, (now, _) = first + drawn(reading), recorded(path)
    lost += out > now - before
    most = max(most, now - before - out)
    before = now
print(json.dumps({'lost': lost, 'most_overcounted': most, 'records': before}))
"""
)

_EVERY_CALL = (
    _COMMON
    + """
folder = sys.argv[1]

def dying(at, fraction):
    '''Make the process kill itself at its at-th call of the operating system, after part of the work.'''
    calls = 0
    real = {name: getattr(os, name) for name in ('write', 'fsync', 'replace', 'ftruncate')}
    def wrap(name):
        def call(*arguments):
            nonlocal calls
            calls += 1
            if calls == at:
                if name == 'write':
                    data = bytes(arguments[1])
                    real['write'](arguments[0], data[: int(len(data) * fraction)])
                elif fraction == 1:
                    real[name](*arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            return real[name](*arguments)
        return call
    for name in real:
        setattr(journal_module.os, name, wrap(name))

results, torn_lines = [], 0
for at in range(1, 17):
    for fraction in (0.0, 0.5, 0.99, 1):
        path = os.path.join(folder, f'{at}-{fraction}.jsonl')
        ledger = Ledger.open(path, 1000.0, 0.0)
        first, second = os.pipe()
        ledger.release(Drawing(second), 0, label='r')
        ledger.close()
        def spend(pipe):
            ledger = Ledger.open(path)
            dying(at, fraction)
            for _ in range(3):
                ledger.release(Drawing(pipe), 0, label='r')
        pid, reading = child(spend)
        os.waitpid(pid, 0)
        out, (now, torn) = drawn(reading), recorded(path)
        torn_lines += torn
        results.append([out, now - 1])
print(json.dumps({'results': results, 'torn': torn_lines}))
"""
)

_RACE = (
    _COMMON
    + """
folder, workers, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = os.path.join(folder, 'budget.jsonl')
Ledger.open(path, 0.001 * budget, 0.0).close()
from ledgerwood.errors import BudgetExceeded

def spend(pipe):
    ledger = Ledger.open(path)
    try:
        while True:
            ledger.release(Drawing(pipe), 0, label='r')
    except BudgetExceeded:
        os._exit(0)

children = [child(spend) for _ in range(workers)]
outs = [drawn(reading) for _, reading in children]
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children]
print(json.dumps({'outs': outs, 'codes': codes, 'recorded': recorded(path)[0]}))
"""
)


def check_kills(folder: Path, kills: int, seed: int) -> None:
    report = run_driver(_KILLED, folder, kills, seed)
    assert report["lost"] == 0
    assert report["most_overcounted"] <= 1
    assert report["records"] >= kills / 2  # the kills really fell among releases


def test_a_process_killed_at_a_random_time_never_loses_a_record(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=50, seed=1)


@pytest.mark.slow
def test_thousands_of_kills_never_lose_a_record(tmp_path: Path) -> None:
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        check_kills(tmp_path / str(seed), kills=250, seed=seed)


def test_a_kill_at_every_call_of_the_operating_system_never_loses_a_record(tmp_path: Path) -> None:
    report = run_driver(_EVERY_CALL, tmp_path)
    assert all(out <= recorded <= out + 1 for out, recorded in report["results"])
    assert any(recorded == out + 1 for out, recorded in report["results"])  # died between fsync and noise
    assert report["torn"] > 0


@pytest.mark.parametrize("workers", [2, 4])
def test_racing_processes_spend_the_budget_once(tmp_path: Path, workers: int) -> None:
    report = run_driver(_RACE, tmp_path, workers, 60)
    assert report["codes"] == [0] * workers
    assert sum(report["outs"]) == report["recorded"] == 60
