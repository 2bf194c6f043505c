r"""Matrix mechanisms: correlated noise for running sums, trees and banded factorizations.

The values x_1, ..., x_n of n steps are released as B(Cx + z) with Gaussian noise z: whatever B is, it is
post-processing, so the cost is that of one Gaussian release of Cx. A record that takes part in several steps moves x
in all of them, and the sensitivity is the largest norm of a sum of columns of C over the patterns of participation that
are allowed.

Proofs: docs/theory/matrix-mechanisms.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import ratio_up, sqrt_up
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, group_curve
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair
from ledgerwood.errors import ParameterError

GRID = 2**16
"""Entries of C are rounded to multiples of 1/GRID; noise and sensitivity are those of the rounded C."""
LARGEST_ENTRY = 2**10
"""Largest entry of C: products of entries, summed, stay exact in 64 bits."""
MOST_STEPS = 2**13
"""Most steps whose matrix is written out."""

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
        times = 1 if self.rate is not None else self.participations
        return matrix_sensitivity(self.matrix, self.steps, times, self.min_separation)

    @property
    def rounds(self) -> int:
        """How often a record of the first group may be sampled."""
        return -(-self.steps // self.min_separation)

    @property
    def release(self) -> Gaussian:
        """The Gaussian release of Cx, or of one round of sampled batches."""
        return Gaussian(mu=ratio_up(self.sensitivity, self.sigma), neighbours=self.neighbours)

    @property
    def _equal(self) -> Cost:
        if self.rate is None or self.rate == 1.0:
            return self.release if self.rate is None else self.rounds * self.release
        return self.rounds * PoissonSubsampled(self.release, rate=self.rate)

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
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
        return self._equal.pairs()

    def _group(self, k: int) -> Cost:
        if self.rate is None:
            return self.release.group(k)
        # The k records may be in different groups, which the same noise protects.
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _kept(matrix: Any, steps: int | None) -> tuple[Any, int]:
    """The matrix as plain values on the grid, and the number of steps."""
    if isinstance(matrix, str):
        if matrix != "tree":
            raise ParameterError("matrix", "be 'tree', a matrix, or the first column of a banded one", matrix)
        return matrix, _checks.integer("steps", steps, 1)
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0, 0))
    if array.ndim not in (1, 2) or array.size == 0 or not np.all(np.abs(array) <= LARGEST_ENTRY):
        rule = f"be a matrix or a column of numbers of at most {LARGEST_ENTRY}"
        raise ParameterError("matrix", rule, f"<shape {array.shape}>")
    if array.ndim == 2 and steps is not None and steps != array.shape[1]:
        raise ParameterError("steps", f"be the number of columns ({array.shape[1]}), or left out", steps)
    count = array.shape[1] if array.ndim == 2 else _checks.integer("steps", steps, 1)
    if count > MOST_STEPS or array.shape[0] > MOST_STEPS:
        raise ParameterError("steps", f"be at most {MOST_STEPS} for a matrix of one's own", count)
    rounded = np.rint(array * GRID) / GRID
    return (tuple(map(tuple, rounded.tolist())) if array.ndim == 2 else tuple(rounded.tolist())), count


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


@lru_cache(maxsize=64)
def matrix_sensitivity(matrix: Any, steps: int, participations: int, min_separation: int) -> float:
    r"""The largest L2 norm of a sum of columns that a record may take part in, rounded up.

    Exact if C has no negative entry and at most 2 × min_separation bands, or for one participation. Otherwise a bound:
    the sum of |⟨c_i, c_j⟩| over a pattern is at most the sum over its steps of the worst row.

    >>> matrix_sensitivity(((1.0, 0.0), (1.0, 1.0)), 2, 2, 1) ** 2
    5.0...
    """
    times = min(participations, -(-steps // min_separation))
    if matrix == "tree" and (times == 1 or steps > MOST_STEPS):
        return times * sqrt_up(Fraction(steps.bit_length()))
    scale = 1 if matrix == "tree" else GRID
    integers = grid_matrix(matrix, steps)
    if float(np.max(np.abs(integers))) ** 2 * integers.shape[0] >= 2.0**62 / max(4 * times, 1) ** 2:
        raise ParameterError("matrix", "have smaller entries for so many steps", "<matrix>")
    gram = np.abs(integers.T @ integers)
    if times > 1 and bandwidth(matrix, steps) <= 2 * min_separation:
        best = _chains(gram, times, min_separation)
    else:
        best = _most(_rows(gram, times, min_separation), times, min_separation)
    return sqrt_up(Fraction(int(best), scale * scale))


def _chains(gram: Integers, times: int, apart: int) -> int:
    """The largest sum over a pattern of gram[i, i] and, twice, of gram[i, j] of steps that follow each other."""
    ends = np.diag(gram).copy()  # best pattern that ends in step j
    best = ends
    for _ in range(times - 1):
        longer = best.copy()
        for j in range(apart, len(gram)):
            before = best[: j - apart + 1] + 2 * gram[: j - apart + 1, j]
            longer[j] = max(int(longer[j]), int(before.max()) + int(ends[j]))
        best = longer
    return int(best.max())


def _rows(gram: Integers, times: int, apart: int) -> Integers:
    """For each step, the largest sum of its row over patterns with it."""
    found = []
    for i, row in enumerate(gram):
        others = row.copy()
        others[max(0, i - apart + 1) : i + apart] = 0
        found.append(int(row[i]) + (_most(others, times - 1, apart) if times > 1 else 0))
    return np.array(found, dtype=np.int64)


def _most(weights: Integers, times: int, apart: int) -> int:
    """The largest sum of at most ``times`` weights, any two at least ``apart`` places from each other."""
    best = np.zeros(len(weights) + 1, dtype=np.int64)  # best[j]: among the first j
    for _ in range(times):
        earlier = np.concatenate((np.zeros(min(apart, len(weights)), dtype=np.int64), best))[1 : len(weights) + 1]
        best = np.maximum.accumulate(np.concatenate(([0], earlier + weights)))
    return int(best[-1])
