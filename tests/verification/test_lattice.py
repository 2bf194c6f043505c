"""Attainability: complete for the right sampler, selective for a wrong location."""

import math

import numpy as np
import pytest

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.float_attacks import attainable


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


def test_an_unknown_formula_is_refused():
    with pytest.raises(ParameterError, match="formula"):
        attainable(np.zeros(1), location=0.0, scale=1.0, formula="cauchy")
    with pytest.raises(ParameterError, match="scale"):
        attainable(np.zeros(1), location=0.0, scale=0.0)
