"""What a training will release, from public facts alone: the plan shown is the plan spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ledgerwood import _checks
from ledgerwood.accounting import BoundedRange, Gaussian, Laplace, PermuteAndFlip, Plan, PoissonSubsampled, Release
from ledgerwood.accounting.costs.base import Atom, Cost
from ledgerwood.accounting.plan.releases import scale_of
from ledgerwood.errors import ParameterError
from ledgerwood.learners.training import discovery
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.trees.recipes import choice_for, recipe_settings
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = [
    "SampledCost",
    "check_plan",
    "outline",
    "plan_boosting",
    "plan_of_trees",
    "planned_cost",
    "query_counts",
    "tree_settings",
]


_SHARES = (0.1, 0.6, 0.3)


@dataclass(frozen=True, slots=True)
class SampledCost:
    """A cost template: a release of ``kind`` about a Poisson sample of the rows."""

    kind: type[Atom]
    fixed: tuple[tuple[str, float], ...]
    rate: float

    def __call__(self, scale: float) -> Cost:
        """Return the cost at that noise parameter."""
        return PoissonSubsampled(self.inner(scale), rate=self.rate)

    def inner(self, scale: float) -> Cost:
        """Return the cost before sampling."""
        return self.kind(**{str(self.kind.noise_parameter): scale, **dict(self.fixed)})


def outline(settings: TreeSettings, n_features: int) -> Plan:
    """Return the plan without noise: what is released, how often, with which share.

    A release about ``w`` features has L2 sensitivity sqrt(w) (L1: w) in units of one feature's histogram.

    >>> [(release.label, release.times) for release in outline(TreeSettings(split="exponential"), 5).releases()]
    [('split', 400), ('leaf', 100)]
    """
    if isinstance(n_features, bool) or not isinstance(n_features, int) or n_features < 1:
        raise ParameterError("n_features", "be a whole number of at least 1", n_features)
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
    """Return the calibrated plan of a training: pure, cached, made of public facts.

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
        from ledgerwood.learners.trees.recipes import choose_trees

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
        return _sampled_plan(plan, epsilon, delta, "pld" if method is None else method)
    return plan.calibrate(epsilon, delta, method=method)


def _sampled_plan(plan: Plan, epsilon: float, delta: float, method: str) -> Plan:
    """Calibrate sampled releases: shares divide the spend before sampling, which one search scales as a whole.

    Epsilon falls a little faster than 1 / noise (by the power 1.08 up to epsilon = 1, by 1.3 at 5), so two or three
    prices, of a tenth of a second each, lead to the target.
    """
    _checks.positive("epsilon", epsilon)
    releases = list(plan.releases())
    total = sum(release.share or 0.0 for release in releases)

    def at(noise: float) -> Plan:
        found = []
        for release in releases:
            template = release.cost
            assert isinstance(template, SampledCost) and release.share is not None
            rho = release.share / total / release.times / noise**2
            cost = template.kind.from_rho(rho, **dict(template.fixed))
            scale = scale_of(cost)
            assert scale is not None
            found.append(Release(release.label, template(scale), release.times, scale=scale))
        return Plan(found, epsilon=epsilon, delta=delta)

    rate = releases[0].cost.rate if isinstance(releases[0].cost, SampledCost) else 1.0
    # Sampled at a small rate q, a spend rho composes like q^2 rho: the noise that Gaussian accounting would ask for.
    noise = rate * math.sqrt(2 * math.log(1 / delta)) / epsilon
    little: tuple[float, float] | None = None  # the most noise that was too little, and its price
    enough: tuple[float, float, Plan] | None = None
    for _ in range(60):
        made = at(noise)
        price = made.cost.epsilon(delta, method)
        if price <= epsilon:
            enough = noise, price, made
            if price >= 0.995 * epsilon:
                break
        else:
            little = noise, price
        if little is None or enough is None:
            noise *= min(4.0, max(0.25, price / (0.998 * epsilon)))
        else:  # the price is nearly a power of the noise between the two
            wide = math.log(enough[0] / little[0])
            slope = math.log(little[1] / enough[1]) / wide
            step = math.log(little[1] / (0.998 * epsilon)) / (slope * wide)
            noise = little[0] * math.exp(wide * min(0.95, max(0.05, step)))
    if enough is None:
        raise ParameterError("epsilon", "be larger for sampled rows", epsilon)
    return enough[2]


def accounting_method(settings: TreeSettings) -> str | None:
    """Return the composition: the tightest one, or the paper's."""
    return None if settings.tight else settings.paper_method


def planned_cost(
    plan: Plan, settings: TreeSettings, n_features: int, label: str
) -> tuple[Any, PoissonSubsampled | None]:
    """Return the cost of one release for one record, before sampling, and its sampled cost if rows are sampled.

    A plan priced for a unit of several rows keeps the noise parameter of one record's mechanism.
    """
    scale = plan[label].scale
    if scale is None:
        raise ParameterError("plan", "be calibrated", label)
    release = outline(settings, n_features)[label]
    if isinstance(release.cost, SampledCost):
        whole = release.cost(scale)
        assert isinstance(whole, PoissonSubsampled)
        return whole.cost, whole
    return release.with_scale(scale).priced(settings.neighbours), None


def check_plan(plan: Plan, settings: TreeSettings, n_features: int, rows_per_unit: int = 1) -> None:
    """Refuse a plan of another shape or unit: its noise would belong to other sensitivities."""
    wanted = outline(settings, n_features)
    if plan.neighbours != wanted.neighbours:
        raise ParameterError("plan", f"speak of {wanted.neighbours!s}", str(plan.neighbours))
    if not plan.is_calibrated:
        raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", None)
    given = {release.label: release for release in plan.releases()}
    for release in wanted.releases():
        found = given.get(release.label)
        if found is None or found.times != release.times or found.scale is None:
            shape = None if found is None else (found.label, found.times)
            raise ParameterError("plan", f"have {release.times} releases {release.label!r} of known noise", shape)
        cost, whole = planned_cost(plan, settings, n_features, release.label)
        own = cost if whole is None else whole
        own = own if rows_per_unit == 1 else own.group(rows_per_unit)
        priced = found.priced(plan.neighbours)
        if priced != own:
            raise ParameterError("plan", f"price {release.label!r} as {own!r}", priced)


def query_counts(settings: TreeSettings, n_features: int) -> tuple[int, int, int]:
    """Return P2's (kappa_c, kappa_s, kappa_w): histogram queries for candidates, splits and leaf weights.

    >>> query_counts(recipe_settings("feverless", n_trees=25, max_depth=4), n_features=10)
    (0, 1000, 0)
    """
    return settings.loops(n_features).queries


def _release(label: str, kind: type[Atom], times: int, share: float, settings: TreeSettings, **fixed: float) -> Release:
    if settings.rows < 1:
        rate = round(settings.rows * 2**32) / 2**32  # what the sampler can draw
        return Release(label, SampledCost(kind, tuple(sorted(fixed.items())), rate), times, share)
    return Release(label, kind, times, share, **fixed)


def _shares(settings: TreeSettings, queries: tuple[int, int, int]) -> tuple[float, float, float]:
    if settings.shares is None:
        return float(queries[0]), float(queries[1]), float(queries[2])
    whole = sum(settings.shares) or 1.0
    # A component that the recipe does not have, added by an override, gets P0's share.
    filled = [share or whole * usual for share, usual in zip(settings.shares, _SHARES)]
    return filled[0], filled[1], filled[2]


AUTO, LINEAR = "auto", "linear"


def tree_settings(recipe: str, facts: PublicMetadata, **given: Any) -> TreeSettings:
    """Return the settings of boosted trees: the recipe's, those given, and what the task implies."""
    n_classes = None if facts.task == "regression" else len(facts.classes or ())
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
        chosen = choice_for(facts).settings
        assert chosen is not None
        return chosen.with_options(**given)
    return recipe_settings(recipe, **given, neighbours=str(facts.neighbours))


def plan_of_trees(settings: TreeSettings, facts: PublicMetadata, method: str | None = None) -> Plan:
    """Return what boosted trees release: calibrated if nothing comes before them and a unit has one row."""
    if settings.rows < 1 and facts.rows_per_unit > 1:
        rule = "be 1 if a unit may have several rows: each of them would be drawn by a coin of its own"
        raise ParameterError("rows", rule, settings.rows, "Set rows=1, or max_rows_per_unit=1")
    if facts.rows_per_unit == 1 and not discovery.Unknown.of(facts):
        return plan_boosting(
            settings, n_features=facts.n_features, epsilon=facts.epsilon, delta=facts.delta, method=method
        )
    return outline(settings, facts.n_features)
