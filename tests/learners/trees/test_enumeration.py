"""The learner's own code, enumerated: its exact distribution on every small data set, and so its exact epsilon."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from transcripts import half_noise

from ledgerwood.learners.trees.binning import FeatureDomain
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.plan import plan_boosting
from ledgerwood.learners.trees.planned_noise import LaplaceSums, Selections
from ledgerwood.learners.trees.recipes import recipe_settings
from ledgerwood.verification import Choices, verify_domain

DOMAIN = FeatureDomain(((0.0, 3.0),), (0,))
RECORDS = tuple(itertools.product((0.5, 1.5, 2.5), (0, 1)))  # three bins, two labels


class Enumerating:
    """Draws every outcome: selections by their distribution, noisy sums by their signs (a post-processing)."""

    def __init__(self, choices: Choices, change: Any = None) -> None:
        self.choices, self.change, self.outputs = choices, change, []

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        mechanism = mechanism if self.change is None else self.change(mechanism)
        value = np.asarray(value)
        if isinstance(mechanism, Selections):
            distributions = mechanism._mechanism().probabilities(value)
            found = np.array(
                [self.choices.select([Fraction(float(p)) for p in distribution]) for distribution in distributions]
            )
        else:
            assert isinstance(mechanism, LaplaceSums)
            found = np.zeros(value.shape, dtype=np.int64)
            for leaf in range(value.shape[0]):  # the sign of the gradient sum; the count is not looked at
                negative = float(value[leaf, 0]) < 0
                tail = 0.5 * math.exp(-abs(float(value[leaf, 0])) / mechanism.scale)
                below = Fraction(1 - tail if negative else tail)
                sign = self.choices.select([below, 1 - below])
                found[leaf] = (2 * sign - 1) * round(mechanism.scale), round(mechanism.scale)
        self.outputs.append(tuple(found.ravel().tolist()))
        return found


def neighbouring(most: int):
    """All multisets of at most ``most`` records, each with every one that has a record less."""
    for size in range(1, most + 1):
        for records in itertools.combinations_with_replacement(RECORDS, size):
            for left_out in sorted(set(records)):
                fewer = list(records)
                fewer.remove(left_out)
                yield records, tuple(fewer)


def exact_epsilon(n_trees: int, most: int, change: Any = None) -> tuple[float, float]:
    settings = recipe_settings(
        "xgb", n_trees=n_trees, max_depth=1, n_bins=3, leaf="noisy_average", shares=(0.0, 1.0, 1.0), ridge=0.0, l2=0.0
    )
    plan = plan_boosting(settings, n_features=1, epsilon=3.0, delta=1e-3)

    def program(records, choices: Choices):
        columns = [np.array([x for x, _ in records], dtype=np.float32)]
        labels = np.array([y for _, y in records], dtype=np.int32)
        session = Enumerating(choices, change)
        records = LocalAggregator(columns, labels, n_threads=1)
        boost(settings, DOMAIN, records, session, plan, rng=np.random.default_rng(0))
        return tuple(session.outputs)

    claimed = sum(release.times * release.priced().pure_epsilon() for release in plan.releases())
    verdict = verify_domain(program, neighbouring(most))
    return verdict.epsilon.upper, claimed


@pytest.mark.parametrize(("n_trees", "most"), [(1, 3), (2, 2)])
def test_the_exact_epsilon_of_a_small_learner_is_below_its_price(n_trees: int, most: int) -> None:
    epsilon, claimed = exact_epsilon(n_trees, most)
    assert 0.3 * claimed < epsilon <= claimed


def test_enumeration_sees_too_little_noise() -> None:
    def quarter(mechanism: Any) -> Any:
        return half_noise(half_noise(mechanism))

    epsilon, claimed = exact_epsilon(1, 2, quarter)
    assert epsilon > claimed
