r"""What a model of trees says, from released numbers only: rules, drawings, shapes with noise bands, importances.

**Importances.** The variance that a feature's splits give to the score, minus what noise alone would give, divided by
the sum over features. Rows are spread as the released covers of the leaves say (evenly where a recipe releases none).
Of the trees that use one feature it is the variance of the feature's shape; in the others a split at a node that a part
p of the rows reaches counts :math:`p\,p_L p_R(\bar w_L-\bar w_R)^2`, :math:`\bar w` the mean weight of leaves below.

**Shapes.** Where every tree uses one feature, the score is a sum of functions of one feature each. The noise in a
weight has a known standard deviation, and noises of different trees are independent: the band is the root of the sum of
their squares.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _checks
from ledgerwood.errors import MissingDependency, ParameterError
from ledgerwood.learners.data.columns import Column, Floats
from ledgerwood.learners.trees.aggregator import SCORE_BITS, BinEdges, Tree
from ledgerwood.learners.trees.forest import Forest, forest_of

__all__ = ["Shape", "importances", "plot_shapes", "plot_tree", "rules", "shapes"]

_ONE = float(1 << SCORE_BITS)
_LEAST = 1.0
"""A released cover counts at least this much: it is noisy."""


def importances(model: Any) -> Floats:
    """Return the part of each feature in the variance of the score, noise taken off; they add up to 1."""
    forest = forest_of(model)
    total = np.array([_variance(_shape(forest, model.columns_, j)) for j in range(len(model.columns_))])
    for tree in forest.trees:
        if not _is_single(tree):
            np.add.at(total, tree.structure.feature, _parts(tree))
    total = np.maximum(total, 0.0)
    whole = float(total.sum())
    return np.asarray(total / whole if whole > 0 else total, dtype=np.float64)


def _variance(shape: Shape) -> float:
    """The variance of a shape over the rows, less the noise's part."""
    part = shape.cover / shape.cover.sum()
    around = shape.scores - (shape.scores * part).sum(axis=1, keepdims=True)
    noise = np.nan_to_num(shape.noise)
    return float((part * (around**2 - noise**2 * (1 - part))).sum())


def _parts(tree: Tree) -> Floats:
    """What every split adds to the variance of a tree's output, level by level from the leaves."""
    depth, shape = tree.structure.depth, tree.weights.shape
    means = tree.weights.astype(np.float64) / _ONE
    noise = np.zeros(shape) if tree.noise is None else tree.noise.astype(np.float64) ** 2
    part = np.ones(shape) if tree.cover is None else np.maximum(tree.cover.astype(np.float64), _LEAST)
    part = part / part.sum(axis=1, keepdims=True)
    found = np.zeros((1 << depth) - 1)
    for level in reversed(range(depth)):
        w, v, p = (x.reshape(shape[0], -1, 2) for x in (means, noise, part))
        below = p.sum(axis=2)
        share = p / below[..., None]
        gain = (w[..., 0] - w[..., 1]) ** 2 - v.sum(axis=2)
        first = (1 << level) - 1
        found[first : 2 * first + 1] = (below * share.prod(axis=2) * gain).sum(axis=0)
        means, noise, part = (share * w).sum(axis=2), (share**2 * v).sum(axis=2), below
    return found


# ---- rules


def rules(model: Any, *, trees: int = 3, digits: int = 3) -> str:
    """Return the first trees as text, one line for each leaf that a row can reach.

    The score of a row is the sum of one line of each tree; the text says how many trees it leaves out.
    """
    forest = forest_of(model)
    lines = []
    for number, (tree, phase) in enumerate(zip(forest.trees[:trees], forest.phase, strict=False)):
        lines.append(f"tree {number}")
        for leaf in range(1 << tree.structure.depth):
            tests = leaf_tests(tree, forest.bin_edges[phase], model.columns_, leaf, digits=digits)
            if tests is not None:
                weights = ", ".join(f"{w / _ONE:+.{digits}f}" for w in tree.weights[:, leaf].tolist())
                lines.append(f"  {'if ' + ' and '.join(tests) if tests else 'always'}: {weights}")
    left = len(forest.trees) - min(trees, len(forest.trees))
    return "\n".join([*lines, *([f"and {left} more trees"] if left else [])])


def leaf_tests(
    tree: Tree, bin_edges: BinEdges, columns: tuple[Column, ...], leaf: int, *, digits: int = 3
) -> list[str] | None:
    """Return what holds of the rows of a leaf, one test for each feature; None if no row can reach it."""
    allowed: dict[int, NDArray[np.bool_]] = {}
    node = 0
    for level in reversed(range(tree.structure.depth)):
        right = leaf >> level & 1
        feature, side = _side(tree, node, bin_edges, right=bool(right))
        allowed[feature] = allowed.get(feature, True) & side
        node = 2 * node + 1 + right
    if not all(codes.any() for codes in allowed.values()):
        return None
    return [
        _text(columns[feature], codes, bin_edges.thresholds[feature], digits)
        for feature, codes in allowed.items()
        if not codes.all()
    ]


def _side(tree: Tree, node: int, bin_edges: BinEdges, *, right: bool) -> tuple[int, NDArray[np.bool_]]:
    """The feature of a node, and which of its codes go to that side; the last code is that of missing values."""
    feature = int(tree.structure.feature[node])
    return feature, tree.structure.left[node, : bin_edges.n_codes(feature)] == (0 if right else 1)


def _text(column: Column, codes: NDArray[np.bool_], thresholds: NDArray[np.float32], digits: int = 3) -> str:
    """A test of a column that the given codes pass; codes of numbers are without a gap, as splits are by threshold."""
    unknown = " or missing" if codes[-1] else ""
    known = np.flatnonzero(codes[:-1])
    if not len(known):
        return f"{column.name} is {'missing' if codes[-1] else 'nothing'}"
    if column.kind == "category" and column.categories:
        kept = [str(column.categories[code]) for code in known]
        shown = ", ".join(kept[:6]) + (f", … ({len(kept)})" if len(kept) > 6 else "")
        return f"{column.name} in {{{shown}}}{unknown}"
    low = None if known[0] == 0 else f"{float(thresholds[known[0] - 1]):.{digits}g}"
    high = None if known[-1] == len(thresholds) else f"{float(thresholds[known[-1]]):.{digits}g}"
    if low is None and high is None:
        return f"{column.name} is any number{unknown}"
    if low is None:
        return f"{column.name} < {high}{unknown}"
    return f"{column.name} >= {low}{unknown}" if high is None else f"{low} <= {column.name} < {high}{unknown}"


# ---- shapes


@dataclass(frozen=True, eq=False)
class Shape:
    """What one feature adds to the score.

    Attributes
    ----------
    name, kind
        The column.
    bin_edges
        For numbers: score ``i`` holds from edge ``i`` to edge ``i + 1``; bounds at both ends.
    categories
        For categories, one for each score.
    scores, noise
        ``[outputs, bins]``: the sum of weights, and the standard deviation of the noise in it (nan where unknown).
    missing
        The score of a missing or unknown value, for each output.
    cover
        How the rows are spread over the bins, by the released covers of the leaves.
    """

    name: Any
    kind: str
    bin_edges: Floats | None
    categories: tuple[Any, ...] | None
    scores: Floats
    noise: Floats
    missing: Floats
    cover: Floats


def shapes(model: Any, *, interactions: str = "refuse") -> list[Shape]:
    """Return the shape of every feature, for models all of whose trees use a single feature (``dp_ebm``, ...).

    ``interactions="leave_out"`` gives the shapes of the trees of one feature, and leaves out the others.
    """
    forest = forest_of(model)
    if interactions not in ("refuse", "leave_out"):
        raise ParameterError("interactions", "be 'refuse' or 'leave_out'", interactions)
    if interactions == "refuse" and not all(map(_is_single, forest.trees)):
        hint = "Take a recipe such as dp_ebm, or interactions='leave_out' for its main effects alone"
        raise ParameterError("model", "use one feature in each tree", "several", hint)
    return [_shape(forest, model.columns_, feature) for feature in range(len(model.columns_))]


def _is_single(tree: Tree) -> bool:
    return bool((tree.structure.feature == tree.structure.feature[0]).all())


def _shape(forest: Forest, columns: tuple[Column, ...], feature: int) -> Shape:
    column = columns[feature]
    grid = None
    if column.kind == "number":
        low, high = column.bounds or (0.0, 1.0)
        inner = np.concatenate(
            [np.empty(0), *(bin_edges.thresholds[feature].astype(np.float64) for bin_edges in forest.bin_edges)]
        )
        grid = np.unique(np.r_[low, inner[(inner > low) & (inner < high)], high])
        bins = max(1, len(grid) - 1)
    else:
        bins = max(1, len(column.categories or ()))
    scores, squares = np.zeros((forest.n_outputs, bins + 1)), np.zeros((forest.n_outputs, bins + 1))
    cover = np.full((forest.n_outputs, bins), 1e-9)
    for tree, phase in zip(forest.trees, forest.phase, strict=True):
        if tree.structure.feature[0] != feature or not _is_single(tree):
            continue
        bin_edges = forest.bin_edges[phase]
        missing = bin_edges.n_codes(feature) - 1
        if grid is None:
            codes = np.minimum(np.arange(bins + 1), missing)
        else:
            codes = np.r_[
                np.searchsorted(bin_edges.thresholds[feature], grid[:bins].astype(np.float32), side="right"), missing
            ]
        codes[-1] = missing
        leaf = _leaves(tree, codes)
        scores += tree.weights[:, leaf] / _ONE
        squares += np.nan if tree.noise is None else tree.noise[:, leaf].astype(np.float64) ** 2
        own = np.bincount(leaf[:-1], minlength=1 << tree.structure.depth)  # bins of each leaf
        held = np.ones(tree.weights.shape) if tree.cover is None else np.maximum(tree.cover, _LEAST)
        cover += (held / np.maximum(own, 1))[:, leaf[:-1]]
    noise = np.sqrt(squares[:, :-1])
    return Shape(column.name, column.kind, grid, column.categories, scores[:, :-1], noise, scores[:, -1], cover)


def _leaves(tree: Tree, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The leaf of each code, in a tree of a single feature."""
    node = np.zeros(len(codes), dtype=np.int64)
    for _ in range(tree.structure.depth):
        node = 2 * node + 2 - tree.structure.left[node, codes]
    return node - ((1 << tree.structure.depth) - 1)


# ---- drawings


def plot_shapes(model: Any, *, features: int = 6, output: int = 0, interactions: str = "refuse") -> Any:
    """Draw the most important shapes with bands of two standard deviations of the noise; returns a figure."""
    found = shapes(model, interactions=interactions)
    chosen = [found[i] for i in np.argsort(-importances(model), kind="stable")[:features]]
    columns = min(2, len(chosen))
    figure = _figure(4.2 * columns, 3.0 * -(-len(chosen) // columns))
    for place, shape in enumerate(chosen):
        axes = figure.add_subplot(-(-len(chosen) // columns), columns, place + 1)
        middle, band = shape.scores[output], 2 * np.nan_to_num(shape.noise[output])
        if shape.bin_edges is not None:
            x = shape.bin_edges
            y, low, high = (np.r_[v, v[-1]] for v in (middle, middle - band, middle + band))
            axes.step(x, y, where="post", color="tab:blue")
            axes.fill_between(x, low, high, step="post", alpha=0.25, color="tab:blue", linewidth=0)
        else:
            x = np.arange(len(middle))
            axes.errorbar(x, middle, yerr=band, fmt="o", color="tab:blue", ecolor="tab:blue", alpha=0.8)
            labels = [str(value) for value in (shape.categories or ("unknown",))]
            axes.set_xticks(x, labels, rotation=60, ha="right", parse_math=False)  # dollars in names are not formulas
        axes.axhline(0, color="grey", linewidth=0.6)
        axes.set_title(str(shape.name), fontsize=10, parse_math=False)
        axes.tick_params(labelsize=8)
    return figure


def plot_tree(model: Any, tree: int = 0, *, output: int = 0) -> Any:
    """Draw one tree from left to right, up where a test holds; returns a matplotlib figure."""
    forest = forest_of(model)
    _checks.integer("tree", tree, 0, len(forest.trees) - 1)
    found, bin_edges = forest.trees[tree], forest.bin_edges[forest.phase[tree]]
    depth = found.structure.depth
    leaves = 1 << depth
    figure = _figure(1.2 + 1.9 * depth, max(2.0, 0.4 * leaves))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set(xlim=(-0.5, depth + 0.3), ylim=(0, leaves))
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "grey"}
    for level in range(depth + 1):
        height = leaves / (1 << level)
        for place in range(1 << level):
            y = leaves - (place + 0.5) * height
            if level < depth:
                node = (1 << level) - 1 + place
                for way in (-0.25, 0.25):
                    axes.plot([level, level + 1], [y, y + way * height], color="grey", linewidth=0.8, zorder=0)
                feature, side = _side(found, node, bin_edges, right=False)
                text = textwrap.fill(_text(model.columns_[feature], side, bin_edges.thresholds[feature]), 26)
            else:
                text = f"{found.weights[output, place] / _ONE:+.3f}"
            axes.text(level, y, text, ha="center", va="center", fontsize=8, bbox=box, parse_math=False)
    axes.set_title(f"tree {tree} of {len(forest.trees)}: up if true", fontsize=9)
    return figure


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "a plot", "learners") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
