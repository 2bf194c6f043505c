"""The model that party A keeps: trained on ordinals, completed with split values, and able to predict alone."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.durable import write_durably

from .frames import columns_of
from .splits import representatives, with_values


@dataclass(frozen=True)
class PartyColumns:
    """What party A knows of a party's columns: their names, public facts, and the values of the split ordinals."""

    party: str
    names: tuple[str, ...]
    transformer: Any
    values: tuple[dict[int, float], ...]


@dataclass(frozen=True)
class VerticalModel:
    """A learner with all that it needs to predict without any other party.

    Attributes
    ----------
    learner
        Fitted on party A's columns followed by each party's ordinals.
    own
        The names of party A's columns.
    parties
        The other parties' columns, in the order of the learner's features.

    Made by :func:`~ledgerwood.learners.vertical.train_vertical`, whose example has one.

    >>> VerticalModel(learner=None, own=("age",), parties=()).own
    ('age',)
    """

    learner: Any
    own: tuple[Any, ...]
    parties: tuple[PartyColumns, ...]

    def predict(self, X: Any, theirs: Mapping[str, Any]) -> Any:
        """Predict for clean records: party A's columns, and each party's raw columns, put on its levels first."""
        return self.learner.predict(self._features(X, theirs, snap=True))

    def predict_proba(self, X: Any, theirs: Mapping[str, Any]) -> Any:
        """Like `predict`, probabilities."""
        return self.learner.predict_proba(self._features(X, theirs, snap=True))

    def predict_released(self, X: Any, theirs: Mapping[str, Any]) -> Any:
        """Predict for records whose columns were desensitised: values as `OrderPreservingTransformer` gives them."""
        return self.learner.predict(self._features(X, theirs, snap=False))

    def to_xgboost(self) -> Any:
        """An XGBoost model in the columns' own units, for serving elsewhere (XGBoost learners only).

        XGBoost compares in single precision, so columns whose levels it cannot tell apart are refused.
        """
        for party in self.parties:
            columns = (column for column in party.transformer.release_.columns for _ in column.names)
            for name, column, values in zip(party.names, columns, party.values, strict=True):
                if values and (np.diff(column.values.astype(np.float32)) <= 0).any():
                    raise ParameterError(
                        "values", "differ in single precision, which XGBoost keeps", f"<column {name!r}>",
                        "Serve the VerticalModel itself, which compares in double precision.",
                    )  # fmt: skip
        features = {
            len(self.own) + i: values for i, values in enumerate(v for party in self.parties for v in party.values)
        }
        return with_values(self.learner, features)

    def statement(self) -> str:
        """Return what is promised, to whom, and what is not, a paragraph a line; then every party's exact losses.

        >>> print(VerticalModel(learner=None, own=("age",), parties=()).statement()[:59])
        No column of another party was used. The party that trained
        """
        names = " and ".join(party.party for party in self.parties)
        sent = (
            f"The columns of {names} were randomised cell by cell before they left; all else that the party that "
            f"trained has of them, the values of splits, is made of these cells."
            if self.parties
            else "No column of another party was used."
        )
        own = (
            "The party that trained used its labels, and its own columns if it has any, as they are: this model "
            "promises nothing about them to those who see it."
        )
        told = [f"{party.party}: {party.transformer.privacy_statement()}" for party in self.parties]
        return "\n".join([f"{sent} {own}", *told])

    def save(self, path: str | Path) -> None:
        """To a file, by pickle: open it only if you trust who wrote it."""
        write_durably(Path(path), pickle.dumps(self))

    @classmethod
    def load(cls, path: str | Path) -> VerticalModel:
        """From a file written by `save`; it is a pickle, so only your own."""
        model = pickle.loads(Path(path).read_bytes())
        if not isinstance(model, cls):
            raise FormatError(f"{Path(path).name!r} holds no VerticalModel")
        return model

    def _features(self, X: Any, theirs: Mapping[str, Any], *, snap: bool) -> Any:
        if set(theirs) != {party.party for party in self.parties}:
            raise ParameterError("theirs", "have a table for each party", sorted(map(str, theirs)))
        blocks = [own_features(X, self.own)] if self.own else []
        for party in self.parties:
            table = theirs[party.party]
            cells = party.transformer.snap(table) if snap else np.asarray(table, dtype=np.float64)
            if cells.ndim != 2 or cells.shape[1] != len(party.names):
                raise ParameterError("theirs", f"have the {len(party.names)} columns of {party.party!r}", cells.shape)
            blocks.append(np.column_stack([representatives(v, cells[:, i]) for i, v in enumerate(party.values)]))
        return np.concatenate(blocks, axis=1).astype(np.float32)


def own_features(X: Any, names: tuple[Any, ...]) -> Any:
    """Party A's columns as numbers; text columns must be encoded before."""
    columns = columns_of(X, names)
    wrong = [name for name, column in zip(names, columns, strict=True) if column.type == "text"]
    if wrong:
        raise ParameterError("X", "have numeric columns for the learner", wrong, "Encode categories first.")
    return np.column_stack([column.numbers().astype(np.float32) for column in columns])
