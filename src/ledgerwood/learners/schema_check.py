"""Schemas from public tables and column types, and a report to the data holder. None of this is private."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.frames import raw_columns
from ledgerwood.learners.labels import label_codes, label_numbers
from ledgerwood.learners.schema import MOST_CATEGORIES, Key, Schema
from ledgerwood.learners.tables import read_columns

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
            found += _some(name, "missing or unknown", table.cells[0] == len(column.categories or ()))
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


def draft(public: Any, target: Key | None, facts: Mapping[str, Any]) -> Schema:
    """Return the facts of a public table."""
    columns = raw_columns(public)
    if target is not None and target not in [column.name for column in columns]:
        raise ParameterError("target", "be a column of the table", target)
    bounds: dict[Key, tuple[float, float]] = {}
    categories: dict[Key, list[Any]] = {}
    classes = facts.get("classes")
    unit = facts.get("unit")
    for raw in columns:
        name = raw.name
        if name == unit:
            continue
        column = raw.cells()
        numeric = column.dtype.kind in "biuf"
        if name == target:
            if classes is None and "target_bounds" not in facts:
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
            **{name: fact for name, fact in facts.items() if name != "classes"},
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


def from_template(dtypes: Any, facts: Mapping[str, Any]) -> Schema:
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
    return Schema(**{"bounds": bounds, "categories": categories, "sources": sources, **facts})


def _fields(dtypes: Any) -> Iterable[tuple[Key, Any]]:
    if hasattr(dtypes, "names") and hasattr(dtypes, "types"):  # a pyarrow schema
        return list(zip(dtypes.names, dtypes.types, strict=True))
    if hasattr(dtypes, "items"):  # a mapping, a polars schema, the dtypes of a pandas frame
        return [(name, dtype) for name, dtype in dtypes.items()]
    raise ParameterError(
        "dtypes", "be df.dtypes, a polars or Arrow schema, or a mapping to types", type(dtypes).__name__
    )
