"""The demo: a true account of a DP-XGB plan, printed and plotted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ledgerwood import demo
from ledgerwood.accounting import Plan


@pytest.fixture(scope="module")
def said() -> tuple[str, Plan]:
    return demo.report()


def test_the_calibrated_noise_meets_the_numbers_of_the_project(said: tuple[str, Plan]) -> None:
    plan = said[1]
    assert plan["split"].scale >= 0.0339
    assert plan["leaf"].scale <= 45.0
    assert plan.cost.epsilon(demo.DELTA) <= demo.EPSILON


def test_the_budget_is_divided_as_stated(said: tuple[str, Plan]) -> None:
    selections, leaves = (said[1][label] for label in ("split", "leaf"))
    spends = [200 * selections.scale**2 / 8, 50 / (2 * leaves.scale**2)]
    assert spends[0] / sum(spends) == pytest.approx(0.7)


def test_the_printed_account_names_every_method_and_the_interval(said: tuple[str, Plan]) -> None:
    for word in ("pure", "advanced", "kov", "zcdp", "rdp", "gdp", "pld", "optimal", "certified: the truth lies in ["):
        assert word in said[0]


def test_the_demo_writes_a_plot(
    said: tuple[str, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "report", lambda: said)
    monkeypatch.setattr(demo, "curve", lambda noise, method, trees: [0.1 * n for n in trees])
    demo.main(["--output", str(tmp_path)])
    assert (tmp_path / "epsilon-versus-trees.png").read_bytes()[:4] == b"\x89PNG"
    assert "Plot:" in capsys.readouterr().out


def test_without_matplotlib_the_account_is_still_printed(
    said: tuple[str, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "report", lambda: said)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    demo.main(["--output", str(tmp_path)])
    out = capsys.readouterr().out
    assert "Calibrated noise" in out and "pip install 'ledgerwood[accounting]'" in out
    assert not list(tmp_path.iterdir())
