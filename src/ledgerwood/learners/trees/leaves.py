"""Leaf weights from released sums: post-processing, and the layout in which sums are released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import raised
from ledgerwood.learners.trees.aggregator import ONE, SCORE_BITS, Channel
from ledgerwood.learners.trees.loss import TreeLoss
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = ["SumsLayout", "laplace_values", "layout_of", "noise_of", "quantised", "weights_of"]


@dataclass(frozen=True, slots=True)
class SumsLayout:
    """How (gradient, second channel) sums are laid out for release, and how large one record's part is.

    Parameters
    ----------
    channel
        What the second channel of the sums is.
    channel_factor
        The factor of the second channel: the weight of a count in grid units; the hessian carries most of its own.
    gradient_factor
        The factor of the gradients.
    channel_scale
        Divides a released second channel into records or hessian.
    sensitivity
        L2 (for Laplace noise: L1) sensitivity in grid units, the nominal one of the paper if that is asked for.
    """

    channel: Channel
    channel_factor: int
    channel_scale: float
    sensitivity: float
    gradient_factor: int = 1

    def noise(self, sigma: float) -> float:
        """Return the standard deviation of a gradient sum, given that of the released numbers."""
        return sigma / (ONE * self.gradient_factor)

    def pack(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``[..., outputs + 1]`` or ``[..., 2 outputs]`` of sums ``[outputs, ..., 2]``: a count is kept once."""
        if len(sums) == 1:
            return np.asarray(sums[0] * np.array([self.gradient_factor, self.channel_factor]))
        gradients = self.gradient_factor * np.moveaxis(sums[..., 0], 0, -1)
        if self.channel == "count":
            return np.concatenate((gradients, self.channel_factor * sums[0, ..., 1:]), axis=-1)
        return np.concatenate((gradients, self.channel_factor * np.moveaxis(sums[..., 1], 0, -1)), axis=-1)

    def unpack(self, noisy: NDArray[np.int64], outputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradient sums and hessian (or counts), both ``[outputs, ...]``."""
        one = ONE * self.gradient_factor
        if outputs == 1:
            return noisy[None, ..., 0] / one, noisy[None, ..., 1] / self.channel_scale
        gradients = np.moveaxis(noisy[..., :outputs], -1, 0) / one
        second = np.moveaxis(noisy[..., outputs:], -1, 0) / self.channel_scale
        return gradients, np.broadcast_to(second, gradients.shape)


def layout_of(
    settings: TreeSettings, loss: TreeLoss, bound: int, *, laplace: bool = False, balanced: bool = True
) -> SumsLayout:
    """Return the layout for scores within ``bound``; ``balanced`` if the hessian may count less where they are small.

    Parties that add their shares of the noise before they know the round's sensitivity need one scale for all rounds.
    """
    newton = settings.leaf == "newton"
    channel: Channel = "hessian" if newton else "count"
    g = math.isqrt(loss.gradient_square(bound))
    factors = loss.hessian_factor(bound) if newton and settings.tight and balanced else (1, 1)
    if newton:
        channel_factor = factors[1]
    elif not settings.tight:
        channel_factor = ONE
    elif settings.neighbours == "replace_one":
        channel_factor = max(1, g)  # free: docs/theory/tree-sensitivities.md
    else:
        channel_factor = max(1, g // 2)
    channel_scale = float(loss.kappa * ONE * channel_factor) if newton else float(channel_factor)
    if laplace:
        size = float(loss.pair_l1(bound, settings.neighbours, channel_factor))
    else:
        size = raised(math.sqrt(loss.pair_square(bound, settings.neighbours, channel, channel_factor, factors)))
    if not settings.tight:
        size = max(size, _nominal(settings, newton) * ONE)
    return SumsLayout(channel, channel_factor, channel_scale, size, factors[0])


def _nominal(settings: TreeSettings, newton: bool) -> float:
    """Return the sensitivity that the papers use: (1, 1/4) for logistic Newton sums, (1, 1) otherwise."""
    twice = 2.0 if settings.neighbours == "replace_one" else 1.0
    if settings.loss == "softmax":
        return twice * math.sqrt(2.0 + (1 / 16 * settings.n_classes if newton else 1.0))
    return twice * (math.sqrt(17 / 16) if newton and settings.loss == "logistic" else math.sqrt(2.0))


def weights_of(
    settings: TreeSettings, gradients: Any, hessian: Any, sigma: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return leaf weights before the learning rate; ``sigma`` is the noise of a gradient sum."""
    denominator = np.maximum(hessian, 0.0) + settings.l2 + settings.ridge * np.asarray(sigma)
    raw = np.divide(-gradients, denominator, out=np.zeros(denominator.shape), where=denominator > 0)
    kept = np.where(hessian >= settings.min_child_weight, raw, 0.0) if settings.min_child_weight else raw
    if settings.shrink:
        kept = kept * _signal_share(settings.shrink, gradients, sigma)
    return np.minimum(np.maximum(kept, -settings.leaf_clip), settings.leaf_clip)


def _signal_share(shrink: float, gradients: Any, sigma: NDArray[np.float64] | float) -> float:
    """Return the part of the released squares that the known noise does not explain, at least 0 (James and Stein)."""
    noise = float(np.sum(np.broadcast_to(np.square(sigma), np.shape(gradients))))
    whole = float(np.sum(np.square(gradients)))
    return max(0.0, 1.0 - shrink * noise / whole) if whole > 0 else 0.0


def noise_of(settings: TreeSettings, gradients: Any, hessian: Any, sigma: float) -> NDArray[np.float64]:
    """Return the standard deviation of the noise in leaf weights, before the learning rate: for error bars."""
    denominator = np.maximum(hessian, 0.0) + settings.l2 + settings.ridge * sigma
    spread: NDArray[np.float64] = np.divide(
        sigma, denominator, out=np.full(denominator.shape, settings.leaf_clip), where=denominator > 0
    )
    kept = _signal_share(settings.shrink, gradients, sigma) if settings.shrink else 1.0
    return np.minimum(spread, settings.leaf_clip) * kept


def laplace_values(
    settings: TreeSettings, loss: TreeLoss, bound: int, sums: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    """Return floor(-S / (max(n, N) + lambda)) of every leaf in steps of 2**-16, and its L1 sensitivity.

    These are the leaves of Grislain & Gonzalez 2021. ``N`` is ``min_child_weight``, at least 1. One more record moves
    the quotient by at most g* (2 N + lambda) / ((N + lambda) (N + 1 + lambda)); the floor adds less than one step.
    """
    channel_factor, penalty = 16 * (1 << SCORE_BITS - 12), round(settings.l2 * 16)
    least = max(1, math.ceil(settings.min_child_weight))
    values = -sums[0, ..., 0] * channel_factor // (16 * np.maximum(sums[0, ..., 1], least) + penalty)
    g = math.isqrt(loss.gradient_square(bound)) if settings.tight else ONE
    small = 16 * least + penalty
    move = -(-g * channel_factor * (small + 16 * least) // (small * (small + 16))) + 1
    return values, float(move * (2 if settings.neighbours == "replace_one" else 1))


def quantised(weights: NDArray[np.float64], factor: float) -> NDArray[np.int32]:
    """Return weights times ``factor`` in steps of 2**-16."""
    return np.rint(weights * (factor * (1 << SCORE_BITS))).astype(np.int32)
