"""Recommendations: Li et al.'s order of preference, and the exact curves beside each."""

from __future__ import annotations

import numpy as np
import pytest

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.vertical import OrderPreservingTransformer, recommend

DOMAIN = {"age": (0, 100), "colour": ["red", "green"]}


def test_utility_first_is_local_map_and_privacy_first_is_global_map() -> None:
    assert recommend(DOMAIN, 0.5, utility_first=True).best.method == "local_map"
    private = recommend(DOMAIN, 0.5)
    assert private.best.method == "global_map"
    assert all(choice.transformer.method != "local_map" for choice in private.choices)


def test_alpha_follows_the_size_of_epsilon() -> None:
    alphas = [recommend(DOMAIN, epsilon).choices[-1].transformer.alpha for epsilon in (0.5, 5.0)]
    assert alphas[0] > 1 > alphas[1]


def test_the_text_and_the_plot_show_the_exact_curves() -> None:
    advice = recommend({"age": (0, 100)}, 0.4, utility_first=True, levels=20, theta=5)
    text = str(advice)
    assert "epsilon(1)=inf" in text  # Local-map, across a boundary
    adjusted = next(choice for choice in advice.choices if choice.transformer.method == "adj_map")
    assert adjusted.column is not None and adjusted.column.profile.epsilon(1) > 0.4  # what Li et al. call 0.4-dLDP
    assert f"epsilon(1)={adjusted.column.profile.epsilon(1):.3g}" in text
    losses, orders = advice.plot().axes
    assert len(orders.lines) == 4
    drawn = {line.get_label(): np.asarray(line.get_ydata(), dtype=float) for line in losses.lines}
    assert drawn["global_map"][0] == advice.choices[-1].column.profile.epsilon(1)  # type: ignore[union-attr]


def test_a_schema_is_as_good_as_a_mapping() -> None:
    schema = Schema(bounds={"age": (0, 100)}, categories={"colour": ["red", "green"]})
    names = [choice.name for choice in recommend(schema, 0.5).choices]
    assert names == [choice.name for choice in recommend(DOMAIN, 0.5).choices]
    transformer = OrderPreservingTransformer(domain=schema).declare(["age", "colour"])
    assert transformer.get_feature_names_out().tolist()[0] == "age"


def test_a_table_of_nominal_columns_only_has_no_curves() -> None:
    advice = recommend({"colour": ["red", "green"]}, 0.5)
    assert "Exactly" not in str(advice)
    assert not advice.plot().axes[0].lines


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ParameterError, match="utility_first"):
        recommend(DOMAIN, 0.5, utility_first="yes")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="domain"):
        recommend(None, 0.5)
