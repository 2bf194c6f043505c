"""What the planner page shows, as plain values: at once by closed forms, then exactly, then the rest.

>>> from ledgerwood.app.plan_request import PlanRequest
>>> answer = quick(PlanRequest(recipe="xgb", trees=10, depth=3))
>>> answer["method"], len(answer["releases"]), sorted(answer["curves"])
('rdp', 2, ['rdp', 'zcdp'])
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from ledgerwood import _checks
from ledgerwood.app import curves
from ledgerwood.app.leaf_noise import LeafNoise, saving, trees_for_error
from ledgerwood.app.output import plain, price, shown, why_not
from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Cost, Plan

_LARGE = 5000  # more releases than this are calibrated, and drawn, by Rényi accounting


@dataclass(frozen=True, slots=True)
class Wish:
    """How wrong a leaf with this many rows may be."""

    request: PlanRequest
    rows: int = 50
    error: float = 1.0

    @classmethod
    def from_mapping(cls, given: Any) -> Self:
        """Read a wish from JSON values, strictly: the fields of a request, ``leaf_rows`` and ``leaf_error``."""
        if not isinstance(given, Mapping):
            raise FormatError("the request must be a JSON object")
        own = dict(given)
        rows, error = own.pop("leaf_rows", 50), own.pop("leaf_error", 1.0)
        rows = _checks.integer("leaf_rows", rows, 1, 10**12)
        if not _checks.is_real(error) or not 1e-9 <= error <= 1e9:
            raise ParameterError("leaf_error", "be a number between 1e-9 and 1e9", error)
        return cls(PlanRequest.from_mapping(own), rows, float(error))

    def to_mapping(self) -> dict[str, Any]:
        """Return what :meth:`from_mapping` reads."""
        return {**self.request.to_mapping(), "leaf_rows": self.rows, "leaf_error": self.error}


@lru_cache(maxsize=128)
def afford(wish: Wish) -> dict[str, Any]:
    """Return how many trees keep the error of a leaf within a limit, and the error with the plan's own trees."""
    leaf = LeafNoise.of(wish.request, _planned(wish.request, None))
    if leaf is None:
        return {"trees": None, "error": None, "unit": None}
    most = trees_for_error(wish.request, wish.rows, wish.error)
    return {"trees": most, "error": leaf.error(wish.rows), "unit": leaf.unit}


@lru_cache(maxsize=128)
def _planned(request: PlanRequest, method: str | None) -> Plan:
    return request.plan(method)


def _is_sampled(request: PlanRequest) -> bool:
    return request.settings is not None and request.settings.rows < 1


@lru_cache(maxsize=128)
def quick(request: PlanRequest) -> dict[str, Any]:
    """Return the whole picture by Rényi accounting and the other closed forms: within a fraction of a second."""
    plan = _planned(request, "rdp")
    slow = _is_sampled(request)  # the Rényi curve of a sampled release is an integral: fewer points
    counts = curves.tree_counts(request.steps()[0], 1 if slow else 6)
    lines = {name: _line(plan, request, counts, name) for name in curves.CLOSED_FORMS}
    answer = _picture(request, plan, "rdp", curves.grid(request.epsilon, 3 if slow else 8))
    return {**answer, "curves": {name: line for name, line in lines.items() if line}}


@lru_cache(maxsize=128)
def exact(request: PlanRequest) -> dict[str, Any]:
    """Return the whole picture for the plan that would be spent, by the tightest accountant."""
    plan = _planned(request, None)
    method = "rdp" if sum(run.times for run in plan.runs()) > _LARGE else None
    slow = _is_sampled(request)
    counts = curves.tree_counts(request.steps()[0], 3 if slow else 6)
    answer = _picture(request, plan, method, curves.grid(request.epsilon, 6 if slow else 12))
    lines = {name: _line(plan, request, counts, name) for name in curves.CLOSED_FORMS}
    if method is None and not lines["gdp"]:  # for Gaussian noise alone the two are the same
        lines["optimal"] = _line(plan, request, counts, None)
    return {
        **answer,
        "curves": {name: line for name, line in lines.items() if line},
        "saved": saving(plan, _planned(request, "rdp")),
        "statement": request.statement(plan),
        "python": request.python(),
        "command": request.command(),
        "plan": json.loads(plan.to_json()),
    }


@lru_cache(maxsize=128)
def rest(request: PlanRequest) -> dict[str, Any]:
    """Return what takes longest: the price by every method, and each part alone."""
    plan = _planned(request, None)
    account = plan.account()
    methods = []
    for name, value in account.table.items():
        row: dict[str, Any] = {"method": name, "name": curves.NAMES[name], "epsilon": None}
        if isinstance(value, str):
            row["note"] = why_not(value)
        else:
            row |= {"epsilon": value, "note": "tightest" if name == account.method else ""}
        methods.append(row)
    alone = [row for row in plan.explain() if row["part"] != "whole plan"]
    parts = [{"part": row["part"], "alone": row["epsilon"], "rest": row["epsilon_of_the_rest"]} for row in alone]
    found = {"methods": methods, "tightest": account.method, "lower": account.lower, "parts": parts}
    return plain({**found, "noise": _by_noise(plan)})  # type: ignore[no-any-return]


def _by_noise(plan: Plan) -> list[dict[str, float]]:
    """Return epsilon with a multiple of the plan's noise everywhere, by Rényi accounting: an upper bound."""
    from ledgerwood.accounting import zero

    found = []
    for factor in (0.5, 0.75, 1.5, 2.0):
        cost: Cost = zero(plan.neighbours)
        for release in plan.releases():
            if release.kind is None or release.scale is None:  # a sampled release has no noise parameter of its own
                return []
            other = release.with_scale(release.scale * factor**release.kind.noise_direction)
            cost = cost + release.times * other.priced(plan.neighbours)
        found.append({"factor": factor, "epsilon": cost.epsilon(plan.delta or 0.0, "rdp")})
    return found


def _picture(request: PlanRequest, plan: Plan, method: str | None, epsilons: list[float]) -> dict[str, Any]:
    leaf = LeafNoise.of(request, plan)
    points = curves.profile(plan.cost, epsilons, method)
    return plain(  # type: ignore[no-any-return]
        {
            "facts": request.to_dict(),
            "what": request.what(),
            "why": _why(request),
            "steps": request.steps()[1],
            "method": method or "optimal",
            "releases": [_release(row) for row in plan.table()],
            "unit": None if leaf is None else leaf.unit,
            "leaf": [{"rows": n, "error": leaf.error(n)} for n in curves.leaf_sizes(request.rows)] if leaf else [],
            "profile": [{"epsilon": e, "delta": d} for e, d in points],
            "tradeoff": [{"alarm": a, "missed": b} for a, b in curves.tradeoff(points)],
            "words": _words(request, points),
            "cautions": request.cautions(),
        }
    )


def _release(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("label", "cost", "times", "noise", "scale", "spend")}


def _line(plan: Plan, request: PlanRequest, counts: list[int], method: str | None) -> list[dict[str, Any]]:
    found = curves.composition(plan, request.steps(), counts, method)
    return [{"trees": t, "epsilon": e} for t, e in zip(counts, found)]


def _why(request: PlanRequest) -> list[dict[str, str]]:
    """Return the rule's reasons, one for each setting that it chose."""
    choice = request.training.choice
    return [] if choice is None else [{"name": r.name, "value": shown(r.value), "why": r.why} for r in choice.reasons]


def _words(request: PlanRequest, points: list[tuple[float, float]]) -> dict[str, str]:
    return {
        "attack": curves.attack_sentence(
            1 - curves.missed(points, curves.FALSE_ALARM), request.neighbours, request.unit_rows
        ),
        "epsilon": price(request.epsilon),
        "delta": price(request.target_delta),
    }
