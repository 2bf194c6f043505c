r"""P1's weighted Kendall coefficient, in O(n log n).

Definition 6.1 with the weight that P1 chooses, the distance of the ordinal numbers of :math:`r`:

.. math:: \tau_w(r, s) = \frac{\langle r, s\rangle_w}
          {\sqrt{\langle r, r\rangle_w \langle s, s\rangle_w}}, \qquad
          \langle r, s \rangle_w
          = \sum_{i<j} \mathrm{sgn}(r_i - r_j)\,\mathrm{sgn}(s_i - s_j)\,|\rho_i - \rho_j|

:math:`\rho` are the ranks of r. Equal values get their mean rank, so the coefficient does not depend on the
order of the records; P1 does not say. (`scipy.stats.weightedtau` has additive weights :math:`1/(1+rank)`:
another coefficient.)

Since :math:`\mathrm{sgn}(r_i - r_j)|\rho_i - \rho_j| = \rho_i - \rho_j`, the numerator needs no pairs:

.. math:: \langle r, s\rangle_w = \sum_i \rho_i \bigl(\#\{s_j < s_i\} - \#\{s_j > s_i\}\bigr)
          = 2 \sum_i \rho_i \left(\sigma_i - \tfrac{n+1}{2}\right)

with :math:`\sigma` the mean ranks of s: twice n times the covariance of the ranks. And
:math:`\langle s, s\rangle_w` is :math:`\langle r, r\rangle_w` less the weight of pairs tied in s. So
**without ties in s, P1's coefficient is Spearman's rank correlation**, which says in one line what it
measures.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.errors import ParameterError

from .domain import numeric
from .laws import Floats


def weighted_kendall(raw: ArrayLike, released: ArrayLike) -> float:
    """P1's measure of the order that released values keep; nan if either side has one value only.

    >>> weighted_kendall([1, 2, 3, 4], [10, 20, 20, 90])
    0.948683298...
    """
    r, s = numeric("raw", raw).ravel(), numeric("released", released).ravel()
    if r.size != s.size:
        raise ParameterError("released", f"have as many values as raw, {r.size}", s.size)
    rho, sigma = _mean_ranks(r), _mean_ranks(s)
    centre = (r.size + 1) / 2
    both = 2 * float(np.dot(rho, sigma - centre))
    of_raw = 2 * float(np.dot(rho, rho - centre))
    of_released = of_raw - _weight_of_ties(rho, s)
    if of_raw <= 0 or of_released <= 0:
        return math.nan
    return both / (math.sqrt(of_raw) * math.sqrt(of_released))


def _mean_ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def _weight_of_ties(rho: Floats, s: Floats) -> float:
    """Sum of ``|rho_i - rho_j|`` over pairs tied in s; the j-th of a group counts 2j - size + 1 times."""
    order = np.lexsort((rho, s))
    ranks, groups = rho[order], s[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sizes = np.diff(np.append(starts, s.size))
    place = np.arange(s.size) - np.repeat(starts, sizes)
    return float(np.dot(ranks, 2 * place - np.repeat(sizes, sizes) + 1))
