"""Reports of models that several parties made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import here

from ledgerwood.app import report
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.lockstep import server_step
from ledgerwood.learners.federated.task import FederatedTask


def vertical_model() -> Any:
    from ledgerwood.learners.vertical import OrderPreservingTransformer
    from ledgerwood.learners.vertical.model import PartyColumns, VerticalModel

    domain: dict[str, Any] = {"income": (0, 100), "<b>town</b>": ["a", "b"]}
    transformer = OrderPreservingTransformer(epsilon=4.0, domain=domain).declare(list(domain))
    names = tuple(transformer.get_feature_names_out().tolist())
    values = ({0: 5.0, 3: 35.0}, *({} for _ in names[1:]))
    return VerticalModel(object(), ("age",), (PartyColumns("bank", names, transformer, values),))


def test_a_model_across_columns_says_what_each_party_gave_away(tmp_path: Path) -> None:
    model = vertical_model()
    text = report(model, tmp_path / "r.html").read_text()
    assert "What bank released" in text and "<td>income</td>" in text
    assert "<b>town" not in text and "&lt;b&gt;town" in text
    assert "guarantees nothing about them" in text and "locally differentially private" in text
    exact = model.parties[0].transformer.release_.cost.epsilon(0.0)
    shown = re.search(r"all columns together, costs epsilon = ([\d.]+) at most", text)
    assert shown is not None and float(shown[1]) == pytest.approx(exact, rel=1e-3) and float(shown[1]) >= exact - 1e-9
    assert '<td class="number">2</td>' in text  # two split values of income


def test_a_federated_model_has_plan_guarantee_and_rounds(tmp_path: Path) -> None:
    task = FederatedTask(
        Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1]), (0, 1), {1: "aa" * 32, 2: "bb" * 32, 3: "cc" * 32},
        threshold=2, rows=500, recipe="tr_cyc", options={"n_trees": 4, "max_depth": 2, "batch": 4}, epsilon=2.0,
    )  # fmt: skip
    asked = server_step(task, ()).queries
    answers = tuple(np.zeros(query.value.size, dtype=np.int64) for query in asked)
    found = Federation(task, server_step(task, answers).model, answers, 1, 1, ((1, 3),), ("<i>no</i>",), 1234)
    found.save(tmp_path / "federated.json")
    here("report", "federated.json", "-o", "r.html", cwd=tmp_path)
    text = (tmp_path / "r.html").read_text()
    assert "1 rounds were opened, 1 failed; 1,234 bytes" in text and "<td>1, 3</td>" in text
    assert "<i>no" not in text and "Skellam" in text and "will recognise at most" in text
