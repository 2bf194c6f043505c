"""Trainings of a recipe as a black box: a true claim passes, a false one is seen."""

from __future__ import annotations

import pytest
from terminal import ask

from ledgerwood.accounting import ApproxDP
from ledgerwood.app.cli.audit import RecipeTraining
from ledgerwood.verification import audit


def test_a_false_claim_about_a_training_is_flagged() -> None:
    training = RecipeTraining("tr", epsilon=30.0)
    report = audit(training, ApproxDP(0.05, 1e-3), pair=training.pair, samples=400, seed=1)
    assert report.flagged and report.epsilon_lower > 0.05


def test_the_command_audits_a_recipe() -> None:
    found = ask("audit", "--recipe", "xgb", "--samples", "200", "--seed", "3")
    assert found["verdict"] == "no violation found"
    assert "BoundedRange" in found["claim"] and "Gaussian" in found["claim"]
    assert found["subject"]["learner"] == "PrivateBoostingClassifier" and found["subject"]["recipe"] == "xgb"
    assert found["digest"] == RecipeTraining("xgb").subject.digest


@pytest.mark.parametrize("recipe", ["xgb_ada", "feverless", "dp_rf"])
def test_every_kind_of_release_is_in_the_claim(recipe: str) -> None:
    training = RecipeTraining(recipe)
    assert training.claim().epsilon(training.delta) <= training.epsilon
