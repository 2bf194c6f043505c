"""``ledgerwood opboost``: what the configuration files refuse, in one line, and what the commands write."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from examples.opboost import make_tables, write_lender, write_party
from terminal import ask

from ledgerwood.app.cli.main import main
from ledgerwood.app.cli.opboost import read_table
from ledgerwood.learners.vertical import OrderPreservingTransformer


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation")
    assert ask("opboost", "certificates", str(folder), "bank", "lender")["parties"] == ["bank", "lender"]
    tables = make_tables(50)
    write_party(folder / "bank", "bank", tables["bank"])
    write_lender(folder / "lender", tables["lender"], [1])
    return folder


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    return shown.err


def test_keys_and_secrets_are_readable_by_their_owner_only(federation: Path) -> None:
    for name in ("key.pem", "token", "ids.key"):
        assert stat.S_IMODE((federation / "bank" / name).stat().st_mode) == 0o600
    assert (federation / "bank" / "token").read_text() == (federation / "lender" / "token").read_text()
    assert not any("AUTHORITY" in path.read_text().upper().split("-----")[1] for path in federation.rglob("*.pem"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "bank"\n', "", "lacks ['name']"),
        ('name = "bank"', 'name = "bank"\ncolour = 1', "unknown entries ['colour']"),
        ('name = "bank"', "name = ", "is not TOML"),
        ('method = "global_map"', 'method = "shuffle"', "method must be one of"),
        ("epsilon = 4.0", "epsilon = -1.0", "epsilon must"),
        ("{ bounds = [0, 50000] }", "{ range = [0, 50000] }", "domain.debt must be"),
        ("{ bounds = [0, 50000] }", "{ bounds = [0, 50000], levels = 3 }", "domain.debt must be"),
        ('token = "token"', 'token = "certificate.pem"', "hexadecimal"),
        ('key = "key.pem"', 'key = "nothing.pem"', "nothing.pem"),
        ('data = "features.parquet"', 'data = "none.parquet"', "none.parquet"),
        ('id = "customer"', 'id = "client"', "data must have exactly"),
        ("debt = { bounds = [0, 50000] }\n", "", "['debt']"),
        ("epsilon = 4.0", "epsilon = 4.0\nbudget = 'all'", "must"),
        ("[domain]", "[[domain]]", "must be a table"),
        ('name = "bank"', 'name = "../bank"', "letters, digits"),
    ],
)
def test_a_wrong_configuration_of_a_feature_party_is_one_line(
    federation: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    text = (federation / "bank" / "b.toml").read_text()
    assert old in text
    wrong = federation / "bank" / "wrong.toml"
    wrong.write_text(text.replace(old, new, 1))
    assert message in complaint(capsys, "opboost", "serve", "-c", str(wrong))


def test_a_feature_party_does_not_serve_without_tls(
    federation: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerwood.learners.vertical.FeatureServer", lambda *_: pytest.fail("it listens"))
    text = (federation / "bank" / "b.toml").read_text().replace("grpc+tls", "grpc+tcp", 1)
    wrong = federation / "bank" / "open.toml"
    wrong.write_text(text.replace('state = "state"', 'state = "never"'))
    told = complaint(capsys, "opboost", "serve", "-c", str(wrong))
    assert "listen must have the form grpc+tls://host:port" in told and "mutual TLS only" in told
    assert not (federation / "bank" / "never").exists()  # told before anything is opened


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('label = "target"', 'label = "outcome"', "label must name a column"),
        ('id = "customer"', 'id = "client"', "id must name a column"),
        ('kind = "xgboost"', 'kind = "perceptron"', "kind must be"),
        ('kind = "xgboost"', 'kind = "xgboost"\ntask = "ranking"', "task must be"),
        ("location =", "place =", "lacks ['location']"),
        ("grpc+tls", "grpc", "location must have the form grpc+tls://host:port"),
        ("[[party]]", "[party]", "[[party]]"),
        ("[learner]", "[[learner]]", "must be a table"),
        ("max_depth = 3", "depth = 3\nkind = 'sklearn'", "is not TOML"),
        ('kind = "xgboost"\nn_estimators', 'kind = "sklearn"\nmax_trees', "max_trees"),
    ],
)
def test_a_wrong_configuration_of_the_label_party_is_one_line(
    federation: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    text = (federation / "lender" / "a.toml").read_text()
    assert old in text
    wrong = federation / "lender" / "wrong.toml"
    wrong.write_text(text.replace(old, new, 1))
    assert message in complaint(capsys, "opboost", "train", "-c", str(wrong))


def test_names_of_parties_are_no_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "plain names" in complaint(capsys, "opboost", "certificates", str(tmp_path / "f"), "bank", "../lender")
    assert not (tmp_path / "f").exists()


def test_keys_are_not_written_over(federation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (federation / "bank" / "ids.key").read_text()
    assert "no keys in this folder yet" in complaint(capsys, "opboost", "certificates", str(federation), "shop", "bank")
    assert (federation / "bank" / "ids.key").read_text() == before and not (federation / "shop").exists()


def test_one_record_of_a_csv_file_does_not_change_how_the_others_are_read(tmp_path: Path) -> None:
    text = "id,zip,kind,income\n7,01,1,10\n8,02,2,20.5\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text + "nine,2020-01-01,x,\n")
    domain = {"zip": ["01", "02"], "kind": [1, 2], "income": (0, 100)}
    made = OrderPreservingTransformer(domain=domain).declare(list(domain))
    tables = [read_table(tmp_path / name, "id", guess_types=False) for name in ("a.csv", "b.csv")]
    assert [ids[:2].tolist() for _, ids in tables] == [["7", "8"]] * 2
    plain, other = (made.snap(table) for table, _ in tables)
    assert np.array_equal(plain, other[:2])
    assert plain[:, :6].tolist() == [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]]
    guessed, ids = read_table(tmp_path / "a.csv", "id", guess_types=True)
    assert guessed["income"].to_pylist() == [10.0, 20.5] and ids.tolist() == ["7", "8"]
