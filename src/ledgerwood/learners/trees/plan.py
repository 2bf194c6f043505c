"""What a training will release, from public metadata alone: the plan shown is the plan spent."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ledgerwood import _checks
from ledgerwood.accounting import BoundedRange, Gaussian, Laplace, PermuteAndFlip, Plan, Release
from ledgerwood.accounting.costs.base import Atom
from ledgerwood.errors import ParameterError
from ledgerwood.learners.training import discovery
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.trees.recipes import choice_for, choose_trees, recipe_settings
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = [
    "check_plan",
    "outline",
    "plan_boosting",
    "plan_of_trees",
    "query_counts",
    "tree_settings",
]


_SHARES = (0.1, 0.6, 0.3)
_SAMPLED_TOLERANCE = 5e-3
"""How far above the least noise that of a sampled plan may be: a price of one takes a tenth of a second and more."""


@lru_cache(maxsize=512)
def outline(settings: TreeSettings, n_features: int) -> Plan:
    """Return the plan without noise: what is released, how often, with which share.

    A release about ``w`` features has L2 sensitivity sqrt(w) (L1: w) in units of one feature's histogram.

    >>> [(release.label, release.times) for release in outline(TreeSettings(split="exponential"), 5).releases()]
    [('split', 400), ('leaf', 100)]
    """
    _checks.integer("n_features", n_features, 1)
    loops = settings.loops(n_features)
    shares = _shares(settings, loops.queries)
    releases = []
    if loops.sketches:
        kind: type[Atom] = Laplace if settings.candidates == "laplace_sketch" else Gaussian
        wide = loops.sketch_width if kind is Laplace else math.sqrt(loops.sketch_width)
        releases.append(_release("sketch", kind, loops.sketches, shares[0], settings, sensitivity=wide))
    if loops.splits and settings.from_histograms:
        wide = math.sqrt(loops.split_width)
        releases.append(_release("split", Gaussian, loops.splits, shares[1], settings, sensitivity=wide))
    elif loops.splits:
        kind = PermuteAndFlip if settings.split == "permute_and_flip" else BoundedRange
        releases.append(_release("split", kind, loops.splits, shares[1], settings))
    if loops.leaves:
        kind = Laplace if settings.leaf in ("laplace", "noisy_average") else Gaussian
        releases.append(_release("leaf", kind, loops.leaves, shares[2], settings))
    return Plan(releases, neighbours=settings.neighbours)


def plan_boosting(
    recipe: str | TreeSettings = "tr_cyc",
    *,
    n_features: int,
    epsilon: float,
    delta: float,
    n_rows: int | None = None,
    method: str | None = None,
    **options: Any,
) -> Plan:
    """Return the calibrated plan of a training: pure, cached, made of public metadata.

    Parameters
    ----------
    recipe
        The name of a recipe, or settings.
    n_features
        The number of features.
    epsilon, delta
        The target; ``delta=None`` is not accepted here: n is public only if you say so.
    n_rows
        The public number of rows, for ``recipe="auto"``; the noise of a named recipe does not depend on it.
    method
        The accounting method; by default the one of the settings, the tightest.
    **options
        Settings to override, such as ``n_trees=200``.

    Examples
    --------
    >>> plan = plan_boosting("xgb", n_features=14, n_trees=20, max_depth=3, epsilon=1.0, delta=1e-5)
    >>> [(release.label, release.times) for release in plan.releases()]
    [('split', 60), ('leaf', 20)]
    """
    if recipe == "auto":
        public = {name: options.pop(name) for name in ("n_classes", "neighbours") if name in options}
        choice = choose_trees(n_rows=n_rows or 0, n_features=n_features, epsilon=epsilon, delta=delta, **public)
        assert choice.settings is not None
        settings = choice.settings.with_options(**options)
    else:
        settings = recipe_settings(recipe, **options) if isinstance(recipe, str) else recipe.with_options(**options)
    return _calibrated(settings, n_features, epsilon, delta, method or accounting_method(settings))


@lru_cache(maxsize=512)
def _calibrated(settings: TreeSettings, n_features: int, epsilon: float, delta: float, method: str | None) -> Plan:
    plan = outline(settings, n_features)
    if settings.rows < 1 and delta > 0:
        return plan.calibrate(epsilon, delta, method=method or "pld", tolerance=_SAMPLED_TOLERANCE)
    return plan.calibrate(epsilon, delta, method=method)


def accounting_method(settings: TreeSettings) -> str | None:
    """Return the composition: the tightest one, or the paper's."""
    return None if settings.tight else settings.paper_method


def check_plan(plan: Plan, settings: TreeSettings, n_features: int, max_rows_per_unit: int = 1) -> dict[str, Release]:
    """Return the releases of the outline with the plan's noise, by label, for one record.

    A plan of another shape, privacy unit or relation is refused: its noise would belong to other sensitivities.
    """
    wanted = outline(settings, n_features)
    if plan.neighbours != wanted.neighbours:
        raise ParameterError("plan", f"be stated for {wanted.neighbours!s}", str(plan.neighbours))
    if not plan.is_calibrated:
        raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", None)
    given = {release.label: release for release in plan.releases()}
    known = {}
    for release in wanted.releases():
        found = given.get(release.label)
        if found is None or found.times != release.times or found.scale is None:
            shape = None if found is None else (found.label, found.times)
            raise ParameterError("plan", f"have {release.times} releases {release.label!r} of known noise", shape)
        known[release.label] = release.with_scale(found.scale)
        own = known[release.label].with_group(max_rows_per_unit).priced(plan.neighbours)
        priced = found.priced(plan.neighbours)
        if priced != own:
            raise ParameterError("plan", f"price {release.label!r} as {own!r}", priced)
    return known


def query_counts(settings: TreeSettings, n_features: int) -> tuple[int, int, int]:
    """Return how many histogram queries candidates, splits and leaf weights take.

    The (kappa_c, kappa_s, kappa_w) of Maddock et al. 2022.

    >>> query_counts(recipe_settings("feverless", n_trees=25, max_depth=4), n_features=10)
    (0, 1000, 0)
    """
    return settings.loops(n_features).queries


def _release(label: str, kind: type[Atom], times: int, share: float, settings: TreeSettings, **fixed: Any) -> Release:
    rate = round(settings.rows * 2**32) / 2**32  # what the sampler can draw
    return Release(label, kind, times, share, rate=rate, **fixed)


def _shares(settings: TreeSettings, queries: tuple[int, int, int]) -> tuple[float, float, float]:
    if settings.shares is None:
        return float(queries[0]), float(queries[1]), float(queries[2])
    whole = sum(settings.shares) or 1.0
    # A component that the recipe does not have, added by an override, gets the share of DP-XGB.
    filled = [share or whole * usual for share, usual in zip(settings.shares, _SHARES)]
    return filled[0], filled[1], filled[2]


AUTO, LINEAR = "auto", "linear"


def tree_settings(recipe: str, metadata: PublicMetadata, **given: Any) -> TreeSettings:
    """Return the settings of boosted trees: the recipe's, those given, and what the task implies."""
    n_classes = None if metadata.task == "regression" else len(metadata.classes or ())
    if n_classes is None:
        if given.get("loss", "squared") != "squared":
            raise ParameterError("loss", "be squared for regression", given["loss"])
        given["loss"] = "squared"
    elif n_classes > 2:
        if given.get("loss", "softmax") != "softmax":
            raise ParameterError("loss", "be softmax for more than two classes", given["loss"])
        given |= {"loss": "softmax", "n_classes": n_classes}
    elif given.get("loss") == "softmax":
        raise ParameterError("loss", "be logistic, hinge or squared for two classes", "softmax")
    if recipe == AUTO:
        chosen = choice_for(metadata).settings
        assert chosen is not None
        return chosen.with_options(**given)
    return recipe_settings(recipe, **given, neighbours=str(metadata.neighbours))


def plan_of_trees(settings: TreeSettings, metadata: PublicMetadata, method: str | None = None) -> Plan:
    """Return what boosted trees release: calibrated if nothing comes before them and a privacy unit has one row."""
    if settings.rows < 1 and metadata.max_rows_per_unit > 1:
        rule = "be 1 if a privacy unit may have several rows: each of them would be drawn by a coin of its own"
        raise ParameterError("rows", rule, settings.rows, "Set rows=1, or max_rows_per_unit=1")
    if metadata.max_rows_per_unit == 1 and not discovery.Unknown.of(metadata):
        return plan_boosting(
            settings, n_features=metadata.n_features, epsilon=metadata.epsilon, delta=metadata.delta, method=method
        )
    return outline(settings, metadata.n_features)
