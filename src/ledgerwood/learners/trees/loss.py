r"""Losses as integer gradients, and the sizes that privacy needs of them.

Each loss is a :class:`~.aggregator.Task`: integer tables and integer arithmetic. The tables are
finite, so the sensitivities below are not estimates: they are maxima over the entries that a score within the public
bound :math:`|F| \le B` can reach (``docs/theory/tree-sensitivities.md`` has the proofs for the continuous losses).

A record contributes the pair :math:`(g, \kappa h)`. For the logistic loss :math:`\|(g, \kappa h)\| \le 1` for every
:math:`\kappa \le \varphi^{5/2}`, so that the hessian is released at no extra cost; for softmax
:math:`\sqrt 2` for :math:`\kappa \le 2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees.aggregator import (
    ONE,
    SCORE_BITS,
    TABLE_HALF,
    TABLE_SHIFT,
    TABLE_SIZE,
    Channel,
    Task,
    exp_table,
)

__all__ = ["KAPPA_LOGISTIC", "KAPPA_SOFTMAX", "LossName", "TreeLoss", "make_loss"]

LossName: TypeAlias = Literal["logistic", "squared", "hinge", "softmax"]

KAPPA_LOGISTIC = Fraction(3491958, 2**20)
"""phi**(5/2) = 3.33019..., rounded down to a multiple of 2**-20."""
KAPPA_LOGISTIC_REPLACE = Fraction(5209235, 2**20)
"""Largest kappa with replace-one sensitivity 2, sqrt((2 + s) / ((2 - s)(s - 1)^2)) at s = sqrt(7) - 1: 4.9677..."""
KAPPA_SOFTMAX = Fraction(2)
TYPICAL_WEIGHT = 0.5
"""The leaf weight for which the noise of gradients and hessians is balanced."""
_PARTS = 8
"""The hessian counts a multiple of 1/8 of what it would where scores are not bounded."""
KAPPA_COUNT = Fraction(1, 4)
"""Weight of a count beside gradients of size 1: it makes the noise of the gradients 3 % larger."""


@dataclass(frozen=True)
class TreeLoss:
    """A loss, its integer task, and the size of what one record can contribute.

    Parameters
    ----------
    name
        Which loss.
    n_outputs
        1, or the number of classes.
    kappa
        The factor of the hessian in what is released.
    task
        The integer definition of the pairs.
    """

    name: LossName
    n_outputs: int
    kappa: Fraction
    task: Task

    # ---- what one record can do, in grid units, for scores with |F| <= bound (in steps of 2**-16)

    def gradient_square(self, bound: int) -> int:
        """Return the largest squared norm of a record's gradient."""
        match self.name:
            case "softmax":
                u = ONE - self._least_probability(bound)
                return min(2 * u * u, self.task.norm**2 or 2 * u * u)
            case "squared":
                return self._residual(bound) ** 2
        return int(self._reach[0][self._place(bound)])

    def hessian_sum(self, bound: int) -> int:
        """Return the largest sum of a record's hessians over the outputs."""
        match self.name:
            case "softmax":
                most = math.floor(self.kappa * ONE)  # the sum of p (1 - p) is at most 1
                norm = self.task.norm * (math.isqrt(self.n_outputs - 1) + 1)  # L1 is at most sqrt(K) times L2
                return max(1, min(most, norm or most))
            case "squared":
                return self.task.constant_hessian
        return max(1, int(self._reach[1][self._place(bound)]))

    def pair_square(
        self,
        bound: int,
        neighbours: str,
        channel: Channel = "hessian",
        count_factor: int = 0,
        factors: tuple[int, int] = (1, 1),
    ) -> int:
        """Return the largest squared change of the sums of (gradient, second channel) over disjoint bins.

        Add/remove: one record's pair appears in one bin. Replace-one: one pair leaves, one comes, in the same bin
        (their difference) or in two (their norms add as squares). Gradients and hessians are multiplied by their
        ``factors``, of which the second is not the larger one.
        """
        replace = neighbours == "replace_one"
        a, b = factors
        g2 = self.gradient_square(bound)
        if channel == "count" or self.name == "squared":
            unit = count_factor if channel == "count" else b * self.task.constant_hessian
            g2 *= 1 if channel == "count" else a * a
            one = g2 + unit * unit  # the count of a vector loss is kept once
            return max(4 * g2, 2 * one) if replace else one
        if self.name == "softmax":
            together = 2 * ONE * (ONE - self._least_probability(bound))
            if self.task.norm:
                together = min(together, self.task.norm**2)
            one = b * b * together + (a * a - b * b) * g2
            return 4 * one if replace else one
        place = self._place(bound)
        one = int(_pair_reach(self, a, b)[place])
        return max(2 * one, _diameter_square(self, -(-place // 32) * 32, a, b)) if replace else one

    def hessian_factor(self, bound: int) -> tuple[int, int]:
        """Return the factors of (gradient, hessian) in what is released at scores within ``bound``.

        While scores are small so are gradients, and the hessian would set the sensitivity. The noise of the weight
        -G/H is about that of G - (weight) H, over H: the factors minimise it for a weight of ``TYPICAL_WEIGHT``.
        """
        return _hessian_factor(self, self._place(bound))

    def pair_l1(self, bound: int, neighbours: str, count_factor: int) -> int:
        """Return the largest L1 change of the sums of (gradients of all outputs, count): for Laplace noise."""
        if self.name == "softmax":  # |p_y - 1| and the other probabilities, which sum to at most 1 - p_y
            gradient = 2 * (ONE - self._least_probability(bound))
        else:
            gradient = math.isqrt(self.gradient_square(bound))
        one = gradient + count_factor
        return 2 * one if neighbours == "replace_one" else one

    # ---- inside

    def _residual(self, bound: int) -> int:
        return min(self.task.clip, (bound + (1 << SCORE_BITS) + 8) >> (SCORE_BITS - 12))

    def _place(self, bound: int) -> int:
        return min(TABLE_HALF, (bound + (1 << (TABLE_SHIFT - 1))) >> TABLE_SHIFT)

    def _least_probability(self, bound: int) -> int:
        # All scores lie within 2 * bound of the largest one; the others weigh at most 1 each.
        table = exp_table()
        least = int(table[min(TABLE_SIZE - 1, (2 * bound + 128) >> TABLE_SHIFT)])
        return ONE * least // (least + (self.n_outputs - 1) * int(table[0]))

    @cached_property
    def _reach(self) -> NDArray[np.int64]:
        """Largest (g^2, h) over places within j of the middle, for every j."""
        g, h = (self.task.pairs[:, :, i].astype(np.int64) for i in (0, 1))
        return _within(np.stack([(g * g).max(axis=0), h.max(axis=0)]))


def _within(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest of the values ``[..., place]`` within j places of the middle, for every j."""
    both = np.maximum(values[..., TABLE_HALF:], values[..., TABLE_HALF::-1])
    return np.maximum.accumulate(both, axis=-1)


@lru_cache(maxsize=64)
def _pair_reach(loss: TreeLoss, a: int, b: int) -> NDArray[np.int64]:
    """Largest (a g)^2 + (b h)^2 over places within j of the middle, for every j."""
    g, h = (loss.task.pairs[:, :, i].astype(np.int64) for i in (0, 1))
    return _within((a * a * g * g + b * b * h * h).max(axis=0))


@lru_cache(maxsize=4096)
def _hessian_factor(loss: TreeLoss, place: int) -> tuple[int, int]:
    if loss.kappa == 0:
        return 1, 1
    bound = place << TABLE_SHIFT

    def noise(part: int) -> float:
        square = loss.pair_square(bound, "add_remove", factors=(_PARTS, part))
        return square * (1 + (TYPICAL_WEIGHT * _PARTS / (part * float(loss.kappa))) ** 2)

    best = min(range(1, _PARTS + 1), key=lambda part: (noise(part), -part))
    common = math.gcd(best, _PARTS)
    return _PARTS // common, best // common


@lru_cache(maxsize=512)
def _diameter_square(loss: TreeLoss, place: int, a: int, b: int) -> int:
    """Return the largest squared distance of two pairs in reach: between corners of their convex hull.

    Callers round the place up: a larger reach is safe, and cached.
    """
    inner = loss.task.pairs[:, max(0, TABLE_HALF - place) : TABLE_HALF + place + 1].reshape(-1, 2) * np.array([a, b])
    points = sorted({(int(g), int(h)) for g, h in inner})
    corners: list[tuple[int, int]] = []
    for ordered in (points, points[::-1]):
        chain: list[tuple[int, int]] = []
        for x, y in ordered:
            while len(chain) > 1 and (chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) <= (
                chain[-1][1] - chain[-2][1]
            ) * (x - chain[-2][0]):
                chain.pop()
            chain.append((x, y))
        corners += chain
    array = np.array(corners, dtype=np.int64)
    apart = array[:, None] - array[None]
    return int((apart * apart).sum(axis=2).max())


def make_loss(
    name: LossName,
    *,
    n_classes: int = 2,
    neighbours: str = "add_remove",
    gradient_clip: float | None = None,
    kappa: Fraction | None = None,
) -> TreeLoss:
    """Return a loss with the largest hessian factor that costs nothing under the relation.

    Parameters
    ----------
    name
        ``logistic`` and ``hinge`` take two classes, ``softmax`` three or more, ``squared`` a target in [-1, 1].
    gradient_clip
        Pairs longer than this are shortened to it (logistic, hinge, softmax: all classes together); gradients are
        clipped to it (squared).
    kappa
        Another factor of the hessian: smaller, or the sensitivity grows.

    Examples
    --------
    >>> loss = make_loss("logistic")
    >>> loss.gradient_square(0) == (ONE // 2) ** 2    # at F = 0 every gradient is -1/2 or 1/2
    True
    >>> loss.pair_square(8 << 16, "add_remove") <= ONE ** 2
    True
    """
    most = math.sqrt(2) if name == "softmax" else 1.0
    if gradient_clip is not None and not 1 / ONE <= gradient_clip <= most:
        raise ParameterError("gradient_clip", f"lie in (0, {most:.4g}]", gradient_clip)
    clip = ONE if gradient_clip is None else int(gradient_clip * ONE)
    replace = neighbours == "replace_one"
    match name:
        case "logistic":
            factor = kappa or (KAPPA_LOGISTIC_REPLACE if replace else KAPPA_LOGISTIC)
            return _logistic(factor, clip)
        case "hinge":
            return _hinge(kappa or (Fraction(1) if replace else KAPPA_COUNT), clip)
        case "squared":
            factor = kappa or (Fraction(clip, ONE) if replace else KAPPA_COUNT * Fraction(clip, ONE))
            task = Task("squared", clip=clip, constant_hessian=math.floor(factor * ONE))
            return TreeLoss(name, 1, Fraction(task.constant_hessian, ONE), task)
        case "softmax":
            if n_classes < 3:
                raise ParameterError("n_classes", "be at least 3 for the softmax loss", n_classes)
            return _softmax(n_classes, kappa or KAPPA_SOFTMAX, 0 if gradient_clip is None else clip)
    raise ParameterError("loss", "be logistic, squared, hinge or softmax", name)


@lru_cache(maxsize=1)
def probability_table() -> NDArray[np.int64]:
    """Return round(2**12 / (1 + exp(-F))) at every place of the table, the same on every machine."""
    context = Context(prec=30)
    upper = [
        int((ONE / (1 + context.exp(Decimal(-i) / 256))).to_integral_value(ROUND_HALF_EVEN))
        for i in range(TABLE_HALF + 1)
    ]
    table = np.array([ONE - p for p in upper[:0:-1]] + upper, dtype=np.int64)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=32)
def _logistic(kappa: Fraction, clip: int) -> TreeLoss:
    p = probability_table()
    h = (kappa.numerator * p * (ONE - p)) // (kappa.denominator * ONE)
    pairs = np.stack([np.stack([p, h], axis=1), np.stack([p - ONE, h], axis=1)])
    return TreeLoss("logistic", 1, kappa, Task("table", pairs=_shortened(pairs, clip)))


@lru_cache(maxsize=32)
def _hinge(kappa: Fraction, clip: int) -> TreeLoss:
    place = np.arange(TABLE_SIZE) - TABLE_HALF
    unit = math.floor(kappa * ONE)
    pairs = np.empty((2, TABLE_SIZE, 2), dtype=np.int64)
    pairs[0, :, 0] = np.where(place > -256, ONE, 0)  # label 0 wants F <= -1
    pairs[1, :, 0] = np.where(place < 256, -ONE, 0)
    pairs[:, :, 1] = unit
    return TreeLoss("hinge", 1, kappa, Task("table", pairs=_shortened(pairs, clip)))


@lru_cache(maxsize=32)
def _softmax(n_classes: int, kappa: Fraction, norm: int) -> TreeLoss:
    p = np.arange(ONE + 1, dtype=np.int64)
    h = (kappa.numerator * p * (ONE - p)) // (kappa.denominator * ONE)
    task = Task("softmax", n_outputs=n_classes, hessian=h.astype(np.int32), norm=norm)
    return TreeLoss("softmax", n_classes, kappa, task)


def _shortened(pairs: NDArray[np.int64], clip: int) -> NDArray[np.int32]:
    """Shorten pairs whose norm exceeds ``clip``, in integers and towards zero, when a clip is set."""
    if clip < ONE:
        for row in pairs.reshape(-1, 2):
            square = int(row[0]) ** 2 + int(row[1]) ** 2
            if square > clip * clip:
                scaled = [math.isqrt(int(x) ** 2 * clip * clip // square) for x in row]
                row[:] = math.copysign(scaled[0], row[0]), scaled[1]
    found = pairs.astype(np.int32)
    found.flags.writeable = False
    return found
