"""Models of trees as XGBoost's JSON, for serving and explaining elsewhere. (Our own: ``learners.training.codec``.)

They hold released numbers and public metadata only. XGBoost keeps for every node a *cover*, how much data passed it. An
exact one would be a leak, so it is the released noisy hessian of the leaf, floored at a public positive value (a zero
cover makes SHAP divide by it), or that value where a recipe releases none; summed upwards. Gains are zero.

Thresholds are float32 in the files, in XGBoost and in our own predict, and a number goes left if it is less, so no row
takes another way. Category columns are written as XGBoost's categorical splits over the codes of the declared order.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._version import __version__
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.trees.aggregator import SCORE_BITS, BinEdges, Tree
from ledgerwood.learners.trees.forest import Forest, forest_of

VERSION = [2, 1, 0]
"""The version of XGBoost's JSON schema that is written; later ones read it."""
LEAST_COVER = 1.0
_ONE = float(1 << SCORE_BITS)


def encoded(model: Any, X: Any) -> NDArray[np.float32]:
    """Return X as the exported model reads it: numbers clipped to bounds, codes of categories, nan for missing."""
    table = model._table(X)
    columns = []
    for column, read in zip(table.columns, table.values, strict=True):
        values = read.astype(np.float32)
        if column.kind == "category":
            values = np.where(read == len(column.categories or ()), np.float32("nan"), values)
        columns.append(values)
    return np.stack(columns, axis=1)


def to_xgboost(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted tree model as XGBoost JSON; ``xgboost.Booster(model_file=path)`` reads it.

    Feed it ``encoded(model, X)``. The privacy statement is in the booster's attributes. It predicts what the model
    predicts, with one exception: XGBoost knows no link for clipped gradients, so where ``PrivateClassifier`` uses one,
    the file predicts the sigmoid of the same score (the same ranking and the same decisions), the attribute
    ``probability_link`` has the link's two numbers, and :func:`~.auto.estimators.probability` applies
    it.
    """
    Path(path).write_text(json.dumps(xgboost_document(model), allow_nan=False), encoding="utf-8")


def xgboost_document(model: Any) -> dict[str, Any]:
    """Return the document that :func:`to_xgboost` writes."""
    forest = forest_of(model)
    statement = model.privacy_statement()
    objective, base, factor = _objective(model, forest)
    columns: tuple[Column, ...] = model.columns_
    trees: list[dict[str, Any]] = []
    info: list[int] = []
    for tree, phase in zip(forest.trees, forest.phase, strict=True):
        for output in range(forest.n_outputs):
            trees.append(_tree(tree, output, forest.bin_edges[phase], columns, factor, len(trees)))
            info.append(output)
    classes = forest.n_outputs if forest.n_outputs > 1 else 0
    parameters = {
        "base_score": f"{base!r}",
        "num_class": str(classes),
        "num_feature": str(len(columns)),
        "num_target": "1",
        "boost_from_average": "0",
    }
    per_round = max(1, forest.n_outputs)
    gbtree = {
        "model": {
            "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
            "trees": trees,
            "tree_info": info,
            "iteration_indptr": list(range(0, len(trees) + 1, per_round)),
        },
        "name": "gbtree",
    }
    parts: dict[str, Any] = {"name": objective}
    if objective == "multi:softprob":
        parts["softmax_multiclass_param"] = {"num_class": str(classes)}
    else:
        parts["reg_loss_param"] = {"scale_pos_weight": "1"}
    attributes = {
        "privacy_statement": str(statement),
        "epsilon": repr(statement.epsilon),
        "delta": repr(statement.delta),
        "written_by": f"ledgerwood {__version__}",
    }
    link = model.probability_link() if hasattr(model, "probability_link") else None
    if link is not None:
        attributes["probability_link"] = json.dumps(dict(zip(("clip", "kappa"), link, strict=True)))
    return {
        "version": VERSION,
        "learner": {
            "attributes": attributes,
            "feature_names": [str(column.name) for column in columns],
            "feature_types": ["c" if _is_split_by_set(column) else "float" for column in columns],
            "gradient_booster": gbtree,
            "learner_model_param": parameters,
            "objective": parts,
        },
    }


def _is_split_by_set(column: Column) -> bool:
    return column.kind == "category" and bool(column.categories)


def _objective(model: Any, forest: Forest) -> tuple[str, float, float]:
    """Return XGBoost's objective, the base score and the factor of the leaf weights for which it predicts alike."""
    if model._task == "regression":
        low, high = model.target_bounds_
        return "reg:squarederror", (low + high) / 2, (high - low) / 2
    if forest.averages or forest.loss == "squared":
        if forest.n_outputs > 1:
            raise ParameterError("recipe", "not average labels of several classes to be exported", forest.loss)
        return "reg:squarederror", 0.5, 1.0 if forest.averages else 0.5
    if forest.n_outputs > 1:
        return "multi:softprob", 0.0, 1.0
    return "binary:logistic", 0.5, 2.0 if forest.loss == "hinge" else 1.0


def _tree(
    tree: Tree, output: int, bin_edges: BinEdges, columns: tuple[Column, ...], factor: float, number: int
) -> dict[str, Any]:
    structure = tree.structure
    inner = (1 << structure.depth) - 1
    nodes = 2 * inner + 1
    weights = tree.weights[output].astype(np.float64) / _ONE * factor
    left = [2 * i + 1 if i < inner else -1 for i in range(nodes)]
    conditions, defaults, kinds, features = [], [], [], []
    sets: list[int] = []
    set_nodes, segments, sizes = [], [], []
    for node in range(inner):
        feature = int(structure.feature[node])
        goes_left = structure.left[node]
        missing = bin_edges.n_codes(feature) - 1
        features.append(feature)
        defaults.append(int(goes_left[missing]))
        if _is_split_by_set(columns[feature]):
            # XGBoost wants some category on the right: the code of missing, which is written as nan and so never met
            right = [code for code in range(missing) if not goes_left[code]] or [missing]
            kinds.append(1)
            conditions.append(0.0)
            set_nodes.append(node)
            segments.append(len(sets))
            sizes.append(len(right))
            sets += right
        else:
            kinds.append(0)
            conditions.append(_threshold(goes_left[:missing], bin_edges.thresholds[feature]))
    covers = [0.0] * inner + _covers(tree, output)
    for node in reversed(range(inner)):
        covers[node] = covers[2 * node + 1] + covers[2 * node + 2]
    return {
        "base_weights": [0.0] * inner + weights.tolist(),
        "categories": sets,
        "categories_nodes": set_nodes,
        "categories_segments": segments,
        "categories_sizes": sizes,
        "default_left": defaults + [0] * (nodes - inner),
        "id": number,
        "left_children": left,
        "loss_changes": [0.0] * nodes,
        "parents": [2147483647] + [(i - 1) // 2 for i in range(1, nodes)],
        "right_children": [child + 1 if child > 0 else -1 for child in left],
        "split_conditions": conditions + weights.tolist(),
        "split_indices": features + [0] * (nodes - inner),
        "split_type": kinds + [0] * (nodes - inner),
        "sum_hessian": covers,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(columns)),
            "num_nodes": str(nodes),
            "size_leaf_vector": "1",
        },
    }


def _covers(tree: Tree, output: int) -> list[float]:
    """The released cover of the leaves, floored at a public value."""
    if tree.cover is None:
        return [LEAST_COVER] * (1 << tree.structure.depth)
    found: list[float] = np.maximum(tree.cover[output].astype(np.float64), LEAST_COVER).tolist()
    return found


def _threshold(goes_left: NDArray[np.uint8], thresholds: NDArray[np.float32]) -> float:
    """The threshold below which numbers go left; beyond all numbers if all do, below all if none does."""
    count = int(goes_left.sum())
    if not bool(goes_left[:count].all()):
        raise ParameterError("model", "split numbers by thresholds to be exported", "a set of bins")
    largest = float(np.finfo(np.float32).max)
    if count == 0:
        return -largest
    return largest if count > len(thresholds) else float(thresholds[count - 1])
