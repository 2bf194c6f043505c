"""What the planner page shows, as plain values: at once by closed forms, then exactly, then the rest.

>>> from ledgerwood.app.planning import Facts
>>> answer = quick(Facts(trees=10, depth=3))
>>> answer["method"], len(answer["releases"]), sorted(answer["curves"])
('rdp', 2, ['rdp', 'zcdp'])
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ledgerwood.app import curves
from ledgerwood.app.planning import Facts, LeafNoise, saving
from ledgerwood.app.show import plain, price

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan

_FALSE_ALARM = 0.05
_LARGE = 5000  # more releases than this are calibrated, and drawn, by Rényi accounting


def quick(facts: Facts) -> dict[str, Any]:
    """Return the whole picture by Rényi accounting and the other closed forms: within a fraction of a second."""
    return _quick(facts)


def exact(facts: Facts) -> dict[str, Any]:
    """Return the whole picture for the plan that would be spent, by the tightest accountant."""
    return _exact(facts)


def rest(facts: Facts) -> dict[str, Any]:
    """Return what takes longest: the price by every method, and each part alone."""
    return _rest(facts)


@lru_cache(maxsize=128)
def _planned(facts: Facts, method: str | None) -> Plan:
    return facts.plan(method)


@lru_cache(maxsize=128)
def _quick(facts: Facts) -> dict[str, Any]:
    plan = _planned(facts, "rdp")
    slow = facts.settings.rows < 1  # the Rényi curve of a sampled release is an integral: fewer points
    counts = curves.tree_counts(facts.trees, 2 if slow else 6)
    lines = {name: _line(plan, facts, counts, name) for name in curves.CLOSED_FORMS}
    answer = _picture(facts, plan, "rdp", curves.grid(facts.epsilon, 3 if slow else 8))
    return {**answer, "curves": {name: line for name, line in lines.items() if line}}


@lru_cache(maxsize=128)
def _exact(facts: Facts) -> dict[str, Any]:
    plan = _planned(facts, None)
    method = "rdp" if sum(run.times for run in plan.runs()) > _LARGE else None
    slow = facts.settings.rows < 1
    counts = curves.tree_counts(facts.trees, 3 if slow else 6)
    answer = _picture(facts, plan, method, curves.grid(facts.epsilon, 6 if slow else 12))
    lines = {name: _line(plan, facts, counts, name) for name in curves.CLOSED_FORMS}
    if method is None and not lines["gdp"]:  # for Gaussian noise alone the two are the same
        lines["optimal"] = _line(plan, facts, counts, None)
    return {
        **answer,
        "curves": {name: line for name, line in lines.items() if line},
        "saved": saving(plan, _planned(facts, "rdp")),
        "statement": plan.statement(),
        "python": facts.python(),
        "command": facts.command(),
        "plan": json.loads(plan.to_json()),
    }


@lru_cache(maxsize=128)
def _rest(facts: Facts) -> dict[str, Any]:
    plan = _planned(facts, None)
    account = plan.account()
    methods = []
    for name, value in account.table.items():
        known = isinstance(value, float)
        row = {"method": name, "name": curves.NAMES[name], "epsilon": value if known else None}
        methods.append({**row, "note": "tightest" if name == account.method else "" if known else value})
    alone = [row for row in plan.explain() if row["part"] != "whole plan"]
    parts = [{"part": row["part"], "alone": row["epsilon"], "rest": row["epsilon_of_the_rest"]} for row in alone]
    return plain({"methods": methods, "tightest": account.method, "lower": account.lower, "parts": parts})  # type: ignore[no-any-return]


def _picture(facts: Facts, plan: Plan, method: str | None, epsilons: list[float]) -> dict[str, Any]:
    leaf = LeafNoise.of(facts, plan)
    points = curves.profile(plan.cost, epsilons, method)
    caught = 1 - curves.missed(points, _FALSE_ALARM)
    return plain(  # type: ignore[no-any-return]
        {
            "facts": facts.to_dict(),
            "method": method or "optimal",
            "releases": [_release(row) for row in plan.table()],
            "leaf": [{"rows": rows, "error": leaf.error(rows)} for rows in curves.leaf_sizes(facts.rows)],
            "profile": [{"epsilon": e, "delta": d} for e, d in points],
            "tradeoff": [{"alarm": a, "missed": b} for a, b in curves.tradeoff(points)],
            "words": _words(facts, caught),
        }
    )


def _release(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("label", "cost", "times", "noise", "scale", "spend")}


def _line(plan: Plan, facts: Facts, counts: list[int], method: str | None) -> list[dict[str, Any]]:
    found = curves.composition(plan, facts.trees, counts, method)
    return [{"trees": t, "epsilon": e} for t, e in zip(counts, found)]


def _words(facts: Facts, caught: float) -> dict[str, str]:
    relation = "was in the data" if facts.neighbours == "add_remove" else "was as they suspect or replaced by another"
    return {
        "attack": (
            f"Suppose someone who knows everything else tries to tell from the published model whether one person's "
            f"record {relation}. If they accept to be wrong about {100 * _FALSE_ALARM:.0f} in 100 people whose record "
            f"was not used, they will recognise at most {100 * caught:.1f} in 100 people whose record was. Blind "
            f"guessing recognises {100 * _FALSE_ALARM:.0f}."
        ),
        "epsilon": price(facts.epsilon),
        "delta": price(facts.target_delta),
    }
