"""Attainability: complete for the right sampler, selective for a wrong location."""

import math

import numpy as np
import pytest

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.float_attacks import attainable, find_lattice, hints_of


@pytest.mark.parametrize(("location", "scale"), [(0.0, 10.0), (1.0, 10.0), (-2.5, 3.0), (0.1, 0.7), (1000.0, 1.0)])
def test_every_output_of_numpys_laplace_is_attainable(location, scale):
    values = np.random.default_rng(1).laplace(location, scale, 200_000)
    assert attainable(values, location=location, scale=scale).all()


def test_every_output_of_the_textbook_formulas_is_attainable():
    u = np.random.default_rng(2).random(5000)
    plain = np.array([1.0 - 10.0 * math.copysign(1, v - 0.5) * math.log(1 - 2 * abs(v - 0.5)) for v in u])
    log1p = np.array([1.0 - 10.0 * math.copysign(1, v - 0.5) * math.log1p(-2 * abs(v - 0.5)) for v in u])
    assert attainable(plain, location=1.0, scale=10.0, formula="inverse-cdf laplace").all()
    assert attainable(log1p, location=1.0, scale=10.0, formula="log1p laplace").all()


def test_most_outputs_are_not_attainable_from_a_neighbour():
    values = np.random.default_rng(3).laplace(1.0, 10.0, 50_000)
    assert attainable(values, location=0.0, scale=10.0).mean() < 0.3


def test_the_sampler_is_found_from_its_outputs():
    values = np.random.default_rng(4).laplace(3.0, 1 / 0.3, (5_000, 1))
    found = find_lattice(Encoded(values, ("y",)), hints=[3.0, 1 / 0.3])
    assert len(found) == 1
    assert (found[0].location, found[0].formula) == (3.0, "numpy laplace")


def test_rounded_outputs_and_other_noise_have_no_lattice():
    rng = np.random.default_rng(5)
    rounded = np.round(rng.laplace(1.0, 10.0, (5_000, 1)) * 2**20) / 2**20
    normal = rng.normal(1.0, 10.0, (5_000, 1))
    assert find_lattice(Encoded(rounded, ("y",)), hints=[1.0, 10.0]) == []
    assert find_lattice(Encoded(normal, ("y",)), hints=[1.0, 10.0]) == []


def test_hints_are_simple_statistics_of_the_input():
    assert {0.0, 1.0, 2.0, 3.0} <= set(hints_of([0.0, 1.0, 2.0]))
    assert hints_of("text") == []


def test_an_unknown_formula_is_refused():
    with pytest.raises(ParameterError, match="formula"):
        attainable(np.zeros(1), location=0.0, scale=1.0, formula="cauchy")
    with pytest.raises(ParameterError, match="scale"):
        attainable(np.zeros(1), location=0.0, scale=0.0)


@pytest.mark.parametrize(("place", "fields"), [(30, 40), (180, 200)])
def test_every_float_of_a_model_is_looked_at_not_only_the_first(place, fields):
    """The other fields are decimals, which use all their bits too."""
    rng = np.random.default_rng(5)
    numbers = np.round(rng.laplace(0.0, 10.0, (400, fields)), 2)
    numbers[:, place] = 1.0 + rng.laplace(0.0, 10.0, 400)
    found = find_lattice(Encoded(numbers, tuple(f"y[{j}]" for j in range(fields))))
    assert [(each.index, each.location, each.scale) for each in found] == [(place, 1.0, 10.0)]


def test_fields_of_one_noise_are_all_explained_at_their_own_locations():
    rng = np.random.default_rng(6)
    numbers = np.arange(100) % 7 + rng.laplace(0.0, 10.0, (400, 100))
    found = find_lattice(Encoded(numbers, tuple(f"y[{j}]" for j in range(100))))
    assert [each.location for each in found] == [j % 7 for j in range(100)]


@pytest.mark.parametrize("low", [-1.7e308, 1e308])
def test_the_largest_floats_have_no_sampler(low):
    """Their sum is infinite, and so is their spread."""
    values = low + (1.7e308 - low if low > 0 else 1.7e308) * np.random.default_rng(7).random((400, 1))
    values[::2] = np.abs(values[::2])
    assert find_lattice(Encoded(values, ("y",))) == []
