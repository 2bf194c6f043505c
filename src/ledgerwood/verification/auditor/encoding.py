"""Turn outputs of any type into numbers: one row per output, one column per field.

Numbers and arrays go straight through; if some are integers and some are floats, the type is a second column. Labels
and strings become a 52-bit hash (equality is all that an atom needs) and a length, and texts that hardly repeat the
pieces of them that differ between the inputs. Anything else (tuples, mappings, models) is flattened into its fields, so
that a leak in one field of a serialized model is one column. Columns are fixed on the selection sample; a field seen
for the first time later is not lost: it changes the column ``fields``, a hash of the set of fields and their types.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._checks import is_bool
from ledgerwood.verification.auditor.tuning import LIMITS

__all__ = ["Encoded", "OutputEncoder", "Raised", "count_nans", "has_nan", "row_keys"]

Floats = NDArray[np.float64]
Outputs = Sequence[Any] | NDArray[Any]

_EXACT = 2**53  # larger integers are not all floats
_TAG = "\x01"  # begins the name of a type: part of the hash of all fields, not a column of its own
_NUMERIC = (bool, int, float, np.number, np.bool_, np.ndarray)


@dataclass(frozen=True, slots=True)
class Raised:
    """The output of a call that raised: the exception's type is what an observer sees."""

    kind: str


@dataclass(frozen=True, eq=False)
class Encoded:
    """Outputs as numbers: ``numbers[i, j]`` is field ``names[j]`` of output ``i``, nan where absent."""

    numbers: Floats
    names: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def part(self, start: int, stop: int) -> Encoded:
        """Rows ``start`` to ``stop``."""
        return Encoded(self.numbers[start:stop], self.names)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """A hash of each row."""
        return row_keys(self.numbers)

    @cached_property
    def distinct(self) -> tuple[Encoded, NDArray[np.intp]] | None:
        """The distinct rows and each row's place among them, if rows repeat often; None otherwise."""
        if np.unique(row_keys(self.numbers[:500])).size > 0.8 * min(500, len(self)):
            return None
        _, first, place = np.unique(self.keys, return_index=True, return_inverse=True)
        return (Encoded(self.numbers[first], self.names), place) if first.size < 0.5 * len(self) else None


@lru_cache(maxsize=65536)
def text_code(text: str) -> float:
    """A 52-bit hash of a text, exact as a float and the same in every process."""
    code = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return float(int.from_bytes(code, "big") >> 12)


def row_keys(numbers: Floats) -> NDArray[np.uint64]:
    """A 64-bit hash of each row's bits; every nan counts as one value, -0.0 and 0.0 as two."""
    from ledgerwood.verification.auditor._kernels import hash_rows

    numbers = np.ascontiguousarray(numbers)
    keys: NDArray[np.uint64] = hash_rows(numbers.view(np.uint64), numbers)
    return keys


@dataclass(frozen=True, slots=True)
class OutputEncoder:
    """Fixed columns; ``kind`` is "array" for numbers and numeric arrays, "typed" for numbers of several types,
    "fields" for everything else. ``pieces`` are those of texts that have a column.
    """

    kind: str
    names: tuple[str, ...]
    pieces: tuple[Piece, ...] = ()

    @classmethod
    def fit(cls, *samples: Outputs) -> OutputEncoder:
        """Choose the columns from samples of outputs."""
        arrays = [_as_array(sample) for sample in samples]
        if all(array is not None for array in arrays):
            widths = {array.shape[1] for array in arrays if array is not None}
            if len(widths) == 1:
                width = widths.pop()
                if width == 1 and len(set().union(*map(_types, samples))) > 1:
                    return cls("typed", ("y", "type of y"))
                return cls("array", ("y",) if width == 1 else tuple(f"y[{j}]" for j in range(width)))
        names: dict[str, None] = {}
        for sample in samples:
            for output in sample[:2000]:
                names.update(dict.fromkeys(dict(_fields(output))))
        ordered = [name for name in names if name != "fields" and not name.startswith(_TAG)]
        if len(ordered) >= LIMITS.most_columns:
            ordered = _informative([sample[: LIMITS.compared_outputs] for sample in samples], ordered)[
                : LIMITS.most_columns - 1
            ]
        pieces = _informative_pieces(samples)
        return cls("fields", (*ordered, *map(str, pieces), "fields"), pieces)

    def __call__(self, outputs: Outputs) -> Encoded:
        """Encode outputs with the columns that were fixed."""
        if self.kind == "array":
            return Encoded(_rows(outputs, len(self.names)), self.names)
        if self.kind == "typed":
            codes_of = {kind: _TYPE_CODES.get(_family(kind), 0.0) for kind in set(map(type, outputs))}
            codes = [codes_of[type(output)] for output in outputs]
            return Encoded(np.column_stack([_rows(outputs, 1), codes]), self.names)
        place = {name: j for j, name in enumerate(self.names)}
        numbers = np.full((len(outputs), len(self.names)), np.nan)
        rows: dict[Any, Floats] = {}
        for i, output in enumerate(outputs):
            known = _plain_key(output)
            if known is not None and known in rows:
                numbers[i] = rows[known]
                continue
            seen = dict(_fields(output))
            for name, value in seen.items():
                j = place.get(name)
                if j is not None:
                    numbers[i, j] = value
            if self.pieces:
                texts = dict(_texts(output))
                numbers[i, place[str(self.pieces[0])] : -1] = [piece.occurs(texts) for piece in self.pieces]
            numbers[i, -1] = text_code("\x00".join(sorted(seen)))
            if known is not None:
                rows[known] = numbers[i]
        return Encoded(numbers, self.names)


def _rows(outputs: Outputs, width: int) -> Floats:
    """Numbers or numeric arrays as rows; nan for an odd output among them."""
    array = _as_array(outputs)
    if array is not None and array.shape[1] == width:
        return array
    numbers = np.full((len(outputs), width), np.nan)
    for i, output in enumerate(outputs):
        row = _as_array([output])
        if row is not None and row.shape[1] == width:
            numbers[i] = row[0]
    return numbers


def _informative(samples: Sequence[Outputs], names: list[str]) -> list[str]:
    """Fields by how much they differ between samples, most first (the largest gap of their distribution functions)."""
    encoder = OutputEncoder("fields", (*names, "fields"))
    columns = [np.sort(np.nan_to_num(encoder(sample).numbers[:, :-1], nan=-math.inf), axis=0) for sample in samples]
    first, last = columns[0], columns[-1]
    gaps = []
    for j in range(len(names)):
        grid = np.concatenate([first[:, j], last[:, j]])
        shares = [np.searchsorted(side[:, j], grid, side="right") / len(side) for side in (first, last)]
        gaps.append(float(np.max(np.abs(shares[0] - shares[1]))))
    return [names[j] for j in np.argsort(-np.asarray(gaps), kind="stable")]


def _plain_key(output: Any) -> Any:
    """A key for a text, or a tuple of texts and whole numbers: equal keys have equal fields. None for the rest."""
    kind = type(output)
    if kind is str:
        return output
    if kind is tuple and all(type(item) in (str, int, bool) for item in output):
        return output, tuple(map(type, output))  # 1 == True
    return None


_TYPE_CODES = {"bool": 1.0, "int": 2.0, "float": 3.0}


def _family(kind: type) -> str:
    """What an observer calls the type of a number, "" for anything else."""
    if issubclass(kind, (bool, np.bool_)):
        return "bool"
    if issubclass(kind, (int, np.integer)):
        return "int"
    return "float" if issubclass(kind, (float, np.floating)) else ""


def _types(outputs: Outputs) -> set[str]:
    """Types of single outputs; an array of many has one type, whatever its outputs are."""
    return set() if isinstance(outputs, np.ndarray) else {_family(kind) for kind in set(map(type, outputs))} - {""}


@dataclass(frozen=True, slots=True)
class Piece:
    """Letters that occur in a text of the output: anywhere, or at one place."""

    path: str
    letters: str
    place: int | None = None

    def __str__(self) -> str:
        where = f"in {self.path}" if self.place is None else f"at {self.path}[{self.place}]"
        return f"{self.letters!r} {where}"

    def occurs(self, texts: Mapping[str, str]) -> float:
        """1 or 0; nan if there is no such text."""
        text = texts.get(self.path)
        if text is None:
            return math.nan
        return float(self.letters in text if self.place is None else text.startswith(self.letters, self.place))


def _informative_pieces(samples: Sequence[Outputs]) -> tuple[Piece, ...]:
    """The pieces whose frequencies differ most between the first sample and the last, of texts that hardly repeat."""
    sides = [[dict(_texts(output)) for output in samples[i][: LIMITS.text_rows]] for i in (0, -1)]
    paths = list(dict.fromkeys(path for side in sides for texts in side for path in texts))[:8]
    found: list[tuple[float, Piece]] = []
    for path in paths:
        words = [[texts[path] for texts in side if path in texts] for side in sides]
        if not all(words) or len(set(words[0] + words[1])) <= 0.5 * (len(words[0]) + len(words[1])):
            continue  # labels: their own frequencies say it all
        first, second = (Counter(piece for word in side for piece in _pieces(path, word)) for side in words)
        n1, n2 = map(len, words)
        for piece in first.keys() | second.keys():
            a, b = first[piece] / n1, second[piece] / n2
            gap = abs(a - b) / math.sqrt((a + 1 / n1) / n1 + (b + 1 / n2) / n2)
            if gap > LIMITS.text_z:
                found.append((gap, piece))
    found.sort(key=lambda each: (-each[0], len(each[1].letters), str(each[1])))
    return tuple(piece for _, piece in found[: LIMITS.text_pieces])


def _pieces(path: str, text: str) -> set[Piece]:
    text = text[: LIMITS.text_letters]
    anywhere = {Piece(path, text[j : j + n]) for n in (1, 2, 3, 4) for j in range(len(text) - n + 1)}
    return anywhere | {Piece(path, letter, j) for j, letter in enumerate(text[:64])}


def _texts(output: Any, path: str = "y", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The texts among the fields of an output."""
    if isinstance(output, (str, bytes)):
        yield path, _text(output)
    elif isinstance(output, Mapping) and depth < 4:
        for key, value in output.items():
            yield from _texts(value, f"{path}.{key}", depth + 1)
    elif isinstance(output, (list, tuple)) and depth < 4:
        for j, value in enumerate(output[:50]):
            yield from _texts(value, f"{path}[{j}]", depth + 1)


def _text(output: str | bytes) -> str:
    return output.decode("latin-1") if isinstance(output, bytes) else str(output)


def _as_array(outputs: Outputs) -> Floats | None:
    """Outputs as a float matrix, if every one is a number or a numeric array of one shape."""
    if isinstance(outputs, np.ma.MaskedArray):
        return None
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        array = outputs
    else:
        # Of all outputs, not of one: an output is read alike whatever comes with it, or counts would not be binomial.
        kinds = set(map(type, outputs))
        if not all(issubclass(kind, _NUMERIC) and not issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            return None
        try:
            array = np.asarray(list(outputs))
        except (ValueError, TypeError, OverflowError):
            return None
        if array.dtype.kind not in "biuf":
            return None
    if _merged_by_floats(array, outputs):
        return None
    return np.ascontiguousarray(array.reshape(len(array), -1), dtype=np.float64)


def _merged_by_floats(array: NDArray[Any], outputs: Outputs) -> bool:
    """Whether different numbers become one float: integers beyond 2**53, or floats of more than 64 bits."""
    if array.dtype.kind == "b" or not array.size:
        return False
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return True
    with np.errstate(invalid="ignore", over="ignore"):  # 2**53 is not a half float
        large = bool(np.any(array >= _EXACT) or np.any(array <= -_EXACT))  # 2**53 + 1 may be rounded to it by now
    return large and (array.dtype.kind in "iu" or any(map(_is_whole, outputs)))


def _is_whole(output: Any) -> bool:
    kind = output.dtype.kind if isinstance(output, np.ndarray) else ""
    return isinstance(output, (int, np.integer)) or kind in ("i", "u")


def _fields(output: Any, path: str = "y", depth: int = 0) -> Iterator[tuple[str, float]]:
    """The fields of one output as (path, number) pairs."""
    if isinstance(output, Enum):
        yield f"{path}.text", text_code(output.name)
    elif isinstance(output, (complex, np.complexfloating)):
        yield f"{path}.real", float(output.real)
        yield f"{path}.imag", float(output.imag)
    elif isinstance(output, np.timedelta64):  # a number to numpy, but "not a time" is none
        yield from _fields(output.item(), path, depth + 1)
    elif is_bool(output) or isinstance(output, (int, float, np.number, Decimal, Fraction)):
        output = int(output) if isinstance(output, np.integer) else output  # numpy would compare it as a float
        number = _number(output)
        yield path, number
        if (kind := _family(type(output)) or type(output).__name__) != "float":
            yield f"{_TAG}{kind} {path}", 1.0
        if not math.isnan(number) and number != output:  # floats would merge it with others
            yield f"{path}.text", text_code(_exact_text(output))
            if isinstance(output, int):
                yield f"{path} mod 2**32", float(output % 2**32)
    elif isinstance(output, (date, time, timedelta)):
        yield path, _moment(output)
        yield f"{path}.text", text_code(repr(output))
    elif isinstance(output, Raised):
        yield "raised", text_code(output.kind)
    elif output is None:
        yield f"{path}.none", 1.0
    elif isinstance(output, (str, np.str_, bytes)):
        text = _text(output)
        yield f"{path}.text", text_code(text)
        yield f"{path}.length", float(len(text))
        if isinstance(output, bytes):
            yield f"{_TAG}bytes {path}", 1.0
    elif isinstance(output, (bytearray, memoryview)):
        yield from _fields(bytes(output), path, depth + 1)
    elif depth > 12:
        yield f"{path}.text", text_code(_described(output))
    elif isinstance(output, np.ma.MaskedArray):
        yield from _fields(output.tolist(), path, depth + 1)  # None where it is masked
    elif isinstance(output, np.ndarray):
        yield f"{path}.size", float(output.size)
        if output.dtype.kind in "biuf" and not _merged_by_floats(output, ()):  # as below, and faster
            kind = _family(output.dtype.type)
            if kind != "float":
                yield f"{_TAG}{kind} {path}", 1.0
            items = output.ravel()[: LIMITS.most_items].astype(np.float64).tolist()
            yield from ((f"{path}[{j}]", value) for j, value in enumerate(items))
            if output.size > LIMITS.most_items:
                yield f"{path}.rest", text_code(repr(output.ravel()[LIMITS.most_items :].tolist()))
            return
        for j, value in enumerate(output.ravel()[: LIMITS.most_items].tolist()):
            yield from _fields(value, f"{path}[{j}]", depth + 1)
        if output.size > LIMITS.most_items:
            yield f"{path}.rest", text_code(repr(output.ravel()[LIMITS.most_items :].tolist()))
    elif isinstance(output, Mapping):
        for key in sorted(output, key=str):
            yield from _fields(output[key], f"{path}.{key}", depth + 1)
    elif isinstance(output, (list, tuple)):
        yield f"{path}.length", float(len(output))
        if isinstance(output, tuple):
            yield f"{_TAG}tuple {path}", 1.0
        for j, value in enumerate(output[: LIMITS.most_items]):
            yield from _fields(value, f"{path}[{j}]", depth + 1)
        if len(output) > LIMITS.most_items:
            yield f"{path}.rest", text_code(repr(output[LIMITS.most_items :]))
    elif isinstance(output, (set, frozenset)):
        yield f"{path}.length", float(len(output))
        ordered = sorted(output, key=lambda value: (type(value).__name__, _order(value), _exact_text(value)))
        for j, value in enumerate(ordered[: LIMITS.most_items]):
            yield from _fields(value, f"{path}{{{j}}}", depth + 1)
    else:
        yield from _fields(_serialised(output), path, depth + 1)


def has_nan(output: Any, depth: int = 0) -> bool:
    """Whether an output is nan or has nan among its fields.

    >>> has_nan({"count": 3, "mean": [0.5, float("nan")]}), has_nan({"count": 3})
    (True, False)
    """
    if isinstance(output, (float, np.floating)):
        return bool(output != output)
    if isinstance(output, (int, str, bytes, np.integer)) or output is None or depth > 12:
        return False
    if isinstance(output, np.ndarray) and output.dtype.kind in "biufc":
        return bool(np.isnan(output).any())
    if isinstance(output, (list, tuple)):
        return any(has_nan(item, depth + 1) for item in output)
    if isinstance(output, Mapping):
        return any(has_nan(item, depth + 1) for item in output.values())
    return any(math.isnan(value) for _, value in _fields(output))


def count_nans(outputs: Outputs) -> int:
    """Outputs that are nan, or have nan among their fields."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biufc":
        if outputs.dtype.kind not in "fc":
            return 0
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isnan(np.sum(outputs)):  # inf - inf is nan too: then look closer
                return 0
        return int(np.count_nonzero(np.isnan(outputs.reshape(len(outputs), -1)).any(axis=1)))
    return sum(map(has_nan, outputs))


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats
        return math.inf if value > 0 else -math.inf
    except (ValueError, TypeError):  # a complex number, a signalling decimal
        return math.nan


def _exact_text(value: Any) -> str:
    """A text that tells values apart; integers in hexadecimal, because Python refuses to write long decimals."""
    if isinstance(value, Fraction):
        return f"{value.numerator:x}/{value.denominator:x}"
    return f"{value:x}" if isinstance(value, int) else str(value)


def _order(value: Any) -> float:
    """Numbers of a set by size, the rest by their text alone."""
    return _number(value) if isinstance(value, (int, float, np.number, Decimal, Fraction)) else 0.0


def _moment(value: date | time | timedelta) -> float:
    """Days since the year 1, or seconds of a time or a duration."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    seconds = 0.0
    if isinstance(value, (datetime, time)):
        seconds = 3600.0 * value.hour + 60.0 * value.minute + value.second + 1e-6 * value.microsecond
    return value.toordinal() + seconds / 86400.0 if isinstance(value, date) else seconds


def _serialised(model: Any) -> Any:
    """What a model would save: XGBoost's JSON, ``to_json``, ``to_dict``, dataclass fields, or its attributes."""
    booster = getattr(model, "get_booster", None)
    if callable(booster):
        model = booster()
    raw = getattr(model, "save_raw", None)
    if callable(raw):
        return json.loads(bytes(raw("json")))
    to_json = getattr(model, "to_json", None)
    if callable(to_json):
        text = to_json()
        return json.loads(text) if isinstance(text, str) else text
    to_dict = getattr(model, "to_dict", None)
    if callable(to_dict):
        return to_dict()
    if dataclasses.is_dataclass(model) and not isinstance(model, type):
        return {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    state = None if isinstance(model, type) else getattr(model, "__getstate__", lambda: None)()
    if isinstance(state, tuple):
        state = [part for part in state if part is not None]
    if isinstance(state, (Mapping, list)) and state:
        return state
    return _described(model)


def _described(output: Any) -> str:
    """The text that Python shows, without addresses in memory, which tell nothing and change from run to run."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(output))
