"""Public facts in one object: what may be known about the data without looking at it.

Whatever a :class:`Schema` says is taken as public and shown in the privacy statement with its source. What it does
not say about a feature is learned privately, out of a stated slice of the budget (:mod:`.discovery`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from ledgerwood.accounting import strict_json
from ledgerwood.accounting.neighbours import as_neighbours
from ledgerwood.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.learners.schema_check import SchemaReport

Key: TypeAlias = str | int
Atom: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["number", "category"]

FORMAT, VERSION = "ledgerwood.schema", 1
MOST_CATEGORIES = 254
"""A cell is one byte: 254 categories, and a code for what is missing or unknown."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Schema:
    """Public facts about a table.

    Parameters
    ----------
    bounds
        Column (its name; its number in an array) to ``(low, high)``. Values outside are clipped, never refused.
    categories
        Column to its possible values, at most 254. Any other value counts as unknown.
    classes
        The label values of a classification, in any order.
    target_bounds
        ``(low, high)`` of a regression target; it is clipped to them.
    rows
        The number of rows if it is public. It is used for ``delta=None`` and for choices made from n.
    neighbours
        ``"add_remove"`` or ``"replace_one"``: what two datasets differ in by one unit.
    unit
        The column that names the unit of privacy (a person); without one every row is a unit. It is no feature. It may
        name single records (an id): where rows are sampled, which ones are in then goes by it and not by their order.
    max_rows_per_unit
        Rows of a unit beyond this many are dropped by a keyed rule; costs are priced for groups of this size.
    sources
        Where a fact comes from, by column, or by the names ``"classes"``, ``"target_bounds"``, ``"rows"``.
    kinds
        Column to ``"number"`` or ``"category"``, where neither bounds nor categories are declared and the type of the
        column does not tell: a CSV file has no types. Bounds or categories are then learned privately.

    Examples
    --------
    >>> schema = Schema(bounds={"age": (17, 90)}, categories={"sex": ["Female", "Male"]}, classes=[0, 1])
    >>> schema.bounds["age"], Schema.from_json(schema.to_json()) == schema
    ((17.0, 90.0), True)
    """

    bounds: Mapping[Key, tuple[float, float]] | None = None
    categories: Mapping[Key, Sequence[Atom]] | None = None
    classes: Sequence[Atom] | None = None
    target_bounds: tuple[float, float] | None = None
    rows: int | None = None
    neighbours: str = "add_remove"
    unit: Key | None = None
    max_rows_per_unit: int = 1
    sources: Mapping[Key, str] | None = None
    kinds: Mapping[Key, Kind] | None = None

    def __post_init__(self) -> None:
        settle = object.__setattr__
        for name in ("bounds", "categories", "sources", "kinds"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise ParameterError(name, "be a mapping from columns", getattr(self, name))
        settle(self, "bounds", {_key(c): _interval(f"bounds[{c!r}]", b) for c, b in (self.bounds or {}).items()})
        settle(self, "categories", {_key(c): _categories(c, v) for c, v in (self.categories or {}).items()})
        settle(self, "sources", {_key(c): str(text) for c, text in (self.sources or {}).items()})
        settle(self, "kinds", {_key(c): _kind(c, kind) for c, kind in (self.kinds or {}).items()})
        settle(self, "neighbours", as_neighbours(self.neighbours))
        assert self.bounds is not None and self.categories is not None and self.kinds is not None
        for column in self.bounds.keys() & self.categories.keys():
            raise ParameterError("schema", "give a column bounds or categories, not both", column)
        for column in self.kinds:
            known = "number" if column in self.bounds else "category" if column in self.categories else None
            if known not in (None, self.kinds[column]):
                raise ParameterError(f"kinds[{column!r}]", f"be {known!r}, as declared", self.kinds[column])
        if self.classes is not None:
            settle(self, "classes", _values("classes", self.classes))
        if self.target_bounds is not None:
            settle(self, "target_bounds", _interval("target_bounds", self.target_bounds))
        if self.classes is not None and self.target_bounds is not None:
            raise ParameterError("schema", "give classes or target_bounds, not both", self.classes)
        if self.rows is not None:
            settle(self, "rows", _count("rows", self.rows))
        settle(self, "max_rows_per_unit", _count("max_rows_per_unit", self.max_rows_per_unit))
        self._check_unit()

    def _check_unit(self) -> None:
        assert self.bounds is not None and self.categories is not None and self.kinds is not None
        if self.unit is None:
            if self.max_rows_per_unit != 1:
                raise ParameterError(
                    "max_rows_per_unit", "be 1 without a unit", self.max_rows_per_unit, 'Name the column: unit="person"'
                )
            return
        _key(self.unit)
        if self.unit in self.bounds or self.unit in self.categories or self.unit in self.kinds:
            raise ParameterError("unit", "be a column without bounds, categories or kind: it is no feature", self.unit)
        if self.neighbours == "replace_one" and self.max_rows_per_unit > 1:
            raise ParameterError(
                "max_rows_per_unit",
                "be 1 under neighbours='replace_one'",
                self.max_rows_per_unit,
                "Persons with different numbers of rows replace each other, so the number of rows is not fixed: "
                "use neighbours='add_remove'",
            )

    def source(self, fact: Key) -> str:
        """Return where a fact comes from."""
        assert self.sources is not None
        return self.sources.get(fact, "declared in the schema")

    # ---- other ways to make one

    @classmethod
    def draft(cls, public: Any, target: Key | None = None, **facts: Any) -> Schema:
        """Return a schema with the bounds and categories of a table that is public anyway.

        >>> import pandas as pd
        >>> Schema.draft(pd.DataFrame({"age": [20, 60], "sex": ["f", "m"]})).categories
        {'sex': ('f', 'm')}
        """
        from ledgerwood.learners.schema_check import draft

        return draft(public, target, facts)

    @classmethod
    def from_template(cls, dtypes: Any, **facts: Any) -> Schema:
        """Return what column types say: a pandas ``df.dtypes``, a polars or Arrow schema, or a mapping to dtypes.

        Booleans and one-byte integers give bounds; pandas categoricals and polars enums give their categories.

        >>> import pandas as pd
        >>> kinds = {"sex": pd.CategoricalDtype(["f", "m"]), "member": "bool"}
        >>> schema = Schema.from_template(kinds)
        >>> schema.categories, schema.bounds
        ({'sex': ('f', 'm')}, {'member': (0.0, 1.0)})
        """
        from ledgerwood.learners.schema_check import from_template

        return from_template(dtypes, facts)

    def to_json(self) -> str:
        """Return the schema as JSON."""
        body: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        for field in fields(self):
            value = getattr(self, field.name)
            body[field.name] = [[k, _plain(v)] for k, v in value.items()] if isinstance(value, dict) else _plain(value)
        return json.dumps(body, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Read what :meth:`to_json` wrote; strict about what it does not know."""
        body = strict_json.read(text)
        if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
            raise FormatError(
                f"a schema must be a JSON object with the field 'format': {FORMAT!r}. "
                "Write it with Schema(bounds={...}, categories={...}, classes=[...]).to_json()"
            )
        if body.pop("version", None) != VERSION:
            raise FormatError(f"this library reads schemas of version {VERSION}. Update ledgerwood")
        known = {field.name for field in fields(cls)}
        for name in sorted(body.keys() - known):
            raise FormatError(f"unknown field {name!r} in a schema; this version knows {', '.join(sorted(known))}")
        for name in ("bounds", "categories", "sources", "kinds"):
            pairs = body.get(name) or []
            if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
                raise FormatError(f"the field {name!r} of a schema must be a list of [column, fact] pairs")
            try:
                body[name] = dict(map(tuple, pairs))
            except TypeError:
                raise FormatError(f"a column in the field {name!r} must be a string or a number") from None
        return cls(**body)

    # ---- for the data holder

    def check(self, X: Any, y: Any = None) -> SchemaReport:
        """Report to the data holder where the data break the schema. The answer is outside any guarantee.

        >>> print(Schema(bounds={0: (0, 1)}).check([[0.5], [7.0]]))
        OUTSIDE THE PRIVACY GUARANTEE: exact counts about the data, for the data holder only.
        column 0: 1 of 2 values out of bounds (they are clipped)
        """
        from ledgerwood.learners.schema_check import check

        return check(self, X, y)


def _key(column: Any) -> Key:
    if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
        raise ParameterError("column", "be a name or a column number", column)
    return column if isinstance(column, str) else int(column)


def _kind(column: Key, kind: Any) -> Kind:
    if kind not in get_args(Kind):
        raise ParameterError(f"kinds[{column!r}]", 'be "number" or "category"', kind)
    found: Kind = kind
    return found


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(name, "be a whole number of at least 1", value)
    return int(value)


def _interval(name: str, value: Any) -> tuple[float, float]:
    rule = "be two finite numbers (low, high) with low < high, within the range of float32"
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, rule, value) from None
    if not (-_LARGEST <= low < high <= _LARGEST and np.float32(low) < np.float32(high)):
        raise ParameterError(name, rule, value)
    return low, high


def is_atom(value: Any) -> bool:
    """Whether a value can be a category or a class: a string, or a number that floats can hold."""
    return isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)


def _values(name: str, values: Any) -> tuple[Atom, ...]:
    """Distinct plain values, sorted where they can be."""
    rule = "be distinct strings, numbers or booleans, numbers within the range of floats"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ParameterError(name, rule, values)
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    for value in plain:
        if not is_atom(value):
            raise ParameterError(name, rule, value)
    if not plain or len(set(plain)) < len(plain):
        raise ParameterError(name, rule, values)
    return plain


def _categories(column: Key, values: Any) -> tuple[Atom, ...]:
    found = _values(f"categories[{column!r}]", values)
    if len(found) > MOST_CATEGORIES:
        raise ParameterError(
            f"categories[{column!r}]", f"be at most {MOST_CATEGORIES}", len(found), "Merge the rare ones before"
        )
    numbers = [float(value) for value in found if not isinstance(value, str)]
    if len(set(numbers)) < len(numbers):
        raise ParameterError(f"categories[{column!r}]", "be distinct as float64 numbers", values)
    if len({isinstance(value, str) for value in found}) > 1:
        raise ParameterError(f"categories[{column!r}]", "be all strings or all numbers", values)
    return found


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
