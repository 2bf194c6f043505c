r"""The piecewise mechanism (Wang et al. 2019), P1's LDP baseline for numbers, on an exact grid.

The continuous mechanism takes :math:`x \in [-1, 1]` to :math:`[-C, C]`,
:math:`C = (e^{\varepsilon/2}+1)/(e^{\varepsilon/2}-1)`, with a density :math:`e^\varepsilon` times larger on
a window of length :math:`C - 1` that slides linearly with x. The window is the share
:math:`1/(e^{\varepsilon/2}+1)` of the outputs. Here inputs are the :math:`n` values of a domain and outputs
the integers :math:`0, \ldots, m - 1`, with a window of :math:`w` integers that starts at the offset of x:

.. math:: \Pr[o \mid x] = \frac{e^{\varepsilon\,[x \le o < x + w]}}{w e^\varepsilon + m - w}, \qquad
          m = n - 1 + w, \quad w = \max(1, \mathrm{round}((n - 1)\, e^{-\varepsilon/2}))

so that :math:`w/m \approx 1/(e^{\varepsilon/2}+1)` as in the continuous one. The normaliser does not depend
on x, so the loss is 0 or exactly :math:`\pm\varepsilon` for *every* :math:`w`: the rounding of :math:`w`
costs accuracy, never privacy. The window moves one output for one input, so the mean of the output is affine
in x and `unbiased` inverts it exactly. With :math:`w = 1` it is generalised randomised response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.accounting import Cost, PureDP
from ledgerwood.mechanisms.randomness import RandomSource
from ledgerwood.mechanisms.sampling.draws import uniform_below

from .claims import ConstantClaim
from .domain import Codes, Domain, numeric, settle_epsilons
from .fixed_point import Ball
from .laws import Floats
from .ordered import OrderedMechanism
from .sampling import bernoulli


@dataclass(frozen=True)
class PiecewiseMechanism(OrderedMechanism):
    """A window of likely outputs that slides with the value; LDP with the same epsilon at every distance.

    The sampler draws "inside the window" by lazy comparison, then a uniform integer inside or outside of it.

    >>> mechanism = PiecewiseMechanism(Domain(1, 10), epsilon=2.0)
    >>> mechanism.window, mechanism.outputs.size
    (3, 12)
    >>> round(float(mechanism.unbiased(mechanism.outputs) @ mechanism.probabilities(4)), 12)
    4.0
    """

    domain: Domain
    epsilon: float

    def __post_init__(self) -> None:
        settle_epsilons(self, "epsilon")

    @property
    def window(self) -> int:
        """How many outputs are likely."""
        return max(1, round((self.domain.size - 1) * math.exp(-self.epsilon / 2)))

    @property
    def outputs(self) -> Codes:
        """The integers from 0; `unbiased` turns them into units of the domain."""
        return np.arange(self.domain.size - 1 + self.window)

    @property
    def claim(self) -> ConstantClaim:
        r""":math:`\varepsilon`-LDP."""
        return ConstantClaim(self.epsilon)

    @property
    def cost(self) -> Cost:
        """Pure DP with exactly epsilon."""
        return PureDP(self.epsilon, neighbours="replace_one")

    def unbiased(self, released: ArrayLike) -> Floats:
        r"""Estimates of the values, each with the value as its mean.

        With s the offset of the value and :math:`c = s + (w-1)/2` the middle of the window, the mean output
        is :math:`P c + (1-P)\,(m(m-1)/2 - w c)/(m - w)`, P the probability of the window.
        """
        w, m = self.window, self.outputs.size
        inside = w / (w + (m - w) * math.exp(-self.epsilon))
        slope = inside - (1 - inside) * w / (m - w)
        level = (1 - inside) * m * (m - 1) / (2 * (m - w))
        middle = (numeric("released", released).astype(np.float64) - level) / slope
        return np.asarray(middle - (w - 1) / 2 + self.domain.lower)

    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        w, m = self.window, self.outputs.size
        inside = (rows <= columns) & (columns < rows + w)
        return np.where(inside, 0.0, -self.epsilon) - math.log(w + (m - w) * math.exp(-self.epsilon))

    def _extremes(self) -> Codes:
        return np.array([0])  # inside the window of the least value and of no other

    def _inside(self, precision: int) -> Ball:
        w, rest = Ball.of(self.window, precision), Ball.of(self.domain.size - 1, precision)
        return w / (w + rest * Ball.exp_minus(Fraction(self.epsilon), precision))

    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        w = self.window
        inside = bernoulli(self._inside, rows.size, source)
        drawn = uniform_below(np.where(inside, w, self.domain.size - 1), source)
        return np.where(inside, rows + drawn, np.where(drawn < rows, drawn, drawn + w))

    def _decode(self, columns: Codes) -> Codes:
        return columns
