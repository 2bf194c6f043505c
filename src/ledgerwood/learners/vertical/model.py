"""The model that party A keeps: trained on ordinals, completed with split values, and able to predict alone.

A split of a column of ordinals sends ``0, ..., j - 1`` to one side and ``j, ...`` to the other, whatever threshold
between the learner wrote down; ``j`` is the *split ordinal*, and its randomized value is all that is asked for.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood._files import write_durably
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.data.frames import columns_of

_LOCAL, _VERTICAL = "ledgerwood.mechanisms.local", "ledgerwood.learners.vertical"
_MOVED = {
    f"{_LOCAL}.laws": f"{_LOCAL}.distributions",
    f"{_LOCAL}.claims": f"{_LOCAL}.guarantees",
    f"{_LOCAL}.ordered": f"{_LOCAL}.base",
    f"{_LOCAL}.maps": f"{_LOCAL}.order_preserving",
    f"{_LOCAL}.nominal": f"{_LOCAL}.randomizers",
    f"{_LOCAL}.piecewise": f"{_LOCAL}.randomizers",
    f"{_VERTICAL}.statement": f"{_VERTICAL}.release",
    f"{_VERTICAL}.splits": f"{_VERTICAL}.model",
}
_RENAMED = {
    "Settings": "ColumnSettings",
    "Claim": "LocalClaim",
    "Law": "FiniteDistribution",
    "GeneralisedRandomisedResponse": "GeneralizedRandomizedResponse",
}


class _Unpickler(pickle.Unpickler):
    """Finds classes where they are now; models of before the packages were rearranged name the old places."""

    def find_class(self, module: str, name: str) -> Any:
        ours = module.startswith((_LOCAL, _VERTICAL))
        return super().find_class(_MOVED.get(module, module), _RENAMED.get(name, name) if ours else name)


def split_ordinals(model: Any, ordinals: Mapping[int, int]) -> list[tuple[int, int]]:
    """The split ordinals of a model, sorted: (feature, ordinal).

    Parameters
    ----------
    model
        A fitted XGBoost, LightGBM or scikit-learn tree model (boosting, forest or tree).
    ordinals
        For each feature that holds ordinals, how many there are. Splits that part none of them are left out.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier(random_state=0).fit([[0], [1], [2], [3]], [0, 0, 1, 1])
    >>> split_ordinals(model, {0: 4})
    [(0, 2)]
    """
    found = set()
    for feature, threshold, strict in _thresholds(model):
        if feature in ordinals and math.isfinite(threshold):
            first_right = math.ceil(threshold) if strict else math.floor(threshold) + 1
            if 0 < first_right < ordinals[feature]:
                found.add((feature, first_right))
    return sorted(found)


def _thresholds(model: Any) -> Iterator[tuple[int, float, bool]]:
    """(feature, threshold, whether ``x < threshold`` rather than ``x <= threshold`` goes left)."""
    family = type(model).__module__.split(".")[0]
    if family == "xgboost":
        yield from _of_xgboost(_booster(model))
    elif family == "lightgbm":
        booster = getattr(model, "booster_", model)
        for tree in booster.dump_model()["tree_info"]:
            yield from _of_lightgbm(tree["tree_structure"])
    elif hasattr(model, "_predictors"):  # scikit-learn's histogram boosting
        for predictor in (p for stage in model._predictors for p in stage):
            inner = predictor.nodes[predictor.nodes["is_leaf"] == 0]
            for node in inner:
                yield int(node["feature_idx"]), float(node["num_threshold"]), False
    elif hasattr(model, "estimators_") or hasattr(model, "tree_"):
        for each in np.ravel(getattr(model, "estimators_", [model])):
            tree = each.tree_
            for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
                if feature >= 0:
                    yield int(feature), float(threshold), False
    else:
        raise ParameterError("model", "be a tree model of XGBoost, LightGBM or scikit-learn", type(model).__name__)


def _booster(model: Any) -> Any:
    return model.get_booster() if hasattr(model, "get_booster") else model


def _xgboost_json(booster: Any) -> Any:
    return json.loads(bytes(booster.save_raw("json")))


def _trees(content: Any) -> Any:
    booster = content["learner"]["gradient_booster"]
    booster = booster.get("gbtree", booster)  # DART wraps its trees
    if "model" not in booster or "trees" not in booster["model"]:
        raise ParameterError("model", "be a tree model", booster.get("name"))
    return booster["model"]["trees"]


def _of_xgboost(booster: Any) -> Iterator[tuple[int, float, bool]]:
    for tree in _trees(_xgboost_json(booster)):
        for i, left in enumerate(tree["left_children"]):
            if left != -1:
                yield tree["split_indices"][i], tree["split_conditions"][i], True


def _of_lightgbm(node: Any) -> Iterator[tuple[int, float, bool]]:
    if "split_feature" not in node:
        return
    if node["decision_type"] != "<=":
        raise ParameterError("model", "split ordinals by their order", node["decision_type"])
    yield node["split_feature"], float(node["threshold"]), False
    yield from _of_lightgbm(node["left_child"])
    yield from _of_lightgbm(node["right_child"])


def with_values(model: Any, values: Mapping[int, Mapping[int, float]]) -> Any:
    """An XGBoost model whose thresholds are the randomized values: it takes records in their own units.

    Parameters
    ----------
    model
        A fitted XGBoost model on ordinals.
    values
        For each feature that holds ordinals, the value of each of its split ordinals.

    Returns
    -------
    xgboost.Booster
        ``x < value`` goes left. Thresholds are single-precision, so values that it cannot part are refused.

    >>> import xgboost
    >>> data = xgboost.DMatrix([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> model = xgboost.train({"max_depth": 1, "min_child_weight": 0}, data, 1)
    >>> booster = with_values(model, {0: {2: 41.5}})  # ordinal 2 stands for 41.5
    >>> low, high = booster.predict(xgboost.DMatrix([[41.0], [42.0]]))
    >>> bool(low < high)
    True
    """
    import xgboost

    content = _xgboost_json(_booster(model))
    for feature, table in values.items():
        singles = [np.float32(table[j]) for j in sorted(table)]
        if any(a >= b for a, b in itertools.pairwise(singles)):
            raise ParameterError("values", "differ in single precision, which XGBoost keeps", f"<feature {feature}>")
    for tree in _trees(content):
        for i, left in enumerate(tree["left_children"]):
            if left != -1 and tree["split_indices"][i] in values:
                j = math.ceil(tree["split_conditions"][i])
                # a split that parts no ordinal sends all of them one way; so must its value
                known = values[tree["split_indices"][i]]
                tree["split_conditions"][i] = known.get(j, -3e38 if j <= 0 else 3e38)
    final = xgboost.Booster()
    final.load_model(bytearray(json.dumps(content).encode()))
    return final


def representatives(values: Mapping[int, float], cells: Any) -> Any:
    """Each value as an ordinal that every split treats alike: the last split ordinal whose value it reaches.

    Values are compared in double precision, so the answer is that of the ordinals. Missing stays missing.

    >>> representatives({2: 10.0, 5: 40.0}, [9.0, 10.0, 39.0, 50.0])
    array([0., 2., 2., 5.])
    """
    numbers = np.asarray(cells, dtype=np.float64)
    ordinals = sorted(values)
    table = np.array([values[j] for j in ordinals])
    place = np.searchsorted(table, numbers, side="right")
    chosen = np.array([0, *ordinals], dtype=np.float64)[place]
    return np.where(np.isnan(numbers), np.nan, chosen)


def wanted_by_party(splits: Sequence[tuple[int, int]], first_features: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Divide the split ordinals among parties whose features start at the given numbers."""
    parts: list[list[tuple[int, int]]] = [[] for _ in first_features]
    for feature, ordinal in splits:
        party = int(np.searchsorted(first_features, feature, side="right")) - 1
        parts[party].append((feature - first_features[party], ordinal))
    return parts


@dataclass(frozen=True)
class PartyColumns:
    """What party A knows of a party's columns: their names, public metadata, and the values of the split ordinals."""

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
        """Predict for records whose columns were randomized: values as `OrderPreservingTransformer` gives them."""
        return self.learner.predict(self._features(X, theirs, snap=False))

    def to_xgboost(self) -> Any:
        """An XGBoost model in the columns' own units, for serving elsewhere (XGBoost learners only).

        XGBoost compares in single precision, so columns whose levels it cannot separate are refused.
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
        """Return what is guaranteed, to whom, and what is not, a paragraph a line; then every party's exact losses.

        >>> print(VerticalModel(learner=None, own=("age",), parties=()).statement()[:59])
        No column of another party was used. The party that trained
        """
        names = " and ".join(party.party for party in self.parties)
        sent = (
            f"The columns of {names} were randomized cell by cell before they left; all else that the party that "
            f"trained has of them, the values of splits, is made of these cells."
            if self.parties
            else "No column of another party was used."
        )
        own = (
            "The party that trained used its labels, and its own columns if it has any, as they are: this model "
            "guarantees nothing about them to those who see it."
        )
        statements = [f"{party.party}: {party.transformer.privacy_statement()}" for party in self.parties]
        return "\n".join([f"{sent} {own}", *statements])

    def save(self, path: str | Path) -> None:
        """To a file, by pickle: open it only if you trust who wrote it."""
        write_durably(Path(path), pickle.dumps(self))

    @classmethod
    def load(cls, path: str | Path) -> VerticalModel:
        """From a file written by `save`; it is a pickle, so only your own."""
        model = _Unpickler(io.BytesIO(Path(path).read_bytes())).load()
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
