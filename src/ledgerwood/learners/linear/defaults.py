"""Defaults from public facts: how many rounds, and how the budget is split (``docs/benchmarks/linear.md``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledgerwood.learners.facts import PublicFacts

__all__ = ["automatic_rounds", "automatic_shares"]


def automatic_rounds(facts: PublicFacts, bins: int | None) -> int:
    """Return T for n rows, p encoded columns and epsilon."""
    return 10


def automatic_shares(single: bool) -> tuple[float, float, float]:
    """Return a : b : c."""
    return (1.0, 1.0, 0.0) if single else (0.5, 1.0, 0.0)
