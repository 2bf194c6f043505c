"""A training that survives the death of its process: the run's key and every released value, on disk.

A checkpoint is a folder that its owner alone can read:

``run.json``
    Fingerprints of what the run was begun with (learner, parameters, plan, versions), and a keyed digest of the data.
``key``
    256 bits from the operating system. All noise of the run is a stream cipher's output at (key, number of the
    release, exact value), so it is **as sensitive as the data**. It is overwritten and removed when the run is done.
``results.jsonl``
    Every released value and its seal, in a hash-chained journal, written and synced *before* the training may use it.
``model.json``
    The finished model.

The training itself is a function of data, public metadata and the key, so resuming is running it again: releases whose
result is stored are answered from the store, the one that was under way is drawn again with the same words, and the
ledgers know both by their names and charge nothing again (``docs/theory/replay.md``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._files import owned, read_json, sync, write_durably, write_json
from ledgerwood._version import __version__
from ledgerwood.accounting import Ledger
from ledgerwood.accounting.ledger.journal import Journal
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.privacy_unit import unit_names
from ledgerwood.learners.training.codec import decode, encode, name_of
from ledgerwood.mechanisms.keyed_randomness import KEY_BYTES, KeyedSource, RecordedSource, derived, fresh_key

__all__ = ["Checkpoint", "digest_of", "fingerprint", "opened"]

FORMAT, VERSION = "ledgerwood.checkpoint", 2
_PRIVATE = 0o600
_WHERE_ONLY = ("engine", "n_threads", "verbose", "callbacks")  # parameters that change no bit of the model


class Checkpoint:
    """An open checkpoint of a run.

    Attributes
    ----------
    resumed
        Whether the run was begun by an earlier process.
    """

    def __init__(self, folder: Path, key: bytes, journal: Journal, results: Sequence[Any], *, resumed: bool) -> None:
        self._folder, self._key, self._journal = folder, key, journal
        self._results, self.resumed = list(results), resumed
        self._stored, self._round = len(self._results), 0
        self._last_round = self._results[-1]["round"] if self._results else 0

    def source(self, number: int) -> KeyedSource | RecordedSource:
        """Return the source of a release; of one that is on record only its name and its seal."""
        fresh = self.choices(str(number))
        if number < len(self._results):
            return RecordedSource(fresh.release_id, self._results[number]["seal"])
        return fresh

    def choices(self, name: str) -> KeyedSource:
        """Return words that depend on the key and the name alone: for what is decided without the data."""
        return KeyedSource(self._key, name)

    def owns(self, release_id: str | None) -> bool:
        """Whether a name on record is of this run."""
        return release_id is not None and release_id.partition(":")[0] == self.choices("").release_id.partition(":")[0]

    def begin_round(self) -> None:
        """Say that the training has just finished a round: what it holds are released values only."""
        self._round += 1

    @property
    def recalling(self) -> bool:
        """Whether the present round is wholly on record, so that no answer of the data will be used."""
        return self._round < self._last_round

    def recall(self, number: int) -> tuple[Any] | None:
        """Return the stored result of a release, as a tuple of one; None if there is none."""
        return (decode(self._results[number]["value"]),) if number < len(self._results) else None

    def store(self, number: int, result: Any, seal: str) -> Any:
        """Store a result, wait until it is on disk, and return it as a later process will read it."""
        assert number == self._stored, "releases are stored in their order"
        value = encode(result)
        with self._journal.locked():
            self._journal.append({"round": self._round, "value": value, "seal": seal})
        self._stored += 1
        return decode(value)

    def finish(self, model: Any) -> None:
        """Keep the model, destroy the key, drop the results."""
        draft = self._folder / "model.json.new"
        model.save(draft)
        write_durably(self._folder / "model.json", draft.read_bytes(), _PRIVATE)
        _destroy(self._folder)


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str], metadata: Callable[[], Mapping[str, str]], digest: Callable[[bytes], str]
) -> Iterator[Checkpoint]:
    """Begin a checkpoint in a new folder, or continue one that was begun with the same metadata and data.

    Parameters
    ----------
    path
        The folder.
    metadata
        Returns the fingerprints of public metadata by name (:func:`fingerprint`).
    digest
        Returns the digest of the data under a key (:func:`digest_of`).
    """
    folder = Path(path)
    _check_place(folder)
    with owned(folder, "checkpoint"):
        begun = _begun(folder)
        if begun and (folder / "model.json").exists():
            _destroy(folder)
            hint = f"Read its model with load({str(folder / 'model.json')!r}), or choose a new folder for a new fit"
            raise ParameterError("checkpoint", "be of a run that is not finished", str(path), hint)
        key = _key(folder) if begun else fresh_key()
        found = {"facts": dict(metadata()), "data": digest(derived(key, "ledgerwood data"))}
        if begun:
            _check(begun, found, str(path))
        else:
            write_durably(folder / "key", key, _PRIVATE)
            write_json(folder / "run.json", {"format": FORMAT, "version": VERSION, **found}, _PRIVATE)
        journal = Journal(folder / "results.jsonl")
        try:
            with journal.locked():
                records = [record for record in journal.replay() if "value" in record]
            yield Checkpoint(folder, key, journal, records, resumed=begun is not None)
        finally:
            journal.close()


def fingerprint(estimator: Any, metadata: Any, plan: Any, ledger: Ledger | None) -> dict[str, str]:
    """Return digests of all public metadata that a model depends on, by name."""
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _WHERE_ONLY}
    found = {
        "learner": name_of(estimator),
        "parameters": repr(sorted(parameters.items())),
        "public facts": _as_before(repr(metadata)),
        "plan": plan.to_json(),
        "versions": f"ledgerwood {__version__}, numpy {np.__version__}, python {sys.version_info[:2]}",
        "ledger": "none" if ledger is None else "in memory" if ledger.anchor is None else ledger.id,
    }
    return {name: hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for name, text in found.items()}


def _as_before(text: str) -> str:
    """Return the text of public metadata with the names that it had when the first checkpoints were written."""
    return text.replace("PublicMetadata(", "PublicFacts(", 1).replace(" max_rows_per_unit=", " rows_per_unit=")


def digest_of(arrays: Sequence[NDArray[Any] | None], key: bytes) -> str:
    """Return a keyed digest of columns: whoever lacks the key learns nothing from it.

    >>> a, b = (digest_of([np.array([1.0, x]), None], bytes(32)) for x in (2.0, 3.0))
    >>> a == b
    False
    """
    state = hashlib.blake2b(key=key, digest_size=32)
    for array in arrays:
        if array is None:
            state.update(b"none|")
            continue
        state.update(f"{array.dtype.str}{array.shape}|".encode())
        plain = array.dtype.kind in "biufSUmM"
        state.update(np.ascontiguousarray(array).view(np.uint8).data if plain else repr(unit_names(array)).encode())
    return state.hexdigest()


def _check_place(folder: Path) -> None:
    """Refuse a place where others could read or replace the key."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return  # it will be made for its owner alone
    if not stat.S_ISDIR(found.st_mode):
        raise ParameterError("checkpoint", "be a folder", str(folder))
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        hint = "Choose a new folder, or take the rights of others away: chmod go-w"
        raise ParameterError("checkpoint", "be a folder that nobody else can write to", str(folder), hint)


def _begun(folder: Path) -> Any:
    """Return what a run in this folder was begun with; None if there is none and nothing else either."""
    begun = read_json(folder / "run.json")
    if begun is None:
        foreign = sorted(set(os.listdir(folder)) - {"lock", "key", "key.new", "run.json.new"})
        if foreign:
            raise ParameterError("checkpoint", "be a new or empty folder, or hold a run", str(folder))
    elif not isinstance(begun, dict) or (begun.get("format"), begun.get("version")) != (FORMAT, VERSION):
        raise ParameterError("checkpoint", f"be one of version {VERSION}", str(folder))
    return begun


def _check(begun: Any, found: Mapping[str, Any], path: str) -> None:
    known = begun.get("facts")
    different = [name for name, value in found["facts"].items() if not known or known.get(name) != value]
    if begun.get("data") != found["data"]:
        different.append("data")
    if different:
        raise ParameterError(
            "checkpoint", f"be of the same run: not the same {', '.join(different)}", path,
            "The noise of the run is for one table and one plan only. Nothing was released; to train anew choose "
            "a new folder",
        )  # fmt: skip


def _key(folder: Path) -> bytes:
    try:
        key = (folder / "key").read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ParameterError("checkpoint", "have its key", str(folder), "Restore it, or choose a new folder")
    return key


def _destroy(folder: Path) -> None:
    """Overwrite and remove the key, then drop what only a resumed run would need."""
    with contextlib.suppress(FileNotFoundError), open(folder / "key", "r+b") as file:
        file.write(bytes(64))
        sync(file)
    for name in ("key", "key.new", "results.jsonl", "results.jsonl.anchor", "model.json.new"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
