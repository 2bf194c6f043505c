r"""An odometer: an upper bound on the privacy loss so far that holds at all times at once.

Let :math:`L_t` be the privacy loss of the first :math:`t` releases and :math:`R_t(\alpha)` the sum of their Rényi
divergences, all of which may have been chosen from earlier outputs. For each order,
:math:`\exp((\alpha-1)(L_t - R_t(\alpha)))` is a supermartingale that starts at 1; so is the average over the :math:`J`
orders of :data:`ORDERS`, and by Ville's inequality it ever reaches :math:`1/\delta` with probability at most
:math:`\delta`. Hence, with probability at least :math:`1-\delta`, for **all** :math:`t`,

.. math:: L_t \le \min_j \; R_t(\alpha_j) + \frac{\log(J/\delta)}{\alpha_j - 1}.

Beside it, losses that are bounded surely add: :math:`L_t \le \sum \varepsilon_i` when every release is pure. Proof and
references (Rogers et al. 2016; Whitehouse et al. 2023): ``docs/theory/filters.md``, Theorem 5.

A cost with a delta of its own has an infinite loss with that probability, so what is kept for such costs is taken
from the odometer's delta first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import MARGIN

if TYPE_CHECKING:
    from ledgerwood.accounting.costs.base import Cost

ORDERS: NDArray[np.float64] = 1 + np.exp2(np.arange(-4.0, 16.0))
"""The fixed orders of every odometer."""
ORDERS.setflags(write=False)


def loss_curve(cost: Cost) -> NDArray[np.float64]:
    """Return a release's divergence at each of :data:`ORDERS` and, last, its pure epsilon."""
    curve = np.empty(ORDERS.size + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        curve[:-1] = cost.renyi(ORDERS)
    curve[-1] = cost.pure_epsilon()
    curve[np.isnan(curve)] = np.inf  # an order at which nothing can be computed says nothing
    curve *= 1 + MARGIN
    curve.setflags(write=False)
    return curve


def no_loss() -> NDArray[np.float64]:
    """Return the curve of nothing released."""
    return np.zeros(ORDERS.size + 1)


def own_delta(delta: float, kept: float, *, spent: bool) -> float | None:
    """Return what is left of ``delta`` for the odometer itself, None when nothing finite can be said.

    ``kept`` is the probability set aside before the first release for costs with a delta of their own. A smaller delta
    than that is all the odometer's own until the first such cost is ``spent``; after it every reading is infinite.
    """
    if delta >= kept:
        return delta - kept
    return None if spent else delta


def time_uniform_epsilon(total: NDArray[np.float64], delta: float) -> float:
    """Return the odometer's reading for a sum of loss curves.

    Parameters
    ----------
    total
        A sum of curves as :func:`loss_curve` makes them, rounded up.
    delta
        The probability with which the bound may fail at any time; 0 allows the sure bound only.
    """
    sure = float(total[-1])
    if delta <= 0 or sure == 0:
        return sure
    slack = math.log(ORDERS.size / delta) / (ORDERS - 1)
    return min(sure, float(np.min(total[:-1] + slack)) * (1 + MARGIN))
