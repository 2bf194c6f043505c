"""Rebuild the benchmark tables from their public originals, and check what came out.

    python -m benchmarks.data --originals DIR --out DATA      # parse what DIR has, write Parquet and datasets.json
    python -m benchmarks.data --check DATA                    # compare the contents of tables with known digests

``docs/benchmarks/data.md`` says which files to put in ``--originals``. A digest is that of the values, not of the
Parquet bytes. Two tables are samples whose draw is not known: they are drawn anew, and their digests differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

FACTS = Path(__file__).with_name("datasets.json")
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "target",
)  # fmt: skip
ABALONE = (
    "sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight", "target",
)  # fmt: skip
CALIFORNIA = (
    "target", "median_income", "housing_median_age", "total_rooms", "total_bedrooms", "population", "households",
    "latitude", "longitude",
)  # fmt: skip


def adult(folder: Path) -> pd.DataFrame:
    """UCI Adult: adult.data, then adult.test."""
    parts = [
        pd.read_csv(folder / name, names=list(ADULT), skipinitialspace=True, comment="|", na_filter=False)
        for name in ("adult.data", "adult.test")
    ]
    whole = pd.concat(parts, ignore_index=True)
    return whole.assign(target=whole.target.str.startswith(">50K").astype(int))


def a9a(folder: Path) -> pd.DataFrame:
    """LIBSVM a9a, then a9a.t."""
    text = [line.split() for name in ("a9a", "a9a.t") for line in (folder / name).read_text().splitlines() if line]
    cells = np.zeros((len(text), 123), dtype=np.int32)
    for row, (_, *entries) in enumerate(text):
        cells[row, [int(entry.split(":")[0]) - 1 for entry in entries]] = 1
    frame = pd.DataFrame(cells, columns=[f"x{i}" for i in range(1, 124)])
    return frame.assign(target=[int(float(line[0]) > 0) for line in text])


def bank(folder: Path) -> pd.DataFrame:
    """UCI Bank Marketing: bank-full.csv."""
    whole = pd.read_csv(folder / "bank-full.csv", sep=";", na_filter=False)
    return whole.assign(target=(whole.pop("y") == "yes").astype(int))


def credit2(folder: Path) -> pd.DataFrame:
    """UCI Default of Credit Card Clients: its sheet saved as credit-card-clients.csv."""
    whole = pd.read_csv(folder / "credit-card-clients.csv", header=0, skiprows=lambda i: i == 0)
    whole = whole.drop(columns="ID").rename(columns={"default payment next month": "target"})
    return whole.astype(dict.fromkeys(("SEX", "EDUCATION", "MARRIAGE"), str))


def credit1(folder: Path) -> pd.DataFrame:
    """Give Me Some Credit: cs-training.csv."""
    whole = pd.read_csv(folder / "cs-training.csv", index_col=0)
    return whole.assign(target=whole.pop("SeriousDlqin2yrs"))


def abalone(folder: Path) -> pd.DataFrame:
    """UCI Abalone: abalone.data."""
    return pd.read_csv(folder / "abalone.data", names=list(ABALONE)).astype({"target": float})


def powerplant(folder: Path) -> pd.DataFrame:
    """UCI Combined Cycle Power Plant: the first sheet of Folds5x2_pp saved as powerplant.csv."""
    return pd.read_csv(folder / "powerplant.csv").rename(columns={"PE": "target"})


def pendigits(folder: Path) -> pd.DataFrame:
    """UCI Pen-Based Recognition of Handwritten Digits: pendigits.tra, then pendigits.tes."""
    names = [*(f"input{i}" for i in range(1, 17)), "target"]
    parts = [
        pd.read_csv(folder / name, names=names, skipinitialspace=True) for name in ("pendigits.tra", "pendigits.tes")
    ]
    return pd.concat(parts, ignore_index=True)


def california(folder: Path) -> pd.DataFrame:
    """StatLib cadata.txt: numbers after 27 lines of text."""
    whole = pd.read_csv(folder / "cadata.txt", sep=r"\s+", skiprows=27, names=list(CALIFORNIA))
    return whole[["longitude", "latitude", *CALIFORNIA[2:7], "median_income", "target"]]


def covtype_100k(folder: Path) -> pd.DataFrame:
    """UCI Covertype: covtype.data; a stratified sample of 100 000 rows."""
    names = [*_facts()["covtype_100k"]["bounds"], "target"]
    whole = pd.read_csv(folder / "covtype.data", names=names)
    return whole.groupby("target").sample(frac=100_000 / len(whole), random_state=0).sample(frac=1, random_state=0)


def higgs_18k(folder: Path) -> pd.DataFrame:
    """UCI HIGGS: HIGGS.csv; 18 477 of its rows, rounded to three decimals."""
    names = ["target", *_facts()["higgs_18k"]["bounds"]]
    whole = pd.read_csv(folder / "HIGGS.csv", names=names, nrows=200_000)
    sample = whole.sample(18_477, random_state=0).round(3)
    return sample.assign(target=sample.pop("target").astype(int))


TABLES: dict[str, Callable[[Path], pd.DataFrame]] = {
    made.__name__: made
    for made in (
        adult, a9a, bank, credit2, credit1, abalone, powerplant, pendigits, california, covtype_100k, higgs_18k,
    )
}  # fmt: skip


def _facts() -> dict[str, dict]:
    return {table["name"]: table for table in json.loads(FACTS.read_text())["datasets"]}


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the types of the benchmark: int32, float32 for fractions and missing values, strings."""
    found = {}
    for name, column in frame.items():
        if column.dtype.kind in "iub" or (column.dtype.kind == "f" and name != "target" and _whole(column)):
            found[name] = column.to_numpy().astype(np.int32)
        elif column.dtype.kind == "f":
            found[name] = column.to_numpy().astype(np.float32)
        else:
            found[name] = column.astype(str).to_numpy(dtype=object)
    return pd.DataFrame(found)


def _whole(column: pd.Series) -> bool:
    return bool(column.notna().all() and (column == column.round()).all())


def digest(frame: pd.DataFrame) -> str:
    """Return SHA-256 of names and values, column after column; numbers as float32."""
    found = hashlib.sha256()
    for name, column in frame.items():
        found.update(f"{name}\n".encode())
        if column.dtype.kind in "iuf":
            found.update(column.to_numpy().astype("<f4").tobytes())
        else:
            found.update("\n".join(map(str, column)).encode())
    return found.hexdigest()


def rebuild(originals: Path, out: Path) -> None:
    """Write every table whose originals are there."""
    out.mkdir(parents=True, exist_ok=True)
    for name, parse in TABLES.items():
        try:
            frame = typed(parse(originals))
        except FileNotFoundError as error:
            print(f"{name}: no {Path(str(error.filename)).name}; {parse.__doc__}")
            continue
        frame.to_parquet(out / f"{name}.parquet", compression="zstd", index=False)
        print(f"{name}: {len(frame)} rows, {_judged(name, digest(frame))}")
    (out / "datasets.json").write_text(FACTS.read_text())


def check(folder: Path) -> bool:
    """Compare every table of a folder with its known digest."""
    good = True
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if not path.exists():
            print(f"{name}: not there")
            continue
        verdict = _judged(name, digest(pd.read_parquet(path)))
        good &= verdict != "OTHER VALUES"
        print(f"{name}: {verdict}")
    return good


def _judged(name: str, found: str) -> str:
    known = _facts()[name]
    if found == known["sha256"]:
        return "the known table"
    return "another sample" if known.get("sample") else "OTHER VALUES"


def main() -> None:
    """Rebuild or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--originals", type=Path)
    parser.add_argument("--out", type=Path, default=Path("data"))
    parser.add_argument("--check", type=Path)
    given = parser.parse_args()
    if given.originals:
        rebuild(given.originals, given.out)
    elif not given.check:
        parser.error("say --originals DIR or --check DATA")
    if given.check and not check(given.check):
        raise SystemExit("some tables hold other values")


if __name__ == "__main__":
    main()
