"""Audits of whole trainings by the most powerful statistic there is: the likelihood ratio of the transcript.

A training runs on one of two neighbours; its outputs are replayed on both, which gives log P / Q of everything that
was released. That is a function of the released outputs and the two known inputs, so the claim must hold for it.
"""

from __future__ import annotations

import numpy as np
import pytest
from transcripts import Recording, both, half_noise, loss, seeded, train

from ledgerwood.learners.trees.binning import FeatureDomain
from ledgerwood.learners.trees.plan import plan_boosting
from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings
from ledgerwood.verification import audit, audit_one_run

DOMAIN = FeatureDomain(((0.0, 1.0), (0.0, 1.0)), (0, 0))
EPSILON, DELTA = 2.0, 1e-3


def neighbours_of(settings):
    """Both features separate the labels; one more record sits with its own kind on one only.

    So a split of the one gains g*^2 and of the other loses almost 3 g*^2: nearly the whole range.
    """
    y = np.repeat([0, 1], 30)
    first = np.append(np.where(y == 1, 0.9, 0.1), 0.9)
    second = np.append(np.where(y == 1, 0.1, 0.9), 0.9)
    y = np.append(y, 0)
    if settings.loss == "squared":
        y = np.where(y == 1, 65536, -65536)
    data = [first.astype(np.float32), second.astype(np.float32)], y.astype(np.int32)
    return data, ([column[:-1] for column in data[0]], data[1][:-1])


class Trained:
    """What the auditor calls: the transcript's log-likelihood ratio between the two inputs."""

    def __init__(self, settings, plan, pair, change=None) -> None:
        self.settings, self.plan, self.pair, self.change = settings, plan, pair, change

    def __call__(self, which: int, rng: np.random.Generator) -> float:
        first, second = (self.pair[which], self.pair[1 - which])
        lines, others, _, _ = both(self.settings, DOMAIN, self.plan, first, second, seeded(rng), self.change)
        ratio = loss(lines, others)
        return round(ratio if which == 0 else -ratio, 6)


def set_up(name: str, **options):
    usual = {"n_trees": 1, "max_depth": 1, "n_bins": 2, "rows": 1.0}
    settings = recipe_settings(name, **{**usual, **options})
    plan = plan_boosting(settings, n_features=2, epsilon=EPSILON, delta=DELTA)
    return settings, plan, neighbours_of(settings)


@pytest.mark.parametrize("name", ["tr", "xgb"])
def test_the_auditor_passes_a_recipe_and_flags_it_with_half_its_noise(name: str) -> None:
    settings, plan, pair = set_up(name)
    honest = audit(Trained(settings, plan, pair), plan.cost, pair=(0, 1), samples=300, seed=1)
    assert honest.passed and not honest.flagged
    broken = audit(Trained(settings, plan, pair, half_noise), plan.cost, pair=(0, 1), samples=700, seed=1)
    assert broken.flagged, str(broken)


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_short_audit_passes_every_recipe(name: str) -> None:
    settings, plan, pair = set_up(name)
    report = audit(Trained(settings, plan, pair), plan.cost, pair=(0, 1), samples=120, seed=2)
    assert report.passed and report.samples == 120, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(RECIPES))
def test_half_the_noise_of_every_recipe_is_flagged(name: str) -> None:
    settings, plan, pair = set_up(name, n_bins=4) if name == "xgb_cyc" else set_up(name)
    if name == "xgb_cyc":  # one feature only: two of its thresholds have to disagree about the record
        columns, labels = pair[0]
        columns[0][-1] = 0.4
        pair = (columns, labels), ([column[:-1] for column in columns], labels[:-1])
    broken = audit(Trained(settings, plan, pair, half_noise), plan.cost, pair=(0, 1), samples=2_000, seed=1)
    assert broken.flagged, str(broken)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(RECIPES))
def test_the_auditor_never_flags_a_recipe(name: str) -> None:
    settings, plan, pair = set_up(name, n_trees=2)
    report = audit(Trained(settings, plan, pair), plan.cost, pair=(0, 1), samples=300, seed=2)
    assert report.passed and not report.flagged, str(report)


def test_losses_are_centred_as_their_distribution_says() -> None:
    """E[exp(-loss)] = 1 under the first input: the transcript's distribution is the stated one, selections included."""
    for name in ("xgb", "tr"):
        settings, plan, pair = set_up(name)
        losses = [loss(*both(settings, DOMAIN, plan, *pair, seeded(seed), None, seed)[:2]) for seed in range(300)]
        ratio = np.exp(-np.array(losses))
        assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(300) + 1e-3


@pytest.mark.parametrize("name", list(RECIPES))
def test_one_run_with_canaries_does_not_flag(name: str) -> None:
    """Canaries of random label at places of their own, guessed from one model by the score it gives them."""
    settings = recipe_settings(name, n_trees=8, max_depth=3, n_bins=16)
    plan = plan_boosting(settings, n_features=2, epsilon=EPSILON, delta=DELTA)
    rng = np.random.default_rng(5)
    canaries = [
        (float(x), float(z), int(y))
        for x, z, y in zip(rng.uniform(size=120), rng.uniform(size=120), rng.integers(2, size=120))
    ]

    def columns_of(records):
        return [np.array([record[i] for record in records], dtype=np.float32) for i in (0, 1)]

    def fit(included, rng):
        labels = np.array([record[2] for record in included], dtype=np.int32)
        labels = (2 * labels - 1) * 65536 if settings.loss == "squared" else labels
        return train(settings, DOMAIN, plan, (columns_of(included), labels), Recording(seeded(rng)))

    def guess(model, records):
        raw = model.scores(columns_of(records))[:, 0]
        return list(np.where([record[2] for record in records], raw, -raw))

    report = audit_one_run(fit, canaries, guess, plan.cost, seed=3)
    assert not report.flagged, str(report)
