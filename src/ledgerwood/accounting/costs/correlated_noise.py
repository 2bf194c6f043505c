r"""Matrix mechanisms: correlated noise for running sums, trees and banded factorizations.

The values x_1, ..., x_n of n steps are released as B(Cx + z) with Gaussian noise z: whatever B is, it is
post-processing, so the cost is that of one Gaussian release of Cx. A record that takes part in several steps moves x
in all of them, and the sensitivity is the largest norm of a sum of columns of C over the patterns of participation that
are allowed.

Proofs: docs/theory/matrix-mechanisms.md.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import ratio_up, sqrt_up
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, compose, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, group_curve
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair

GRID = 2**16
"""Entries of C are rounded to multiples of 1/GRID; noise and sensitivity are those of the rounded C."""
LARGEST_ENTRY = 2**10
"""Largest entry of C."""
MOST_STEPS = 2**20
"""Most steps of a tree or of a banded Toeplitz matrix."""
MOST_COLUMNS = 2**12
"""Most columns of a matrix that is written out."""
MOST_WORK = 2**35
"""Most additions in the search for the worst pattern: about a minute."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class MatrixMechanism(Atom):
    r"""Gaussian noise of standard deviation ``sigma`` on Cx, for the values x of ``steps`` steps.

    ``matrix`` is C: a matrix, or ``"tree"`` (the sums of a binary tree over the steps), or the first column
    (c_0, c_1, …) of a banded lower triangular Toeplitz matrix. A record moves the value of a step that it takes part in
    by at most 1 (in L2 norm). It takes part in at most ``participations`` steps, any two of them at least
    ``min_separation`` steps apart.

    With ``rate`` the batches are *cyclic Poisson* samples (Choquette-Choo et al. 2023): the records are divided into
    ``min_separation`` groups without looking at the data, step t draws each record of group t mod min_separation with
    probability ``rate``, and the bands of C must be no wider than the number of groups. The cost is then that of
    ⌈steps / min_separation⌉ Poisson-sampled Gaussian releases.

    Entries are rounded to multiples of 2⁻¹⁶ first: add noise for the rounded matrix.

    >>> tree = MatrixMechanism("tree", steps=1000, sigma=5.0)
    >>> f"{tree.sensitivity**2:.1f} {tree.epsilon(delta=1e-6):.4f}"
    '10.0 2.9216'
    >>> banded = MatrixMechanism([1.0, 0.5, 0.25], steps=1000, sigma=5.0, min_separation=100, participations=10)
    >>> f"{banded.sensitivity:.4f}"
    '3.6228'
    """

    noise_parameter: ClassVar[str | None] = "sigma"
    noise_direction: ClassVar[int] = 1

    matrix: str | tuple[float, ...] | tuple[tuple[float, ...], ...]
    steps: int
    sigma: float
    participations: int
    min_separation: int
    rate: float | None
    neighbours: Neighbours

    def __init__(
        self,
        matrix: str | Sequence[float] | Sequence[Sequence[float]] | npt.ArrayLike,
        *,
        sigma: float,
        steps: int | None = None,
        participations: int = 1,
        min_separation: int = 1,
        rate: float | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        kept, count = _kept(matrix, steps)
        set_fields(
            self,
            neighbours,
            matrix=kept,
            steps=count,
            sigma=_checks.positive("sigma", sigma),
            participations=_checks.integer("participations", participations, 1),
            min_separation=_checks.integer("min_separation", min_separation, 1),
            rate=None if rate is None else _checks.probability("rate", rate),
        )
        if rate is not None:
            if self.neighbours is Neighbours.REPLACE_ONE:
                hint = "A replaced record is in the same group; price it as one removed and one added: .group(2)"
                raise ParameterError(
                    "neighbours", "be add_remove or zero_out for cyclic Poisson samples", neighbours, hint
                )
            if participations != 1:
                raise ParameterError("participations", "be left out with a rate: samples decide", participations)
            if bandwidth(kept, count) > self.min_separation:
                hint = "Noise of one step would meet a record's next one; no such reduction is known"
                rule = f"be at least the number of bands ({bandwidth(kept, count)})"
                raise ParameterError("min_separation", rule, min_separation, hint)
        _checks.non_negative("sensitivity/sigma", self.sensitivity / self.sigma)

    def parameters(self) -> dict[str, Any]:
        matrix = (
            self.matrix
            if isinstance(self.matrix, str)
            else [list(v) if isinstance(v, tuple) else v for v in self.matrix]
        )
        found: dict[str, Any] = {"matrix": matrix, "steps": self.steps, "sigma": self.sigma}
        if self.participations != 1:
            found["participations"] = self.participations
        if self.min_separation != 1:
            found["min_separation"] = self.min_separation
        return found if self.rate is None else found | {"rate": self.rate}

    @property
    def sensitivity(self) -> float:
        """How far one record moves Cx, in L2 norm, rounded up; of one step if batches are sampled."""
        return sqrt_up(Fraction(self._norm.square, _unit(self.matrix) ** 2))

    @property
    def exact(self) -> bool:
        """Whether some pattern attains the sensitivity; otherwise it is an upper bound."""
        return self._norm.exact

    @property
    def rounds(self) -> int:
        """How often a record of the first group may be sampled."""
        return -(-self.steps // self.min_separation)

    @property
    def _norm(self) -> SquaredNorm:
        times = 1 if self.rate is not None else self.participations
        return squared_sensitivity(self.matrix, self.steps, times, self.min_separation)

    @property
    def _release(self) -> Gaussian:
        """The Gaussian release of Cx."""
        return Gaussian(mu=ratio_up(self.sensitivity, self.sigma), neighbours=self.neighbours)

    @property
    def _sampled(self) -> Cost:
        """The rounds of sampled batches."""
        assert self.rate is not None
        unit = _unit(self.matrix)
        sizes, attained = round_norms(self.matrix, self.steps, self.min_separation)
        kind = PoissonSubsampled if attained else _BoundedRound
        parts = [
            (kind(Gaussian(mu=ratio_up(sqrt_up(Fraction(size, unit**2)), self.sigma), neighbours=self.neighbours),
                  rate=self.rate), n)
            for size, n in sizes
        ]  # fmt: skip
        return compose(parts, neighbours=self.neighbours)

    @property
    def _equal(self) -> Cost:
        """A cost that this one is equal to, or at most."""
        return self._release if self.rate is None else self._sampled

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        if self.rate is None and not self.exact:
            return () if self.is_free() else ((self, 1),)  # a Gaussian, but none whose lower end is attained
        return self._equal.priced_terms()

    def is_tight(self) -> bool:
        return False

    def pure_epsilon(self) -> float:
        return self._equal.pure_epsilon()

    def rho(self) -> float | None:
        return self._equal.rho()

    def mu(self) -> float | None:
        return self._equal.mu()

    def renyi(self, alpha: Array) -> Array:
        return self._equal.renyi(alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair

        mu = self.mu()
        return (GaussianPair(mu),) if mu else None

    def _group(self, k: int) -> Cost:
        if self.rate is None:
            return self._release.group(k)
        # The k records may be in different groups, which the same noise protects.
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


class _BoundedRound(PoissonSubsampled):
    """A sampled round whose sensitivity is only bounded: no mechanism attains it."""

    __slots__ = ()

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        return () if self.is_free() else ((self, 1),)

    def is_tight(self) -> bool:
        return False

    def lower_pairs(self) -> None:
        return None


def _kept(matrix: Any, steps: int | None) -> tuple[Any, int]:
    """The matrix as plain values on the grid, and the number of steps."""
    if isinstance(matrix, str):
        if matrix != "tree":
            raise ParameterError("matrix", "be 'tree', a matrix, or the first column of a banded one", matrix)
        return matrix, _checks.integer("steps", steps, 1, MOST_STEPS)
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0, 0))
    if array.ndim not in (1, 2) or array.size == 0 or not np.all(np.abs(array) <= LARGEST_ENTRY):
        rule = f"be a matrix or a column of numbers of at most {LARGEST_ENTRY}"
        raise ParameterError("matrix", rule, f"<shape {array.shape}>")
    if array.ndim == 2 and steps is not None and steps != array.shape[1]:
        raise ParameterError("steps", f"be the number of columns ({array.shape[1]}), or left out", steps)
    if array.ndim == 2 and max(array.shape) > MOST_COLUMNS:
        raise ParameterError("matrix", f"have at most {MOST_COLUMNS} rows and columns", f"<shape {array.shape}>")
    count = array.shape[1] if array.ndim == 2 else _checks.integer("steps", steps, 1, MOST_STEPS)
    rounded = (np.rint(array * GRID) / GRID).tolist()
    return (tuple(map(tuple, rounded)) if array.ndim == 2 else tuple(rounded[:count])), count


def _unit(matrix: Any) -> int:
    """What an entry 1 is in integers."""
    return 1 if matrix == "tree" else GRID


def grid_matrix(matrix: Any, steps: int) -> Integers:
    """The matrix times GRID, in integers; a tree's nodes are its rows, without a grid.

    >>> grid_matrix("tree", 3).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    """
    if matrix == "tree":
        rows = []
        width = 1
        while width <= steps:  # only whole nodes: every running sum is made of them
            rows += [np.arange(steps) // width == i for i in range(steps // width)]
            width *= 2
        return np.array(rows, dtype=np.int64)
    array = np.asarray(matrix)
    if array.ndim == 1:
        found = np.zeros((steps, steps))
        for lag, value in enumerate(array[:steps]):
            found += np.diag(np.full(steps - lag, value), -lag)
        array = found
    return np.asarray(np.rint(array * GRID), dtype=np.int64)


def bandwidth(matrix: Any, steps: int) -> int:
    """The least w such that columns w or more apart have no row in common."""
    if matrix == "tree":
        return steps
    if not isinstance(matrix[0], tuple):
        return max((lag + 1 for lag, value in enumerate(matrix[:steps]) if value), default=1)
    used = np.asarray(matrix) != 0
    spans = [int(np.ptp(np.flatnonzero(row))) + 1 for row in used if row.any()]
    return max(spans, default=1)


@dataclass(frozen=True, slots=True)
class SquaredNorm:
    """A squared L2 norm in units of the grid, and whether it is attained or only a bound."""

    square: int
    exact: bool


@lru_cache(maxsize=64)
def squared_sensitivity(matrix: Any, steps: int, participations: int, min_separation: int) -> SquaredNorm:
    r"""The largest squared L2 norm of a sum of columns, of either sign, that a record may take part in.

    Exact for one participation, for at most 2 × min_separation bands, and for Toeplitz columns that are non-negative
    and do not increase. Otherwise a bound: the sum of |⟨c_i, c_j⟩| over a pattern is at most the sum over its steps of
    the worst row.

    >>> squared_sensitivity(((1.0, 0.0), (1.0, 1.0)), 2, 2, 1).square / GRID**2
    5.0
    """
    times = min(participations, -(-steps // min_separation))
    if times == 1:
        return SquaredNorm(max(_column_norms(matrix, steps)), True)
    if _is_falling(matrix):
        return SquaredNorm(_of_falling(matrix, steps, times, min_separation), True)
    if matrix == "tree" and steps > MOST_COLUMNS:
        return SquaredNorm(times * times * steps.bit_length(), False)
    if steps > MOST_COLUMNS:
        raise ParameterError("steps", f"be at most {MOST_COLUMNS} for repeated participation with this matrix", steps)
    bands = bandwidth(matrix, steps)
    chain = bands <= 2 * min_separation
    as_many_as_fit = times == -(-steps // min_separation)
    if not chain and not as_many_as_fit and min_separation > 1 and steps * steps * times > MOST_WORK:
        hint = f"Or leave as many open as fit, {-(-steps // min_separation)}: that is found faster"
        raise ParameterError("participations", "be fewer for so many steps", participations, hint)
    gram = np.abs(_gram(grid_matrix(matrix, steps)))
    if times * times * int(gram.diagonal().max()) >= 2**62:
        raise ParameterError("matrix", "have smaller entries for so many steps", "<matrix>")
    if chain:
        return SquaredNorm(_chains(gram, times, min_separation, bands), True)
    return SquaredNorm(int(_most(_rows(gram, times, min_separation)[None, :], times, min_separation)[0]), False)


@lru_cache(maxsize=64)
def round_norms(matrix: Any, steps: int, groups: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """The squared norms of the columns that a record meets in its rounds, counted, and whether one group meets them.

    The m-th round of a record is step j + m·groups for its group j; the largest over j counts.
    """
    norms = _column_norms(matrix, steps)
    worst = [max(norms[start : start + groups]) for start in range(0, steps, groups)]
    counted = Counter(worst)
    if len(counted) > 2:  # one kind of release is priced much faster than many
        return ((max(worst), len(worst)),), False
    return tuple(sorted(counted.items())), worst == norms[::groups]


def _column_norms(matrix: Any, steps: int) -> list[int]:
    """The squared norm of every column, exactly; of a tree the largest of all."""
    if matrix == "tree":  # the first step is in a node of each width
        return [steps.bit_length()] * steps
    if not isinstance(matrix[0], tuple):
        squares = [round(value * GRID) ** 2 for value in matrix]
        sums = list(itertools.accumulate(squares))
        return [sums[min(steps - t, len(sums)) - 1] for t in range(steps)]
    return [sum(entry * entry for entry in column) for column in grid_matrix(matrix, steps).T.tolist()]


def _is_falling(matrix: Any) -> bool:
    """Whether this is a Toeplitz column that is non-negative and does not increase."""
    if matrix == "tree" or isinstance(matrix[0], tuple):
        return False
    return matrix[-1] >= 0 and all(a >= b for a, b in itertools.pairwise(matrix))


def _of_falling(matrix: Any, steps: int, times: int, apart: int) -> int:
    """The squared norm of the sum of the columns 0, b, 2b, …: no pattern of such a matrix has a larger one."""
    column = np.rint(np.array(matrix) * GRID).astype(np.int64)
    total = np.zeros(steps, dtype=np.int64)  # at most 2**20 entries of 2**26 each
    for start in range(0, min(times * apart, steps), apart):
        width = min(len(column), steps - start)
        total[start : start + width] += column[:width]
    return sum(entry * entry for entry in total.tolist())


def _gram(matrix: Integers) -> Integers:
    """The inner products of the columns, exactly: by floats, on two halves of the bits."""
    high, low = (matrix >> 13).astype(np.float64), (matrix & 8191).astype(np.float64)
    if float(np.max(np.abs(matrix))) ** 2 * len(matrix) >= 2**62:
        raise ParameterError("matrix", "have smaller entries for so many rows", "<matrix>")
    mixed = (high.T @ low).astype(np.int64)  # halves of at most 2**13: sums of 2**13 products stay below 2**53
    return ((high.T @ high).astype(np.int64) << 26) + ((mixed + mixed.T) << 13) + (low.T @ low).astype(np.int64)


def _chains(gram: Integers, times: int, apart: int, bands: int) -> int:
    """The largest sum over a pattern of gram[i, i] and, twice, of gram[i, j] of steps that follow each other."""
    size = len(gram)
    alone = gram.diagonal().copy()
    best = alone  # of the patterns that end in step j
    for _ in range(times - 1):
        longer = np.zeros(size, dtype=np.int64)
        free = max(bands, apart)  # from here on steps have no row in common
        if free < size:
            longer[free:] = np.maximum.accumulate(best)[: size - free]
        for lag in range(apart, min(bands, size)):
            with_row = best[: size - lag] + 2 * gram.diagonal(lag)
            longer[lag:] = np.maximum(longer[lag:], with_row)
        best = np.maximum(best, longer + alone)
    return int(best.max())


def _rows(gram: Integers, times: int, apart: int) -> Integers:
    """For each step, the largest sum of its row over patterns with it."""
    size = len(gram)
    steps = np.arange(size)
    others = np.where(np.abs(steps[:, None] - steps) < apart, 0, gram)
    block = max(1, 2**22 // size)
    found = [_most(others[i : i + block], times - 1, apart) for i in range(0, size, block)]
    return np.asarray(gram.diagonal() + np.concatenate(found))


def _most(weights: Integers, times: int, apart: int) -> Integers:
    """For each row, the largest sum of at most ``times`` weights, any two at least ``apart`` places from each other."""
    rows, size = weights.shape
    if apart == 1:
        top = min(times, size)
        return np.asarray(np.partition(weights, size - top, axis=1)[:, size - top :].sum(axis=1))
    if times >= -(-size // apart):  # the number does not bind
        best = np.zeros((size + 1, rows), dtype=np.int64)
        for j in range(size):
            best[j + 1] = np.maximum(best[j], best[max(j + 1 - apart, 0)] + weights[:, j])
        return np.asarray(best[-1])
    found = np.zeros((rows, size + 1), dtype=np.int64)  # found[:, j]: among the first j
    for _ in range(times):
        earlier = np.zeros((rows, size), dtype=np.int64)
        earlier[:, apart - 1 :] = found[:, : size - apart + 1]
        found[:, 1:] = np.maximum.accumulate(earlier + weights, axis=1)
    return np.asarray(found[:, -1])
