"""A small table like Adult, made up, with its public facts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ledgerwood.learners import Schema


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
    return table
