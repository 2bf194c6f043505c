r"""Counts of keys that nobody declared: noise on the keys that are present, and a threshold (partition selection).

Which words, categories or regions occur is itself private: a key that only one person has must not appear because they
are there. So the counts of the keys that are present get noise, and those below a threshold T are dropped.

**Theorem (cost).** Let a person be counted under at most m keys, add at most c to each and at most t to all. Let
:math:`p_i=\Pr[i+N\ge T]` and let :math:`\delta'` be the largest :math:`1-\prod_j(1-p_{c_j})` over at most m counts
:math:`c_j\le c` of sum at most t. The release costs at most the noise on the counts of common keys, of sensitivity t in
L1 and :math:`\sqrt{tc}` in L2, composed with :math:`(0,\delta')`-DP. Under replace-one the keys of two people change:
2t and :math:`\sqrt{2tc}`.

*Proof.* Let D and D' be neighbours. A key that one of them lacks has, in the other, only counts of the person (of one
of the two), so the probability p that such a key is kept from D, and p' from D', are at most :math:`\delta'`. Given
that none is, the output is post-processing of noisy counts of common keys: distributions G and G' with the profile
:math:`\delta_G` of the noise. The counts of one person have squared L2 norm at most tc; those of two people are not
negative, so that of their difference is at most 2tc. For any set S, :math:`P(S)\le(1-p)G(S)+p` and
:math:`P'(S)\ge(1-p')G'(S)`; with q = max(p, p'),
:math:`P(S)-e^\gamma P'(S)\le(1-q)(G(S)-e^\gamma G'(S))+q\le(1-q)\delta_G(\gamma)+q`, which grows with q; at
:math:`\delta'` it is the profile of the composition. ∎

With one key and equal counts neither part can be had for less: a key of one person shows with probability
:math:`\delta'`, and a common one is plain noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _checks
from ledgerwood._rounding import MARGIN, sqrt_up
from ledgerwood.accounting import ApproxDP, Cost
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import LARGEST_INTEGER, Sensitivity, clamped_integers, coerce_floats
from ledgerwood.mechanisms.integer_noise import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from ledgerwood.mechanisms.noise import GaussianMechanism, LaplaceMechanism
from ledgerwood.mechanisms.randomness import Rng

__all__ = ["ThresholdedCountsMechanism"]

_MOST_TERMS = 10**5
"""Terms of a discrete Gaussian tail that are summed; a broader one is bounded by an integral, 1e-9 above it."""
_MOST_COUNTS = 10**4
"""Counts of one key that are compared with each other; beyond it the largest stands for all."""


def _laplace_tail(k: int, scale: float) -> float:
    """Pr[round(N) >= k] for continuous Laplace noise."""
    x = (k - 0.5) / scale
    return 0.5 * math.exp(-x) if k > 0 else 1 - 0.5 * math.exp(x)


def _gaussian_tail(k: int, sigma: float) -> float:
    """Pr[round(N) >= k] for continuous Gaussian noise."""
    return 0.5 * math.erfc((k - 0.5) / sigma / math.sqrt(2))


def _discrete_laplace_tail(k: int, scale: float) -> float:
    """Pr[N >= k]."""
    rest = 1 + math.exp(-1 / scale)
    return math.exp(-k / scale) / rest if k > 0 else 1 - math.exp((k - 1) / scale) / rest


def _discrete_gaussian_tail(k: int, sigma: float) -> float:
    """Pr[N >= k], or the Gaussian's beyond k - 1/2 where a sum is long.

    The discrete density is at most the continuous one (docs/theory/discrete-gaussian.md), and that is convex beyond
    sigma, so at most its mean over the cell around it.
    """
    width = math.ceil(40 * sigma) + 1
    if width > _MOST_TERMS:
        return _gaussian_tail(k, sigma) if k - 0.5 >= sigma else 1.0
    if k <= 0:
        return 1 - _discrete_gaussian_tail(1 - k, sigma)
    weights = np.exp(-np.square(np.arange(k, k + width) / sigma) / 2)
    whole = 1 + 2 * math.fsum(np.exp(-np.square(np.arange(1, width) / sigma) / 2).tolist())
    return math.fsum(weights.tolist()) / whole


Tail = Callable[[int, float], float]
NOISES: dict[str, tuple[Any, str, Tail]] = {
    "laplace": (LaplaceMechanism, "scale", _laplace_tail),
    "gaussian": (GaussianMechanism, "sigma", _gaussian_tail),
    "discrete_laplace": (DiscreteLaplaceMechanism, "scale", _discrete_laplace_tail),
    "discrete_gaussian": (DiscreteGaussianMechanism, "sigma", _discrete_gaussian_tail),
}
"""The mechanism that adds each noise to integers, the name of its scale, and the tail of its noise."""


@dataclass(frozen=True, slots=True)
class ThresholdedCountsMechanism:
    r"""Releases the keys whose noisy count reaches a threshold, with that count: categories that nobody declared.

    Give either the ``delta`` that may be spent on keys of one person alone, and the least sufficient threshold is
    taken, or the ``threshold``, and its δ is computed and charged.

    Parameters
    ----------
    noise : str
        ``"laplace"`` or ``"gaussian"`` (continuous, rounded), ``"discrete_laplace"`` or ``"discrete_gaussian"``.
    scale : float
        Scale of the noise; of Gaussian noise its σ.
    delta : float, optional
        The δ of the threshold.
    threshold : int, optional
        A noisy count of at least this is released.
    max_keys : int
        Under how many keys a person is counted at most. Keep it, for instance by dropping a person's other keys.
    max_count : int
        How much a person adds to the count of one key at most.
    max_total : int, optional
        How much a person adds to all counts together at most; by default ``max_keys * max_count``.
    neighbours : str
        ``"add_remove"`` or ``"replace_one"``: of people.

    Examples
    --------
    >>> m = ThresholdedCountsMechanism("discrete_laplace", scale=2.0, delta=1e-6)
    >>> m.threshold_at, m.cost
    (28, ApproxDP(epsilon=0.0, delta=1e-06) + DiscreteLaplace(scale=2.0, sensitivity=1))
    >>> sorted(m.release({"flu": 400, "cold": 900, "a rare disease": 1}))
    ['cold', 'flu']
    """

    noise: str
    scale: float
    delta: float | None = None
    threshold: int | None = None
    max_keys: int = 1
    max_count: int = 1
    max_total: int | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ParameterError("noise", f"be one of {', '.join(NOISES)}", self.noise)
        coerce_floats(self, "scale")
        if (self.delta is None) == (self.threshold is None):
            raise ParameterError("delta", "be given, or else threshold (one of the two)", self.delta)
        if self.delta is not None and _checks.delta_value(self.delta) == 0:
            raise ParameterError("delta", "be positive: every threshold lets a key of one person through", self.delta)
        if self.threshold is not None:
            object.__setattr__(self, "threshold", _checks.integer("threshold", self.threshold, 1))
        keys, count = _checks.integer("max_keys", self.max_keys, 1), _checks.integer("max_count", self.max_count, 1)
        if self.max_total is not None:
            _checks.integer("max_total", self.max_total, 1)
        total = min(keys * count, keys * count if self.max_total is None else int(self.max_total))
        if total > LARGEST_INTEGER:
            raise ParameterError("max_count", "allow totals of at most 2**61", self.max_count)
        object.__setattr__(self, "max_total", total)
        object.__setattr__(self, "max_keys", min(keys, total))
        object.__setattr__(self, "max_count", min(count, total))
        _ = self.cost

    @property
    def sensitivity(self) -> Sensitivity:
        """How far a person moves the counts of the keys that both of two neighbours have."""
        assert self.max_total is not None
        people = 2 if self.neighbours == "replace_one" else 1
        return Sensitivity(
            l1=people * self.max_total,
            l2=sqrt_up(Fraction(people * self.max_total * self.max_count)),
            linf=self.max_count,
            dimension=people * self.max_keys,
        )

    @property
    def cost(self) -> Cost:
        """The cost of the noise, and the δ of the threshold."""
        size = self.sensitivity
        alone = self.max_count if size.dimension == 1 else size
        noise = self._mechanism(alone).cost
        delta = self.threshold_delta(self.threshold_at) if self.delta is None else self.delta
        if delta >= 1:
            raise ParameterError(
                "threshold", "be so high that a key of one person may fail to reach it", self.threshold
            )
        found: Cost = noise + ApproxDP(0.0, delta, neighbours=self.neighbours)
        return found

    @property
    def threshold_at(self) -> int:
        """The threshold: the one that was given, or the least that keeps within ``delta``.

        >>> m = ThresholdedCountsMechanism("gaussian", scale=10.0, delta=1e-6, max_keys=3)
        >>> m.threshold_at, m.threshold_delta(52) <= 1e-6 < m.threshold_delta(51)
        (52, True)
        """
        if self.threshold is not None:
            return self.threshold
        assert self.delta is not None
        low, high = 0, 1  # the δ of low is too large
        while self.threshold_delta(high) > self.delta:
            low, high = high, 2 * high
            if high > LARGEST_INTEGER:
                raise ParameterError("delta", "be reached by some threshold below 2**61", self.delta)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.threshold_delta(middle) > self.delta else (low, middle)
        return high

    def threshold_delta(self, threshold: int) -> float:
        """The probability that a key of one person alone reaches this threshold, rounded up.

        >>> ThresholdedCountsMechanism("laplace", scale=1.0, threshold=9).threshold_delta(9)
        0.00027654...
        """
        assert self.max_total is not None
        whole = self.max_total == self.max_keys * self.max_count or self.max_count > _MOST_COUNTS
        tail = NOISES[self.noise][2]
        # The worst counts: as many as possible at the largest, or all at the one that gives most for what it adds.
        counts = [self.max_count] if whole else range(1, self.max_count + 1)
        chances = {c: min(tail(threshold - c, self.scale) * (1 + MARGIN) + 5e-324, 1.0) for c in counts}
        if max(chances.values()) >= 1:
            return 1.0
        logs = {c: -math.log1p(-chance) for c, chance in chances.items()}
        most = self.max_keys * logs[self.max_count]
        if not whole:
            most = min(most, self.max_total * max(log / c for c, log in logs.items()))
        return min(-math.expm1(-most) * (1 + MARGIN) + 5e-324, 1.0)

    def _mechanism(self, sensitivity: int | Sensitivity) -> Any:
        kind, name, _ = NOISES[self.noise]
        return kind(**{name: self.scale}, sensitivity=sensitivity, neighbours=self.neighbours)

    def check(self, value: Mapping[Any, Any]) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        if not isinstance(value, Mapping):
            raise ParameterError("value", "be a mapping of keys to counts", f"<{type(value).__name__}>")
        _counts(list(value.values()))

    def release(self, value: Mapping[Any, Any], rng: Rng = None) -> dict[Hashable, int]:
        """Return the noisy counts that reach the threshold, largest first.

        A key is a string, bytes, a number, or a tuple of such; anything else (None, nan) is no key and is not counted.
        Equal numbers look the same: True and 1.0 come out as 1. A count below one is of a key that is not present.
        """
        self.check(value)
        counts = _counts(list(value.values()))
        named = [(_canonical(key), int(n)) for key, n in zip(value, counts, strict=True) if n > 0]
        # In an order that depends on the keys alone, not on who came first.
        present = sorted(((key, n) for key, n in named if key is not None), key=lambda one: _order(one[0]))
        if not present:
            return {}
        sizes = np.array([n for _, n in present], dtype=np.int64)
        drawn = self._mechanism(Sensitivity(l1=1, l2=1, linf=1, dimension=len(present))).release(sizes, rng)
        noisy: NDArray[np.int64] = np.asarray(drawn).ravel()
        ranked = np.argsort(-noisy, kind="stable").tolist()
        threshold = self.threshold_at
        return {present[i][0]: int(noisy[i]) for i in ranked if noisy[i] >= threshold}


def _counts(values: list[Any]) -> NDArray[np.int64]:
    """Counts as integers, whatever their size."""
    return clamped_integers("value", values or np.zeros(0, dtype=np.int64), 0, LARGEST_INTEGER)


def _canonical(key: Any) -> Any:
    """A key in the one form that all keys equal to it have; None if it is none."""
    if isinstance(key, (str, bytes)):
        return str(key) if isinstance(key, str) else bytes(key)
    if isinstance(key, tuple):
        parts = tuple(_canonical(part) for part in key)
        return None if None in parts else parts
    if _checks.is_bool(key) or _checks.is_integer(key):
        return int(key)
    if isinstance(key, (float, np.floating)) and math.isfinite(key):
        number = float(key)
        return int(number) if number.is_integer() else number
    return None


def _order(key: Any) -> tuple[str, Any]:
    """Something to sort keys of all kinds by."""
    if isinstance(key, tuple):
        return "tuple", tuple(map(_order, key))
    return "number" if isinstance(key, (int, float)) else type(key).__name__, key
