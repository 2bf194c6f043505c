"""Every recipe runs on the slow reference, with and without noise, and asks what its paper says it asks."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from reference import LedgerSession, OpenSession, ReferenceAggregator

from ledgerwood.accounting import Ledger, Plan, Release
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees.binning import FeatureDomain
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.plan import outline, plan_boosting, query_counts
from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings, recipes

DOMAIN = FeatureDomain(((-3.0, 3.0), (0.0, 1.0), (0.0, 0.0)), (0, 0, 4))


def problem(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(size=n).astype(np.float32),
        rng.uniform(size=n).astype(np.float32),
        rng.integers(0, 5, size=n).astype(np.int32),  # code 4 is unknown
    ]
    columns[0][:3] = np.nan
    signal = np.nan_to_num(columns[0]) + (columns[2] == 2) + 0.3 * rng.normal(size=n)
    return columns, (signal > 0.3).astype(np.int64)


def labels_for(settings, y):
    return np.where(y == 1, 1 << 16, -(1 << 16)) if settings.loss == "squared" else y


def small(name: str, **options):
    usual = {"n_trees": 3, "max_depth": 2, "n_bins": 8}
    return recipe_settings(name, **{**usual, **options})


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_recipe_spends_its_plan_exactly_and_learns(name: str) -> None:
    settings = small(name, n_trees=5)
    columns, y = problem()
    plan = plan_boosting(settings, n_features=3, epsilon=200.0, delta=1e-5)
    ledger = Ledger(plan=plan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = ReferenceAggregator(columns, labels_for(settings, y))
        forest = boost(settings, DOMAIN, records, LedgerSession(ledger, 1), plan, rng=np.random.default_rng(1))
    released = [entry.label for entry in ledger.journal() if entry.kind == "release"]
    planned = {release.label: release.times for release in plan.releases()}
    assert {label: released.count(label) for label in planned} == planned
    assert len(released) == sum(planned.values())
    p = forest.probabilities(columns)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("dp_ebm", (0, 0, 30 * 10)),  # Maddock et al., Table 2: T m
        ("feverless", (0, 30 * 10 * 4, 0)),  # T m d
        ("dp_rf", (0, 0, 30)),
        ("pr", (0, 30 * 10 * 4, 0)),
        ("dp_ebm_newton", (0, 0, 30)),
        ("tr", (0, 0, 30)),
        ("tr_ih_ebm", (5 * 10, 0, 30)),  # s m + T
        ("tr_ih_ebm_batched", (5 * 10, 0, 30)),
        ("xgb", (0, 30 * 4, 30)),  # a selection per level, whatever the number of features
    ],
)
def test_query_counts_are_those_of_the_papers(name: str, counts: tuple[int, int, int]) -> None:
    settings = recipe_settings(name, n_trees=30, max_depth=4)
    assert query_counts(settings, 10) == counts
    plan = outline(settings, 10)
    kinds = {release.label: release for release in plan.releases()}
    for label, count in zip(("sketch", "split", "leaf"), counts):
        found = kinds.get(label)
        width = 1.0 if found is None else dict(found.fixed).get("sensitivity", 1.0) ** 2
        assert (0 if found is None else round(found.times * width)) == count


def test_k_way_features_cost_what_table_1_says() -> None:
    wide = {"features": "random", "features_per_tree": 3}
    assert query_counts(recipe_settings("feverless", n_trees=30, **wide), 10) == (0, 30 * 3 * 4, 0)
    assert query_counts(recipe_settings("feverless", n_trees=30, features="cyclic"), 10) == (0, 30, 0)
    own = recipe_settings("tr_ada", n_trees=30, sketch_features="tree", **wide)
    assert query_counts(own, 10) == (5 * 3, 0, 30)
    assert query_counts(recipe_settings("feverless", n_trees=30, candidates="hessian"), 10)[0] == 0


def test_a_plan_of_another_shape_is_refused() -> None:
    settings = small("xgb")
    columns, y = problem(30)
    wrong = [
        plan_boosting(small("tr"), n_features=3, epsilon=1.0, delta=1e-5),
        plan_boosting(small("xgb", n_trees=4), n_features=3, epsilon=1.0, delta=1e-5),
        outline(settings, 3),
        Plan([Release("split", BoundedRange, times=6, share=1.0), Release("leaf", Gaussian, times=3, share=1.0,
                                                                         sensitivity=0.5)]).calibrate(1.0, 1e-5),
    ]  # fmt: skip
    for plan in wrong:
        with pytest.raises(ParameterError, match="plan"):
            boost(settings, DOMAIN, ReferenceAggregator(columns, y), OpenSession(), plan)


def test_budget_shares_are_the_papers() -> None:
    plan = plan_boosting("xgb_ada", n_features=10, n_trees=20, epsilon=1.0, delta=1e-5)
    spends = {row["label"]: row["spend"] for row in plan.table()}
    assert spends == pytest.approx({"sketch": 0.1, "split": 0.6, "leaf": 0.3}, rel=1e-6)
    plan = plan_boosting("tr_ada", n_features=10, n_trees=20, epsilon=1.0, delta=1e-5)
    assert plan["sketch"].scale == pytest.approx(plan["leaf"].scale)  # equal noise for every query


def test_paper_accounting_needs_more_noise() -> None:
    ours = plan_boosting("xgb", n_features=10, epsilon=1.0, delta=1e-5)
    paper = plan_boosting("xgb", n_features=10, epsilon=1.0, delta=1e-5, accounting="paper")
    assert paper["leaf"].scale > 1.05 * ours["leaf"].scale
    assert paper["split"].scale < ours["split"].scale
    pure = plan_boosting("sarus", n_features=3, epsilon=1.0, delta=1e-5, accounting="paper", rows=1.0)
    assert sum(r.times * r.priced().pure_epsilon() for r in pure.releases()) <= 1.0 + 1e-9


def test_the_table_of_recipes_lists_all() -> None:
    assert [row["recipe"] for row in recipes()] == list(RECIPES)
    assert "tr_ih_ebm_batched" in str(recipes())


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_trees": 0}, "n_trees"),
        ({"max_depth": 9}, "max_depth"),
        ({"max_depth": 2.0}, "max_depth"),
        ({"leaf_clip": math.inf}, "leaf_clip"),
        ({"leaf_clip": math.nan}, "leaf_clip"),
        ({"rows": 0.0}, "rows"),
        ({"rows": 0.5, "neighbours": "replace_one"}, "rows"),
        ({"candidates": "magic"}, "candidates"),
        ({"batch": 0}, "batch"),
        ({"leaf": "average"}, "batch"),
        ({"split": "histogram", "leaf": "laplace"}, "leaf"),
        ({"loss": "softmax", "n_classes": 2}, "n_classes"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"shares": (1.0, -1.0, 1.0)}, "shares"),
        ({"treees": 3}, "option"),
    ],
)
def test_bad_settings_are_refused_with_their_name(options, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        recipe_settings("tr", **options)
    with pytest.raises(ParameterError, match="recipe"):
        recipe_settings("trees")


def test_scores_cannot_overflow() -> None:
    with pytest.raises(ParameterError, match="n_trees"):
        outline(recipe_settings("tr", n_trees=100_000, leaf_clip=64.0, learning_rate=1.0), 3)
    assert outline(recipe_settings("tr", n_trees=13_000), 3)["leaf"].times == 13_000
