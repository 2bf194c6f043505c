"""The command line by real processes: answers, pipes, JSON, errors, help, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tables import adult
from terminal import ask, here, run

from ledgerwood.accounting import BoundedRange, Gaussian, Ledger, Plan, dp_sgd
from ledgerwood.app.cli.commands import build
from ledgerwood.app.cli.main import main
from ledgerwood.app.cli.release_specs import read_releases
from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.errors import FormatError
from ledgerwood.mechanisms import GaussianMechanism

DP_XGB = ("200 BoundedRange epsilon=0.0339", "50 Gaussian sigma=45")


def every_command() -> dict[str, str]:
    """Each command's words and its help text."""
    import typer

    found: dict[str, str] = {}

    def walk(command: object, words: tuple[str, ...]) -> None:
        found[" ".join(words)] = getattr(command, "epilog", None) or ""
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))

    walk(typer.main.get_command(build()), ())
    return found


EXAMPLES = sorted(
    {line.strip()[2:] for text in every_command().values() for line in text.splitlines() if line.strip()[:2] == "$ "}
)


def test_every_command_has_help_with_an_example() -> None:
    for words, text in every_command().items():
        assert "$ ledgerwood" in text, words
    shown = run("--help")
    names = ["plan", "account", "calibrate", "compare", "train", "predict", "audit", "budget", "report", "serve"]
    for name in names:
        assert name in shown
    assert "$ ledgerwood account" in run("account", "-h")


def test_every_command_can_answer_in_json() -> None:
    import typer

    def walk(command: Any, words: str) -> None:
        inner = getattr(command, "commands", {})
        if not inner:
            assert "json" in {parameter.name for parameter in command.params}, words
        for name, each in inner.items():
            walk(each, f"{words} {name}")

    walk(typer.main.get_command(build()), "ledgerwood")


def _groups() -> dict[str, list[str]]:
    """The examples by command; those that need each other's files together, in the order in which they can run."""
    found: dict[str, list[str]] = {}
    for line in sorted(EXAMPLES, key=lambda line: (" open " not in line, not line.startswith("ledgerwood train"))):
        words = shlex.split(line)
        assert words[0] == "ledgerwood"
        if words[1] == "serve" or words[1:3] in (["opboost", "serve"], ["opboost", "train"]):
            continue  # tests/browser and tests/learners/vertical run them
        found.setdefault("models" if words[1] in ("train", "predict", "report") else words[1], []).append(line)
    return found


@pytest.mark.parametrize("group", sorted(_groups()))
def test_every_example_of_the_help_texts_runs(group: str, tmp_path: Path) -> None:
    adult(tmp_path)
    opened: set[str] = set()
    for line in _groups()[group]:
        words = shlex.split(line)
        if words[1:3] == ["budget", "open"]:
            if words[3] in opened:
                continue
            opened.add(words[3])
        assert run(*words[1:], cwd=tmp_path).strip(), line


def test_account_says_what_the_accountant_says() -> None:
    found = ask("account", *DP_XGB, "--delta", "1/32561")
    expected = (200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)).account(1 / 32561)
    assert found["epsilon"] == expected.epsilon
    assert found["table"] == expected.table
    assert found["method"] == "optimal"


def test_a_pipe_gets_plain_text_and_a_terminal_gets_a_table() -> None:
    words = ["account", "3 Laplace scale=10", "--delta", "0"]
    piped = run(*words)
    assert "\x1b" not in piped and "─" not in piped
    assert "epsilon=0.3" in piped
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "ledgerwood", *words], stdout=slave, env={**os.environ})
    assert process.wait(120) == 0
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:
        pass  # Linux says so when the other end is closed
    finally:
        os.close(master)
    assert "─" in shown.decode()


def test_a_training_by_dp_sgd_instead_of_releases() -> None:
    run_of = ["--batch-size", "100", "--dataset-size", "1000", "--noise-multiplier", "2"]
    found = ask("account", "dp-sgd", *run_of, "--steps", "20", "--delta", "1e-5")
    cost = dp_sgd(batch_size=100, dataset_size=1000, noise_multiplier=2.0, steps=20)
    assert found["epsilon"] == cost.account(1e-5).epsilon and found["cost"] == repr(cost)
    bins = ask("account", "dp-sgd", *run_of, "--epochs", "2", "--sampler", "balls_in_bins", "--delta", "1e-5")
    assert bins["epsilon"] < found["epsilon"]
    void = ask("account", "dp-sgd", *run_of, "--steps", "2", "--limit", "110", "--delta", "1e-5", "--at", "1")
    assert void["neighbours"] == "zero_out" and 0 < void["at"]["delta"] < 1
    noise = ask("calibrate", "dp-sgd", "--rate", "0.1", "--steps", "20", "-e", "1", "-d", "1e-5")
    assert 0.999 < noise["reached"] <= 1.0 and noise["steps"] == 20
    steps = ask("calibrate", "dp-sgd", "--rate", "0.1", "--noise-multiplier", "2", "-e", "1", "-d", "1e-5")
    assert steps["reached"] <= 1.0 < dp_sgd(rate=0.1, noise_multiplier=2.0, steps=steps["steps"] + 1).epsilon(1e-5)


def test_what_an_attacker_can_do_against_a_training() -> None:
    found = ask(
        "account", "dp-sgd", "--rate", "0.1", "--noise-multiplier", "2", "--steps", "20", "-d", "1e-5", "--risk"
    )
    cost = dp_sgd(rate=0.1, noise_multiplier=2.0, steps=20)
    assert found["risk"]["advantage"] == cost.advantage() and found["risk"]["tpr"][1]["tpr"] == cost.tpr(0.01)
    noise = ask("calibrate", "dp-sgd", "--rate", "0.1", "--steps", "20", "--advantage", "0.1")
    assert 0.0999 < dp_sgd(rate=0.1, noise_multiplier=noise["noise_multiplier"], steps=20).advantage() <= 0.1
    noise = ask("calibrate", "dp-sgd", "--rate", "0.1", "--steps", "20", "--tpr", "0.01", "0.03")
    assert dp_sgd(rate=0.1, noise_multiplier=noise["noise_multiplier"], steps=20).tpr(0.01) <= 0.03


def test_calibrate_inverts_account(tmp_path: Path) -> None:
    found = ask("calibrate", "1000 Gaussian", "-e", "1", "-d", "1e-6", "--save", "p.json", cwd=tmp_path)
    (release,) = found["releases"]
    assert release["scale"] == pytest.approx(133.5961, rel=1e-6)
    assert (1000 * Gaussian(sigma=release["scale"])).epsilon(1e-6) <= 1.0
    assert Plan.from_json((tmp_path / "p.json").read_text())["Gaussian"].scale == release["scale"]
    assert ask("account", "p.json", cwd=tmp_path)["epsilon"] <= 1.0


def test_calibrate_with_a_sample_of_the_rows_and_fixed_parts() -> None:
    found = ask("calibrate", "100 Gaussian rate=0.02", "Laplace scale=20", "-e", "1", "-d", "1e-5")
    scales = {row["label"]: row["scale"] for row in found["releases"]}
    assert scales["Laplace"] == 20
    again = ask("account", f"100 Gaussian sigma={scales['Gaussian']!r} rate=0.02", "Laplace scale=20", "-d", "1e-5")
    assert 0.99 < again["epsilon"] <= 1.0


def test_compare_names_the_tightest_and_its_price() -> None:
    found = ask("compare", *DP_XGB, "--delta", "3e-5")
    prices = {row["method"]: row["epsilon"] for row in found["methods"] if row["epsilon"] is not None}
    assert found["tightest"] == min(prices, key=prices.__getitem__) == "optimal"
    assert 0.05 < next(r["more"] for r in found["methods"] if r["method"] == "rdp") < 0.15


def test_compare_noise_for_a_target() -> None:
    found = ask("compare", "20 BoundedRange share=0.7", "5 Gaussian share=0.3", "-e", "1", "-d", "1e-5")
    rows = {row["method"]: row for row in found["methods"]}
    assert rows["pure"]["scales"] is None and rows["pure"]["note"]
    assert rows["rdp"]["more"] > 0.05 > abs(rows["optimal"]["more"])


def test_compare_recipes() -> None:
    found = ask("compare", "--recipes", "xgb,tr_cyc", "--epsilon", "2", "--rows", "10000")
    assert [row["recipe"] for row in found["recipes"]] == ["xgb", "tr_cyc"]
    plan = PlanRequest(recipe="tr_cyc", rows=10000, epsilon=2.0).plan()
    assert found["recipes"][1]["releases"]["leaf"]["scale"] == plan["leaf"].scale


@pytest.mark.parametrize("name", ["pipeline.toml", "pipeline.json"])
def test_a_file_of_releases(tmp_path: Path, name: str) -> None:
    texts = {
        "pipeline.toml": 'delta = 1e-5\nneighbours = "replace_one"\n[[release]]\nmechanism = "gaussian"\n'
        'times = 3\nsigma = 10\nlabel = "counts"\n[[release]]\nmechanism = "Laplace"\nscale = 20\n',
        "pipeline.json": '{"delta": 1e-5, "neighbours": "replace_one", '
        '"release": ["3 gaussian sigma=10 label=counts", {"mechanism": "Laplace", "scale": 20}]}',
    }
    (tmp_path / name).write_text(texts[name])
    found = ask("account", name, cwd=tmp_path)
    assert found["neighbours"] == "replace_one" and found["delta"] == 1e-5
    assert "counts" in run("account", name, cwd=tmp_path)
    assert found["epsilon"] == pytest.approx(1.0 / 20 + 1.0, rel=0.6)


def test_the_plan_command_answers_every_question(tmp_path: Path) -> None:
    words = ["plan", "--recipe", "xgb", "--rows", "32561", "--trees", "50", "--depth", "4", "--epsilon", "1"]
    found = ask(*words, "--explain", "--leaf-rows", "5000", "--leaf-error", "0.05", "--save", "plan.json", cwd=tmp_path)
    plan = Plan.from_json((tmp_path / "plan.json").read_text())
    assert plan.is_within_target()
    assert found["account"]["epsilon"] <= 1.0 < found["account"]["table"]["rdp"]
    assert found["facts"]["delta"] == 1e-06
    assert found["statement"] == plan.statement() and not found["cautions"]
    weak = ask(*words, "--epsilon", "100", "--delta", "0.1")
    assert len(weak["cautions"]) == 2 and all(caution in weak["statement"] for caution in weak["cautions"])
    assert 0 < found["leaf"]["trees"] < 2000
    assert {row["part"] for row in found["alone"]} == {r.label for r in plan.releases()}
    text = run(*words)
    assert plan.statement()[:40] in text.replace("\n", " ")
    again = run(*shlex.split(found["command"])[1:])
    assert plan.statement()[:40] in again.replace("\n", " ")


def test_a_budget_is_opened_spent_and_remembered(tmp_path: Path) -> None:
    opened = ask("budget", "open", "b.jsonl", "-e", "1", "-d", "1e-6", cwd=tmp_path)
    assert opened["spent"]["fraction"] == 0
    assert "Nothing" in run("budget", "history", "b.jsonl", cwd=tmp_path)
    with Ledger.open(tmp_path / "b.jsonl") as ledger:
        ledger.release(GaussianMechanism(sigma=20.0), 1000, label="rows")
    shown = ask("budget", "show", "b.jsonl", cwd=tmp_path)
    assert 0 < shown["spent"]["fraction"] < 0.1 and shown["releases"] == 1
    (entry,) = ask("budget", "history", "b.jsonl", cwd=tmp_path)
    assert entry["label"] == "rows" and entry["cost"]["kind"] == "Gaussian"
    assert "rows" in run("budget", "history", "b.jsonl", cwd=tmp_path)
    run("budget", "show", "b.jsonl", "--anchor", shown["anchor"], cwd=tmp_path)
    assert "new file" in run("budget", "open", "b.jsonl", "-e", "9", "-d", "1e-6", cwd=tmp_path, code=2)


def test_a_tampered_journal_is_refused(tmp_path: Path) -> None:
    run("budget", "open", "b.jsonl", "-e", "1", "-d", "1e-6", cwd=tmp_path)
    path = tmp_path / "b.jsonl"
    path.write_text(path.read_text().replace('"epsilon":1.0', '"epsilon":9.0'))
    assert "hash" in run("budget", "show", "b.jsonl", cwd=tmp_path, code=2)


def test_audit_a_callable_of_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "class Count:\n"
        "    def sample(self, data, n, rng):\n"
        "        return len(data) + rng.geometric(0.39, n) - rng.geometric(0.39, n)\n"
        "count = Count()\n"
    )
    words = ["audit", "mine:count", "--pair", "[[1, 1], [1]]", "--samples", "40000", "--seed", "1"]
    found = ask(*words, "--claim", "PureDP epsilon=0.25", cwd=tmp_path, code=1)
    assert found["verdict"] == "violation" and 0.3 < found["epsilon_lower"] < 0.5
    assert "no violation found" in run(*words, "--claim", "PureDP epsilon=0.5", cwd=tmp_path)


def test_audit_the_zoo() -> None:
    found = ask("audit", "--zoo", "svt_4")
    assert [row["exact_verdict"] for row in found] == ["violated"]
    assert "svt_4" in run("audit", "--zoo", "svt_4")


BAD = [
    (["account"], "Missing argument"),
    (["account", "3 Laplace scale=10"], "delta must be given"),
    (["account", "3 Laplace scale=10", "--delta", "x"], "not a number"),
    (["account", "3 Laplace scale=10", "--delta", "1.5"], "delta must"),
    (["account", "3 Nothing scale=10", "--delta", "0"], "unknown mechanism"),
    (["account", "3 Laplace", "--delta", "0"], "scale must be given"),
    (["account", "3 Laplace scale=-1", "--delta", "0"], "scale must"),
    (["account", "3 Laplace scale=1 sigma=2", "--delta", "0"], "no parameter 'sigma'"),
    (["account", "3 Laplace scale", "--delta", "0"], "name=value"),
    (["account", "no-such.toml", "--delta", "0"], "no-such.toml"),
    (["account", "3 Laplace scale=1", "--delta", "0", "--neighbours", "cousins"], "neighbours must"),
    (["calibrate", "Gaussian", "--delta", "1e-6"], "epsilon must be given"),
    (["account", "Gaussian sigma=1", "--rate", "0.1", "--delta", "1e-6"], "--rate must be given with 'dp-sgd' only"),
    (["account", "dp-sgd", "Gaussian sigma=1", "--delta", "1e-6"], "'dp-sgd' alone"),
    (["account", "dp-sgd", "--rate", "0.1", "--steps", "3", "--delta", "1e-6"], "noise_multiplier must be given"),
    (["calibrate", "dp-sgd", "--rate", "0.1", "--steps", "3", "--delta", "1e-6"], "epsilon must be given"),
    (["calibrate", "Gaussian", "-e", "1", "-d", "0"], "no scale meets"),
    (["compare", "Gaussian", "--delta", "1e-6"], "epsilon must be given"),
    (["compare"], "give releases"),
    (["compare", "--recipes", "none"], "recipe must be one of"),
    (["plan", "--recipe", "none"], "recipe must be one of"),
    (["train", "nothing.csv", "--target", "y", "--model", "m.json"], "no file 'nothing.csv'"),
    (["train", "nothing.csv", "--model", "m.json"], "--target"),
    (["predict", "nothing.json", "nothing.csv"], "nothing.json"),
    (["report", "nothing.json"], "nothing.json"),
    (["plan", "--trees", "x"], "--trees"),
    (["plan", "--task", "clustering"], "task must be"),
    (["plan", "--classes", "1"], "classes must be at least 2"),
    (["plan", "--categories", "15"], "categories must be at most the number of features"),
    (["plan", "--learned", "15"], "learned must be at most 14"),
    (["plan", "--unit-rows", "2", "--neighbours", "replace_one"], "unit_rows must be 1"),
    (["plan", "--recipe", "sarus", "--unit-rows", "2"], "rows must be 1"),
    (["plan", "--schema", "nothing.json"], "nothing.json"),
    (["plan", "--save", "nowhere/p.json"], "save must be a file in an existing folder"),
    (["plan", "--trees", "0"], "trees must"),
    (["plan", "--epsilon", "-1"], "epsilon must"),
    (["plan", "--epsilon", "nan"], "finite"),
    (["plan", "--rows", "1.5e0"], "not a whole number"),
    (["plan", "--rows", "inf"], "not a whole number"),
    (["plan", "--leaf-rows", "0"], "leaf-rows must be at least 1"),
    (["plan", "--leaf-error", "0"], "leaf-error must be positive"),
    (["compare", "Gaussian", "--delta", "1e-6", "--epsilon", "0"], "epsilon must be positive"),
    (["compare", "--recipes", "xgb", "--epsilon", "0"], "epsilon must lie between"),
    (["account", "RDP", "--delta", "1e-6"], "RDP needs values"),
    (["audit", "math", "--claim", "PureDP epsilon=1"], "form module:callable"),
    (["audit", "--recipe", "tr", "--samples", "0"], "samples must be"),
    (["audit", "--zoo", "laplace", "--sample", "--samples", "0"], "samples must be"),
    (["audit", "math:sin", "--claim", "PureDP epsilon=1", "--pair", "[1, 2]", "--samples", "0"], "samples must be"),
    (["serve", "--host", "300.1.1.1"], "address must be free to listen on"),
    (["serve", "--port", "70000"], "--port"),
    (["serve", "--host", ""], "host must be an address"),
    (["audit", "--zoo", "laplace", "--samples", "-3"], "samples must be at least 1"),
    (["budget", "open", "b.jsonl"], "epsilon must be given"),
    (["budget", "open", "nowhere/b.jsonl", "-e", "1", "-d", "1e-6"], "cannot open"),
    (["audit"], "target"),
    (["audit", "nowhere:f", "--claim", "PureDP epsilon=1"], "cannot import"),
    (["audit", "math:nothing", "--claim", "PureDP epsilon=1"], "has no"),
    (["audit", "math:sin"], "claim must be given"),
    (["audit", "math:sin", "--claim", "PureDP epsilon=1", "--pair", "[1"], "not JSON"),
    (["audit", "--zoo", "unicorn"], "no entry unicorn"),
    (["audit", "--recipe", "unicorn"], "recipe must be one of"),
    (["audit", "--recipe", "xgb", "--claim", "PureDP epsilon=1"], "audited alone"),
    (["budget", "show", "nothing.jsonl"], "no journal"),
    (["nonsense"], "nonsense"),
    ([], "Missing command"),
    (["plan", "--nonsense"], "--nonsense"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_bad_input_is_one_clear_line_and_exit_code_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as stop:
        main(words)
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == ""
    assert message in err and err.count("\n") == 1


ODD = {
    "latin.csv": "name,y\ncaf\xe9,1\n".encode("latin-1"),
    "bytes.csv": bytes(range(256)),
    "empty.csv": b"",
    "head.csv": b"a,y\n",
    "a.json": b'{"bounds": {"a": [0, 1]}, "classes": [0, 1]}',
    "alone.csv": b"y\n0\n1\n",
    "fake.parquet": b"no parquet",
    "latin.toml": 'classes = ["caf\xe9"]'.encode("latin-1"),
    "broken.toml": b"classes = [",
    "unknown.toml": b"colour = 3\n",
    "deep.json": b"[" * 100_000,
    "list.json": b"[1, 2]",
    "crossed.json": b'{"bounds": {"a": [9, 1]}}',
    "unicorn.toml": b'delta = 1e-6\n[[release]]\nmechanism = "Unicorn"\n',
    "times.toml": b'delta = 1e-6\n[[release]]\nmechanism = "Gaussian"\nsigma = 3\ntimes = 2.5\n',
}
TRAIN = ["--target", "y", "--model", "m.json", "--schema", "a.json"]
ODD_COMMANDS = [
    (["train", "latin.csv", "--target", "y", "--model", "m.json"], "declare the classes or the target_bounds"),
    (["train", "bytes.csv", *TRAIN], "target must be a column"),
    (["train", "empty.csv", *TRAIN], "must name its columns"),
    (["train", "fake.parquet", *TRAIN], "could not be read as parquet"),
    (["train", "head.csv", *TRAIN], "has no rows"),
    (["train", "folder.csv", *TRAIN], "holds no files that end in .csv"),
    (["train", "alone.csv", *TRAIN], "no column besides the target"),
    (["train", "adult.csv", "--target", "income", "--model", "folder.csv"], "model must be a file"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "latin.toml"], "utf-8"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "broken.toml"], "broken.toml"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "unknown.toml"], "unknown field"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "deep.json"], "deep.json"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "list.json"], "table of public"),
    (["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "crossed.json"], "low < high"),
    (
        ["train", "adult.csv", "--target", "income", "--model", "m.json", "--schema", "schema.json", "--trees", "1e9"],
        "at most 100000",
    ),
    (["plan", "--schema", "unknown.toml"], "unknown field"),
    (["plan", "--schema", "folder.csv"], "Is a directory"),
    (["account", "unicorn.toml"], "unknown mechanism 'Unicorn'"),
    (["account", "times.toml"], "must be an integer"),
    (["account", "deep.json"], "deep.json"),
    (["predict", "bytes.csv", "adult.csv"], "not a model"),
    (["report", "schema.json"], "not a model"),
    (["budget", "show", "bytes.csv"], "does not begin as a journal"),
]


@pytest.mark.parametrize(("words", "message"), ODD_COMMANDS, ids=[" ".join(words) for words, _ in ODD_COMMANDS])
def test_odd_files_are_one_clear_line_and_are_left_as_they_are(words: list[str], message: str, tmp_path: Path) -> None:
    adult(tmp_path, rows=20)
    (tmp_path / "folder.csv").mkdir()
    for name, content in ODD.items():
        (tmp_path / name).write_bytes(content)
    assert message in here(*words, cwd=tmp_path, code=2)
    for name, content in ODD.items():
        assert (tmp_path / name).read_bytes() == content
    assert not (tmp_path / "m.json").exists()


def test_a_target_that_always_fails_is_not_called_audited(tmp_path: Path) -> None:
    words = ["audit", "os:getcwd", "--claim", "PureDP epsilon=1", "--pair", "[1, 2]", "--samples", "100"]
    assert "not audited" in here(*words, cwd=tmp_path, code=3)


def test_bad_input_of_a_real_process(tmp_path: Path) -> None:
    assert "delta must be given" in run("account", "3 Laplace scale=10", cwd=tmp_path, code=2)


def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path) -> None:
    adult(tmp_path)
    for name in ("schema.json", "adult.csv"):  # one line without an end, and many lines
        before = (tmp_path / name).read_bytes()
        for command in ("show", "history"):
            assert "does not begin as a journal" in here("budget", command, name, cwd=tmp_path, code=2)
        assert "new file" in here("budget", "open", name, "-e", "1", "-d", "1e-6", cwd=tmp_path, code=2)
        assert (tmp_path / name).read_bytes() == before
    (tmp_path / "empty.jsonl").touch()
    assert "is empty" in here("budget", "show", "empty.jsonl", cwd=tmp_path, code=2)


def test_help_shows_defaults_without_escapes(tmp_path: Path) -> None:
    for words in (["plan"], ["train"], ["serve"], ["budget", "open"], ["opboost", "train"], []):
        shown = here(*words, "--help", cwd=tmp_path)
        assert "\\" not in shown, shown
    assert "[default: 32561]" in here("compare", "--help", cwd=tmp_path)
    assert "32561, or the schema's" in " ".join(here("plan", "--help", cwd=tmp_path).split())
    assert "[required]" in here("train", "--help", cwd=tmp_path)


def test_whole_numbers_may_be_written_as_people_do(tmp_path: Path) -> None:
    words = ["plan", "--recipe", "tr_cyc", "--rows", "1e6", "--trees", "5", "--json"]
    assert json.loads(here(*words, cwd=tmp_path))["facts"]["rows"] == 1_000_000


def test_plan_shows_what_train_would_choose_and_why(tmp_path: Path) -> None:
    little = ["plan", "--rows", "500", "--epsilon", "0.1"]
    found = json.loads(here(*little, "--explain", "--json", cwd=tmp_path))
    assert found["model"] == "boosted AdaSSP, a linear model" and found["leaf"] is None
    assert "n_rounds" in {row["name"] for row in found["choice"]}
    assert "no leaves" in here(*little, "--leaf-error", "1", cwd=tmp_path)
    assert json.loads(here(*little, "--trees", "10", "--json", cwd=tmp_path))["model"] == "auto: 10 trees of depth 3"
    assert "trees must be left out" in here("plan", "--recipe", "linear", "--trees", "3", cwd=tmp_path, code=2)


def test_compare_says_what_the_tightest_saves(tmp_path: Path) -> None:
    assert "9.1 % less than by 'zcdp'" in " ".join(here("compare", *DP_XGB, "--delta", "3e-5", cwd=tmp_path).split())
    noise = here("compare", "20 BoundedRange share=0.7", "5 Gaussian share=0.3", "-e", "1", "-d", "1e-5", cwd=tmp_path)
    assert "needs less noise" in noise and "-0.0" not in noise


def test_slips_of_the_hand_get_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,income\n1,0\n2,1\n")
    for words, told in [
        (["plan", "--recipe", "xgbb"], "Did you mean 'xgb'?"),
        (["compare", "--recipes", "xgb,tr_cic"], "Did you mean 'tr_cyc'?"),
        (["account", "3 Gausian sigma=1", "-d", "0"], "Did you mean 'Gaussian'?"),
        (["account", "3 Gaussian sigmaa=1", "-d", "0"], "Gaussian has no parameter 'sigmaa'"),
        (["account", "t.csv", "-d", "0"], "t.csv must end in .toml or .json"),
        (["audit", "--zoo", "svt4"], "Did you mean 'svt_4'?"),
        (["train", "t.csv", "--target", "Income", "--model", "m.json"], "Did you mean 'income'?"),
        (["plan", "--rows", "many"], "See ledgerwood plan --help"),
    ]:
        assert told in here(*words, cwd=tmp_path, code=2)


def test_files_of_the_wrong_form(tmp_path: Path) -> None:
    for text, message in [
        ("release = 3", "list of releases"),
        ("[[release]]\nsigma = 1", "'mechanism'"),
        ("colour = 1\nrelease = ['Gaussian sigma=1']", "unknown field 'colour'"),
        ("release = [", "bad.toml"),
    ]:
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(FormatError, match=message):
            read_releases([str(tmp_path / "bad.toml")])


def test_shell_completion_lists_the_recipes() -> None:
    words = {"_LEDGERWOOD_COMPLETE": "complete_bash", "COMP_WORDS": "ledgerwood plan --recipe xgb_", "COMP_CWORD": "3"}
    assert run(env=words).split() == ["xgb_cyc", "xgb_ada"]


def test_shell_completion_lists_the_commands() -> None:
    shown = run(env={"_LEDGERWOOD_COMPLETE": "complete_bash", "COMP_WORDS": "ledgerwood ", "COMP_CWORD": "1"})
    assert {"plan", "account", "budget"} <= set(re.findall(r"\w+", shown))


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"{shlex.quote(sys.executable)} -m ledgerwood audit --zoo svt_4 svt_4 svt_4 | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stderr == "" and "mechanism" in done.stdout


def test_the_console_script_points_at_the_command_line() -> None:
    root = Path(__file__).parents[2]
    target = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]["ledgerwood"]
    module, _, name = target.partition(":")
    assert callable(getattr(import_module(module), name))


def test_answering_needs_no_plotting_or_learning_library() -> None:
    code = (
        "import sys\nfrom ledgerwood.app.cli.main import main\n"
        "try:\n    main(['account', '3 Laplace scale=10', '--delta', '0'])\n"
        "except SystemExit:\n    print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(re.findall(r"'(\w+)'", done.stdout.splitlines()[-1]))
    assert loaded.isdisjoint({"pandas", "sklearn", "matplotlib", "starlette", "hypothesis", "mpmath", "rich"})
