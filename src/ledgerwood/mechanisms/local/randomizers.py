r"""Randomizers that do not keep order: generalized randomized response, unary encoding, and the piecewise mechanism.

**Values without order.** With :math:`k` values (Wang, Blocki, Li & Jha 2017):

- generalized randomized response reports the true value with probability
  :math:`p_1 = e^\varepsilon/(e^\varepsilon + k - 1)` and each other value with
  :math:`p_2 = p_1 e^{-\varepsilon}`;
- unary encoding sends :math:`k` bits, each set with probability :math:`p` at the value and :math:`q`
  elsewhere: *symmetric* :math:`p = 1 - q = e^{\varepsilon/2}/(1 + e^{\varepsilon/2})`, *optimised*
  :math:`p = 1/2, q = 1/(1 + e^{\varepsilon})`. Changing the value changes two bits, hence the loss
  :math:`\log\frac{p(1-q)}{(1-p)q} = \varepsilon` in both.

**Numbers.** The piecewise mechanism (Wang et al. 2019), the LDP baseline of OpBoost (Li et al. 2022), on an exact grid.
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
in x and `unbiased` inverts it exactly. With :math:`w = 1` it is generalized randomized response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood.accounting import Cost, PureDP, RandomizedResponse
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.local.distributions import Ball, Floats
from ledgerwood.mechanisms.local.domain import Codes, Domain, coerce_epsilons, numeric
from ledgerwood.mechanisms.local.guarantees import ConstantClaim
from ledgerwood.mechanisms.local.samplers import bernoulli
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling.draws import uniform_below

_MOST_ENUMERATED = 16


@dataclass(frozen=True)
class GeneralizedRandomizedResponse(OrderedMechanism):
    r"""Report the true value, or with some probability any value at random.

    The sampler draws the event "truth" with probability :math:`(1-e)/(1 + (k-1)e)`,
    :math:`e = e^{-\varepsilon}`, by lazy comparison, and otherwise a uniform value out of all :math:`k`: the
    truth then has :math:`(1 - e + e)/(1 + (k-1)e) = p_1`, every other value :math:`e/(1+(k-1)e) = p_2`,
    exactly.

    >>> mechanism = GeneralizedRandomizedResponse(Domain(0, 2), epsilon=math.log(2))
    >>> mechanism.probabilities(1).round(6).tolist()
    [0.25, 0.5, 0.25]
    """

    domain: Domain
    epsilon: float

    def __post_init__(self) -> None:
        coerce_epsilons(self, "epsilon")

    @property
    def claim(self) -> ConstantClaim:
        r""":math:`\varepsilon`-LDP."""
        return ConstantClaim(self.epsilon)

    @property
    def cost(self) -> Cost:
        """Randomised response over the values of the domain."""
        return RandomizedResponse(self.epsilon, k=self.domain.size, neighbours="replace_one")

    def estimate(self, released: ArrayLike) -> Floats:
        """Unbiased estimates of the shares of all values, from the released ones."""
        counts = np.bincount(self.domain.encode(released).ravel(), minlength=self.domain.size)
        truth, other = self._two_probabilities()
        return np.asarray((counts / max(1, counts.sum()) - other) / (truth - other))

    def _two_probabilities(self) -> tuple[float, float]:
        total = 1 + (self.domain.size - 1) * math.exp(-self.epsilon)
        return 1 / total, math.exp(-self.epsilon) / total

    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        lie = math.exp(-self.epsilon) * (self.domain.size - 1)
        return np.where(rows == columns, 0.0, -self.epsilon) - math.log1p(lie)

    def _extremes(self) -> Codes:
        return np.array([0])  # all pairs at one distance look alike from some output; (0, t) from output 0

    def _truth(self, precision: int) -> Ball:
        one, e = Ball.of(1, precision), Ball.exp_minus(Fraction(self.epsilon), precision)
        return (one - e) / (one + Ball.of(self.domain.size - 1, precision) * e)

    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        truth = bernoulli(self._truth, rows.size, source)
        drawn = rows.copy()
        lies = np.flatnonzero(~truth)
        drawn[lies] = uniform_below(np.full(lies.size, self.domain.size), source)
        return drawn


@dataclass(frozen=True)
class UnaryEncoding:
    """One random bit for each value of the domain.

    >>> mechanism = UnaryEncoding(Domain(0, 3), epsilon=1.0, kind="optimised")
    >>> mechanism.release([0, 3, 2]).shape
    (3, 4)
    """

    domain: Domain
    epsilon: float
    kind: Literal["symmetric", "optimised"] = "optimised"

    def __post_init__(self) -> None:
        coerce_epsilons(self, "epsilon")
        if self.kind not in ("symmetric", "optimised"):
            raise ParameterError("kind", "be 'symmetric' or 'optimised'", self.kind)

    @property
    def cost(self) -> Cost:
        """Pure DP: two bits change, and their losses add up to exactly epsilon."""
        return PureDP(self.epsilon, neighbours="replace_one")

    @property
    def bit_probabilities(self) -> tuple[float, float]:
        """Probabilities that the bit of the value, and that any other bit, is set."""
        e = math.exp(-self.epsilon if self.kind == "optimised" else -self.epsilon / 2)
        return 0.5 if self.kind == "optimised" else 1 / (1 + e), e / (1 + e)

    def log_probabilities(self, value: ArrayLike) -> Floats:
        """Exact log-probabilities of all ``2**k`` outputs (last axis; bit i of the index for value i)."""
        k = self.domain.size
        if k > _MOST_ENUMERATED:
            raise ParameterError("domain", f"have at most {_MOST_ENUMERATED} values to be enumerated", k)
        rows = self.domain.encode(value)
        bits = np.arange(2**k)[:, None] >> np.arange(k) & 1
        rate = self.epsilon if self.kind == "optimised" else self.epsilon / 2
        clear, unset = -math.log1p(math.exp(-rate)), -rate - math.log1p(math.exp(-rate))
        at_value = np.full(2, -math.log(2)) if self.kind == "optimised" else np.array([unset, clear])
        elsewhere = np.where(bits == 1, unset, clear).sum(axis=1)[:, None]
        own = np.where(bits == 1, at_value[1] - unset, at_value[0] - clear)
        return np.asarray((elsewhere + own).T[rows])

    def probabilities(self, value: ArrayLike) -> Floats:
        """Exact probabilities of all ``2**k`` outputs."""
        return np.asarray(np.exp(self.log_probabilities(value)))

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value is not an array of numbers; nothing is drawn. A ledger asks before it spends."""
        self.domain.encode(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> NDArray[np.bool_]:
        """Bits for each value, on a new last axis; values are clamped like everywhere here."""
        source = source_of(rng)
        rows = self.domain.encode(value)
        flat, k = rows.ravel(), self.domain.size
        bits = bernoulli(self._elsewhere, flat.size * k, source).reshape(flat.size, k)
        bits[np.arange(flat.size), flat] = bernoulli(self._at_value, flat.size, source)
        return bits.reshape(*rows.shape, k)

    def estimate(self, released: ArrayLike) -> Floats:
        """Unbiased estimates of the shares of all values, from the released bits."""
        bits = numeric("released", released).reshape(-1, self.domain.size)
        p, q = self.bit_probabilities
        return np.asarray((bits.sum(axis=0) / max(1, bits.shape[0]) - q) / (p - q))

    def _at_value(self, precision: int) -> Ball:
        if self.kind == "optimised":
            return Ball.of(Fraction(1, 2), precision)
        one = Ball.of(1, precision)
        return one / (one + Ball.exp_minus(Fraction(self.epsilon) / 2, precision))

    def _elsewhere(self, precision: int) -> Ball:
        rate = Fraction(self.epsilon) if self.kind == "optimised" else Fraction(self.epsilon) / 2
        e = Ball.exp_minus(rate, precision)
        return e / (Ball.of(1, precision) + e)


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
        coerce_epsilons(self, "epsilon")

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
