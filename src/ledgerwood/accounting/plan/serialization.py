"""Plans as JSON: exact, versioned, and strict about what it does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ledgerwood._checks import is_integer
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.costs.base import Atom, Cost
from ledgerwood.accounting.plan.releases import InParallel, InSequence, Item, Release
from ledgerwood.errors import FormatError, ParameterError

FORMAT = "ledgerwood.plan"
VERSION = 1
MOST_RELEASES, MOST_RUNS, MOST_ROUNDS = 10_000, 10**7, 10**5
"""What a plan in a file may have: named releases, runs of them in all, and entries of its rounds, which are listed."""
_PLAN = ("format", "version", "neighbours", "reserve", "epsilon", "delta", "reserve_mu", "items")
_RELEASE = ("label", "cost", "times", "share", "scale", "fixed")
_UNIT = {"group": 1, "rate": 1.0}
"""Fields of a release that are written only where they differ from these values."""
_GROUPS: dict[str, tuple[str, ...]] = {
    "sequence": ("label", "times", "releases"),
    "parallel": ("label", "times", "share", "releases"),
}


def fields_to_dict(items: Iterable[Item], opening: Release | None = None, **fields: Any) -> dict[str, Any]:
    """Return a plan's fields as plain values."""
    body = {**fields, "items": [_item_to_dict(item) for item in items]}
    return {
        "format": FORMAT,
        "version": VERSION,
        **body,
        **({} if opening is None else {"opening": _release_to_dict(opening)}),
    }


def fields_from_dict(data: Any) -> dict[str, Any]:
    """Return the arguments of the plan that :func:`fields_to_dict` wrote; strict about what it does not know."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise FormatError(f"a plan must be a JSON object with the field 'format': {FORMAT!r}")
    version = data.get("version")
    if not is_integer(version) or not 1 <= version <= VERSION:
        raise FormatError(f"the plan has version {version!r}; this library reads up to {VERSION}. Update ledgerwood")
    fields = _strict(data, _PLAN, "a plan", optional=("opening",))
    if "opening" in fields:
        fields["opening"] = _release_from_dict(fields["opening"])
    if not isinstance(fields["items"], list) or len(fields["items"]) > MOST_RELEASES:
        raise FormatError(f"the field 'items' of a plan must be a list of at most {MOST_RELEASES} entries")
    items = [_item_from_dict(item) for item in fields["items"]]
    _check_size(items)
    return {**{name: value for name, value in fields.items() if name not in ("format", "version")}, "items": items}


def _check_size(items: list[Item]) -> None:
    opened = [(1, (item,)) if isinstance(item, Release) else (item.times, item.members) for item in items]
    if sum(len(members) for _, members in opened) > MOST_RELEASES:
        raise FormatError(f"a plan names at most {MOST_RELEASES} releases")
    if sum(times * sum(release.times for release in members) for times, members in opened) > MOST_RUNS:
        raise FormatError(f"a plan runs at most {MOST_RUNS} releases")
    if sum(times * len(members) for times, members in opened) > MOST_ROUNDS:
        raise FormatError(f"the rounds of a plan have at most {MOST_ROUNDS} entries")


def _item_to_dict(item: Item) -> dict[str, Any]:
    match item:
        case Release():
            return _release_to_dict(item)
        case InSequence():
            body = {"label": item.label, "times": item.times}
            return {"sequence": {**body, "releases": [_release_to_dict(r) for r in item.members]}}
        case InParallel():
            share = item.share if all(release.kind is not None for release in item.members) else None
            body = {"label": item.label, "times": item.times, "share": share}
            return {"parallel": {**body, "releases": [_release_to_dict(r) for r in item.members]}}


def _release_to_dict(release: Release) -> dict[str, Any]:
    if not release.is_known and release.kind is None:
        raise ParameterError("plan", "be calibrated before a function of the scale can be written", release.label)
    release = release.frozen()  # what a function gave is written, the function is not
    if release.kind is not None:
        cost: Any = release.kind.__name__
        if serialization.KINDS.get(cost) is not release.kind:
            raise ParameterError("cost", "be a cost class of this library to be written as JSON", cost)
    else:
        assert isinstance(release.cost, Cost)
        cost = serialization.to_dict(release.cost)
    return {
        "label": release.label,
        "cost": cost,
        "times": release.times,
        "share": release.share if release.kind is not None else None,
        "scale": release.scale,
        "fixed": dict(release.fixed),
        **{name: found for name, usual in _UNIT.items() if (found := getattr(release, name)) != usual},
    }


def _item_from_dict(data: Any) -> Item:
    for kind, names in _GROUPS.items():
        if isinstance(data, Mapping) and kind in data:
            fields = _strict(_strict(data, (kind,), "a group")[kind], names, f"a {kind} group")
            if not isinstance(fields["releases"], list):
                raise FormatError(f"the field 'releases' of a {kind} group must be a list")
            releases = [_release_from_dict(release) for release in fields.pop("releases")]
            return (InSequence if kind == "sequence" else InParallel)(releases=releases, **fields)
    return _release_from_dict(data)


def _release_from_dict(data: Any) -> Release:
    fields = _strict(data, _RELEASE, "a release", optional=tuple(_UNIT))
    cost, fixed = fields.pop("cost"), fields.pop("fixed")
    if isinstance(cost, str):
        kind = serialization.KINDS.get(cost)
        if not (isinstance(kind, type) and issubclass(kind, Atom)):
            raise FormatError(
                f"unknown cost kind {cost!r}; this version knows {', '.join(sorted(serialization.KINDS))}"
            )
        if not isinstance(fixed, Mapping):
            raise FormatError("the field 'fixed' of a release must be an object")
        for name in fixed.keys() & {*_RELEASE, *_UNIT}:
            raise FormatError(f"unknown field {name!r} among the fixed arguments of a release")
        return Release(cost=kind, **fields, **fixed)
    return Release(cost=serialization.from_dict(cost), **fields)


def _strict(data: Any, names: tuple[str, ...], what: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise FormatError(f"{what} must be a JSON object")
    for name in data.keys() - {*names, *optional}:
        raise FormatError(f"unknown field {name!r} in {what}; this version knows {', '.join(names + optional)}")
    for name in sorted(set(names) - data.keys()):
        raise FormatError(f"missing field {name!r} in {what}")
    return dict(data)
