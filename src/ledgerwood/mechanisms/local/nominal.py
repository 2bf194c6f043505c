r"""Randomisers for values without order: generalised randomised response and unary encoding.

With :math:`k` values (Wang, Blocki, Li & Jha 2017):

- generalised randomised response tells the truth with probability
  :math:`p_1 = e^\varepsilon/(e^\varepsilon + k - 1)` and each other value with
  :math:`p_2 = p_1 e^{-\varepsilon}`;
- unary encoding sends :math:`k` bits, each set with probability :math:`p` at the value and :math:`q`
  elsewhere: *symmetric* :math:`p = 1 - q = e^{\varepsilon/2}/(1 + e^{\varepsilon/2})`, *optimised*
  :math:`p = 1/2, q = 1/(1 + e^{\varepsilon})`. Changing the value changes two bits, hence the loss
  :math:`\log\frac{p(1-q)}{(1-p)q} = \varepsilon` in both.
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
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling.draws import uniform_below

from .claims import ConstantClaim
from .domain import Codes, Domain, numeric, settle_epsilons
from .fixed_point import Ball
from .laws import Floats
from .ordered import OrderedMechanism
from .sampling import bernoulli

_MOST_ENUMERATED = 16


@dataclass(frozen=True)
class GeneralisedRandomisedResponse(OrderedMechanism):
    r"""Tell the truth, or with some probability any value at random.

    The sampler draws the event "truth" with probability :math:`(1-e)/(1 + (k-1)e)`,
    :math:`e = e^{-\varepsilon}`, by lazy comparison, and otherwise a uniform value out of all :math:`k`: the
    truth then has :math:`(1 - e + e)/(1 + (k-1)e) = p_1`, every other value :math:`e/(1+(k-1)e) = p_2`,
    exactly.

    >>> mechanism = GeneralisedRandomisedResponse(Domain(0, 2), epsilon=math.log(2))
    >>> mechanism.probabilities(1).round(6).tolist()
    [0.25, 0.5, 0.25]
    """

    domain: Domain
    epsilon: float

    def __post_init__(self) -> None:
        settle_epsilons(self, "epsilon")

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
        settle_epsilons(self, "epsilon")
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
        """Raise an error if the value is no array of numbers; nothing is drawn. A ledger asks before it spends."""
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
