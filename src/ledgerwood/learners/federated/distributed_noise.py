r"""Noise on integer sums that many parties can share: its grid, its distribution, its cost.

**Grid.** A sum arrives in fine integer steps, and one record moves it by at most :math:`\Lambda` in L2, in at most
``touched`` coordinates. Before noise it is divided by :math:`2^s` and rounded down, with the smallest :math:`s \ge 0`
that brings :math:`\Lambda / 2^s` below :math:`2^{resolution + 1}`. Rounding moves a touched coordinate by less than
one more step, so the coarse sum moves by at most :math:`\ell = \Lambda / 2^s + \sqrt{touched}` (by :math:`\Lambda`
where :math:`s = 0`).

**Noise.** A release with the planned ratio :math:`r` gets Skellam noise of variance :math:`v = (r \ell)^2` in coarse
steps: what one record contributes changes from round to round, and the noise with it.

**Price.** Theorem 3.5 of Agarwal, Kairouz & Liu 2021 bounds its Rényi curve by

.. math:: \frac{\alpha}{2 r^2} + \min\Bigl( \frac{(2\alpha - 1)\ell^2 + 6 \ell_1}{4 r^4 \ell^4},
          \frac{3 \ell_1}{2 r^2 \ell^2} \Bigr), \qquad \ell_1 = \min(\sqrt{touched}\,\ell, \ell^2),

which does not grow with :math:`\ell` while :math:`r` stays. So a plan priced at the least :math:`\ell` of a
training covers every release of it (``tests/learners/federated/test_noise.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ledgerwood._rounding import raised
from ledgerwood.accounting import Cost, Skellam
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Ints
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import draws

__all__ = ["NoiseGrid", "SkellamOf", "SkellamShare"]

_BITS = 48  # to which the roots and quotients here are good


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """How a sum with a given sensitivity is coarsened before noise.

    >>> grid = NoiseGrid(sensitivity=4096.0, touched=2, resolution=8)
    >>> grid.shift, round(grid.l2, 3)
    (4, 257.414)
    """

    sensitivity: float
    touched: int
    resolution: int

    @property
    def shift(self) -> int:
        """How many bits are rounded away."""
        return max(0, math.frexp(self.sensitivity)[1] - 1 - self.resolution)

    @property
    def l2(self) -> float:
        """L2 sensitivity in coarse steps."""
        shift = self.shift
        return self.sensitivity if not shift else raised(self.sensitivity / 2**shift + math.sqrt(self.touched), _BITS)

    def coarse(self, value: Ints) -> Ints:
        """Return the sum in coarse steps."""
        return value >> np.int64(self.shift)

    def fine(self, value: Ints) -> Ints:
        """Return a coarse sum in fine steps."""
        return value << np.int64(self.shift)


@dataclass(frozen=True, slots=True)
class SkellamOf:
    """A cost template: Skellam noise whose standard deviation is ``ratio`` times the L2 sensitivity.

    ``l2`` is the least sensitivity that a release under this label may have.
    """

    l2: float
    touched: int
    neighbours: str

    def __call__(self, ratio: float) -> Cost:
        """Return the cost at that ratio."""
        l1 = raised(self.l2 * math.sqrt(self.touched), _BITS)
        return Skellam(
            variance=(self.l2 * ratio) ** 2, l1_sensitivity=l1, l2_sensitivity=self.l2, neighbours=self.neighbours
        )


@dataclass(frozen=True, slots=True)
class SkellamShare:
    """Adds one party's share of Skellam noise; the cost is that of the total, opened with ``parties`` shares or more.

    A share by itself protects little: the masks of secure aggregation keep it from being seen by itself.
    """

    cost: Cost
    variance: float
    parties: int

    @property
    def sensitivity(self) -> None:
        """Stated by the cost of the total, not by a share."""

    def check(self, value: Ints) -> None:
        """Refuse what is not an array of 64-bit integers."""
        if not isinstance(value, np.ndarray) or value.dtype != np.int64:
            raise ParameterError("value", "be an array of 64-bit integers", type(value).__name__)

    def release(self, value: Ints, rng: Rng = None) -> Ints:
        """Return the value with this party's noise."""
        noise = draws.skellam(Fraction(self.variance) / self.parties, value.size, source_of(rng))
        return value + noise.reshape(value.shape)
