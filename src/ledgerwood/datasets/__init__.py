"""Data to try things on, with their public facts. See ``ATTRIBUTION.md`` beside this file."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import lzma
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import MissingDependency, ParameterError

if TYPE_CHECKING:
    from ledgerwood.learners import Schema

__all__ = ["Dataset", "load_bank"]

_BOUNDS = {
    "age": ((0, 100), "human ages"),
    "balance": ((-10_000, 110_000), "a guess at yearly balances in euros"),
    "day": ((1, 31), "days of a month"),
    "campaign": ((1, 70), "a guess at contacts in one campaign"),
    "pdays": ((-1, 999), "documented: days since the last contact, -1 for none"),
    "previous": ((0, 300), "a guess at earlier contacts"),
}
_CATEGORIES = {
    "job": "admin. blue-collar entrepreneur housemaid management retired self-employed services student technician "
    "unemployed unknown",
    "marital": "divorced married single",
    "education": "primary secondary tertiary unknown",
    "default": "no yes",
    "housing": "no yes",
    "loan": "no yes",
    "contact": "cellular telephone unknown",
    "month": "jan feb mar apr may jun jul aug sep oct nov dec",
    "poutcome": "failure other success unknown",
}
_BACKENDS = ("pandas", "polars", "pyarrow")


class Dataset(NamedTuple):
    """A table, its labels, and its public facts.

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
    from ledgerwood.learners import Schema

    packed = files(__name__).joinpath("bank.csv.xz").read_bytes()
    names, *rows = csv.reader(io.StringIO(lzma.decompress(packed).decode()))
    columns: dict[str, Any] = dict(zip(names, zip(*rows), strict=True))
    y = (np.array(columns.pop("y")) == "yes").astype(np.int64)
    data = {
        name: np.array(values, dtype=np.int64) if name in _BOUNDS else list(values) for name, values in columns.items()
    }
    sources: dict[str | int, str] = {name: source for name, (_, source) in _BOUNDS.items()}
    sources |= dict.fromkeys(_CATEGORIES, "documented by the bank")
    schema = Schema(
        bounds={name: bounds for name, (bounds, _) in _BOUNDS.items()},
        categories={name: text.split() for name, text in _CATEGORIES.items()},
        classes=[0, 1],
        sources=sources | {"classes": "documented: did the client subscribe"},
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
