"""kill -9 of either party at any step: nothing is lost, nothing is charged or released twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from examples.opboost import ledgerwood, make_tables, serving, write_lender, write_party
from vertical_ports import free_port

from ledgerwood.accounting import Ledger

DRIVER = Path(__file__).with_name("crash_driver.py")


def every_step(folder: Path, step: int) -> None:
    done = subprocess.run([sys.executable, str(DRIVER), str(folder), str(step)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    assert sum(result["kills"] for result in results) >= 0.6 * len(results)
    for result in results:
        assert result["charges"] == result["notes"] == 1, result
        for fact in ("spent_once", "same_bytes", "partial_bytes_agree", "predicts_alone"):
            assert result[fact], result


def test_a_kill_at_some_steps_loses_nothing_and_releases_nothing_twice(tmp_path: Path) -> None:
    every_step(tmp_path, 9)


@pytest.mark.slow
def test_a_kill_at_every_step_loses_nothing_and_releases_nothing_twice(tmp_path: Path) -> None:
    every_step(tmp_path, 1)


def killed_at_random(folder: Path, kills: int, seed: int) -> None:
    """The command line as three processes; one of them is killed at a random time, again and again."""
    rng = random.Random(seed)
    subprocess.run(ledgerwood("certificates", str(folder), "bank", "shop", "lender"), check=True)
    tables = make_tables(30_000)
    ports = {name: free_port() for name in ("bank", "shop")}
    for name, port in ports.items():
        write_party(folder / name, name, tables[name], port=port)
    lender = write_lender(folder / "lender", tables["lender"], list(ports.values()))

    def start(name: str) -> subprocess.Popen[str]:
        if name == "lender":
            return subprocess.Popen(ledgerwood("train", "-c", str(lender)), stdout=subprocess.PIPE, text=True)
        command = ledgerwood("serve", "-c", str(folder / name / "b.toml"))
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    running = {name: start(name) for name in ("bank", "shop", "lender")}
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.0, 6.0))
            victim = rng.choice(sorted(running))
            running[victim].send_signal(signal.SIGKILL)
            running[victim].communicate()
            running[victim] = start(victim)
        for _ in range(20):  # party A gives up when nobody answers for long: run it again, as its help says
            if running["lender"].wait(300) == 0:
                break
            running["lender"].communicate()
            running["lender"] = start("lender")
        assert running["lender"].returncode == 0
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    for number, name in enumerate(("bank", "shop")):
        with Ledger.open(folder / name / "state" / "ledger.jsonl") as ledger:
            labels = [entry.label for entry in ledger.journal() if entry.kind == "release"]
        assert [("written" in label) for label in labels] == [False, True]
        sent = (folder / name / "state" / "release" / "columns.bin").read_bytes()
        assert sent == (folder / "lender" / "state" / f"party-{number}" / "columns.bin").read_bytes()
    # a lender who was never killed gets the same columns and the same model
    other = folder / "other"
    subprocess.run(["cp", "-r", str(folder / "lender"), str(other)], check=True)
    subprocess.run(["rm", "-r", str(other / "state")], check=True)
    with serving(folder / "bank" / "b.toml"), serving(folder / "shop" / "b.toml"):
        subprocess.run(ledgerwood("train", "-c", str(other / "a.toml")), check=True, stdout=subprocess.DEVNULL)
    assert (other / "state" / "model.json").read_bytes() == (folder / "lender" / "state" / "model.json").read_bytes()


def test_the_commands_survive_a_kill(tmp_path: Path) -> None:
    killed_at_random(tmp_path, 2, seed=1)


@pytest.mark.slow
def test_the_commands_survive_many_kills(tmp_path: Path) -> None:
    killed_at_random(tmp_path, 25, seed=2)


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    subprocess.run(ledgerwood("certificates", str(tmp_path), "bank"), check=True, stdout=subprocess.DEVNULL)
    config = write_party(tmp_path / "bank", "bank", make_tables(100)["bank"])
    with serving(config):
        second = subprocess.run(ledgerwood("serve", "-c", str(config)), capture_output=True, text=True)
        assert second.returncode != 0 and "no other process is using" in second.stderr
