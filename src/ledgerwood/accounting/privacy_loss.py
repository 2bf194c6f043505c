"""A privacy-loss distribution of one's own, as a cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood.accounting import checks, renyi
from ledgerwood.accounting.algebra import Atom, Cost
from ledgerwood.accounting.checks import Array
from ledgerwood.accounting.costs import ApproxDP, PureDP, set_fields
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.pairs import LossPair


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivacyLoss(Atom):
    """A dominating pair given by its privacy-loss pmf under P: loss values (``inf`` allowed) and probabilities.

    The pair must dominate the mechanism for the ordered neighbours (P, Q). Give ``reverse=(losses, probabilities)``
    for the other direction; without it the pmf is taken to cover both.

    >>> coin = PrivacyLoss([1.0, -1.0], [0.6, 0.4])
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: probabilities must satisfy sum p·exp(-loss) <= 1 (the mass of Q), ...
    """

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]
    reverse: tuple[tuple[float, ...], tuple[float, ...]] | None
    neighbours: Neighbours

    def __init__(
        self,
        losses: Iterable[float],
        probabilities: Iterable[float],
        *,
        reverse: tuple[Iterable[float], Iterable[float]] | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        forward = _checked(losses, probabilities)
        backward = None if reverse is None else _checked(*reverse)
        set_fields(self, neighbours, losses=forward[0], probabilities=forward[1], reverse=backward)

    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {"losses": list(self.losses), "probabilities": list(self.probabilities)}
        if self.reverse is not None:
            found["reverse"] = [list(self.reverse[0]), list(self.reverse[1])]
        return found

    def _directions(self) -> list[tuple[Array, Array]]:
        both = [(self.losses, self.probabilities)] + ([self.reverse] if self.reverse is not None else [])
        return [(np.array(losses), np.array(p)) for losses, p in both]

    def pure_epsilon(self) -> float:
        finite = (v for losses, _ in self._directions() for v in losses.tolist() if v < math.inf)
        return max(0.0, max(finite, default=0.0))

    def infinite_mass(self) -> float:
        return max(float(np.sum(p[np.isinf(losses)])) for losses, p in self._directions())

    def renyi(self, alpha: Array) -> Array:
        curves = []
        for losses, p in self._directions():
            keep = np.isfinite(losses) & (p > 0)
            # Outside the infinite mass: the conditional law given a finite loss. Its moments bound δ at every order
            # above 1; at order 1 the conditional second law may have mass above 1, so nothing is said.
            total = float(np.sum(p[keep])) or 1.0
            lost = max(0.0, 1.0 - math.fsum(p[keep] * np.exp(-losses[keep])))
            curve = renyi.from_losses(losses[keep], np.log(p[keep] / total), alpha, lost)
            curves.append(curve if np.all(keep | (p == 0)) else np.where(alpha == 1.0, math.inf, curve))
        return np.asarray(np.max(np.stack(curves), axis=0))

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import PmfPair

        return tuple(PmfPair(tuple(losses.tolist()), tuple(p.tolist())) for losses, p in self._directions())

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array] | None:
        if self.infinite_mass() > 0 or self.reverse is not None:
            return None
        losses, p = np.array(self.losses), np.array(self.probabilities)
        return losses[p > 0], np.log(p[p > 0])

    def _group(self, k: int) -> Cost:
        cost = ApproxDP(self.pure_epsilon(), self.infinite_mass(), neighbours=self.neighbours)
        return cost.group(k) if cost.infinite_mass() else PureDP(k * cost.size, neighbours=self.neighbours)


def _checked(losses: Iterable[float], probabilities: Iterable[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    values = tuple(checks.real("losses", v, "be numbers (inf allowed)") for v in losses)
    weights = tuple(checks.probability("probabilities", p) for p in probabilities)
    if len(values) != len(weights) or not values:
        raise ParameterError("probabilities", f"match the {len(values)} losses one to one", len(weights))
    if any(v == -math.inf and p > 0 for v, p in zip(values, weights)):
        raise ParameterError("losses", "be above -inf (an outcome P never takes has no loss under P)", -math.inf)
    if abs(math.fsum(weights) - 1) > 1e-9:
        raise ParameterError("probabilities", "add up to 1", math.fsum(weights))
    mass = math.fsum(p * math.exp(min(-v, 700.0)) for v, p in zip(values, weights) if p > 0)
    if mass > 1 + 1e-9:
        hint = "Are the losses under P = log dP/dQ?"
        raise ParameterError("probabilities", "satisfy sum p·exp(-loss) <= 1 (the mass of Q)", mass, hint)
    return values, weights
