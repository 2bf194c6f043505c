"""The journal file: chained, anchored, locked, and never ahead of or behind what was released."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import Ledger
from ledgerwood.accounting.ledger import journal as journal_module
from ledgerwood.accounting.ledger.journal import GENESIS, Anchor, Journal, seal, unseal
from ledgerwood.errors import FormatError, JournalError, JournalTampered


def filled(path: Path, records: int = 5) -> Journal:
    journal = Journal(path)
    with journal.locked():
        journal.replay()
        for i in range(records):
            journal.append({"kind": "test", "value": i})
    return journal


def reread(path: Path, anchor: Anchor | None = None) -> list[dict]:
    journal = Journal(path, anchor)
    try:
        with journal.locked():
            return journal.replay()
    finally:
        journal.close()


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    filled(tmp_path / "j.jsonl").close()
    records = reread(tmp_path / "j.jsonl")
    assert [r["value"] for r in records] == [0, 1, 2, 3, 4]
    assert [r["n"] for r in records] == [0, 1, 2, 3, 4]


def test_every_line_is_a_json_object(tmp_path: Path) -> None:
    filled(tmp_path / "j.jsonl").close()
    for line in (tmp_path / "j.jsonl").read_text().splitlines():
        assert json.loads(line)["kind"] == "test"


@given(st.dictionaries(st.text(min_size=1), st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
def test_a_sealed_body_unseals_to_itself(body: dict) -> None:
    body.pop("hash", None)
    line, digest = seal(GENESIS, {"n": 0, **body})
    assert unseal(GENESIS, line[:-1]) == ({"n": 0, **body}, digest)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_detected(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("tamper") / "j.jsonl"
    filled(path).close()
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 1))
    content[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(JournalTampered):
        reread(path)


@pytest.mark.parametrize("keep", [[0, 1, 3, 4], [0, 2, 1, 3, 4], [1, 2, 3, 4], [0, 0, 1, 2, 3, 4]])
def test_gaps_swaps_and_repetitions_break_the_chain(tmp_path: Path, keep: list[int]) -> None:
    path = tmp_path / "j.jsonl"
    filled(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in keep))
    with pytest.raises(JournalTampered, match=r"hash chain|anchor"):
        reread(path)


@pytest.mark.parametrize("left", [0, 1, 3, 4])
def test_a_removed_tail_is_detected_by_the_anchor(tmp_path: Path, left: int) -> None:
    path = tmp_path / "j.jsonl"
    filled(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:left]))
    with pytest.raises(JournalTampered, match=f"has {left} records, its anchor names 5"):
        reread(path)


def test_a_tail_cut_inside_an_anchored_line_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    filled(path).close()
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(JournalTampered, match="removed from its end"):
        reread(path)


def test_a_torn_line_beyond_the_anchor_is_cut_and_the_cut_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = filled(path)
    line, _ = seal(journal.anchor.hash, {"n": 5, "kind": "test", "value": 5})
    journal.close()
    with path.open("ab") as file:
        file.write(line[:-9])
    assert reread(path)[-1] == {"n": 5, "kind": "torn", "bytes": len(line) - 9}
    assert reread(path)[-1] == {"n": 5, "kind": "torn", "bytes": len(line) - 9}


def test_a_whole_line_beyond_the_anchor_counts(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = filled(path)
    line, _ = seal(journal.anchor.hash, {"n": 5, "kind": "test", "value": 5})
    journal.close()
    with path.open("ab") as file:
        file.write(line)
    assert reread(path)[-1]["value"] == 5
    assert Anchor.parse((tmp_path / "j.jsonl.anchor").read_text()).count == 6


def test_a_missing_anchor_is_an_error_and_the_kept_one_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = filled(path)
    kept = journal.anchor
    journal.close()
    (tmp_path / "j.jsonl.anchor").unlink()
    with pytest.raises(JournalTampered, match="missing"):
        reread(path)
    assert len(reread(path, kept)) == 5


def test_a_kept_anchor_detects_a_history_rewritten_together_with_its_anchor(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = filled(path)
    kept = journal.anchor
    journal.close()
    for file in tmp_path.iterdir():
        file.unlink()
    filled(path, 4).close()
    assert len(reread(path)) == 4  # whoever writes both files is not detected ...
    with pytest.raises(JournalTampered, match="removed from its end"):
        reread(path, kept)  # ... but by an anchor kept elsewhere
    other = Journal(path)
    with other.locked():
        other.replay()
        other.append({"kind": "test", "value": 77})
    other.close()
    with pytest.raises(JournalTampered, match="rewritten"):
        reread(path, kept)


def test_a_second_reader_catches_up_with_the_first(tmp_path: Path) -> None:
    first = filled(tmp_path / "j.jsonl")
    second = Journal(tmp_path / "j.jsonl")
    with second.locked():
        assert len(second.replay()) == 5
    with first.locked():
        first.append({"kind": "test", "value": "late"})
    with second.locked():
        assert [r["value"] for r in second.catch_up()] == ["late"]
        assert second.catch_up() == []
    assert first.anchor == second.anchor
    first.close()
    second.close()


def test_a_journal_cut_while_open_is_detected(tmp_path: Path) -> None:
    journal = filled(tmp_path / "j.jsonl")
    os.truncate(tmp_path / "j.jsonl", 10)
    with pytest.raises(JournalTampered, match="shorter"), journal.locked():
        journal.catch_up()
    journal.close()


def test_a_journal_replaced_or_removed_while_open_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = filled(path)
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(JournalTampered, match="gone"), journal.locked():
        pass
    path.write_bytes(content)
    with pytest.raises(JournalTampered, match="replaced"), journal.locked():
        pass
    journal.close()


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failing_disk_refuses_and_stays_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    journal = filled(tmp_path / "j.jsonl")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, call, fail)
        with pytest.raises(JournalError, match="No space left on device; nothing was released"), journal.locked():
            journal.append({"kind": "test", "value": 5})
    with pytest.raises(JournalError, match="open the ledger again"), journal.locked():
        pass
    journal.close()
    assert [r["value"] for r in reread(tmp_path / "j.jsonl")][:5] == [0, 1, 2, 3, 4]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = filled(tmp_path / "j.jsonl")
    whole = os.write
    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "write", lambda handle, data: whole(handle, bytes(data[:3])))
        with journal.locked():
            journal._write_anchor = lambda: None  # type: ignore[method-assign]
            journal.append({"kind": "test", "value": 5})
    journal.close()
    assert reread(tmp_path / "j.jsonl")[-1]["value"] == 5


def test_a_directory_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot open the journal"):
        Journal(tmp_path / "missing" / "j.jsonl")


@pytest.mark.parametrize("text", ["", "5", "x:" + "a" * 64, "5:" + "g" * 64, "5:" + "a" * 63])
def test_a_malformed_anchor_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        Anchor.parse(text)
    filled(tmp_path / "j.jsonl").close()
    (tmp_path / "j.jsonl.anchor").write_text(text)
    with pytest.raises(JournalTampered):
        reread(tmp_path / "j.jsonl")


def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    for text in (b"hello", b'{"format": "ledgerwood.schema"}', b"a,b\n1,2\n", b'{"hush'):
        path = tmp_path / "other.json"
        path.write_bytes(text)
        with pytest.raises(JournalTampered, match="left as it is"):
            reread(path)
        assert path.read_bytes() == text
    for part in (b"{", b'{"has', b'{"hash":"0123'):  # an opening record that a crash tore
        path = tmp_path / "torn.jsonl"
        path.write_bytes(part)
        assert reread(path) == [] and path.read_bytes() == b""


def test_an_anchor_that_cannot_be_read_is_an_error_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.jsonl"
    Ledger.open(path, 1.0, 1e-6).close()

    def refuse(self: Path, *args: object, **kwargs: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(JournalError, match=r"anchor 'b\.jsonl\.anchor': Permission denied"):
        Ledger.open(path)
