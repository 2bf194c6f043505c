"""A transformer's public parameters as JSON: what party B tells party A, and what names a release."""

from __future__ import annotations

from typing import Any

from ledgerwood.errors import ParameterError, ProtocolError

from .columns import NominalColumn
from .transformer import OrderPreservingTransformer

_PLAIN = ("method", "split", "columns_per_record", "theta", "alpha", "levels", "sampler", "missing", "parts_public")


def describe(transformer: OrderPreservingTransformer) -> dict[str, Any]:
    """Everything declared, for columns named by strings and categories that JSON keeps."""
    names = transformer.names_in_
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("columns", "be named by strings to be sent to another party", names)
    epsilon = transformer.epsilon
    columns: list[Any] = []
    for column in transformer.release_.columns:
        if isinstance(column, NominalColumn):
            if not all(isinstance(category, str | int) for category in column.categories):
                raise ParameterError("domain", "have categories that are strings or integers", str(column.name))
            columns.append([column.name, list(column.categories)])
        else:
            columns.append([column.name, {"bounds": [column.lower, column.upper]}])
    plain = {name: getattr(transformer, name) for name in _PLAIN}
    return {**plain, "epsilon": dict(epsilon) if not isinstance(epsilon, int | float) else epsilon, "columns": columns}


def rebuild(facts: Any) -> OrderPreservingTransformer:
    """The transformer that was described: it can put clean records on the same levels, and state the guarantee.

    >>> from ledgerwood.learners.vertical import OrderPreservingTransformer
    >>> mine = OrderPreservingTransformer(domain={"age": (0, 100), "colour": ["red"]}).declare(["age", "colour"])
    >>> describe(rebuild(describe(mine))) == describe(mine)
    True
    """
    try:
        domain = {
            name: tuple(what["bounds"]) if isinstance(what, dict) else list(what) for name, what in facts["columns"]
        }
        plain = {name: facts[name] for name in _PLAIN}
        return OrderPreservingTransformer(**plain, epsilon=facts["epsilon"], domain=domain).declare(list(domain))
    except (TypeError, KeyError, ValueError) as error:
        raise ProtocolError(f"the other party's description of its columns is not understood: {error}") from None
