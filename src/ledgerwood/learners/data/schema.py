"""Public metadata in one object: what may be known about the data without looking at it.

Whatever a :class:`Schema` says is taken as public and shown in the privacy statement with its source. What it does not
say about a feature is learned privately and charged to the budget (:mod:`ledgerwood.learners.training.discovery`).
A schema can be drafted from a table that is public or from column types, and a data holder can count where data break
it; neither is private.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np

from ledgerwood import _checks, _files
from ledgerwood.accounting.adjacency import LEARNABLE, as_neighbours
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.data.columns import MOST_CATEGORIES, Key, Kind, Scalar
from ledgerwood.learners.data.frames import raw_columns
from ledgerwood.learners.data.labels import label_codes, label_numbers
from ledgerwood.learners.data.table import read_columns

FORMAT, VERSION = "ledgerwood.schema", 1

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Schema:
    """Public metadata about a table.

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
        A public number of rows, best a round one near the true number, which it need not equal. It is used for
        ``delta=None`` and for choices made from n. ``"public"``: the exact number of rows is public. Without either
        a noisy count is the first release of every fit, unless one record replaces another.
    neighbours
        ``"add_remove"`` or ``"replace_one"``: what two datasets differ in by one unit.
    unit
        The column that names the privacy unit (a person); without one every row is a unit. It is not a feature. It may
        name single records (an id): where rows are sampled, the id and not the row's place decides which are in.
    max_rows_per_unit
        Rows of a unit beyond this many are dropped by a keyed rule; costs are priced for groups of this size.
    sources
        Where each piece comes from, by column, or by the names ``"classes"``, ``"target_bounds"``, ``"rows"``.
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
    categories: Mapping[Key, Sequence[Scalar]] | None = None
    classes: Sequence[Scalar] | None = None
    target_bounds: tuple[float, float] | None = None
    rows: int | str | None = None
    neighbours: str = "add_remove"
    unit: Key | None = None
    max_rows_per_unit: int = 1
    sources: Mapping[Key, str] | None = None
    kinds: Mapping[Key, Kind] | None = None

    def __post_init__(self) -> None:
        assign = object.__setattr__
        for name in ("bounds", "categories", "sources", "kinds"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise ParameterError(name, "be a mapping from columns", getattr(self, name))
        assign(self, "bounds", {_key(c): _interval(f"bounds[{c!r}]", b) for c, b in (self.bounds or {}).items()})
        assign(self, "categories", {_key(c): _categories(c, v) for c, v in (self.categories or {}).items()})
        assign(self, "sources", {_key(c): str(text) for c, text in (self.sources or {}).items()})
        assign(self, "kinds", {_key(c): _kind(c, kind) for c, kind in (self.kinds or {}).items()})
        assign(self, "neighbours", as_neighbours(self.neighbours, LEARNABLE))
        assert self.bounds is not None and self.categories is not None and self.kinds is not None
        for column in self.bounds.keys() & self.categories.keys():
            raise ParameterError("schema", "give a column bounds or categories, not both", column)
        for column in self.kinds:
            known = "number" if column in self.bounds else "category" if column in self.categories else None
            if known not in (None, self.kinds[column]):
                raise ParameterError(f"kinds[{column!r}]", f"be {known!r}, as declared", self.kinds[column])
        if self.classes is not None:
            assign(self, "classes", _values("classes", self.classes))
        if self.target_bounds is not None:
            assign(self, "target_bounds", _interval("target_bounds", self.target_bounds))
        if self.classes is not None and self.target_bounds is not None:
            raise ParameterError("schema", "give classes or target_bounds, not both", self.classes)
        if self.rows not in (None, "public"):
            if isinstance(self.rows, str):
                raise ParameterError("rows", 'be a public number of rows, or "public"', self.rows)
            assign(self, "rows", _checks.integer("rows", self.rows, 1))
        assign(self, "max_rows_per_unit", _checks.integer("max_rows_per_unit", self.max_rows_per_unit, 1))
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
            raise ParameterError(
                "unit", "be a column without bounds, categories or kind: it is not a feature", self.unit
            )
        if self.neighbours == "replace_one" and self.max_rows_per_unit > 1:
            raise ParameterError(
                "max_rows_per_unit",
                "be 1 under neighbours='replace_one'",
                self.max_rows_per_unit,
                "Persons with different numbers of rows replace each other, so the number of rows is not fixed: "
                "use neighbours='add_remove'",
            )

    def source(self, item: Key) -> str:
        """Return where a declaration comes from."""
        assert self.sources is not None
        return self.sources.get(item, "declared in the schema")

    # ---- other ways to make one

    @classmethod
    def draft(cls, public: Any, target: Key | None = None, **declared: Any) -> Schema:
        """Return a schema with the bounds and categories of a public table.

        >>> import pandas as pd
        >>> Schema.draft(pd.DataFrame({"age": [20, 60], "sex": ["f", "m"]})).categories
        {'sex': ('f', 'm')}
        """
        return draft(public, target, declared)

    @classmethod
    def from_template(cls, dtypes: Any, **declared: Any) -> Schema:
        """Return what column types say: a pandas ``df.dtypes``, a polars or Arrow schema, or a mapping to dtypes.

        Booleans and one-byte integers give bounds; pandas categoricals and polars enums give their categories.

        >>> import pandas as pd
        >>> kinds = {"sex": pd.CategoricalDtype(["f", "m"]), "member": "bool"}
        >>> schema = Schema.from_template(kinds)
        >>> schema.categories, schema.bounds
        ({'sex': ('f', 'm')}, {'member': (0.0, 1.0)})
        """
        return from_template(dtypes, declared)

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
        body = _files.parse_json(text)
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
                raise FormatError(f"the field {name!r} of a schema must be a list of [column, value] pairs")
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
        return check(self, X, y)


def _key(column: Any) -> Key:
    if not isinstance(column, str) and not _checks.is_integer(column):
        raise ParameterError("column", "be a name or a column number", column)
    return column if isinstance(column, str) else int(column)


def _kind(column: Key, kind: Any) -> Kind:
    if kind not in get_args(Kind):
        raise ParameterError(f"kinds[{column!r}]", 'be "number" or "category"', kind)
    found: Kind = kind
    return found


def _interval(name: str, value: Any) -> tuple[float, float]:
    rule = "be two finite numbers (low, high) with low < high, within the range of float32"
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, rule, value) from None
    if not (-_LARGEST <= low < high <= _LARGEST and np.float32(low) < np.float32(high)):
        raise ParameterError(name, rule, value)
    return low, high


def is_scalar(value: Any) -> bool:
    """Whether a value can be a category or a class: a string, or a number that floats can hold."""
    return isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)


def _values(name: str, values: Any) -> tuple[Scalar, ...]:
    """Return distinct plain values, or raise."""
    rule = "be distinct strings, numbers or booleans, numbers within the range of floats"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ParameterError(name, rule, values)
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    for value in plain:
        if not is_scalar(value):
            raise ParameterError(name, rule, value)
    if not plain or len(set(plain)) < len(plain):
        raise ParameterError(name, rule, values)
    return plain


def _categories(column: Key, values: Any) -> tuple[Scalar, ...]:
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


_EVERYWHERE = (-1.0, 1.0)


@dataclass(frozen=True)
class SchemaReport:
    """Where data break a schema: exact counts, so outside any guarantee."""

    findings: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.findings)

    def __str__(self) -> str:
        title = "OUTSIDE THE PRIVACY GUARANTEE: exact counts about the data, for the data holder only."
        return "\n".join([title, *(self.findings or ("nothing breaks the schema",))])


def check(schema: Schema, X: Any, y: Any = None) -> SchemaReport:
    """Count what ``fit`` would clip, or take as missing or unknown."""
    given = read_columns(X, schema)
    found = []
    for column, values in zip(given.columns, given.values, strict=True):
        name = f"column {column.name!r}"
        if not column.is_known:
            found.append(f"{name}: not declared; it would be learned privately")
        elif column.kind == "number":
            assert column.bounds is not None
            floats = values.astype(np.float64)
            found += _some(
                name, "out of bounds (they are clipped)",
                (floats < column.bounds[0]) | (floats > column.bounds[1]),
            )  # fmt: skip
            found += _some(name, "missing", np.isnan(floats))
        else:
            table = replace(given, columns=(column,), values=(values,)).table()
            found += _some(name, "missing or unknown", table.values[0] == len(column.categories or ()))
    if y is not None:
        found += _check_target(schema, y)
    return SchemaReport(tuple(found))


def _check_target(schema: Schema, y: Any) -> list[str]:
    if schema.classes is not None:
        return _some("labels", "not declared (fit raises on them)", label_codes(y, schema.classes) < 0)
    if schema.target_bounds is not None:
        numbers = label_numbers(y)
        outside = (numbers < schema.target_bounds[0]) | (numbers > schema.target_bounds[1])
        return [
            *_some("target", "no finite number (fit raises on them)", np.isnan(numbers)),
            *_some("target", "out of bounds (they are clipped)", outside),
        ]
    return ["labels: not declared; they would be assumed public, or learned privately for a regression"]


def _some(name: str, what: str, wrong: Any) -> list[str]:
    count = int(np.count_nonzero(wrong))
    return [f"{name}: {count} of {len(wrong)} values {what}"] if count else []


def draft(public: Any, target: Key | None, declared: Mapping[str, Any]) -> Schema:
    """Return the metadata of a public table."""
    columns = raw_columns(public)
    if target is not None and target not in [column.name for column in columns]:
        raise ParameterError("target", "be a column of the table", target)
    bounds: dict[Key, tuple[float, float]] = {}
    categories: dict[Key, list[Any]] = {}
    classes = declared.get("classes")
    unit = declared.get("unit")
    for raw in columns:
        name = raw.name
        if name == unit:
            continue
        column = raw.values()
        numeric = column.dtype.kind in "biuf"
        if name == target:
            if classes is None and "target_bounds" not in declared:
                classes = np.unique(column).tolist() if not numeric or len(np.unique(column)) <= 20 else None
            continue
        if numeric:
            bounds[name] = _spread(column.astype(np.float64))
        else:
            seen = sorted({value for value in column.tolist() if isinstance(value, str)})
            if len(seen) > MOST_CATEGORIES:
                hint = "Declare the frequent ones, or leave the column out"
                raise ParameterError(f"column {name!r}", f"have at most {MOST_CATEGORIES} values", len(seen), hint)
            categories[name] = seen
    source = "drafted from a public table"
    sources = dict.fromkeys([*bounds, *(name for name, seen in categories.items() if seen)], source)
    return Schema(
        **{
            "bounds": bounds,
            "categories": {name: seen for name, seen in categories.items() if seen},
            "classes": classes,
            "sources": sources,
            **{name: item for name, item in declared.items() if name != "classes"},
        }
    )


def _spread(floats: Any) -> tuple[float, float]:
    largest = float(np.finfo(np.float32).max)
    finite = floats[np.isfinite(floats)]
    if not len(finite):
        return _EVERYWHERE
    low, high = (float(np.clip(end, -largest, largest)) for end in (finite.min(), finite.max()))
    if np.float32(low) < np.float32(high):
        return low, high
    width = max(abs(low), 1.0) / 2
    return float(np.clip(low - width, -largest, largest)), float(np.clip(high + width, -largest, largest))


_BYTES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "bool": (0.0, 1.0), "boolean": (0.0, 1.0)}


def from_template(dtypes: Any, declared: Mapping[str, Any]) -> Schema:
    """Return what types say."""
    bounds: dict[Key, tuple[float, float]] = {}
    categories: dict[Key, list[Any]] = {}
    for name, dtype in _fields(dtypes):
        known = getattr(dtype, "categories", None)
        if known is not None and len(known):
            categories[name] = list(known)
        elif str(dtype).lower() in _BYTES:
            bounds[name] = _BYTES[str(dtype).lower()]
    sources = dict.fromkeys([*bounds, *categories], "the column's type in a template")
    return Schema(**{"bounds": bounds, "categories": categories, "sources": sources, **declared})


def _fields(dtypes: Any) -> Iterable[tuple[Key, Any]]:
    if hasattr(dtypes, "names") and hasattr(dtypes, "types"):  # a pyarrow schema
        return list(zip(dtypes.names, dtypes.types, strict=True))
    if hasattr(dtypes, "items"):  # a mapping, a polars schema, the dtypes of a pandas frame
        return [(name, dtype) for name, dtype in dtypes.items()]
    raise ParameterError(
        "dtypes", "be df.dtypes, a polars or Arrow schema, or a mapping to types", type(dtypes).__name__
    )
