r"""Splits scored by noisy sums: post-processing of released numbers whose noise is known.

A side of a split has a gradient sum :math:`g` and a hessian sum :math:`h`, and was released with Gaussian noise of
known size. XGBoost's gain :math:`g^2 / (h + \lambda)` of the *released* numbers prefers sides that are empty but for
noise. Here both are replaced by posterior means (``docs/theory/noisy-splits.md``):

- :math:`\hat h`, that of a normal observation of a number that is at least 0;
- :math:`\hat g = s \tilde g` with :math:`s = v \hat h^2 / (v \hat h^2 + \sigma^2)`, where best weights :math:`-g/h` are
  normal with variance :math:`v`, which is read off all sides of the level.

Without noise this is XGBoost's gain. What several releases say of one node is put together first: the parts of every
feature add up to the same node, and so did the side of its parent's split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["NodeTotals", "SideSums", "SumsNoise", "clipped_gain", "posterior_of", "reconciled", "weight_variance"]

_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SumsNoise:
    """Standard deviation of the noise in one released gradient sum, and in one released hessian sum."""

    gradient: float
    hessian: float


@dataclass(frozen=True, slots=True, eq=False)
class SideSums:
    """Noisy sums of sides of splits.

    Parameters
    ----------
    gradient, hessian
        ``[outputs, nodes, sides]``.
    parts
        Broadcasts to them: the variance of the noise, in units of that of one released number.
    """

    gradient: _Floats
    hessian: _Floats
    parts: _Floats

    def chosen(self, side: NDArray[np.int64]) -> SideSums:
        """Return one side for each node, ``[outputs, nodes]``."""
        node = np.arange(len(side))
        whole = np.broadcast_to(self.parts, self.gradient.shape)
        return SideSums(self.gradient[:, node, side], self.hessian[:, node, side], whole[:, node, side])


@dataclass(frozen=True, slots=True, eq=False)
class NodeTotals:
    """What is known of the sums of whole nodes: one estimate from each feature, and one from the parent's split.

    Parameters
    ----------
    features
        The totals by feature, ``[outputs, nodes, features]``.
    parent
        The node as a side of its parent's split, ``[outputs, nodes]``; None at the root.
    """

    features: SideSums
    parent: SideSums | None

    def without(self, place: NDArray[np.int64]) -> SideSums:
        """Return for each place the estimate that leaves out that feature, weighted by precision.

        ``parts`` is infinite where nothing is left.
        """
        weight = np.broadcast_to(1.0 / self.features.parts, self.features.gradient.shape)
        precision = weight.sum(axis=-1, keepdims=True) - weight
        parent = self.parent
        if parent is not None:
            precision = precision + 1.0 / parent.parts[..., None]
        # Of a single feature the difference is exactly 0: its weight minus itself.
        known = precision > 0
        scale = np.divide(1.0, precision, out=np.zeros(precision.shape), where=known)

        def mean(totals: _Floats, above: _Floats | None) -> _Floats:
            weighted = (totals * weight).sum(axis=-1, keepdims=True) - totals * weight
            if parent is not None and above is not None:
                weighted = weighted + (above / parent.parts)[..., None]
            found: _Floats = (weighted * scale)[..., place]
            return found

        return SideSums(
            mean(self.features.gradient, None if parent is None else parent.gradient),
            mean(self.features.hessian, None if parent is None else parent.hessian),
            np.where(known, scale, np.inf)[..., place],
        )


def reconciled(left: SideSums, right: SideSums, whole: SideSums) -> tuple[SideSums, SideSums]:
    """Return both sides given an independent estimate of their sum: what they miss of it goes to the noisier side.

    Least squares, and the posterior mean under a flat prior. A whole of infinite variance changes nothing.

    >>> side = SideSums(np.array([[[4.0]]]), np.array([[[4.0]]]), np.array([[[1.0]]]))
    >>> whole = SideSums(np.array([[[10.0]]]), np.array([[[10.0]]]), np.array([[[2.0]]]))
    >>> left, right = reconciled(side, side, whole)
    >>> left.gradient.item(), right.hessian.item(), left.parts.item()
    (4.5, 4.5, 0.75)
    """
    all_parts = left.parts + right.parts + whole.parts
    missing_gradient = np.where(np.isinf(all_parts), 0.0, whole.gradient - left.gradient - right.gradient)
    missing_hessian = np.where(np.isinf(all_parts), 0.0, whole.hessian - left.hessian - right.hessian)

    def moved(side: SideSums) -> SideSums:
        share = side.parts / all_parts
        return SideSums(
            side.gradient + share * missing_gradient,
            side.hessian + share * missing_hessian,
            side.parts * (1.0 - share),
        )

    return moved(left), moved(right)


def weight_variance(sides: tuple[SideSums, ...], noise: SumsNoise) -> float:
    """Return the variance of best weights over all sides, each counted by its squared hessian; 0 if noise hides it.

    The mean of a released square is the exact square plus the variance of the noise.
    """
    gradients = sum(float(np.sum(x.gradient**2 - x.parts * noise.gradient**2)) for x in sides)
    hessians = sum(float(np.sum(x.hessian**2 - x.parts * noise.hessian**2)) for x in sides)
    return gradients / hessians if gradients > 0 and hessians > 0 else 0.0


def posterior_of(side: SideSums, noise: SumsNoise, variance: float) -> tuple[_Floats, _Floats]:
    """Return the posterior means of gradient and hessian sums, given the variance of best weights.

    >>> side = SideSums(np.array([30.0]), np.array([100.0]), np.array([1.0]))
    >>> [round(x.item(), 3) for x in posterior_of(side, SumsNoise(10.0, 10.0), 0.01)]
    [15.0, 100.0]
    """
    from scipy.special import log_ndtr

    spread = noise.hessian * np.sqrt(side.parts)
    at = side.hessian / spread
    # The mean of a normal number given that it is positive; in logs, since both parts underflow far below 0.
    hessian = side.hessian + spread * np.exp(-0.5 * (at * at + np.log(2 * np.pi)) - log_ndtr(at))
    hessian = np.maximum(hessian, spread / (2.0 + np.abs(at)))  # a lower bound of it, where rounding took the rest
    signal = variance * hessian * hessian
    share = signal / (signal + side.parts * noise.gradient**2)
    return share * side.gradient, hessian


def clipped_gain(gradient: _Floats, hessian: _Floats, l2: float, clip: float) -> _Floats:
    """Return twice the loss that the clipped weight saves, hessians below 0 counted as 0: Maddock et al.'s score.

    >>> clipped_gain(np.array([10.0]), np.array([4.0]), l2=1.0, clip=2.0).item()
    20.0
    """
    curvature = np.maximum(hessian, 0.0) + l2
    size = np.abs(gradient)
    weight = np.minimum(np.divide(size, curvature, out=np.full(size.shape, clip), where=curvature > 0), clip)
    return np.asarray(2.0 * size * weight - curvature * weight * weight)
