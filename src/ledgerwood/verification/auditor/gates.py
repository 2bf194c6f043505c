"""Fields that tell the inputs apart only where other fields say so.

A released tree is the example: which leaf holds the changed row depends on the thresholds released beside the leaves.
Boxes are grown one after the other. In each, one field is read through a ramp (``smoothing``): log-odds that are level
at both ends, where the input can be guessed. One-sided gates on other fields keep out the outputs on which that field
says nothing; a gate stands where right guesses part most sharply from wrong ones. Half of the rows propose gates, the
other half judges whether they help. In doubt gates and ends leave outputs out: where log-odds are level, the bound of a
million outputs loses less by a third of the guesses than by one in a thousand that is wrong and should not be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.certificate.counts import estimated_bound
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.scores import Memo
from ledgerwood.verification.auditor.smoothing import SURE, Ramp, ramp

__all__ = ["Gated"]

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]
Pair = tuple[int, int]

_MOST_FIELDS = 24
_MOST_BOXES = 10
_MOST_GATES = 6  # of one box
_TRIED = 3  # gates, the sharpest first, before a box is left as it is
_BINS = 8192  # of a field: where its gates may stand
_FEW_ROWS, _MOST_ROWS = 30_000, 600_000  # per input that boxes are learned from, at first and finely
_ALIKE = 2.5  # standard errors between log-odds that may well be the same
_BALANCED = 2.0  # and between those that speak for either input
_CAUTION = 5.0  # standard errors taken off the promise of guesses


@dataclass(frozen=True, slots=True)
class _Gate:
    """``field >= cut``, or not."""

    field: int
    cut: float
    above: bool

    def __call__(self, numbers: Floats) -> Rows:
        above: Rows = numbers[:, self.field] >= self.cut
        return above if self.above else ~above


@dataclass(frozen=True, slots=True)
class _Box:
    """A field, the log-odds along it, and the gates."""

    field: int
    odds: Ramp
    gates: tuple[_Gate, ...] = ()

    def holds(self, numbers: Floats) -> Rows:
        """Which rows pass all gates."""
        inside = np.ones(len(numbers), dtype=np.bool_)
        for gate in self.gates:
            inside &= gate(numbers)
        return inside

    def ends(self, numbers: Floats) -> tuple[Rows, Rows]:
        """The rows at the low and at the high end of the ramp."""
        inside, values = self.holds(numbers), numbers[:, self.field]
        return inside & (values <= self.odds.knots[0]), inside & (values >= self.odds.knots[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """The log-odds of the first box that holds the output; 0 outside all boxes."""

    boxes: tuple[_Box, ...]
    fine: bool = False
    balanced: bool = False  # both inputs are told as well: a guess reads both directions, an event one of them
    name: str = "gated fields"

    @classmethod
    def fit(cls, first: Encoded, second: Encoded, *, fine: bool = False) -> Gated | None:
        """Grow boxes on as many rows of either input; None if no field tells more behind a gate."""
        half = min(len(first), _MOST_ROWS if fine else _FEW_ROWS) // 2
        table, judge, whole = (
            _Table.of(first.part(a, b), second.part(a, b)) for a, b in ((0, half), (half, 2 * half), (0, 2 * half))
        )
        # a field that varies in all rows may not do so in half of them, and then another has its place there
        table = replace(table, edges={j: edges for j, edges in table.edges.items() if j in whole.edges})
        boxes: list[_Box] = []
        counts: list[tuple[Pair, Pair]] = []
        while len(boxes) < _MOST_BOXES and (box := _grow(table, judge)) is not None:
            if not boxes and not box.gates:
                return None
            box = whole.settled(box, careful=True)
            boxes.append(box)
            counts.append(whole.counts(box))
            table, judge, whole = (rows.without(box) for rows in (table, judge, whole))
        if not boxes:
            return None
        low, high = (_levels([ends[i] for ends in counts]) for i in (0, 1))
        levelled = (
            replace(box, odds=Ramp((box.odds.knots[0], box.odds.knots[-1]), (a, b)))
            for box, a, b in zip(boxes, low, high, strict=True)
        )
        balanced = _balanced([ends[0] for ends in counts] + [ends[1] for ends in counts], [*low, *high])
        return cls(tuple(levelled), fine, balanced)

    def __call__(self, encoded: Encoded) -> Floats:
        scores = np.zeros(len(encoded))
        for box in reversed(self.boxes):
            inside = box.holds(encoded.numbers)
            scores[inside] = np.nan_to_num(box.odds(encoded.numbers[inside, box.field]))
        return scores

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Gated:
        if self.fine:
            return self
        if id(self) not in memo:
            memo[id(self)] = Gated.fit(first, second, fine=True) or self
        relearned: Gated = memo[id(self)]
        return relearned


def _grow(table: _Table, judge: _Table) -> _Box | None:
    """The field that tells most, and gates as long as they help; None if no field tells anything."""
    box = table.telling()
    if box is None or (value := judge.promise(box)) <= 0.0:
        return None
    while len(box.gates) < _MOST_GATES:
        better = ((gated, judge.promise(gated)) for gated in table.gated(box))
        found = next(((gated, promised) for gated, promised in better if promised > value), None)
        if found is None:
            break
        box, value = found
    for gate in box.gates:  # one that later gates made superfluous
        fewer = table.read(box.field, tuple(other for other in box.gates if other is not gate))
        if (promised := judge.promise(fewer)) >= value:
            box, value = fewer, promised
    return box


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Rows of both inputs, and the bins of each field."""

    numbers: Floats
    own: Rows  # of the first input
    edges: dict[int, Floats]
    codes: dict[int, NDArray[np.uint16]]
    rows: int  # per input, before any box was taken out

    @classmethod
    def of(cls, first: Encoded, second: Encoded) -> _Table:
        numbers = np.concatenate([first.numbers, second.numbers])
        edges: dict[int, Floats] = {}
        levels = np.linspace(0, 1, _BINS)[1:-1]
        for j, column in enumerate(numbers.T):
            if len(edges) == _MOST_FIELDS:
                break
            finite = column[np.isfinite(column)]
            cuts = np.unique(np.quantile(finite, levels, method="nearest")) if finite.size else finite
            if cuts.size > 1:
                edges[j] = cuts
        # nan lies below every gate
        known = {j: np.where(np.isnan(numbers[:, j]), -np.inf, numbers[:, j]) for j in edges}
        codes = {j: np.searchsorted(edges[j], column, side="right").astype(np.uint16) for j, column in known.items()}
        return cls(numbers, np.arange(len(numbers)) < len(first), edges, codes, len(first))

    def without(self, box: _Box) -> _Table:
        """The rows outside a box."""
        rest = ~box.holds(self.numbers)
        codes = {j: codes[rest] for j, codes in self.codes.items()}
        return replace(self, numbers=self.numbers[rest], own=self.own[rest], codes=codes)

    def telling(self) -> _Box | None:
        """The field that promises most by itself."""
        boxes = [self.read(field) for field in self.edges]
        return max(boxes, key=self.promise) if boxes and len(self.own) else None

    def gated(self, box: _Box) -> Iterator[_Box]:
        """The box with one gate more, the sharpest few."""
        found = sorted((self._gate(box, field) for field in self.edges if field != box.field), key=lambda one: -one[0])
        for _, new in found[:_TRIED]:
            yield self.settled(replace(box, gates=(*box.gates, new)))

    def settled(self, box: _Box, *, careful: bool = False) -> _Box:
        """The box with each gate moved to where these rows want it while the others stand, and their ramp."""
        for i, gate in enumerate(box.gates):
            others = replace(box, gates=(*box.gates[:i], *box.gates[i + 1 :]))
            _, moved = self._gate(others, gate.field)
            gates = (*box.gates[:i], moved, *box.gates[i + 1 :])
            if moved.above == gate.above and self.promise(replace(box, gates=gates)) >= self.promise(box):
                box = replace(box, gates=gates)
        return self.read(box.field, box.gates, careful=careful)

    def promise(self, box: _Box) -> float:
        """Of guessing the input at the ends of the ramp."""
        right, wrong = (np.count_nonzero(rows) for rows in self._guesses(box))
        return float(estimated_bound(np.float64(right), np.float64(wrong), self.rows, 0.0, _CAUTION))  # type: ignore[arg-type]

    def counts(self, box: _Box) -> tuple[Pair, Pair]:
        """Rows of either input at the low and at the high end of the ramp."""
        low, high = (
            (int(np.count_nonzero(end & self.own)), int(np.count_nonzero(end & ~self.own)))
            for end in box.ends(self.numbers)
        )
        return low, high

    def read(self, field: int, gates: tuple[_Gate, ...] = (), *, careful: bool = False) -> _Box:
        """A box with the ramp that these rows have behind the gates."""
        box = _Box(field, Ramp((0.0,), (0.0,)), gates)
        inside, edges, codes = box.holds(self.numbers), self.edges[field], self.codes[field]
        c1, c2 = (
            np.bincount(codes[inside & side], minlength=edges.size + 1).astype(np.float64)
            for side in (self.own, ~self.own)
        )
        with np.errstate(over="ignore"):
            places = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
        return replace(box, odds=ramp(c1, c2, places, careful=careful))

    def _guesses(self, box: _Box) -> tuple[Rows, Rows]:
        """The rows whose input is guessed right, and those whose is guessed wrong."""
        second, first = box.ends(self.numbers)
        if box.odds.values[-1] < box.odds.values[0]:
            first, second = second, first
        return (first & self.own) | (second & ~self.own), (first & ~self.own) | (second & self.own)

    def _gate(self, box: _Box, field: int) -> tuple[float, _Gate]:
        """The gate with the largest likelihood ratio that one field offers, and before it the logarithm of that.

        Of places about as likely it takes the one that lets the least through: an output too many makes guesses wrong,
        one that is missed only makes them fewer.
        """
        edges, codes = self.edges[field], self.codes[field]
        right, wrong = (
            np.cumsum(np.bincount(codes[rows], minlength=edges.size + 1)).astype(np.float64)
            for rows in self._guesses(box)
        )
        r, w = right[:-1], wrong[:-1]
        gain = _likelihood(r, w) + _likelihood(right[-1] - r, wrong[-1] - w) - _likelihood(right[-1:], wrong[-1:])
        i = int(np.argmax(gain))
        above = bool(r[i] * (wrong[-1] - w[i]) < w[i] * (right[-1] - r[i]))
        likely = np.flatnonzero(gain >= gain[i] - SURE)
        return float(gain[i]), _Gate(field, float(edges[likely[-1] if above else likely[0]]), above)


def _levels(counts: list[Pair]) -> list[float]:
    """Log-odds of counts on either input: one value for all that may well have the same, in order of their signs."""
    odds = np.asarray([math.log((a + 0.5) / (b + 0.5)) for a, b in counts])
    error = np.asarray([math.sqrt(1.0 / (a + 0.5) + 1.0 / (b + 0.5)) for a, b in counts])
    for sign in (1.0, -1.0):
        alike = np.sign(odds) == sign
        for _ in range(2):
            if alike.any():
                shared = np.average(odds[alike], weights=error[alike] ** -2.0)
                alike = (np.sign(odds) == sign) & (np.abs(odds - shared) < _ALIKE * error)
        if alike.any():
            odds[alike] = shared
    return [float(value) for value in odds]


def _balanced(counts: Sequence[Pair], levels: Sequence[float]) -> bool:
    """Whether the largest level that speaks for either input may well be the same: by the counts that have it."""
    both = np.asarray(counts, dtype=np.float64)
    (first1, second1), (first2, second2) = (
        both[np.asarray(levels) == end].sum(axis=0) + 0.5 for end in (max(levels), min(levels))
    )
    difference = math.log(first1 / second1) - math.log(second2 / first2)
    return abs(difference) < _BALANCED * math.sqrt(1 / first1 + 1 / second1 + 1 / first2 + 1 / second2)


def _likelihood(right: Floats, wrong: Floats) -> Floats:
    """The largest log-likelihood of guesses that are all right with one probability."""
    from scipy.special import xlogy

    return np.asarray(xlogy(right, right) + xlogy(wrong, wrong) - xlogy(right + wrong, right + wrong), np.float64)
