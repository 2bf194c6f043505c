"""``ledgerwood opboost``: what the configuration files refuse, in one line, and what the commands write."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from terminal import run

from ledgerwood.app.cli import main
from ledgerwood.app.opboost_demo import make_tables, write_lender, write_party


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation")
    run("opboost", "certificates", str(folder), "bank", "lender")
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
        ('name = "bank"', "name = ", "is no TOML"),
        ('method = "global_map"', 'method = "shuffle"', "method must be one of"),
        ("epsilon = 4.0", "epsilon = -1.0", "epsilon must"),
        ("{ bounds = [0, 50000] }", "{ range = [0, 50000] }", "domain.debt must be"),
        ("{ bounds = [0, 50000] }", "{ bounds = [0, 50000], levels = 3 }", "domain.debt must be"),
        ('token = "token"', 'token = "certificate.pem"', "hexadecimal"),
        ('key = "key.pem"', 'key = "nothing.pem"', "nothing.pem"),
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('label = "target"', 'label = "outcome"', "label must name a column"),
        ('id = "customer"', 'id = "client"', "id must name a column"),
        ('kind = "xgboost"', 'kind = "perceptron"', "kind must be"),
        ('kind = "xgboost"', 'kind = "xgboost"\ntask = "ranking"', "task must be"),
        ("location =", "place =", "lacks ['location']"),
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
