"""Compiled loops over CSV text: records, fields, their bytes and their numbers.

The grammar is that of RFC 4180, read so that nothing is an error: a field that begins with a quote ends at the next
quote that is not doubled, and what follows that quote up to the comma belongs to it too; a quote elsewhere is a
character like any other; records end at LF, CR or CR LF; lines without any character are not records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["copy_fields", "count_lines", "field_places", "plain_numbers", "record_ends"]

_QUOTE, _COMMA, _LF, _CR = 34, 44, 10, 13
_PLUS, _MINUS, _POINT, _ZERO, _NINE = 43, 45, 46, 48, 57
_EXACT, _LARGEST = 2**53, 2**58
_BEGIN, _PLAIN, _QUOTED, _CLOSED, _FIELD_END, _RECORD_END = range(6)


@njit(cache=True, nogil=True, inline="always")
def _next(state: int, c: int) -> int:
    """Return where a character leads: from the beginning of a field, inside one, inside quotes, or after them."""
    if state == _QUOTED:
        return _CLOSED if c == _QUOTE else _QUOTED
    if c == _COMMA:
        return _FIELD_END
    if c in (_LF, _CR):
        return _RECORD_END
    return _QUOTED if c == _QUOTE and state != _PLAIN else _PLAIN  # after a closing quote: a doubled one


@njit(cache=True, nogil=True)
def record_ends(data: Any, final: bool, most: int) -> tuple[int, int]:
    """Return how many records are complete, up to ``most``, and where the last of them ends.

    ``final``: nothing follows the data, so the last record needs no end of line.
    """
    state, records, line, at, size = _BEGIN, 0, 0, 0, len(data)
    while at < size and records < most:
        state = _next(state, data[at])
        if state == _FIELD_END:
            state = _BEGIN
        elif state == _RECORD_END:
            if data[at] == _CR and at + 1 == size and not final:
                break  # its LF may follow
            records += at > line
            at += data[at] == _CR and at + 1 < size and data[at + 1] == _LF
            line, state = at + 1, _BEGIN
        at += 1
    if final and line < size and records < most:
        return records + 1, size
    return records, line


@njit(cache=True, nogil=True)
def count_lines(data: Any) -> int:
    """Return how many lines with characters in them end at an LF: the records of text without quotes and CR."""
    lines = 0
    for at in range(1, len(data)):  # no state from one character to the next: compiled to vector instructions
        lines += (data[at] == _LF) & (data[at - 1] != _LF)
    return lines


@njit(cache=True, nogil=True)
def field_places(data: Any, starts: Any, stops: Any) -> None:
    """Write where each field of each record begins and stops, its quotes included.

    A record with too few fields has empty ones for the rest; of one with too many the surplus is left out.
    ``starts`` and ``stops`` are zero before, ``int64[columns, records]``.
    """
    columns = starts.shape[0]
    state, record, field, start, line, at, size = _BEGIN, 0, 0, 0, 0, 0, len(data)
    while at <= size:
        state = _next(state, data[at]) if at < size else _RECORD_END
        if state == _FIELD_END or (state == _RECORD_END and at > line):
            if field < columns:
                starts[field, record], stops[field, record] = start, at
            field += 1
            start = at + 1
        if state == _RECORD_END:
            if at > line:
                record, field = record + 1, 0
            if at + 1 < size and data[at] == _CR and data[at + 1] == _LF:
                at += 1
            start = line = at + 1
        if state in (_FIELD_END, _RECORD_END):
            state = _BEGIN
        at += 1


@njit(cache=True, nogil=True)
def copy_fields(data: Any, starts: Any, stops: Any, offsets: Any, out: Any) -> None:
    """Write the contents of fields one after the other, without their quotes, and where each begins."""
    size = 0
    for row in range(len(starts)):
        offsets[row] = size
        if starts[row] == stops[row] or data[starts[row]] != _QUOTE:
            for at in range(starts[row], stops[row]):
                out[size] = data[at]
                size += 1
            continue
        state = _BEGIN
        for at in range(starts[row], stops[row]):
            before, state = state, _next(state, data[at])
            if before != _BEGIN and state != _CLOSED:  # neither the opening quote nor one that closes
                out[size] = data[at]
                size += 1
    offsets[len(starts)] = size


@njit(cache=True, nogil=True)
def plain_numbers(data: Any, starts: Any, stops: Any, powers: Any, out: Any) -> Any:
    """Write the numbers of fields, nan for empty ones; return which fields were left out because they are not plain.

    Plain: an optional sign, digits with at most one point among them, of value up to 2**53 without the point and with
    at most 22 digits after it. Then digits and power of ten are floats without rounding, and their quotient is the
    nearest float to what the text says (Clinger 1990).
    """
    left = np.zeros(len(starts), dtype=np.bool_)
    for row in range(len(starts)):
        at, stop = starts[row], stops[row]
        if at == stop:
            out[row] = np.nan
            continue
        negative = data[at] == _MINUS
        at += negative or data[at] == _PLUS
        value, point, digits = 0, -1, 0
        while at < stop and value < _LARGEST:
            c = data[at]
            if _ZERO <= c <= _NINE:
                value, digits = 10 * value + (c - _ZERO), digits + 1
            elif c == _POINT and point < 0:
                point = digits
            else:
                break
            at += 1
        places = digits - point if point >= 0 else 0
        if at < stop or digits == 0 or value > _EXACT or places > 22:
            left[row] = True
        else:
            number = float(value) / powers[places]
            out[row] = -number if negative else number
    return left
