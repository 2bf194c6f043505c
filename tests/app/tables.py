"""A small table like Adult, made up, with its public facts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from ledgerwood.app.cli.audit import RecipeTraining
from ledgerwood.learners import Schema
from ledgerwood.verification.auditor.report import AuditReport, Certificate, CertificateBlock, Picture, Subject


def adult(folder: Path, rows: int = 600) -> pd.DataFrame:
    """Write ``adult.csv``, ``adult.parquet`` and ``schema.json``; return the table."""
    rng = np.random.default_rng(1)
    age = rng.integers(17, 91, rows)
    sex = rng.choice(["Female", "Male"], rows)
    hours = rng.integers(1, 100, rows)
    income = np.where(age + hours + rng.normal(0, 10, rows) > 100, ">50K", "<=50K")
    table = pd.DataFrame({"age": age, "sex": sex, "hours": hours, "income": income})
    table.to_csv(folder / "adult.csv", index=False)
    table.to_parquet(folder / "adult.parquet")
    schema = Schema(
        bounds={"age": (17, 90), "hours": (1, 99)}, categories={"sex": ["Female", "Male"]}, classes=["<=50K", ">50K"]
    )
    (folder / "schema.json").write_text(schema.to_json())
    (folder / "schema.toml").write_text(
        'classes = ["<=50K", ">50K"]\n[bounds]\nage = [17, 90]\nhours = [1, 99]\n'
        '[categories]\nsex = ["Female", "Male"]\n'
    )
    (folder / "audit.json").write_text(an_audit().to_json())
    return table


def an_audit(subject: Subject | None = None) -> AuditReport:
    """The result of an audit of a recipe, with everything that one can have."""
    block = CertificateBlock("output >= 3", "the first input", 70, 20, 100)
    certificate = Certificate(
        "epsilon", 0.9, math.inf, 1e-6, "output >= 3", "input 1", 75, 21, 100, 0.99, earlier=(block,)
    )  # fmt: skip
    picture = Picture("output", (0.0, 1.0, 2.0), (3, 4), (5, 2), 1.0, True)
    return AuditReport(
        "PureDP(epsilon=1.0)", 0.9, 1e-6, 1.0, False, "output >= 3", 200, 0.99,
        certificates=(certificate,), pair=("[1]", "[1, 1]"), picture=picture,
        subject=subject or RecipeTraining("xgb").subject,
    )  # fmt: skip
