"""Neighbouring inputs that tend to expose a flaw, from what the schema declares.

A schema is a mapping of public metadata, in one of three forms:

``{"queries": k, "sensitivity": 1.0, "moves": "each", "thresholds": [...]}``
    The input is a vector of ``k`` query answers; neighbours move each answer (or only ``"one"``) by at most the
    sensitivity. Answers start at the thresholds, where a comparison is undecided.
``{"columns": [(low, high), ...], "rows": n, "relation": "add_remove", "thresholds": [...], "edges": [[...], ...]}``
    The input is a table, an array of rows; neighbours differ by one row (``"replace_one"``: in one row). ``thresholds``
    are the counts at which the mechanism changes its mind (a least leaf size), ``edges`` the bin edges and clip bounds
    of each column.
``{"values": [...]}``
    The input is one value; any two are neighbours (a local mechanism).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate.bound import lower_bound
from ledgerwood.verification.auditor.certificate.hypotheses import ClaimedProfile
from ledgerwood.verification.auditor.choice import Candidate, choose, propose
from ledgerwood.verification.auditor.encoding import OutputEncoder
from ledgerwood.verification.auditor.sampling import Draws, InputPair
from ledgerwood.verification.auditor.tuning import LIMITS, TUNING

__all__ = ["candidate_pairs", "refine", "search_pair"]


Floats = NDArray[np.float64]

_KEYS = {
    "queries": ("queries", "sensitivity", "moves", "thresholds"),
    "columns": ("columns", "rows", "relation", "thresholds", "edges"),
    "values": ("values",),
}

_FAR = 1e6  # stands for an infinite bound

_SURE = 0.9999  # confidence of a trial that leaves no doubt

_TRIAL_STREAM = 10  # first stream of random numbers of the search


def candidate_pairs(schema: Mapping[str, Any]) -> list[InputPair]:
    """Pairs to try first, the likeliest to expose a flaw first.

    >>> [pair.origin for pair in candidate_pairs({"queries": 2})][:3]
    ['one above at 1', 'one below at 1', 'one above, rest below at 1']
    """
    form = _check_schema(schema)
    if form == "queries":
        pairs = list(_query_pairs(schema))
    elif form == "columns":
        pairs = list(_table_pairs(schema))
    else:
        pairs = [InputPair(a, b, f"{a!r} for {b!r}") for a, b in itertools.combinations(schema["values"], 2)]
    return pairs[: LIMITS.most_pairs]


def _check_schema(schema: Any) -> str:
    """Which of the three forms a schema has; a key that it does not know is refused, not ignored."""
    if not isinstance(schema, Mapping):
        raise ParameterError("schema", "be a mapping of public metadata", schema)
    form = next((form for form in _KEYS if form in schema), None)
    if form is None:
        raise ParameterError("schema", 'declare "queries", "columns" or "values"', sorted(map(str, schema)))
    unknown = sorted(str(key) for key in schema if key not in _KEYS[form])
    if unknown:
        raise ParameterError("schema", f"declare {', '.join(_KEYS[form])} and nothing else", unknown)
    for key, allowed in (("moves", ("each", "one")), ("relation", ("add_remove", "replace_one"))):
        if schema.get(key, allowed[0]) not in allowed:
            raise ParameterError("schema", f"have {key} {allowed[0]!r} or {allowed[1]!r}", schema[key])
    if form == "values" and len(schema["values"]) < 2:
        raise ParameterError("schema", "have at least two values", schema["values"])
    if not isinstance(schema.get("thresholds", ()), Iterable):
        raise ParameterError("schema", "have a list of thresholds", schema["thresholds"])
    if form == "columns":
        if not len(schema["columns"]):
            raise ParameterError("schema", "have at least one column", schema["columns"])
        if int(schema.get("rows", 1)) < 1:
            raise ParameterError("schema", "have at least one row", schema["rows"])
        if len(schema.get("edges", schema["columns"])) != len(schema["columns"]):
            raise ParameterError("schema", "have one list of edges per column", schema["edges"])
        if any(int(count) < 1 for count in schema.get("thresholds", ())):
            raise ParameterError("schema", "have thresholds of at least one row", schema["thresholds"])
    return form


def _query_pairs(schema: Mapping[str, Any]) -> Iterator[InputPair]:
    k, step = int(schema["queries"]), float(schema.get("sensitivity", 1.0))
    if k < 1 or not 0 < step < math.inf:
        raise ParameterError("schema", "have queries >= 1 and a positive sensitivity", dict(schema))
    half = np.where(np.arange(k) < (k + 1) // 2, 1.0, -1.0)
    first = np.where(np.arange(k) == 0, 1.0, 0.0)
    last = first[::-1]
    moves = {"one above": first, "one below": -first}
    if schema.get("moves", "each") == "each" and k > 1:
        moves |= {
            "one above, rest below": 2 * first - 1,
            "one below, rest above": 1 - 2 * first,
            "last above, rest below": 2 * last - 1,
            "last below, rest above": 1 - 2 * last,
            "half above, half below": half,
            "half below, half above": -half,
            "all above": np.ones(k),
            "all below": -np.ones(k),
        }
    levels = [1.0, *(float(t) for t in schema.get("thresholds", ())), 0.0]
    for level in dict.fromkeys(levels):
        base = np.full(k, level)
        for name, move in moves.items():
            yield InputPair(base, base + step * move, f"{name} at {level:g}")
        if schema.get("moves", "each") == "each" and k > 1:
            up = base + step * (half > 0)
            yield InputPair(up, base + step * (half < 0), f"crossed halves at {level:g}")
            yield InputPair(base + step * first, base + step * (1 - first), f"crossed one at {level:g}")


def _table_pairs(schema: Mapping[str, Any]) -> Iterator[InputPair]:
    bounds = [(_near(float(low)), _near(float(high))) for low, high in schema["columns"]]
    if any(low > high for low, high in bounds):
        raise ParameterError("schema", "have columns as (low, high) with low <= high", schema["columns"])
    replace = schema.get("relation", "add_remove") == "replace_one"
    rows = int(schema.get("rows", 20))
    low, high = (np.asarray(side, dtype=np.float64) for side in zip(*bounds))
    middle = (low + high) / 2
    corners = list(dict.fromkeys(map(tuple, (high, low, *_mixed_corners(low, high)))))

    def pair(table: Floats, changed: Floats, origin: str) -> InputPair:
        """``table`` with one more row, against it without the row (or with another row in its place)."""
        more = np.vstack([changed[None, :], table])
        if replace:
            other = low if np.any(changed != low) else high
            return InputPair(more, np.vstack([other[None, :], table]), origin)
        return InputPair(more, table, origin)

    for count in dict.fromkeys(int(t) for t in schema.get("thresholds", ())):
        for each in (count, count + 1):
            both = np.vstack([np.tile(low, (each - 1, 1)), np.tile(high, (each, 1))])
            yield pair(both, low, f"exactly {each} rows at each end")
            yield pair(np.tile(low, (each - 1, 1)), low, f"exactly {each} equal rows")
    half = np.vstack([np.tile(low, (rows // 2, 1)), np.tile(high, (rows - rows // 2, 1))])
    for name, table in (
        ("empty", np.empty((0, low.size))),
        ("half at each end", half),
        ("all at the middle", np.tile(middle, (rows, 1))),
        ("evenly spread", np.linspace(low, middle, rows)),
    ):
        for corner in corners:
            yield pair(table, np.asarray(corner), f"{name}, and a row at {np.round(corner, 6).tolist()}")
    for j, edges in enumerate(schema.get("edges", ())):
        for edge in edges:
            row = middle.copy()
            row[j] = edge
            yield pair(half, row, f"half at each end, and a row at the edge {edge:g} of column {j}")


def _mixed_corners(low: Floats, high: Floats) -> Sequence[Floats]:
    """Corners in which one column disagrees with the others."""
    mixed = []
    for j in range(min(low.size, 4)):
        corner = high.copy()
        corner[j] = low[j]
        mixed.append(corner)
    return mixed


def _near(bound: float) -> float:
    return math.copysign(_FAR, bound) if math.isinf(bound) else bound


def refine(pair: InputPair, schema: Mapping[str, Any]) -> list[InputPair]:
    """Variations of a promising pair: other levels for queries, more or fewer background rows for tables."""
    if "queries" in schema:
        step = float(schema.get("sensitivity", 1.0))
        shifts = [-5.0, -1.0, 1.0, 5.0, 20.0]
        return [
            InputPair(pair.first + shift * step, pair.second + shift * step, f"{pair.origin}, shifted by {shift:g}")
            for shift in shifts
        ] + [InputPair(10 * pair.first, 10 * pair.first + (pair.second - pair.first), f"{pair.origin}, apart")]
    if "columns" in schema and len(pair.second):
        fewer = max(1, len(pair.second) // 2)
        removed = len(pair.first) - fewer
        halved = InputPair(pair.first[: fewer + 1], pair.second[:fewer], f"{pair.origin}, fewer rows")
        doubled = InputPair(
            np.vstack([pair.first, pair.second]), np.vstack([pair.second, pair.second]), f"{pair.origin}, twice"
        )
        return [doubled] if removed < 1 or len(pair.first) == len(pair.second) else [halved, doubled]
    return []


def search_pair(
    draws: Draws, pairs: list[InputPair], schema: Mapping[str, Any], claim: ClaimedProfile, total: int
) -> tuple[int, int, int]:
    """The place of the most promising pair, the outputs per input spent on finding it, and the pairs tried.

    Successive halving: every pair gets a few outputs, the best quarter and variations of the two best get four times as
    many, until one is left, one is beyond doubt, or a third of the outputs is spent. If that third is too
    little for all of them, the last ones are not tried. ``pairs`` and the inputs of ``draws`` grow by the variations.
    """
    count = max(LIMITS.least_trial_rows, min(TUNING.trial_rows, total // (6 * len(pairs))))
    alive = list(range(min(len(pairs), max(1, total // (3 * count)))))
    spent, stream = 0, _TRIAL_STREAM
    tried: set[int] = set()
    while True:
        scored: dict[int, float] = {}
        for i in alive:
            tried.add(i)
            best = _best(draws, i, count, stream, claim, fresh=max(count, total // 2))
            scored[i] = -math.inf if best is None else best.value
            spent += count
            if best is not None and _beyond_doubt(best, claim):
                return i, spent, len(tried)
        alive.sort(key=lambda i: scored[i], reverse=True)
        survivors = alive[: max(1, len(alive) // 4)]
        if stream == _TRIAL_STREAM:
            known = len(pairs)
            pairs.extend(new for i in alive[:2] for new in refine(pairs[i], schema))
            draws.inputs.extend(data for pair in pairs[known:] for data in (pair.first, pair.second))
            survivors += range(known, len(pairs))
        count, stream = 4 * count, stream + 1
        alive = survivors[: (total // 3 - spent) // count]
        if len(alive) <= 1:
            return survivors[0], spent, len(tried)


def _best(draws: Draws, which: int, count: int, stream: int, claim: ClaimedProfile, fresh: int) -> Candidate | None:
    """The most promising event of a pair.

    ``fresh`` outputs per input will certify the pair that is chosen. A trial has far fewer, and need not convince by
    itself.
    """
    samples = [draws.draw(2 * which + side, count, stream) for side in (0, 1)]
    encoder = OutputEncoder.fit(*samples)
    first, second = (encoder(outputs) for outputs in samples)
    candidates = choose(propose(first, second, classifiers=False), first, second, claim.estimated_bound, fresh=fresh)
    return candidates[0] if candidates else None


def _beyond_doubt(best: Candidate, claim: ClaimedProfile) -> bool:
    """Whether a pair is so informative that searching on is a waste: no trial of this size can certify much more."""
    if claim.is_profile:
        return best.bound > TUNING.plain_violation  # standard errors
    hypothesis = claim.points[0]
    most = lower_bound(best.rows, 0, best.rows, confidence=_SURE)
    enough = max(2.0 * hypothesis.claimed, most - 0.2)
    return lower_bound(best.hits1, best.hits2, best.rows, null=hypothesis.null, confidence=_SURE) > enough
