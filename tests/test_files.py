"""Durable files need file locks; a system without them is refused before a file is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ledgerwood._files import owned
from ledgerwood.accounting import Gaussian, Ledger
from ledgerwood.errors import LedgerwoodError, ParameterError, UnsupportedSystem
from ledgerwood.mechanisms import GaussianMechanism


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system like Windows: there is no module fcntl."""
    monkeypatch.setitem(sys.modules, "fcntl", None)


def test_a_journal_is_refused_where_files_cannot_be_locked(no_locks: None, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedSystem, match=r"a ledger with a journal needs POSIX file locks.*Linux or macOS"
    ) as caught:
        Ledger.open(tmp_path / "budget.jsonl", epsilon=1.0, delta=1e-6)
    assert isinstance(caught.value, LedgerwoodError) and isinstance(caught.value, OSError)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_refused_where_files_cannot_be_locked(no_locks: None, tmp_path: Path) -> None:
    with (
        pytest.raises(UnsupportedSystem, match="'checkpoint' needs POSIX file locks"),
        owned(tmp_path / "new", "checkpoint"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_ledger_in_memory_needs_no_locks(no_locks: None) -> None:
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    ledger.release(GaussianMechanism(sigma=20.0), 1000, label="rows")
    assert ledger.spent().epsilon >= Gaussian(sigma=20.0).epsilon(1e-6)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    refused = pytest.raises(ParameterError, match="no other process")
    with owned(tmp_path / "state"), refused, owned(tmp_path / "state"):
        pass
    with owned(tmp_path / "state"):
        pass
