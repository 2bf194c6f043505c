"""The file format of models: a versioned JSON document that is read as data and never unpickled.

A file may come from anybody. Reading one makes only values of registered types, through their constructors, with their
fields' types checked; then the model as a whole is checked (shapes, codes within range, thresholds in order), because
compiled kernels trust what they are given. Types are registered where they are defined, under the name that files use
(:func:`stored`, :func:`learner`). The plan in the file is priced again: a file that states less than its plan costs is
refused. No reader can check whether the numbers came from that plan. Memory and time are bounded by the size of the
file: numbers in it that ask for more (bins, runs of a plan) are checked before they are used.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ledgerwood._checks import is_integer, is_real
from ledgerwood.accounting import Plan
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.schema import Schema

FORMAT, VERSION = "ledgerwood.model", 1

MOST_BYTES, MOST_VALUES = 1 << 30, 2 * 10**7
"""What a file may have: bytes, and values in lists and objects, each of which takes some sixty bytes of memory."""

MOST_LETTERS = 1 << 24
"""Letters of an array of strings, all of them counted as long as the longest, as numpy holds them."""

ENTRY_POINTS = "ledgerwood.learners"

_DTYPES = {f"<{kind}" for kind in ("i4", "i8", "f4", "f8")} | {"|u1", "|b1"}

_LEFT_OUT = {"callbacks", "random_state", "verbose"}

_WHERE = {"engine"}  # where a model was trained is not part of it


Kind = TypeVar("Kind", bound=type[Any])
Check: TypeAlias = Callable[[Any, Mapping[str, Any]], None]

OMITTED_IF_DEFAULT = {"omitted if default": True}
"""Metadata of a field that older files do not have: it is written only where it is not the default."""


@dataclasses.dataclass(frozen=True)
class _StoredType:
    """A dataclass that files may hold: its check, and the names in files of fields that have another name here."""

    kind: type[Any]
    check: Check | None = None
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def fields(self) -> dict[str, dataclasses.Field[Any]]:
        """Return the field of each name in files."""
        return {self.keys.get(field.name, field.name): field for field in dataclasses.fields(self.kind) if field.init}


_STORED = {"Column": _StoredType(Column)}
_LEARNERS: dict[str, type[Any]] = {}


def stored(name: str, check: Check | None = None, keys: Mapping[str, str] | None = None) -> Callable[[Kind], Kind]:
    """Let files hold values of a dataclass, under this name.

    ``check`` gets a value that was read and all fitted attributes of its model, and raises :class:`FormatError` if
    they do not fit. ``keys`` maps fields to their names in files, where these differ. This is the outermost decorator
    of a class: ``dataclass(slots=True)`` makes a new one.
    """

    def register(kind: Kind) -> Kind:
        _STORED[name] = _StoredType(kind, check, keys or {})
        return kind

    return register


def learner(kind: Kind) -> Kind:
    """Let files hold models of an estimator, under its class name."""
    _LEARNERS[kind.__name__] = kind
    return kind


def registered() -> dict[str, type[Any]]:
    """Return the estimators that files may name: registered ones and entry points of installed packages."""
    found = dict(_LEARNERS)
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, point.load())
    return found


def require(holds: Any, what: str) -> None:
    """Raise :class:`FormatError` unless something holds of a model that was read."""
    if not holds:
        raise FormatError(f"the model is broken: {what}")


def check_values(fitted: Mapping[str, Any]) -> None:
    """Check each fitted attribute whose type has a check."""
    checks = {found.kind: found.check for found in _STORED.values()}
    for value in fitted.values():
        check = checks.get(type(value))
        if check is not None:
            check(value, fitted)


# ---- writing


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; :func:`load` reads it. Released numbers and public metadata only, as in the model."""
    text = json.dumps(_document(model), allow_nan=False, separators=(",", ":"))
    Path(path).write_text(text, encoding="utf-8")


def _document(model: Any) -> dict[str, Any]:
    if not hasattr(model, "receipt_"):
        raise ParameterError("model", "be fitted before it is saved", type(model).__name__)
    name = name_of(model)
    parameters = {k: v for k, v in model.get_params(deep=False).items() if k not in _LEFT_OUT | _WHERE}
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "learner": name,
        "parameters": {k: encode(v) for k, v in parameters.items()},
        "fitted": {k: encode(v) for k, v in fitted.items()},
    }


def name_of(model: Any) -> str:
    """Return the name that a model's file gives its learner."""
    name = next((name for name, kind in registered().items() if kind is type(model)), None)
    if name is None:
        raise ParameterError(
            "model", f"be a learner of this library or of the entry points {ENTRY_POINTS!r}", type(model).__name__
        )
    return name


def encode(value: Any) -> Any:
    """Return a value as JSON values; :func:`decode` reads them."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | int() | str():
            return str(value) if isinstance(value, str) else value
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case list():
            return [encode(item) for item in value]
        case tuple():
            return {"$tuple": [encode(item) for item in value]}
        case dict():
            return {"$dict": [[encode(k), encode(v)] for k, v in value.items()]}
        case Schema():
            return {"$schema": json.loads(value.to_json())}
        case Plan():
            return {"$plan": json.loads(value.to_json())}
        case np.ndarray():
            return _encode_array(value)
    kind = type(value)
    if kind in registered().values():
        return {"$model": _document(value)}
    for name, found in _STORED.items():
        if found.kind is kind:
            values = {key: (field, getattr(value, field.name)) for key, field in found.fields().items()}
            return {
                "$value": [name, {key: encode(v) for key, (field, v) in values.items() if not _is_omitted(field, v)}]
            }
    raise ParameterError("model", "hold values that its file format knows", kind.__name__)


def _is_omitted(field: dataclasses.Field[Any], value: Any) -> bool:
    return field.metadata == OMITTED_IF_DEFAULT and bool(value == field.default)


def _encode_array(array: Any) -> Any:
    if array.dtype.kind in "UO":
        return {"$strings": [str(item) for item in array.ravel().tolist()], "shape": list(array.shape)}
    array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    dtype = array.dtype.str.replace("=", "<")
    if dtype not in _DTYPES:
        raise ParameterError("model", f"hold arrays of {', '.join(sorted(_DTYPES))}", dtype)
    return {"$array": base64.b64encode(array.tobytes()).decode("ascii"), "dtype": dtype, "shape": list(array.shape)}


def model_of(document: Any) -> Any:
    """Return the model of a file's content, checked; raise :class:`FormatError` on anything else."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"a model must be a JSON object with the field 'format': {FORMAT!r}")
    version = document.get("version")
    if not is_integer(version) or not 1 <= version <= VERSION:
        raise FormatError(f"the model has version {version!r}; this library reads up to {VERSION}. Update ledgerwood")
    if document.keys() != {"format", "version", "learner", "parameters", "fitted"}:
        raise FormatError("a model has the fields format, version, learner, parameters and fitted")
    kind = registered().get(document["learner"])
    if kind is None:
        raise FormatError("the model's learner is not installed; its package must declare an entry point")
    parameters, fitted = document["parameters"], document["fitted"]
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise FormatError("the fields parameters and fitted of a model are objects")
    allowed = set(kind().get_params(deep=False)) - _LEFT_OUT
    if not set(parameters) <= allowed:
        raise FormatError(f"unknown parameters of {document['learner']}: {sorted(set(parameters) - allowed)[:5]}")
    model = kind(**{name: decode(value) for name, value in parameters.items()})
    for name, value in fitted.items():
        if not name.isidentifier() or name.startswith("_") or not name.endswith("_") or hasattr(kind, name):
            raise FormatError(f"{name[:40]!r} is not a fitted attribute")
        setattr(model, name, decode(value))
    model._check_stored()
    return model


def decode(value: Any) -> Any:
    """Read what :func:`encode` wrote; nothing else is made."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [decode(item) for item in value]
        case {"$float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case {"$tuple": list(items), **rest} if not rest:
            return tuple(decode(item) for item in items)
        case {"$dict": list(items), **rest} if not rest:
            return {decode(k): decode(v) for k, v in items}
        case {"$schema": dict(body), **rest} if not rest:
            return Schema.from_json(json.dumps(body))
        case {"$plan": dict(body), **rest} if not rest:
            return Plan.from_json(json.dumps(body))
        case {"$model": dict(body), **rest} if not rest:
            return model_of(body)
        case {"$array": str(data), "dtype": str(dtype), "shape": list(shape), **rest} if not rest:
            return _decode_array(data, dtype, shape)
        case {"$strings": list(texts), "shape": list(shape), **rest} if not rest:
            if not all(isinstance(text, str) for text in texts):
                raise FormatError("an array of strings holds something else")
            if len(texts) * max(map(len, texts), default=0) > MOST_LETTERS:
                raise FormatError(f"an array of strings has more than {MOST_LETTERS} letters")
            return np.array(texts, dtype=str).reshape(_shape(shape, len(texts)))
        case {"$value": [str(name), dict(fields)], **rest} if not rest:
            return _decode_value(name, fields)
    raise FormatError("the file holds a value of an unknown form")


def _shape(shape: list[Any], size: int) -> tuple[int, ...]:
    if not all(is_integer(n) and n >= 0 for n in shape) or math.prod(shape) != size:
        raise FormatError("an array's shape does not fit its data")
    return tuple(shape)


def _decode_array(data: str, dtype: str, shape: list[Any]) -> Any:
    if dtype not in _DTYPES:
        raise FormatError(f"arrays may be of {', '.join(sorted(_DTYPES))}")
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise FormatError("an array is not base64") from None
    size = np.dtype(dtype).itemsize
    if len(raw) % size:
        raise FormatError("an array's shape does not fit its data")
    array = np.frombuffer(raw, dtype=dtype).reshape(_shape(shape, len(raw) // size))
    return array.astype(array.dtype.newbyteorder("="))


def _decode_value(name: str, fields: dict[str, Any]) -> Any:
    found = _STORED.get(name)
    if found is None:
        raise FormatError(f"the file names the unknown type {name[:40]!r}")
    known = found.fields()
    needed = {key for key, field in known.items() if field.metadata != OMITTED_IF_DEFAULT}
    if not needed <= fields.keys() <= known.keys():
        raise FormatError(f"a {name} has other fields")
    decoded = {known[key].name: decode(value) for key, value in fields.items()}
    hints = typing.get_type_hints(found.kind, localns={"Column": Column})
    for key, value in decoded.items():
        if not _fits(value, hints[key]):
            raise FormatError(f"the field {key!r} of a {name} has a wrong type")
    return found.kind(**decoded)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; arrays are checked later, for the whole model."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if origin is dict:
        return isinstance(value, dict)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if hint is float:
        return is_real(value)
    if hint is int:
        return is_integer(value)
    return isinstance(value, hint) if isinstance(hint, type) else value is None
