"""Data to try things on, with their schemas. See ``ATTRIBUTION.md`` beside this file."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import MissingDependency, ParameterError

if TYPE_CHECKING:
    from ledgerwood.learners import Schema

__all__ = ["Dataset", "load_adult", "load_bank"]


@dataclass(frozen=True)
class _Source:
    """A file beside this module, and what is public about it."""

    file: str
    target: str
    positive: str
    bounds: Mapping[str, tuple[tuple[int, int], str]]
    categories: Mapping[str, str]
    listed: str
    question: str


_BANK = _Source(
    file="bank.csv.xz",
    target="y",
    positive="yes",
    bounds={
        "age": ((0, 100), "human ages"),
        "balance": ((-10_000, 110_000), "a guess at yearly balances in euros"),
        "day": ((1, 31), "days of a month"),
        "campaign": ((1, 70), "a guess at contacts in one campaign"),
        "pdays": ((-1, 999), "documented: days since the last contact, -1 for none"),
        "previous": ((0, 300), "a guess at earlier contacts"),
    },
    categories={
        "job": "admin. blue-collar entrepreneur housemaid management retired self-employed services student "
        "technician unemployed unknown",
        "marital": "divorced married single",
        "education": "primary secondary tertiary unknown",
        "default": "no yes",
        "housing": "no yes",
        "loan": "no yes",
        "contact": "cellular telephone unknown",
        "month": "jan feb mar apr may jun jul aug sep oct nov dec",
        "poutcome": "failure other success unknown",
    },
    listed="documented by the bank",
    question="documented: did the client subscribe",
)
_ADULT = _Source(
    file="adult.csv.xz",
    target="income",
    positive=">50K",
    bounds={
        "age": ((0, 100), "human ages"),
        "fnlwgt": ((0, 1_500_000), "a guess at how many people one answer stands for"),
        "education_num": ((1, 16), "documented: the number of a school level"),
        "capital_gain": ((0, 99_999), "five digits of a form"),
        "capital_loss": ((0, 5000), "a guess at dollars of a year"),
        "hours_per_week": ((0, 100), "a guess at hours of work"),
    },
    categories={
        "workclass": "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
        "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad "
        "Masters Preschool Prof-school Some-college",
        "marital_status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated "
        "Widowed",
        "occupation": "? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
        "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales "
        "Tech-support Transport-moving",
        "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
        "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
        "sex": "Female Male",
        "native_country": "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France "
        "Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland "
        "Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland "
        "Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago United-States Vietnam "
        "Yugoslavia",
    },
    listed="documented by the census",
    question="documented: is the income above 50 000 dollars",
)
_BACKENDS = ("pandas", "polars", "pyarrow")


class Dataset(NamedTuple):
    """A table, its labels, and its schema.

    >>> from ledgerwood.datasets import load_bank
    >>> X, y, schema = load_bank()
    >>> len(y) == len(X)
    True
    """

    X: Any
    y: NDArray[np.int64]
    schema: Schema


def load_bank(backend: str | None = None) -> Dataset:
    """Return Bank Marketing (UCI, CC BY 4.0): 45 211 calls; did the client subscribe a term deposit?

    Without ``duration``, which is known only after the call. Rows are in the order of the calls' dates.

    Parameters
    ----------
    backend
        ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first that is installed.

    Examples
    --------
    >>> from ledgerwood.datasets import load_bank
    >>> X, y, schema = load_bank()
    >>> X.shape, int(y.sum()), schema.bounds["day"]
    ((45211, 15), 5289, (1.0, 31.0))
    """
    return _loaded(_BANK, backend)


def load_adult(backend: str | None = None) -> Dataset:
    """Return Adult (UCI, CC BY 4.0): 48 842 answers to the census of 1994; is the income above 50 000 dollars?

    The first 32 561 rows are the original training file. An unknown category is ``"?"``.

    Parameters
    ----------
    backend
        ``"pandas"``, ``"polars"`` or ``"pyarrow"``; by default the first that is installed.

    Examples
    --------
    >>> from ledgerwood.datasets import load_adult
    >>> X, y, schema = load_adult()
    >>> X.shape, int(y.sum()), schema.bounds["age"]
    ((48842, 14), 11687, (0.0, 100.0))
    """
    return _loaded(_ADULT, backend)


def _loaded(source: _Source, backend: str | None) -> Dataset:
    from ledgerwood.learners import Schema

    packed = files(__name__).joinpath(source.file).read_bytes()
    names, *rows = csv.reader(io.StringIO(lzma.decompress(packed).decode()))
    columns: dict[str, Any] = dict(zip(names, zip(*rows), strict=True))
    y = (np.array(columns.pop(source.target)) == source.positive).astype(np.int64)
    data = {
        name: np.array(values, dtype=np.int64) if name in source.bounds else list(values)
        for name, values in columns.items()
    }
    sources: dict[str | int, str] = {name: why for name, (_, why) in source.bounds.items()}
    sources |= dict.fromkeys(source.categories, source.listed)
    schema = Schema(
        bounds={name: bounds for name, (bounds, _) in source.bounds.items()},
        categories={name: text.split() for name, text in source.categories.items()},
        classes=[0, 1],
        rows=len(y),
        sources=sources | {"classes": source.question, "rows": "the size of the published table"},
    )
    return Dataset(_frame(data, backend), y, schema)


def _frame(data: dict[str, Any], backend: str | None) -> Any:
    if backend is not None and backend not in _BACKENDS:
        raise ParameterError("backend", f"be one of {', '.join(_BACKENDS)}", backend)
    installed = [name for name in _BACKENDS if importlib.util.find_spec(name) is not None]
    chosen = backend or next(iter(installed), None)
    if chosen is None or chosen not in installed:
        raise MissingDependency(chosen or "pandas", "a table", "cli")
    import narwhals.stable.v2 as nw

    module: Any = importlib.import_module(chosen)
    return nw.from_dict(data, backend=module).to_native()
