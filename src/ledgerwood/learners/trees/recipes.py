"""The methods of the papers, as data: each is a few components of one algorithm.

P0 is DP-XGB (greedy boosting with adaptive Hessian candidates), P2 the federated framework of private boosted trees,
P3 DP-XGBoost ("Sarus"). A recipe carries its paper's budget split and hyper-parameters; any of them can be overridden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledgerwood.errors import ParameterError, did_you_mean
from ledgerwood.learners.trees.settings import Settings

__all__ = ["RECIPES", "Recipe", "RecipeTable", "recipe_settings", "recipes"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A named method: where it comes from, what it is, and what it sets."""

    name: str
    paper: str
    summary: str
    options: dict[str, Any]


_GREEDY = {"split": "exponential", "n_trees": 50, "shares": (0.0, 0.7, 0.3)}
_ADAPTIVE = {"candidates": "hessian"}
_CYCLIC = {"features": "cyclic", "features_per_tree": 1}
_P2_HISTOGRAM = {"n_trees": 25, "learning_rate": 0.3}

_ALL = (
    Recipe("xgb", "P0", "greedy trees by the exponential mechanism", {**_GREEDY}),
    Recipe("xgb_cyc", "P0", "greedy, one feature per tree in turn", {**_GREEDY, **_CYCLIC}),
    Recipe("xgb_ada", "P0", "greedy, candidates refined by curvature", {
        **_GREEDY, **_ADAPTIVE, "shares": (0.1, 0.6, 0.3),
    }),
    Recipe("tr", "P0, P2", "totally random trees, Newton leaves", {}),
    Recipe("tr_cyc", "P0, P2", "totally random, one feature per tree in turn", {**_CYCLIC}),
    Recipe("tr_ada", "P0, P2", "totally random, candidates refined by curvature", {**_ADAPTIVE}),
    Recipe("tr_ada_cyc", "P0, P2", "both", {**_ADAPTIVE, **_CYCLIC}),
    Recipe("dp_ebm", "P2", "additive model: random trees of one feature, gradient leaves, n_trees per feature", {
        **_CYCLIC, "leaf": "gradient", "n_trees": 10, "trees_per_feature": True,
    }),
    Recipe("dp_ebm_newton", "P2", "additive model, Newton leaves, n_trees in all", {**_CYCLIC}),
    Recipe("dp_rf", "P2", "random forest: random trees, averaged class shares", {"leaf": "average", "batch": 1.0}),
    Recipe("feverless", "P2", "the best split of noisy histograms, leaves from them", {
        **_P2_HISTOGRAM, "split": "histogram",
    }),
    Recipe("pr", "P2", "the best of one random candidate per feature, by noisy sums", {
        **_P2_HISTOGRAM, "split": "partial",
    }),
    Recipe("tr_ih_ebm", "P2", "tr_cyc with iterative Hessian candidates", {**_ADAPTIVE, **_CYCLIC}),
    Recipe("tr_ih_ebm_batched", "P2", "the same in four batches", {**_ADAPTIVE, **_CYCLIC, "batch": 0.25}),
    Recipe("sarus", "P3", "greedy on Laplace sketches, squared loss, row samples; repaired", {
        "candidates": "laplace_sketch", "split": "exponential", "leaf": "noisy_average", "loss": "squared",
        "n_trees": 20, "max_depth": 6, "l2": 0.1, "rows": 0.1, "min_child_weight": 5.0, "n_bins": 50,
        "shares": (1.0, 1.0, 1.0), "paper_method": "pure",
    }),
)  # fmt: skip

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def recipe_settings(recipe: str, **options: Any) -> Settings:
    """Return a recipe's settings with some of them overridden.

    >>> recipe_settings("xgb_ada", max_depth=6).candidates
    'hessian'
    """
    found = RECIPES.get(recipe) if isinstance(recipe, str) else None
    if found is None:
        hint = did_you_mean(recipe, RECIPES) or "Estimators also take 'auto'"
        raise ParameterError("recipe", f"be one of {', '.join(RECIPES)}", recipe, hint)
    merged = {**found.options, **options}
    if options.get("accounting") == "paper":
        merged = {"ridge": 0.0, **merged}
    return Settings().with_options(**merged)


class RecipeTable(tuple[dict[str, Any], ...]):
    """Rows of the recipe table; prints as text."""

    def __str__(self) -> str:
        names = list(self[0])
        widths = [max(len(name), *(len(str(row[name])) for row in self)) for name in names]
        lines = [names, *([str(row[name]) for name in names] for row in self)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)

    __repr__ = __str__


def recipes() -> RecipeTable:
    """Return the table of recipes.

    >>> print(recipes())
    recipe             paper   candidates      split        ...
    xgb                P0      uniform         exponential  ...
    """
    rows = []
    for recipe in RECIPES.values():
        s = recipe_settings(recipe.name)
        grouping = s.features if s.features == "all" else f"{s.features} {s.features_per_tree}-way"
        updates = "forest" if s.is_forest else "boosting" if s.batch == 1 else f"batches of {s.batch:g}"
        rows.append({
            "recipe": recipe.name, "paper": recipe.paper, "candidates": s.candidates, "split": s.split,
            "leaf": s.leaf, "features": grouping, "updates": updates, "rows": s.rows, "trees": s.n_trees,
            "depth": s.max_depth, "shares": s.shares or "equal per query", "summary": recipe.summary,
        })  # fmt: skip
    return RecipeTable(rows)
