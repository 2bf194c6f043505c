"""One entry of the zoo: a mechanism as code, the claim it makes, a pair of inputs, and the exact truth at that pair."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import ApproxDP, Cost
from ledgerwood.verification.exact.check import Verdict, check
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.intervals import Bounds, Number

Sampler: TypeAlias = Callable[[Any, int, np.random.Generator], NDArray[Any]]
Distribution: TypeAlias = Mapping[Hashable, Number]


def _by_distribution(first: Any, second: Any) -> Pair:
    """The default of an entry's exact pair, which is then made of its distribution."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Entry:
    """A mechanism to be judged; call it, or its :meth:`sample`, like any mechanism under audit.

    Attributes
    ----------
    name, family : str
        Identifier and kind ("noise", "selection", "svt", "boosting", …).
    correct : bool
        Whether the claim is true.
    summary : str
        What the code does, in one line.
    claim : Cost
        What it claims.
    relation : str
        Which inputs are neighbours.
    pair : tuple
        Two neighbouring inputs; for a broken entry, inputs that expose it.
    sampler : callable
        ``sampler(data, n, rng)`` returns n outputs, one per row.
    exact : callable
        ``exact(first, second)`` returns the exact pair of output distributions (for some entries of a post-processing,
        for a broken one enough to refute); by default that of ``distribution``.
    reason : str
        The proof of a correct entry, the flaw of a broken one.
    known_epsilon : float or None
        Epsilon at the pair and at the claimed delta, as published or derived, to five digits.
    distribution : callable or None
        ``distribution(data)``: the exact probabilities of the sampler's outputs, if they are finite.

    >>> from ledgerwood.verification.zoo import ZOO
    >>> entry = ZOO["svt_4"]
    >>> entry.correct, entry.family
    (False, 'svt')
    """

    name: str
    family: str
    correct: bool
    summary: str
    claim: Cost
    relation: str
    pair: tuple[Any, Any]
    sampler: Sampler
    reason: str
    known_epsilon: float | None
    distribution: Callable[[Any], Distribution] | None = None
    exact: Callable[[Any, Any], Pair] = _by_distribution

    def __post_init__(self) -> None:
        if self.exact is _by_distribution:
            of = self.distribution
            assert of is not None, "an entry has an exact pair or a distribution"
            object.__setattr__(self, "exact", lambda first, second: Pair.from_distributions(of(first), of(second)))

    def sample(self, data: Any, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """``n`` outputs on ``data``."""
        return self.sampler(data, n, rng)

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        """One output on ``data``."""
        return self.sampler(data, 1, rng)[0]

    @property
    def status(self) -> str:
        """The truth: "correct" or "broken"."""
        return "correct" if self.correct else "broken"

    @property
    def claimed_delta(self) -> float:
        """The delta of the claim, 0 for a pure one."""
        return self.claim.mass if isinstance(self.claim, ApproxDP) else 0.0

    def verdict(self) -> Verdict:
        """The exact verifier's answer at the entry's pair."""
        return check(self.exact(*self.pair), self.claim)

    def exact_epsilon(self) -> Bounds:
        """Epsilon at the entry's pair and claimed delta, the worse direction."""
        pair = self.exact(*self.pair)
        sides = [side.epsilon(self.claimed_delta) for side in (pair, pair.swapped())]
        return Bounds(max(s.lower for s in sides), max(s.upper for s in sides))


def deterministic(statistic: Callable[[Any], Hashable]) -> Callable[[Any, Any], Pair]:
    """The exact pair of the part of an output that carries no noise (a post-processing of the whole)."""

    def exact(first: Any, second: Any) -> Pair:
        return Pair.from_distributions({statistic(first): 1}, {statistic(second): 1})

    return exact
