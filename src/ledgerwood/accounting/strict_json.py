"""JSON as the standard has it: what Python's reader adds to it, or lets pass, is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from ledgerwood.errors import FormatError

__all__ = ["MOST_LEVELS", "read"]

MOST_LEVELS = 100
"""How deep lists and objects may lie in each other: what walks through them may be recursive."""


def read(text: str | bytes) -> Any:
    """Return the value of a JSON text. Everything that is wrong with a text is a ``FormatError``.

    Refused are, besides what is no JSON: ``NaN`` and ``Infinity``, numbers beyond the range of floats, integers of
    more digits than Python converts (4300), an object that has a name twice, and more than ``MOST_LEVELS`` levels.

    >>> read('{"epsilon": 1.0}')
    {'epsilon': 1.0}
    >>> read('{"epsilon": 1.0, "epsilon": 9.0}')
    Traceback (most recent call last):
    ...
    ledgerwood.errors.FormatError: not JSON: the name 'epsilon' occurs twice in an object
    """
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_no_number, object_pairs_hook=_object)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from None
    _check_levels(value)
    return value


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise FormatError(f"not JSON: {text[:40]} is no finite number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"not JSON: the name {twice[:40]!r} occurs twice in an object")
    return found


def _check_levels(value: Any) -> None:
    level = _nested([value])
    for _ in range(MOST_LEVELS):
        level = _nested(inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        if not level:
            return
    raise FormatError(f"not JSON that this library reads: more than {MOST_LEVELS} levels")


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]
