"""The noise of a training is that of its plan: what every mechanism states, what it draws, for all recipes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_neighbours import DOMAIN, RUNS, SMALL, data, plan_with_noise, records
from transcripts import Recording, both, seeded, train

from ledgerwood.accounting import (
    BoundedRange,
    Gaussian,
    Laplace,
    Ledger,
    PermuteAndFlip,
    Plan,
    PoissonSubsampled,
    Release,
)
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.aggregator import Sample
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.planned_noise import GaussianSums, LaplaceSums, Selections
from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings

SIZES = [1.0, 0.3, 4096.0, 12345.678]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("size", SIZES)
def test_each_mechanism_costs_what_the_plan_says_and_no_less_noise_would_do(size: float, neighbours: str) -> None:
    slightly = 1 + 1e-12
    gaussian = GaussianSums(Gaussian(sigma=7.0, neighbours=neighbours), size)._mechanism()
    assert gaussian.sensitivity == size and 1 <= gaussian.sigma / (7.0 * size) < slightly
    laplace = LaplaceSums(Laplace(scale=7.0, neighbours=neighbours), size)._mechanism()
    assert laplace.sensitivity == size and 1 <= laplace.scale / (7.0 * size) < slightly
    parts = 2 if neighbours == "replace_one" else 1
    for cost in (BoundedRange(0.3, neighbours=neighbours), PermuteAndFlip(0.3, neighbours=neighbours)):
        mechanism = Selections(cost, size)._mechanism()
        spent = Fraction(mechanism.coefficient) * Fraction(size) * parts
        assert 1 - 1e-12 < spent / Fraction(0.3) <= 1


@pytest.mark.parametrize("kind", [BoundedRange, PermuteAndFlip])
def test_selections_follow_their_distribution(kind: type[BoundedRange] | type[PermuteAndFlip]) -> None:
    """Two candidates one range apart, in many parts at once: half or double the noise is 20 deviations away."""
    size, parts = 1000, 4000
    behind = 2.0 * size
    chosen = Selections(kind(1.0), float(size)).release(
        np.tile(np.array([[int(behind), 0]]), (parts, 1)), seeded(np.random.default_rng(3))
    )
    x = behind / size
    worse = 1 / (1 + math.exp(x)) if kind is BoundedRange else math.exp(-x) / 2
    assert abs(chosen.mean() - worse) < 5.5 * math.sqrt(worse * (1 - worse) / parts)


@pytest.mark.parametrize(("name", "options"), RUNS, ids=str)
def test_a_training_draws_the_noise_that_its_mechanisms_state(name: str, options: dict[str, object]) -> None:
    own = recipe_settings(name, **{**SMALL, "n_trees": 12, **options})
    plan = plan_with_noise(own, 10.0)
    rng = np.random.default_rng(11)
    recording = Recording(seeded(rng))
    train(own, DOMAIN, plan, data(*records(rng, 40, own)), recording)
    drawn: dict[type, list[float]] = {GaussianSums: [], LaplaceSums: []}
    for line in recording.lines:
        if isinstance(line.mechanism, GaussianSums | LaplaceSums):
            noise = (np.asarray(line.output) - np.asarray(line.value)) / line.mechanism.sigma
            drawn[type(line.mechanism)] += noise.ravel().tolist()
    for kind, fourth in ((GaussianSums, 3.0), (LaplaceSums, 6.0)):  # fourth moments at variance 1
        squares = np.square(drawn[kind])
        if len(squares) > 40:
            assert abs(squares.mean() - 1) < 7 * math.sqrt((fourth - 1) / len(squares))


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_sampled_release_draws_rows_at_the_rate_of_its_price(name: str) -> None:
    own = recipe_settings(name, **{**SMALL, "rows": 0.25})
    plan = plan_with_noise(own, 10.0)
    sampled: list[Sample | None] = []

    class Watching(LocalAggregator):
        def sample(self, sample: Sample | None) -> None:
            sampled.append(sample)
            super().sample(sample)

    recording = Recording(seeded(5))
    columns, labels = data(*records(np.random.default_rng(5), 30, own))
    boost(own, DOMAIN, Watching(columns, labels, n_threads=1), recording, plan, rng=np.random.default_rng(0))
    drawn, forgotten = sampled[::2], sampled[1::2]
    assert len(drawn) == len(recording.lines) > 0 and set(forgotten) == {None}
    assert {one.numerator for one in drawn} == {2**30} and {release.rate for release in plan.releases()} == {0.25}
    assert [one.key for one in drawn] == [line.key for line in recording.lines]
    assert len({one.round for one in drawn}) == len(drawn)  # every release has a sample of its own
    for line in recording.lines:
        charged = plan[line.label].for_unit(line.mechanism.cost)
        assert charged == plan[line.label].priced(plan.neighbours) == PoissonSubsampled(line.mechanism.cost, rate=0.25)


def test_a_session_gives_every_sample_a_fresh_secret_key() -> None:
    plan = Plan([Release("rows", Gaussian, share=1.0)]).calibrate(1.0, 1e-6)

    def keys(rng: Any, count: int = 3) -> list[tuple[int, int]]:
        session = ReleaseSession(Ledger(plan=plan), rng)
        return [session.sample_key() for _ in range(count)]

    words = [word for key in keys(None) for word in key]
    assert len(set(words)) == 6 and max(words) >= 2**32  # 64 random bits each, from the operating system
    assert keys(seeded(1)) == keys(seeded(1)) != keys(seeded(2))


@pytest.mark.parametrize("name", [*RECIPES, "laplace leaves", "permute and flip"])
def test_a_record_moves_every_kind_of_release_by_more_than_half_of_what_is_stated(name: str) -> None:
    """So that a sensitivity half as large would fail the comparison of neighbours."""
    special = {
        "laplace leaves": ("tr", {"leaf": "laplace", "candidates": "laplace_sketch"}),
        "permute and flip": ("xgb", {"split": "permute_and_flip"}),
    }
    recipe, options = special.get(name, (name, {}))
    own = recipe_settings(recipe, **{**SMALL, **options, "n_trees": 1, "rows": 1.0})
    plan = plan_with_noise(own, 10.0)
    most: dict[str, float] = {}
    for n, side in ((1, 0), (30, 0), (30, 1)):
        number = np.full((n, 2), 0.9)
        # The last record is with few of its own label on one side, with many of the other on another.
        number[: n // 2] = 0.6, -0.9
        number[n // 2 : -2, 0] = 0.1
        category = np.zeros(n, dtype=np.int64)
        y = np.arange(n) >= n // 2
        y[-1] = side
        y = np.where(y, 65536, -65536) if own.loss == "squared" else y.astype(np.int64)
        first, second = data(number, category, y), data(number[:-1], category[:-1], y[:-1])
        lines, others, _, _ = both(own, DOMAIN, plan, first, second, seeded(n))
        for line, other in zip(lines, others, strict=True):
            change = np.asarray(line.value, dtype=np.float64) - np.asarray(other.value, dtype=np.float64)
            match line.mechanism:
                case GaussianSums(sensitivity=size):
                    share = float(np.sqrt(np.square(change).sum())) / size
                case LaplaceSums(sensitivity=size):
                    share = float(np.abs(change).sum()) / size
                case Selections(range_sensitivity=size):
                    share = float((change.max(axis=1) - change.min(axis=1)).max()) / size
            most[line.label] = max(most.get(line.label, 0.0), share)
    assert set(most) == {release.label for release in plan.releases()}
    assert min(most.values()) > 0.5, most
