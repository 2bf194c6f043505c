"""Every float our samplers release could have come from the neighbour: no lattice tells two inputs apart.

A release on a grid gives every multiple of the grid a positive probability, whatever the value was. So an output is
unattainable if, and only if, it is not a multiple of the grid (or lies outside declared bounds). Beyond that, values
that differ by a whole number leave the finest bit of every output with the *same* distribution: rounded noise plus an
integer has the same lowest set bit as long as that bit is below one. Both are checked; textbook noise fails both.
"""

import numpy as np
import pytest
from scipy import stats

from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    SeededSource,
    Sensitivity,
    SkellamMechanism,
)
from ledgerwood.verification.auditor.float_attacks import FORMULAS, attainable, low_bit

LEVEL = 1e-9
BATCH = 100_000
HOW_MANY = [200_000, pytest.param(10_000_000, marks=pytest.mark.slow)]

ON_A_GRID = {
    "Laplace, grid 2^-10": LaplaceMechanism(scale=10.0, grid=2.0**-10),
    "Laplace, grid 2^-25": LaplaceMechanism(scale=10.0, grid=2.0**-25),
    "Laplace, scale 1/3": LaplaceMechanism(scale=1 / 3, grid=2.0**-30),
    "Gaussian, grid 2^-20": GaussianMechanism(sigma=3.7306, grid=2.0**-20),
    "Gaussian, grid 2^-25": GaussianMechanism(sigma=3.7306, grid=2.0**-25),
}
MANY = Sensitivity(l1=1, l2=1, dimension=BATCH)  # a batch is one vector
INTEGERS = {
    "discrete Laplace": (DiscreteLaplaceMechanism(scale=10.0, sensitivity=MANY), None),
    "discrete Gaussian": (DiscreteGaussianMechanism(sigma=3.7306, sensitivity=MANY), None),
    "Skellam": (SkellamMechanism(variance=14.0, sensitivity=MANY), None),
    "bounded discrete Laplace": (BoundedDiscreteLaplaceMechanism(scale=10.0, lower=0, upper=40), (0, 40)),
}


def draws(release, value, count, rng):
    """The outputs of ``count`` independent releases of one number, batch by batch."""
    for _ in range(count // BATCH):
        yield np.asarray(release(np.full(BATCH, value), rng))


def unattainable(outputs, grid):
    """Outputs that are not a multiple of the grid."""
    return int(np.count_nonzero(low_bit(outputs.astype(np.float64)) < np.log2(grid)))


def finest_bits(outputs, grid):
    """How often the lowest set bit stands for grid, 2 grid, 4 grid, ..., 1/2, or for one and more."""
    level = np.clip(low_bit(outputs) - np.log2(grid), -1, -np.log2(grid)).astype(int)
    return np.bincount(level + 1, minlength=int(-np.log2(grid)) + 2)


def difference(first, second):
    """The p-value of equal distributions, rare levels put together."""
    table = np.array([first, second], dtype=float)
    rare = table.sum(axis=0) < 50
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


def audited(release, grid, count, *, ours=True):
    """Unattainable outputs in ``count`` draws, half on 0.3 and half on 1.3, and the p-value of their finest bits."""
    generator = np.random.default_rng(20_240)
    rng = SeededSource(generator) if ours else generator
    bits, missing = [], 0
    for value in (np.rint(0.3 / grid) * grid, np.rint(0.3 / grid) * grid + 1.0):
        total = 0
        for outputs in draws(release, value, count // 2, rng):
            missing += unattainable(outputs, grid)
            total = total + finest_bits(outputs, grid)
        bits.append(total)
    return missing, difference(*bits)


@pytest.mark.parametrize("count", HOW_MANY)
@pytest.mark.parametrize("name", ON_A_GRID)
def test_no_output_on_a_grid_is_unattainable_and_its_finest_bit_tells_nothing(name, count):
    mechanism = ON_A_GRID[name]
    missing, p_value = audited(mechanism.release, mechanism.grid, count)
    assert missing == 0
    assert p_value > LEVEL


@pytest.mark.parametrize("count", HOW_MANY)
@pytest.mark.parametrize("name", INTEGERS)
def test_no_integer_output_is_unattainable(name, count):
    mechanism, bounds = INTEGERS[name]
    rng = SeededSource(np.random.default_rng(20_241))
    for value in (7, 8):
        for outputs in draws(mechanism.release, value, count // 2, rng):
            assert outputs.dtype == np.int64
            if bounds is not None:
                assert bounds[0] <= outputs.min() and outputs.max() <= bounds[1]


@pytest.mark.parametrize("name", ON_A_GRID)
def test_no_textbook_sampler_explains_the_outputs_of_ours(name):
    outputs = ON_A_GRID[name].release(np.full(5_000, 1.0), SeededSource(np.random.default_rng(3)))
    for formula in FORMULAS:
        assert not attainable(outputs, location=1.0, scale=10.0, formula=formula).all()


def test_textbook_noise_fails_both_checks():
    def naive(data, rng):
        return data + rng.laplace(0.0, 10.0, data.size)

    def rounded_after_a_coarse_shift(data, rng):  # multiples of the grid, but the finest bit depends on the value
        return np.where(data > 1, np.rint(rng.laplace(0.0, 10.0, data.size) * 2**9) / 2**9, 0.5**10) + data

    missing, _ = audited(naive, 2.0**-40, 200_000, ours=False)
    assert missing > 100_000
    missing, p_value = audited(rounded_after_a_coarse_shift, 2.0**-10, 200_000, ours=False)
    assert missing == 0
    assert p_value < LEVEL
