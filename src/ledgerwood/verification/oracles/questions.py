"""The questions every accountant is asked: ε at δ, or the Rényi divergence at an order."""

from __future__ import annotations

from dataclasses import dataclass

from ledgerwood.accounting.algebra import Cost
from ledgerwood.accounting.costs import BoundedRange, Gaussian, Laplace, PureDP
from ledgerwood.accounting.discrete import DiscreteGaussian, RandomizedResponse
from ledgerwood.accounting.subsampling import PoissonSubsampled

__all__ = ["PRICES", "QUESTIONS", "RENYI", "Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """A cost with a δ (what is its ε?) or with an order (what is its Rényi divergence?).

    >>> from ledgerwood.accounting import Gaussian
    >>> Question("one Gaussian", Gaussian(sigma=2.0), delta=1e-6).order is None
    True
    """

    label: str
    cost: Cost
    delta: float | None = None
    order: float | None = None


_ADULT = 1 / 32561
_SUBSAMPLED = PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)

PRICES = (
    Question("Gaussian, σ = 50, 1000 times", 1000 * Gaussian(sigma=50.0), delta=1e-5),
    Question("Gaussian, σ = 1", Gaussian(sigma=1.0), delta=1e-18),
    Question("Gaussian, σ = 1", Gaussian(sigma=1.0), delta=1e-300),
    Question("Laplace, b = 1", Laplace(scale=1.0), delta=1e-5),
    Question("Laplace, b = 10, 100 times", 100 * Laplace(scale=10.0), delta=1e-5),
    Question("Laplace, b = 10, 100 times", 100 * Laplace(scale=10.0), delta=1e-18),
    Question("pure 0.1-DP, 200 times", 200 * PureDP(0.1), delta=1e-5),
    Question("pure 0.1-DP, 2000 times", 2000 * PureDP(0.1), delta=1e-5),
    Question(
        "randomised response, ε = 0.1, 200 times", 200 * RandomizedResponse(0.1, neighbours="replace_one"), delta=1e-5
    ),
    Question("discrete Gaussian, σ = 1", DiscreteGaussian(sigma=1.0), delta=1e-5),
    Question("discrete Gaussian, σ = 10, 100 times", 100 * DiscreteGaussian(sigma=10.0), delta=1e-5),
    Question("selection, ε = 1", BoundedRange(1.0), delta=1e-5),
    Question("selection, ε = 0.1, 20 times", 20 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 0.1, 200 times", 200 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 0.1, 2000 times", 2000 * BoundedRange(0.1), delta=1e-5),
    Question("selection, ε = 1, 20 times", 20 * BoundedRange(1.0), delta=1e-15),
    Question(
        "DP-XGB: 200 selections of 0.0339, 50 Gaussians of σ = 45",
        200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0),
        delta=_ADULT,
    ),
    Question("subsampled Gaussian, q = 0.01, σ = 1", _SUBSAMPLED, delta=1e-5),
    Question("subsampled Gaussian, q = 0.01, σ = 1, 10 000 times", 10_000 * _SUBSAMPLED, delta=1e-5),
)

RENYI = (
    *(
        Question(f"selection, ε = {size:g}", BoundedRange(size), order=order)
        for size, order in [
            (1e-12, 1.0),
            (1e-12, 1 + 1e-6),
            (1e-9, 2.0),
            (1e-8, 1.0),
            (1e-8, 1 + 1e-10),
            (0.0, 2.0),
            (0.01, 1000.0),
            (0.1, 10.0),
            (1.0, 10.0),
            (10.0, 1.0),
            (10.0, 2.0),
            (1000.0, 1.0),
            (1000.0, 2.0),
        ]
    ),
    Question("pure DP, ε = 1e-9", PureDP(1e-9), order=2.0),
    Question("pure DP, ε = 1", PureDP(1.0), order=4.0),
    Question("Laplace, b = 10", Laplace(scale=10.0), order=2.5),
    Question("Laplace, b = 1e8", Laplace(scale=1e8), order=2.5),
    *(
        Question("subsampled Gaussian, q = 0.01, σ = 2.5", PoissonSubsampled(Gaussian(sigma=2.5), rate=0.01), order=a)
        for a in (1.1, 1.5, 2.5, 8.0)
    ),
)

QUESTIONS = (*PRICES, *RENYI)
