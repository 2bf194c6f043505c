"""Pairs made of many releases: a composition by its parts, and a composed loss as atoms between two bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair
from ledgerwood.accounting.curves.dominating_pairs.discrete import AtomPair, LossAtoms

__all__ = ["BoundedLossPair", "ProductPair", "seen_outcomes"]


@dataclass(frozen=True)
class ProductPair(LossPair):
    """Independent pairs, each a number of times. It has no cells: the accountant composes it where they are needed."""

    parts: tuple[tuple[LossPair, int], ...]

    def _closed_form(self) -> bool:
        return False

    def _symmetric(self) -> bool:
        return all(pair.symmetric for pair, _ in self.parts)

    def _infinite_mass(self) -> float:
        return -math.expm1(math.fsum(n * math.log1p(-pair.infinite_mass) for pair, n in self.parts))

    def _support(self) -> tuple[float, float]:
        ends = [(n * pair.support()[0], n * pair.support()[1]) for pair, n in self.parts]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        raise NotImplementedError("a composition has no cells of its own")

    def _log_delta(self, epsilon: Array) -> Array:
        raise NotImplementedError("a composition has no profile in closed form")

    def _reversed(self) -> ProductPair:
        return ProductPair(tuple((pair.reversed(), n) for pair, n in self.parts))


@dataclass(frozen=True, eq=False)
class BoundedLossPair(AtomPair):
    """Atoms of a loss from above, and the pair of its atoms from below.

    ``infinite`` is P-mass where Q vanishes, ``lost`` Q-mass where P does.
    """

    loss: Array = field(repr=False)
    log_p: Array = field(repr=False)
    infinite: float
    lost: float
    lower: LossPair | None = field(default=None, repr=False)

    def _closed_form(self) -> bool:
        return False

    def _symmetric(self) -> bool:
        return False

    def _infinite_mass(self) -> float:
        return self.infinite

    def _lost_mass(self) -> float:
        return self.lost

    def _support(self) -> tuple[float, float]:
        return -math.inf if self.lost else float(self.loss[0]), float(self.loss[-1])

    def _anchor(self) -> float:
        return float(self.loss[int(np.argmax(self.log_p))])

    def _atoms(self) -> LossAtoms:
        return LossAtoms(self.loss, self.log_p)

    def _below(self) -> LossPair:
        return self if self.lower is None else self.lower


def seen_outcomes(log_p: Array, log_q: Array) -> BoundedLossPair:
    """The pair of what is seen of a release: finitely many outcomes, their log masses under P and under Q.

    Telling no more than the outcome is post-processing, so the release costs no less.
    """
    kept = (log_p > -np.inf) & (log_q > -np.inf)
    loss = log_p[kept] - log_q[kept]
    order = np.argsort(loss, kind="stable")
    return BoundedLossPair(loss[order], log_p[kept][order], 0.0, float(np.sum(np.exp(log_q[~kept]))))
