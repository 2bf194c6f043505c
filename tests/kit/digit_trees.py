"""The output distribution of code that compares lazily known reals, by going through the digits of these reals.

Word by word, almost everything stays open: two reals take some fifty bits before they are first compared. But the
distribution of a real is known (test_digit_trees.py shows it, bit by bit, from the code that draws them), so the
*cells* that its digits cut out have known probabilities. Here the mechanism's own code runs on cells in place of draws:
a cell is a sign, a whole part and some binary digits. A run that ends before it asks for a digit that the cell does not
have is a decision for every real in the cells: the product of their probabilities goes to its output. A run that asks
is done again with the cell cut in two. Cells are taken in the order of their probability.

What is found is exact, up to the rounding of doubles (about 1e-13): each output's probability lies between its mass and
its mass plus all that is undecided.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import ndtr

from ledgerwood.mechanisms.randomness import ReplaySource
from ledgerwood.mechanisms.sampling import draws, exact

Cell = tuple[bool, int, int, int]  # negative, whole part, digits, how many digits


def exponential_mass(a: float, b: float) -> float:
    return math.exp(-a) * -math.expm1(a - b)


def normal_mass(a: float, b: float) -> float:
    return 2 * float(ndtr(-a) - ndtr(-b))


class _NeedReal(Exception):
    """The code draws a real for which there is no cell yet."""


class _Stuck(Exception):
    """The code asks for a digit of a real a second time: nothing more can be learned from these cells."""


class _Digits:
    """Stands for the source of one real's further digits: notes that they were asked for."""

    private = False
    prefetch = False
    word_bits = 1

    def __init__(self, real: int, asked: set[int]) -> None:
        self.real, self.asked = real, asked

    def words(self, count: int) -> np.ndarray:
        if self.real in self.asked:
            raise _Stuck
        self.asked.add(self.real)
        return np.zeros(count, dtype=np.uint64)  # not to be believed: a run that asked counts as undecided


@dataclass(frozen=True)
class DistributionByDigits:
    mass: dict[Hashable, float]
    undecided: float
    runs: int

    def contradicts(self, probability: Callable[..., float], at_most: float) -> str | None:
        """How the found distribution differs from the stated one, or None; an error if too much is undecided."""
        assert self.undecided <= at_most, self.undecided
        for output, known in self.mass.items():
            p = probability(output)
            if not known - 1e-9 <= p <= known + self.undecided + 1e-9:
                return f"{output}: stated {p:.6f}, found {known:.6f} .. {known + self.undecided:.6f}"
        return None


def distribution_by_digits(
    monkeypatch: pytest.MonkeyPatch,
    release: Callable[[ReplaySource], Hashable],
    *,
    draw: str = "exponential",
    signed: bool = True,
    floats: bool = False,
    given: dict[int, Cell] | None = None,
    runs: int = 5000,
    reach: int = 14,
) -> DistributionByDigits:
    """Find the distribution of ``release``, whose reals come from ``draws.<draw>``.

    ``floats``: the known digits are those that the first look in floats sees, all reals equally many, so that floats
    decide most; otherwise the first look sees whole parts only, and the comparison in rationals decides.
    ``signed=False`` leaves out the sign of code that does not look at it. ``given``: these reals are the left ends of
    their cells (64 further digits are 0), and the distribution that is found is conditional on that.
    """
    given = {
        real: (sign, whole, digits << 64, bits + 64) for real, (sign, whole, digits, bits) in (given or {}).items()
    }
    mass_of = exponential_mass if draw == "exponential" else normal_mass
    share = 0.5 if signed else 1.0
    monkeypatch.setattr(draws, "TUNING", replace(draws.TUNING, lazy_steps=1))

    def probability(real: int, cell: Cell) -> float:
        if real in given:
            return 1.0
        _, whole, digits, bits = cell
        width = 2.0**-bits
        return share * mass_of(whole + digits * width, whole + (digits + 1) * width)

    run_cells: tuple[Cell, ...] = ()
    position = 0
    asked: set[int] = set()

    def cells_as_draws(count: int, source: ReplaySource) -> draws.LazyReals:
        nonlocal position
        if position + count > len(run_cells):
            raise _NeedReal
        mine = run_cells[position : position + count]
        longer = {
            j: exact.Uniform(digits, bits, exact.Reader(_Digits(position + j, asked)))
            for j, (_, _, digits, bits) in enumerate(mine)
        }
        known = mine[0][3] if floats and mine else 0
        fine = [cell[2] if floats else 0 for cell in mine]
        position += count
        return draws.LazyReals(
            np.array([cell[0] for cell in mine], dtype=np.bool_),
            np.array([cell[1] for cell in mine], dtype=np.int64),
            np.array(fine, dtype=np.uint64),
            known,
            source,
            longer,
        )

    monkeypatch.setattr(draws, draw, cells_as_draws)
    signs = (False, True) if signed else (False,)
    found: dict[Hashable, list[float]] = {}
    open_: list[tuple[float, int, tuple[Cell, ...]]] = [(-1.0, 0, ())]
    names = itertools.count(1)
    done = 0
    while open_ and done < runs:
        weight, _, run_cells = heapq.heappop(open_)
        position, asked = 0, set()
        done += 1
        try:
            output = release(ReplaySource([]))
        except _Stuck:
            pass
        except _NeedReal:
            real = len(run_cells)
            if real in given:
                heapq.heappush(open_, (weight, next(names), (*run_cells, given[real])))
                continue
            bits = run_cells[0][3] if floats and run_cells else 0
            for sign, whole, digits in itertools.product(signs, range(reach), range(1 << bits)):
                cell = (sign, whole, digits, bits)
                heapq.heappush(open_, (weight * probability(real, cell), next(names), (*run_cells, cell)))
            continue
        if not asked:
            found.setdefault(output, []).append(-weight)
            continue
        cut = range(len(run_cells)) if floats else [min(asked, key=lambda j: run_cells[j][3])]
        for halves in itertools.product((0, 1), repeat=len(cut)):
            cells = list(run_cells)
            for j, half in zip(cut, halves, strict=True):
                sign, whole, digits, bits = cells[j]
                cells[j] = (sign, whole, 2 * digits + half, bits + 1)
            heapq.heappush(open_, (-math.prod(map(probability, range(len(cells)), cells)), next(names), tuple(cells)))
    mass = {output: math.fsum(parts) for output, parts in found.items()}
    return DistributionByDigits(mass, max(0.0, 1 - math.fsum(mass.values())), done)
