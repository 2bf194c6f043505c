"""Releases as people write them: ``"200 BoundedRange epsilon=0.034"``, or a TOML or JSON file.

>>> read_releases(["200 BoundedRange epsilon=0.0339", "50 Gaussian sigma=45"]).cost()
200 * BoundedRange(epsilon=0.0339) + 50 * Gaussian(sigma=45.0, sensitivity=1.0)

A file holds a list ``release`` of such lines or of tables with the same names, and may give ``delta``, ``epsilon`` and
``neighbours``. A plan written by ``ledgerwood plan --save`` is read as well.
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerwood import _files
from ledgerwood.errors import FormatError, ParameterError, did_you_mean

if TYPE_CHECKING:
    from ledgerwood.accounting import Cost, Plan, Release

_LARGEST_FILE = 4 * 2**20
_OWN = ("label", "times", "share", "rate", "group")
_ALIASES = {
    "exponential": "BoundedRange",
    "exponentialmechanism": "BoundedRange",
    "selection": "BoundedRange",
    "pure": "PureDP",
    "approx": "ApproxDP",
    "approximate": "ApproxDP",
    "rr": "RandomizedResponse",
    "svt": "SparseVector",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One kind of release: a cost class, its arguments, how often; perhaps on a Poisson sample of the rows."""

    kind: str
    arguments: Mapping[str, Any]
    times: int = 1
    label: str = ""
    share: float | None = None
    rate: float | None = None
    group: int = 1

    def priced(self, neighbours: str) -> Cost:
        """Return the cost of one run; its noise must be given."""
        noise = _kinds()[self.kind].noise_parameter
        _check_names(_kinds()[self.kind], self.arguments)
        if noise is not None and noise not in self.arguments and not (self.kind == "Gaussian" and self._by_mu()):
            raise ParameterError(noise, f"be given for {self.kind}", None, f"For example '{self.kind} {noise}=0.1'")
        return self._cost(neighbours, {})

    def _by_mu(self) -> bool:
        return "mu" in self.arguments

    def _cost(self, neighbours: str, noise: Mapping[str, float]) -> Cost:
        from ledgerwood.accounting import PoissonSubsampled

        kind = _kinds()[self.kind]
        _check_names(kind, self.arguments)
        try:
            cost: Cost = kind(**self.arguments, **noise, neighbours=neighbours)
        except TypeError:
            needed = ", ".join(name for name in inspect.signature(kind).parameters if name != "neighbours")
            raise FormatError(f"{self.kind} needs values for its parameters ({needed})") from None
        if self.rate is not None:
            cost = PoissonSubsampled(cost, rate=self.rate)
        return cost.group(self.group)

    def release(self, neighbours: str) -> Release:
        """Return the release for a plan: calibrated if the noise is not given."""
        from ledgerwood.accounting import Release

        kind = _kinds()[self.kind]
        noise = kind.noise_parameter
        if noise is None or noise in self.arguments or self._by_mu():
            return Release(self.label, self.priced(neighbours), times=self.times)
        _check_names(kind, self.arguments)
        share = 1.0 if self.share is None else self.share
        if self.rate is None and self.group == 1:
            return Release(self.label, kind, times=self.times, share=share, **self.arguments)
        template: Callable[[float], Cost] = lambda scale: self._cost(neighbours, {noise: scale})  # noqa: E731
        return Release(self.label, template, times=self.times, share=share)

    @property
    def noise(self) -> str | None:
        """The name of the noise parameter."""
        name: str | None = _kinds()[self.kind].noise_parameter
        return name


@dataclass(frozen=True, slots=True)
class Releases:
    """What was asked about, with what a file says about the target."""

    specs: tuple[Spec, ...]
    target: Mapping[str, Any] = field(default_factory=dict)
    planned: Plan | None = None

    def cost(self, neighbours: str = "add_remove") -> Cost:
        """Return everything as one cost; the order of execution is taken as unknown, except for a plan."""
        from ledgerwood.accounting import zero

        if self.planned is not None:
            return self.planned.cost
        total: Cost = zero(neighbours)
        for spec in self.specs:
            total = total + spec.times * spec.priced(neighbours)
        return total

    def plan(self, neighbours: str = "add_remove") -> Plan:
        """Return a plan to be calibrated."""
        from ledgerwood.accounting import Plan

        if self.planned is not None:
            return self.planned
        return Plan([spec.release(neighbours) for spec in self.specs], neighbours=neighbours)

    def rows(self, neighbours: str) -> list[tuple[str, int, str]]:
        """Return (label, times, cost) for a table."""
        if self.planned is not None:
            return [(run.label, run.times, repr(run.cost)) for run in self.planned.runs()]
        return [(spec.label, spec.times, repr(spec.priced(neighbours))) for spec in self.specs]


def read_releases(texts: Sequence[str]) -> Releases:
    """Read lines and files of releases, in any mixture, or one file with a whole plan."""
    from ledgerwood.accounting.plan.serialization import FORMAT

    files = {text: _read_file(Path(text)) for text in texts if text.lower().endswith((".toml", ".json"))}
    plans = [text for text, content in files.items() if content.get("format") == FORMAT]
    if plans:
        if len(texts) > 1:
            raise FormatError(f"{plans[0]} is a whole plan: give it alone")
        return _from_plan(files[plans[0]])
    specs: list[Mapping[str, Any]] = []
    target: dict[str, Any] = {}
    for text in texts:
        if text in files:
            found, stated = _from_file(files[text], text)
            specs += found
            target |= stated
        else:
            specs.append(_from_line(text))
    if not specs:
        raise FormatError("no releases given, for example '50 Gaussian sigma=45'")
    return Releases(tuple(_spec(raw) for raw in _labelled(specs)), target)


def _from_plan(content: Mapping[str, Any]) -> Releases:
    """Read what ``ledgerwood plan --save`` wrote."""
    from ledgerwood.accounting import Plan

    plan = Plan.from_dict(content)
    return Releases((), {"delta": plan.delta, "epsilon": plan.epsilon}, plan)


def _from_file(content: Mapping[str, Any], where: str) -> tuple[list[Mapping[str, Any]], dict[str, Any]]:
    """Return the releases of a file, and what it says about the target."""
    target = {name: value for name, value in content.items() if name != "release"}
    for name in target.keys() - {"delta", "epsilon", "neighbours"}:
        raise FormatError(f"{where}: unknown field {name!r}; known are release, delta, epsilon, neighbours")
    listed = content.get("release")
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"{where}: the field 'release' must be a list of releases")
    return [_from_line(item) if isinstance(item, str) else _from_table(item, where) for item in listed], target


def read_cost(text: str, neighbours: str = "add_remove") -> Cost:
    """Read a claim: one line such as ``PureDP epsilon=0.5``.

    >>> read_cost("approx epsilon=0.5 delta=1e-6")
    ApproxDP(epsilon=0.5, delta=1e-06)
    """
    return read_releases([text]).cost(neighbours)


def _read_file(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_FILE:
        raise FormatError(f"{path} is larger than {_LARGEST_FILE // 2**20} MiB")
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix.lower() == ".toml" else _files.parse_json(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {error}") from None
    if isinstance(content, list):
        content = {"release": content}
    if not isinstance(content, dict):
        raise FormatError(f"{path} must hold a table with a list 'release'")
    return content


def _from_line(text: str) -> dict[str, Any]:
    words = text.replace(" x ", " ").replace("*", " ").split()
    found: dict[str, Any] = {}
    if words and words[0].isdigit():
        found["times"] = int(words.pop(0))
    if not words or "=" in words[0]:
        raise FormatError(f"{text!r} names no mechanism; write for example '50 Gaussian sigma=45'")
    found["mechanism"] = words.pop(0)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise FormatError(f"{word!r} in {text!r} must have the form name=value")
        if name in found:
            raise FormatError(f"{name!r} is given twice in {text!r}")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    for read in (int, float, _ratio):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _ratio(text: str) -> float:
    top, slash, bottom = text.partition("/")
    if not slash or float(bottom) == 0:
        raise ValueError(text)
    return float(top) / float(bottom)


def _from_table(item: Any, where: str) -> dict[str, Any]:
    if not isinstance(item, dict) or not isinstance(item.get("mechanism"), str):
        raise FormatError(f"{where}: a release must be a line of text or a table with the field 'mechanism'")
    return item


def _labelled(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Name what has no name; make names unique."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for item in items:
        base = label = str(item.get("label", _kind_name(item["mechanism"])))
        number = 2
        while label in seen:
            label, number = f"{base} {number}", number + 1
        seen.add(label)
        found.append({**item, "label": label})
    return found


def _spec(raw: Mapping[str, Any]) -> Spec:
    own = {name: raw[name] for name in _OWN if name in raw}
    arguments = {name: value for name, value in raw.items() if name not in (*_OWN, "mechanism")}
    kind = _kind_name(raw["mechanism"])
    if kind == "RandomizedResponse" and "categories" in arguments:
        arguments["k"] = arguments.pop("categories")
    return Spec(kind, arguments, **own)


@cache
def _kinds() -> dict[str, Any]:
    from ledgerwood.accounting.costs import serialization

    nested = {kind.__name__ for kind in serialization.SAMPLED} | {"PrivacyLoss"}
    return {name: kind for name, kind in serialization.KINDS.items() if name not in nested}


def _kind_name(name: str) -> str:
    small = name.replace("_", "").replace("-", "").lower()
    known = {kind.lower(): kind for kind in _kinds()} | _ALIASES
    if small not in known:
        if os.path.exists(name):
            raise FormatError(f"{name} must end in .toml or .json to be read as a list of releases")
        near = did_you_mean(name, _kinds())
        raise FormatError(
            f"unknown mechanism {name!r}; known are {', '.join(sorted(_kinds()))}{f'. {near}' if near else ''}"
        )
    return known[small]


def _check_names(kind: Any, arguments: Mapping[str, Any]) -> None:
    known = [name for name in inspect.signature(kind).parameters if name != "neighbours"]
    for name in arguments:
        if name not in known:
            raise FormatError(f"{kind.__name__} has no parameter {name!r}; it has {', '.join(known)}")
