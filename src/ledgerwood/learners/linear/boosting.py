r"""The one loop of AdaSSP and its boosted forms (Rho et al. 2022, Algorithm 2): exact sums in, a release session out.

1. Release X'X once; in the paper's form also its smallest eigenvalue. Both give the matrix :math:`\Gamma`.
2. T times: release the sum of gradient times row at the current weights, and step by
   :math:`\eta \, \Gamma` times it. That takes one pass over the records, or none for unclipped residuals
   (:mod:`ledgerwood.learners.linear.ridge`).

Everything is a Gaussian release, so the whole costs :math:`\mu^2 = \mu_1^2 + \mu_2^2 + \mu_3^2` exactly, where the T
gradient releases share :math:`\mu_2^2` equally: their sensitivity may change from round to round, their
noise changes with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import raised
from ledgerwood.accounting import Gaussian, Plan
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, WEIGHT_BITS, fixed_point
from ledgerwood.learners.linear.plan import CROSS_PRODUCTS, EIGENVALUE, GRADIENTS, LinearSettings
from ledgerwood.learners.linear.ridge import (
    noise_aware_inverse,
    noise_norm,
    paper_inverse,
    paper_ridge,
    scalar_margin,
    unclipped_gradient_sum,
)
from ledgerwood.learners.linear.sensitivity import (
    DIAGONAL,
    RowBound,
    packed,
    smallest_eigenvalue,
    unpacked,
)
from ledgerwood.mechanisms import GaussianMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerwood.learners.linear.aggregator import LinearSums

__all__ = ["boost"]


class SupportsRelease(Protocol):
    """The way out of the data: refuses, records, then draws noise."""

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Release a value under a label of the plan."""


def boost(
    sums: LinearSums,
    bound: RowBound,
    settings: LinearSettings,
    plan: Plan,
    session: SupportsRelease,
    outputs: int = 1,
    after_round: Callable[[NDArray[np.float64]], None] | None = None,
) -> NDArray[np.float64]:
    """Return the released weights, one row for each output, the intercept first.

    Weights multiply entries in units of ``ENTRY_ONE`` and are multiples of ``2**-WEIGHT_BITS``.
    ``after_round`` is called with the weights so far.
    """
    gram = sums.gram()
    inverse = _release_inverse(gram, bound, settings, plan, session)
    weights: Ints = np.zeros((outputs, sums.columns), dtype=np.int64)
    released = weights / 2.0**WEIGHT_BITS
    moments: Ints | None = None
    norm, loss = bound.norm / ENTRY_ONE, settings.loss
    mechanisms: dict[tuple[int, bool], GaussianMechanism] = {}
    for t in range(settings.rounds):
        limit, unclipped = _steps(settings.clip * settings.clip_decay**t), False
        if not settings.paper:
            size = raised(math.sqrt(float(np.square(released).sum(axis=1).max())), 40)
            largest = loss.gradient_bound(norm, size, outputs)
            limit, unclipped = min(limit, largest), largest <= limit and loss.name == "squared"
        if unclipped:  # nothing is clipped, so the round needs no pass
            if moments is None:
                moments = sums.gradient_sum(loss, np.zeros_like(weights), _steps(math.sqrt(outputs)))
            gradient_sums = unclipped_gradient_sum(moments, gram, weights)
        else:
            gradient_sums = sums.gradient_sum(loss, weights, limit)
        if (limit, unclipped) not in mechanisms:
            sensitivity = bound.gradient_sum(limit, rounded=weights.size if unclipped else 0)
            mechanisms[limit, unclipped] = GaussianMechanism.for_cost(_cost(plan, GRADIENTS, bound), sensitivity)
        noisy = session.release(mechanisms[limit, unclipped], gradient_sums, GRADIENTS)
        step = (noisy / (ENTRY_ONE * GRADIENT_ONE)) @ inverse
        weights = fixed_point(released + settings.step_size * step)
        released = weights / 2.0**WEIGHT_BITS
        if after_round is not None:
            after_round(released)
    return released


def _release_inverse(
    gram: Ints, bound: RowBound, settings: LinearSettings, plan: Plan, session: SupportsRelease
) -> NDArray[np.float64]:
    mechanism = GaussianMechanism.for_cost(_cost(plan, CROSS_PRODUCTS, bound), bound.gram(plain=settings.paper))
    released = session.release(mechanism, packed(gram, plain=settings.paper), CROSS_PRODUCTS)
    noisy = unpacked(released, len(gram), plain=settings.paper) / ENTRY_ONE**2
    noise = mechanism.sigma / (1 if settings.paper else DIAGONAL) / ENTRY_ONE**2
    if not settings.paper:
        return noise_aware_inverse(noisy, noise, settings.ridge)
    if any(release.label == EIGENVALUE for release in plan.releases()):
        mechanism = GaussianMechanism.for_cost(_cost(plan, EIGENVALUE, bound), bound.eigenvalue())
        smallest = session.release(mechanism, smallest_eigenvalue(gram, bound.square), EIGENVALUE) / ENTRY_ONE**2
        margin = scalar_margin(mechanism.sigma / ENTRY_ONE**2)
    else:  # read off the noisy matrix: it lies no further from the true one than the noise is large
        smallest, margin = float(np.linalg.eigvalsh(noisy)[0]), noise_norm(len(gram), noise)
    return paper_inverse(noisy, paper_ridge(len(gram), noise, smallest, margin), noise)


def _steps(clip: float) -> int:
    return max(1, math.ceil(clip * GRADIENT_ONE))


def _cost(plan: Plan, label: str, bound: RowBound) -> Gaussian:
    """The planned cost of one release for one record, at a sensitivity of 1."""
    scale = plan[label].scale
    if scale is None:
        raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", label)
    return Gaussian(sigma=scale, neighbours=bound.neighbours)
