"""Bounded discrete Laplace: integer noise conditioned on the output staying within declared bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood.accounting import BoundedRange
from ledgerwood.accounting.checks import ratio_above
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import check_bounds, clamped_integers, settle_floats, whole_number
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import choice, draws

__all__ = ["BoundedDiscreteLaplaceMechanism", "log_normaliser"]


def log_normaliser(scale: float, below: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Logarithm of sum exp(-|z| / scale) over z = -below, ..., above (both at least 0).

    With q = exp(-1 / scale): (1 + q - q^{below+1} - q^{above+1}) / (1 - q). This is Lemma 4.10 of P1 (OpBoost)
    corrected: there the factor tau that makes the truncated law a law has numerator 2; it must be 1 + q, since the
    whole discrete Laplace law has normaliser (1 + q) / (1 - q).
    Written as 1 + [q (1 - q^below) + q (1 - q^above)] / (1 - q) nothing cancels.
    """
    tails = np.expm1(-below / scale) + np.expm1(-above / scale)
    return np.asarray(np.log1p(np.exp(-1 / scale) * tails / np.expm1(-1 / scale)))


@dataclass(frozen=True, slots=True)
class BoundedDiscreteLaplaceMechanism:
    """Releases z in lower .. upper with probability proportional to ``exp(-|z - value| / scale)``.

    The discrete Laplace mechanism, repeated until its output lies within the bounds. As the normaliser depends on the
    value, the loss has two parts; together they are that of an exponential mechanism with score ``-|z - value|``, whose
    differences lie in [-sensitivity, sensitivity]: bounded range with epsilon = 2 sensitivity / scale (twice that of
    the unbounded mechanism; near an edge of a wide range the pure epsilon comes as close to it as one likes).

    Parameters
    ----------
    scale : float
        Scale of the noise before conditioning.
    lower, upper : int
        Bounds of the output; values outside are clamped to them first.
    sensitivity : int
        How far neighbours can move the value.
    neighbours : str
        The relation that the sensitivity speaks of.

    Examples
    --------
    >>> m = BoundedDiscreteLaplaceMechanism(scale=2.0, lower=0, upper=4)
    >>> m.probabilities(0).round(4)
    array([0.4287, 0.26  , 0.1577, 0.0956, 0.058 ])
    >>> m.cost
    BoundedRange(epsilon=1.0)
    """

    scale: float
    lower: int
    upper: int
    sensitivity: int = 1
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        settle_floats(self, "scale")
        if self.scale > draws.LARGEST_SCALE:
            raise ParameterError("scale", "be at most 2**50", self.scale, "Take a coarser grid")
        for name in ("lower", "upper"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), at_least=-(2**60)))
        check_bounds((2 * self.lower, 2 * self.upper))
        object.__setattr__(self, "sensitivity", whole_number("sensitivity", self.sensitivity, at_least=1))
        _ = self.cost

    @property
    def cost(self) -> BoundedRange:
        """Bounded range, 2 sensitivity / scale."""
        step = min(self.sensitivity, self.upper - self.lower)
        return BoundedRange(ratio_above(2 * step, self.scale), neighbours=self.neighbours)

    def log_probabilities(self, value: int) -> NDArray[np.float64]:
        """Logarithms of the probabilities of lower, ..., upper."""
        v = int(self._clamped(value))
        z = np.arange(self.lower, self.upper + 1)
        below, above = np.array(v - self.lower), np.array(self.upper - v)
        return -np.abs(z - v) / self.scale - log_normaliser(self.scale, below, above)

    def probabilities(self, value: int) -> NDArray[np.float64]:
        """Probabilities of lower, ..., upper."""
        return np.exp(self.log_probabilities(value))

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._clamped(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> NDArray[np.int64] | int:
        """Return one output for every entry of the value (each entry is a release of its own)."""
        v = self._clamped(value)
        source = source_of(rng)
        out = v.ravel().copy()
        open_ = np.arange(out.size)
        # Narrow bounds: propose uniformly and accept with probability exp(-|z - v| / scale). Wide ones: propose
        # discrete Laplace noise and accept what stays inside. Either way at least about a third is accepted.
        wide = self.upper - self.lower + 1 > 2 * self.scale
        while open_.size:
            start = v.ravel()[open_]
            if wide:
                z = start + draws.discrete_laplace(Fraction(self.scale), open_.size, source)
                kept = (self.lower <= z) & (z <= self.upper)
            else:
                z = self.lower + draws.uniform_below(np.full(open_.size, self.upper - self.lower + 1), source)
                kept = choice.coins(choice.Exponents(1 / Fraction(self.scale), -np.abs(z - start), 0), source)
            out[open_[kept]] = z[kept]
            open_ = open_[~kept]
        return out.reshape(v.shape) if v.ndim else int(out[0])

    def _clamped(self, value: ArrayLike) -> NDArray[np.int64]:
        return clamped_integers("value", value, self.lower, self.upper)
