"""Every sampler, with the operating system's randomness, against its distribution.

Each chi-square test fails with probability 1e-9 if the sampler is right; with fewer than 100 of them the whole file
raises a false alarm less than once in 10 million runs.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.kit.goodness_of_fit import FALSE_ALARM, assert_fits, counts_of

from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSparseVectorMechanism,
    LaplaceMechanism,
    NoisyMaxMechanism,
    PermuteAndFlipMechanism,
    QuantileMechanism,
    RankMechanism,
    Sensitivity,
    SkellamMechanism,
    SparseVectorMechanism,
    SystemSource,
    TopKMechanism,
)
from ledgerwood.mechanisms.sampling import draws
from ledgerwood.mechanisms.subsampling import poisson_sample

N = 200_000
SOURCE = SystemSource()


def gaussian_masses(sigma: float, low: int, high: int) -> np.ndarray:
    k = np.arange(-int(12 * sigma) - 5, int(12 * sigma) + 6)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    weights /= weights.sum()
    inside = weights[(k >= low) & (k <= high)]
    return np.append(inside, 1 - inside.sum())


@pytest.mark.parametrize("sigma", [0.4, 1.0, 45.0, 256.0, 257.0, 1e4])
def test_discrete_gaussian_fits(sigma: float) -> None:
    x = draws.discrete_gaussian(Fraction(sigma) ** 2, N, SOURCE)
    reach = max(3, int(4 * sigma))
    width = max(1, reach // 40)  # cells of several integers for large sigma
    masses = gaussian_masses(sigma, -reach, reach)[:-1]
    counts = counts_of(x, -reach, reach)[:-1]
    starts = np.arange(0, 2 * reach + 1, width)
    cells, wanted = np.add.reduceat(counts, starts), np.add.reduceat(masses, starts)
    assert_fits(np.append(cells, N - cells.sum()), np.append(wanted, 1 - wanted.sum()))
    # and the low bits, which a wrong fine part would spoil
    if sigma > 100:
        assert_fits(np.bincount(x % 8, minlength=8), np.full(8, 1 / 8))


@pytest.mark.parametrize("scale", [0.2, 1.0, 64.0, 65.0, 1e4])
def test_discrete_laplace_fits(scale: float) -> None:
    x = draws.discrete_laplace(Fraction(scale), N, SOURCE)
    q = math.exp(-1 / scale)
    edges = np.unique(np.r_[0, np.floor(scale * np.linspace(0, 6, 60)[1:])]).astype(int)
    cdf = lambda k: np.where(k >= 0, 1 - q ** (k + 1) / (1 + q), q ** (-k) / (1 + q))  # noqa: E731
    bounds = np.unique(np.r_[-edges, edges])
    cells = np.histogram(x, bins=np.r_[-np.inf, bounds + 0.5, np.inf])[0]
    assert_fits(cells, np.diff(np.r_[0.0, cdf(bounds), 1.0]))
    if scale > 100:
        assert_fits(np.bincount(x % 8, minlength=8), _laplace_mod_8(q))


def _laplace_mod_8(q: float) -> np.ndarray:
    k = np.arange(-40000 * 12, 40000 * 12)
    w = q ** np.abs(k)
    return np.bincount(k % 8, weights=w, minlength=8) / w.sum()


@pytest.mark.parametrize("variance", [0.5, 30.0, 1e6, 1e8])
def test_skellam_fits(variance: float) -> None:
    x = draws.skellam(Fraction(variance), N, SOURCE)
    sd = math.sqrt(variance)
    bounds = np.unique(np.floor(sd * np.linspace(-4, 4, 60)))
    cells = np.histogram(x, bins=np.r_[-np.inf, bounds + 0.5, np.inf])[0]
    if variance > 1e7:  # scipy takes a minute here; the normal distribution differs by about 1e-8 (its kurtosis)
        cdf = stats.norm.cdf(bounds + 0.5, scale=sd)
    else:
        k = np.arange(-int(10 * sd) - 10, int(10 * sd) + 11)
        cdf = np.cumsum(stats.skellam.pmf(k, variance / 2, variance / 2))[np.searchsorted(k, bounds)]
    assert_fits(cells, np.diff(np.r_[0.0, cdf, 1.0]))


def test_shares_of_many_parties_add_up_to_the_whole_noise() -> None:
    m = SkellamMechanism(variance=30.0, sensitivity=Sensitivity(l1=1, dimension=50_000))
    zeros = np.zeros(50_000, dtype=int)
    x = sum(m.share(zeros, parties=7) for _ in range(7))
    distribution = stats.skellam(15.0, 15.0)
    assert_fits(counts_of(x, -25, 25), np.append(distribution.pmf(np.arange(-25, 26)), 2 * distribution.sf(25)))


@pytest.mark.parametrize("value", [0.0, 0.3, -17.75])
@pytest.mark.parametrize("scale", [0.1, 3.0, 1e5])
def test_rounded_noise_fits(value: float, scale: float) -> None:
    grid = 0.25
    for mechanism, distribution in (
        (GaussianMechanism(sigma=scale, grid=grid), stats.norm(value, scale)),
        (LaplaceMechanism(scale=scale, grid=grid), stats.laplace(value, scale)),
    ):
        x = np.asarray(mechanism.release(np.full(50_000, value))) / grid
        assert np.all(x == np.rint(x))
        middle = round(value / grid)
        bounds = np.unique(np.rint(middle + scale / grid * np.linspace(-5, 5, 70)))
        cells = np.histogram(x, bins=np.r_[-np.inf, bounds + 0.5, np.inf])[0]
        assert_fits(cells, np.diff(np.r_[0.0, distribution.cdf((bounds + 0.5) * grid), 1.0]))


SCORES = np.array([0.0, 1.0, 3.5, 3.0, -2.0])


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlipMechanism, NoisyMaxMechanism])
def test_selection_fits_its_probabilities(kind) -> None:
    m = kind(epsilon=1.0, range_sensitivity=2.0)
    x = np.array([m.release(SCORES, SOURCE) for _ in range(4_000)])
    assert_fits(np.bincount(x, minlength=5), m.probabilities(SCORES))


def test_gumbel_noise_is_the_exponential_mechanism_and_exponential_noise_is_permute_and_flip() -> None:
    # P(largest score + noise) by quadrature, from the definition of report-noisy-max.
    t = np.linspace(-40, 60, 200_001)
    a = 0.5 * SCORES
    gumbel, expo = stats.gumbel_r, stats.expon
    for distribution, kind in ((gumbel, ExponentialMechanism), (expo, PermuteAndFlipMechanism)):
        cdfs = np.array([distribution.cdf(t - s) for s in a])
        p = [np.trapezoid(distribution.pdf(t - a[i]) * np.prod(np.delete(cdfs, i, 0), axis=0), t) for i in range(5)]
        np.testing.assert_allclose(p, kind(epsilon=1.0, range_sensitivity=2.0).probabilities(SCORES), atol=1e-4)


def test_the_race_over_a_stream_fits_the_exponential_mechanism() -> None:
    m = ExponentialMechanism(epsilon=1.0, range_sensitivity=2.0)
    x = np.array([m.release_stream([SCORES[:2], SCORES[2:3], SCORES[3:]], SOURCE) for _ in range(2_500)])
    assert_fits(np.bincount(x, minlength=5), m.probabilities(SCORES))


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlipMechanism])
def test_top_k_fits_peeling(kind) -> None:
    m = TopKMechanism(kind(epsilon=1.0, range_sensitivity=2.0), k=2)
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    p = np.exp([m.log_probability(SCORES, pair) for pair in pairs])
    assert p.sum() == pytest.approx(1.0)
    x = [tuple(m.release(SCORES, SOURCE).tolist()) for _ in range(2_500)]
    assert_fits(np.array([x.count(pair) for pair in pairs]), p)


@pytest.mark.parametrize("scale", [0.7, 30.0])
def test_bounded_discrete_laplace_fits(scale: float) -> None:
    m = BoundedDiscreteLaplaceMechanism(scale=scale, lower=-3, upper=20)
    for value in (-3, 5, 99):
        x = m.release(np.full(50_000, value))
        assert_fits(np.bincount(x + 3, minlength=24), m.probabilities(value))


def test_quantiles_and_ranks_fit() -> None:
    records = np.array([0.0, 2.0, 2.0, 5.0, 9.0])
    for m in (
        QuantileMechanism(epsilon=1.0, quantile=0.25, lower=0.0, upper=10.0, step=0.5),
        RankMechanism(epsilon=1.0, rank=2, side="above", lower=0.0, upper=10.0, step=0.5),
    ):
        x = np.array([m.release(records, SOURCE) for _ in range(2_500)])
        assert_fits(np.bincount((2 * x).astype(int), minlength=21), np.exp(m.log_probabilities(records)))


def test_sparse_vector_answers_fit() -> None:
    x = np.linspace(-80, 80, 400_001)
    m = SparseVectorMechanism(epsilon=2.0, threshold=1.0, cutoff=2)
    s, t = (float(scale) for scale in m.scales)
    both = stats.laplace.sf(1.0 + x - 0.0, scale=t) * stats.laplace.sf(1.0 + x - 3.0, scale=t)
    wanted = np.trapezoid(stats.laplace.pdf(x, scale=s) * both, x)
    seen = sum(bool(m.release([0.0, 3.0], SOURCE).all()) for _ in range(2_500))
    assert_fits(np.array([seen, 2_500 - seen]), np.array([wanted, 1 - wanted]))
    g = GaussianSparseVectorMechanism(1.0, 2.0, max_queries=5, threshold=1.0)
    wanted = stats.norm.sf(1.0, loc=0.5, scale=math.sqrt(5.0))
    seen = sum(bool(g.release([0.5], SOURCE)[0]) for _ in range(2_500))
    assert_fits(np.array([seen, 2_500 - seen]), np.array([wanted, 1 - wanted]))


def test_poisson_sampling_fits() -> None:
    kept = int(poisson_sample(N, 0.3, SOURCE).sum())
    assert_fits(np.array([kept, N - kept]), np.array([0.3, 0.7]))


def test_moments_agree_with_scipy() -> None:
    """Means within 6.2 and variances within 6.5 standard errors (below 1e-9 each for normal errors)."""
    n = 1_000_000
    q = math.exp(-1 / 45.0)
    cases = [
        (draws.discrete_laplace(Fraction(45), n, SOURCE), *stats.dlaplace(1 / 45.0).stats(moments="vk")),
        (draws.skellam(Fraction(81), n, SOURCE), *stats.skellam(40.5, 40.5).stats(moments="vk")),
        (draws.discrete_gaussian(Fraction(45) ** 2, n, SOURCE), 45.0**2, 0.0),
        (draws.normal(n, SOURCE).approximate(), 1.0, 0.0),
        (draws.exponential(n, SOURCE).approximate(), *stats.laplace.stats(moments="vk")),
    ]
    assert cases[0][1] == pytest.approx(2 * q / (1 - q) ** 2)
    for x, variance, kurtosis in cases:
        assert abs(x.mean()) < 6.2 * math.sqrt(variance / n)
        assert abs(x.var() - variance) < 6.5 * variance * math.sqrt((float(kurtosis) + 2) / n)


@pytest.mark.parametrize("case", ["laplace 1", "laplace 45", "gaussian 1", "gaussian 45"])
def test_draws_agree_with_those_of_opendp(case: str) -> None:
    """Two samples, one distribution; OpenDP's was counted once and stored."""
    stored = json.loads((Path(__file__).parent / "opendp_counts.json").read_text())[case]
    kind, scale = case.split()
    sampler, parameter = (
        (draws.discrete_laplace, Fraction(scale))
        if kind == "laplace"
        else (draws.discrete_gaussian, Fraction(scale) ** 2)
    )
    x = sampler(parameter, N, SOURCE)
    ours = np.bincount(np.searchsorted(stored["edges"], x), minlength=len(stored["counts"]))
    table = np.array([ours, stored["counts"]])
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 40])[1] > FALSE_ALARM


def test_a_sigma_wrong_by_one_percent_is_found_in_a_second() -> None:
    m = DiscreteGaussianMechanism(sigma=45.0 * 1.01, sensitivity=Sensitivity(l2=1, dimension=10**6))
    x = m.release(np.zeros(10**6, dtype=int))
    # Cells of ten integers. With the right sigma this passes; one per cent too much is 25 standard deviations away.
    tens = lambda v: np.append(np.add.reduceat(v[:-1], np.arange(0, 301, 10)), v[-1])  # noqa: E731
    with pytest.raises(AssertionError):
        assert_fits(tens(counts_of(x, -150, 150)), tens(gaussian_masses(45.0, -150, 150)))
    assert_fits(tens(counts_of(x, -150, 150)), tens(gaussian_masses(45.45, -150, 150)))
