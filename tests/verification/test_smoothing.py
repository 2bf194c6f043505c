"""Counts smoothed along a score keep their totals, follow what is there, and flatten what is luck."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.verification.auditor.smoothing import smooth


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 2000), min_size=1, max_size=200), st.data())
def test_every_cell_keeps_its_total_and_stays_finite(ones, data):
    zeros = data.draw(st.lists(st.integers(0, 2000), min_size=len(ones), max_size=len(ones)))
    a, b = np.array(ones, float), np.array(zeros, float)
    first, second = smooth(a, b, np.arange(float(a.size)))
    assert first + second == pytest.approx(a + b)
    assert np.all(first >= 0) and np.all(second >= 0)


def test_a_jump_is_followed_and_a_lucky_tail_is_flattened():
    a, b = np.full(100, 1000.0), np.full(100, 1000.0)
    a[50:], b[50:] = 4000.0, 400.0
    first, second = smooth(a, b, np.arange(float(a.size)))
    assert first[[10, 90]] / second[[10, 90]] == pytest.approx([1.0, 10.0], rel=0.05)
    lucky = np.full(100, 1000.0)
    lucky[-1] = 1120.0  # nearly four standard errors
    first, second = smooth(lucky, np.full(100, 1000.0), np.arange(100.0))
    assert first[-1] / second[-1] < 1.04


def test_a_straight_line_stays_straight_also_in_the_tails():
    places = np.linspace(-4, 4, 120)
    total, share = np.round(4000 * np.exp(-(places**2) / 2)) + 4, 1 / (1 + np.exp(-places / 2))
    rng = np.random.default_rng(5)
    ones = rng.binomial(total.astype(int), share).astype(float)
    first, second = smooth(ones, total - ones, places)
    assert np.log(first / second) == pytest.approx(places / 2, abs=0.1)
    assert np.all(np.isfinite(smooth(ones, total - ones, np.where(places < 3.9, places, math.inf))))


@pytest.mark.parametrize(("knots", "odds"), [((-1, 1), (-1, 1)), ((-1, 0.5, 1), (-0.3, 0.0, 0.5))])
def test_the_corners_of_ramps_stay_sharp(knots, odds):
    """The worst event ends there: a penalized fit rounds them off."""
    places = np.linspace(-3, 3, 121)
    truth = np.interp(places, knots, odds)
    share = 1 / (1 + np.exp(-truth))
    first, second = smooth(2_000 * share, 2_000 * (1 - share), places)
    assert np.abs(np.log(first / second) - truth).max() < 0.03
