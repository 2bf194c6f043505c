"""The demo: a private model of real data, with a true account of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from examples import bank_marketing as demo
from examples import daily_count

from ledgerwood.learners import load


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[demo.Result, str, Path]:
    output = tmp_path_factory.mktemp("demo")
    lines: list[str] = []
    result = demo.run(output, rows=6000, say=lines.append)
    return result, "\n".join(lines), output


def test_it_says_which_numbers_are_not_private(ran: tuple[demo.Result, str, Path]) -> None:
    result, text, _ = ran
    assert text.count("NOT PRIVATE") == 2 + (result.xgboost_auc is not None)
    assert f"{result.private_auc.value:.3f} ± " in text and "released privately" in text


def test_it_prints_the_statement_and_the_spend(ran: tuple[demo.Result, str, Path]) -> None:
    result, text, _ = ran
    assert "(epsilon=1, delta=1e-06)-differentially private" in text.replace("\n  ", " ")
    assert "The spend, release by release" in text and "together epsilon=1" in text
    assert not result.audit.flagged


def test_the_model_learned_something(ran: tuple[demo.Result, str, Path]) -> None:
    assert ran[0].exact_auc > 0.6


def test_its_files_hold_the_model_and_fetch_nothing(ran: tuple[demo.Result, str, Path]) -> None:
    result, _, output = ran
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page and "https://" not in page and "<script" not in page
    for fact in result.model.privacy_statement().public:
        assert fact.name in page, "every public fact is listed with its source"
    assert load(output / "model.json").privacy_statement() == result.model.privacy_statement()
    assert json.loads((output / "model.xgboost.json").read_text())["learner"]["attributes"]["epsilon"] == "1.0"


def test_without_matplotlib_there_is_no_report_and_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(demo, "_audit", lambda *_: "no audit")
    lines: list[str] = []
    demo.run(tmp_path, rows=6000, say=lines.append)
    assert any("no report" in line and "pip install 'ledgerwood[cli]'" in line for line in lines)
    assert (tmp_path / "model.json").exists() and not (tmp_path / "report.html").exists()


def test_the_daily_count_is_published_within_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    daily_count.main()
    text = capsys.readouterr().out
    *_, last, note = text.strip().splitlines()
    day, true, published, correlated, fresh, tree = map(float, last.split())
    assert day == 365 and abs(published - true) < 8 * correlated < 8 * tree < 8 * fresh
    assert "NOT PRIVATE" in note and "epsilon=1" in text
