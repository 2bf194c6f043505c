"""What is declared of a column, and the local mechanism that every one of its cells goes through.

Everything here follows from public metadata: names, bounds, categories, the number of levels, the method and its
parameters. Cells are read totally: one outside the bounds is clamped, a missing one becomes the declared level,
an undeclared category becomes the reserved one. No cell raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _checks
from ledgerwood.accounting import Cost, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import category_codes, numbers, scalars
from ledgerwood.learners.data.columns import Floats, Scalar
from ledgerwood.learners.data.frames import RawColumn
from ledgerwood.mechanisms.local import (
    AdjMap,
    DistanceProfile,
    Domain,
    DomainMapping,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    UnaryEncoding,
    order_preservation,
)
from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.local.domain import Codes, within

Method = Literal["global_map", "adj_map", "local_map", "laplace_map", "piecewise", "grr"]
Sampler = Literal["exponential", "bounded_discrete_laplace"]
Missing = Literal["lower", "middle", "upper"]

METHODS: tuple[str, ...] = get_args(Method)
OTHER = "(other)"
_SAMPLING: dict[str, Literal["exponential", "laplace"]] = {
    "exponential": "exponential",
    "bounded_discrete_laplace": "laplace",
}


@dataclass(frozen=True)
class ColumnSettings:
    """How the cells of an ordered column are randomized; the same words as in `OrderPreservingTransformer`."""

    method: str = "global_map"
    theta: int = 2
    alpha: float = 2.0
    levels: int = 10
    sampler: str = "exponential"
    missing: str = "middle"

    def __post_init__(self) -> None:
        for name, allowed in (("method", METHODS), ("sampler", tuple(_SAMPLING)), ("missing", get_args(Missing))):
            if getattr(self, name) not in allowed:
                raise ParameterError(name, f"be one of {', '.join(allowed)}", getattr(self, name))
        within("levels", self.levels, at_least=2, at_most=65535)

    def mechanism(self, epsilon: float) -> OrderedMechanism:
        """The mechanism for a column with this budget."""
        ends = {"lower": 1, "middle": (1 + self.levels) // 2, "upper": self.levels}
        domain, sampling = Domain(1, self.levels, ends[self.missing]), _SAMPLING[self.sampler]
        if self.method == "global_map":
            return GlobalMap(domain, epsilon, sampling)
        if self.method == "laplace_map":
            return LaplaceMap(domain, epsilon, sampling)
        if self.method == "adj_map":
            return AdjMap.from_epsilon(domain, self.theta, epsilon=epsilon, alpha=self.alpha, sampling=sampling)
        if self.method == "local_map":
            within("theta", self.theta, at_least=2)  # parts of one value would hide nothing
            return LocalMap(domain, Partition.even(domain.size, self.theta), epsilon, sampling)
        if self.method == "piecewise":
            return PiecewiseMechanism(domain, epsilon)
        return GeneralizedRandomizedResponse(domain, epsilon)


@dataclass(frozen=True)
class OrderedColumn:
    """A numeric column: bounds cut into levels, each cell sent through an order-preserving map.

    >>> column = OrderedColumn("age", 0.0, 100.0, ColumnSettings(levels=11).mechanism(0.5))
    >>> column.encode([-3.0, 52.0, float("nan")]).tolist()  # clamped, nearest level, the middle level
    [0, 5, 5]
    >>> column.values[:3].tolist()
    [0.0, 10.0, 20.0]
    """

    name: Hashable
    lower: float
    upper: float
    mechanism: OrderedMechanism

    @cached_property
    def _mapping(self) -> DomainMapping:
        return DomainMapping(self.lower, self.upper, self.mechanism.domain)

    @property
    def outputs(self) -> int:
        """How many values can come out."""
        return int(self.mechanism.outputs.size)

    @cached_property
    def values(self) -> Floats:
        """The randomized value of every output, in the units of the column and in increasing order."""
        if isinstance(self.mechanism, PiecewiseMechanism):
            step = (self.upper - self.lower) / (self.mechanism.domain.size - 1)
            levels = self.mechanism.unbiased(self.mechanism.outputs) - self.mechanism.domain.lower
            return np.asarray(self.lower + step * levels)
        return self._mapping.backward(self.mechanism.domain.values)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that come out."""
        return (str(self.name),)

    def encode(self, cells: Any) -> Codes:
        """The level of each cell, from 0."""
        return self._mapping.forward(read_numbers(cells)) - self.mechanism.domain.lower

    def snap(self, cells: Any) -> Floats:
        """The value at the level of each cell: what the same cell looks like without noise."""
        return self._mapping.backward(self._mapping.forward(read_numbers(cells)))

    def draw(self, codes: Codes, rng: Any) -> NDArray[np.int32]:
        """Outputs from 0, one row of them for each output column."""
        released = np.asarray(self.mechanism.release(codes + self.mechanism.domain.lower, rng))
        offsets: NDArray[np.int32] = (released - self.mechanism.outputs[0]).astype(np.int32)
        return offsets[None, :]

    @property
    def reveals_part(self) -> bool:
        """Whether some output separates values with certainty: Local-map with more than one part."""
        return isinstance(self.mechanism, LocalMap) and self.mechanism.partition.count > 1

    def cost(self, *, parts_public: bool) -> Cost:
        """The cost of one cell; with public parts, between values of one part."""
        if isinstance(self.mechanism, LocalMap):
            if self.reveals_part and not parts_public:
                raise ParameterError(
                    "parts_public",
                    "be True to charge Local-map to a ledger",
                    parts_public,
                    "Local-map reveals which part a value lies in, so it has no finite cost unless the parts are "
                    "declared public; or choose adj_map or global_map.",
                )
            inside = self.mechanism.within
            return PureDP(inside.epsilon(len(inside.gaps) - 1), neighbours="replace_one")
        return self.mechanism.cost

    @property
    def profile(self) -> DistanceProfile:
        """The exact loss between values at most t levels apart."""
        return self.mechanism.profile

    @cached_property
    def order(self) -> Floats:
        """The exact probability that two values t levels apart keep their order."""
        return order_preservation(self.mechanism)


@dataclass(frozen=True)
class NominalColumn:
    """A column without order: one-hot bits, each flipped by unary encoding (Li et al. 2022, §6.3).

    Missing cells and undeclared categories share one reserved category, the last bit.

    >>> column = NominalColumn("sex", ("female", "male"), epsilon=1.0)
    >>> column.names, column.encode(["male", None]).tolist()
    (('sex=female', 'sex=male', 'sex=(other)'), [1, 2])
    """

    name: Hashable
    categories: tuple[Scalar, ...]
    epsilon: float

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) != len(self.categories):
            raise ParameterError("domain", "list different categories, at least one", self.categories)
        if not all(isinstance(category, str | int | float) for category in self.categories):
            raise ParameterError("domain", "list categories that are texts, numbers or booleans", self.categories)
        object.__setattr__(self, "epsilon", self.mechanism.epsilon)

    @property
    def mechanism(self) -> UnaryEncoding:
        """One bit for each category and one for all else."""
        return UnaryEncoding(Domain(0, len(self.categories)), self.epsilon)

    @property
    def outputs(self) -> int:
        """A bit."""
        return 2

    @property
    def values(self) -> Floats:
        """A bit."""
        return np.array([0.0, 1.0])

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that come out."""
        return tuple(f"{self.name}={category}" for category in (*self.categories, OTHER))

    def encode(self, cells: Any) -> Codes:
        """The number of each cell's category; the reserved one is the last."""
        values = cells.values() if isinstance(cells, RawColumn) else scalars(cells)
        return category_codes(values, self.categories).astype(np.int64)

    def snap(self, cells: Any) -> Floats:
        """One-hot bits without noise, one row for each output column."""
        return np.asarray(self.encode(cells)[None, :] == np.arange(len(self.categories) + 1)[:, None], dtype=np.float64)

    def draw(self, codes: Codes, rng: Any) -> NDArray[np.int32]:
        """Bits, one row for each output column."""
        return np.ascontiguousarray(self.mechanism.release(codes, rng).T).astype(np.int32)

    def cost(self, *, parts_public: bool) -> Cost:
        """The cost of one cell."""
        return self.mechanism.cost


Column: TypeAlias = OrderedColumn | NominalColumn


def declare(
    domain: Any, names: Sequence[Hashable], settings: ColumnSettings, epsilons: Mapping[Hashable, float]
) -> tuple[Column, ...]:
    """One column for each name, from what the domain declares of it."""
    declared = declarations(domain)
    missing, unknown = [n for n in names if n not in declared], [n for n in declared if n not in set(names)]
    if missing:
        raise ParameterError(
            "domain",
            "declare the bounds or the categories of every column",
            missing,
            "They must be public; a column without them would have to be read to find them.",
        )
    if unknown:
        raise ParameterError("domain", "name columns of the table only", unknown)
    return tuple(_column(name, declared[name], settings, epsilons[name]) for name in names)


def declarations(domain: Any) -> dict[Hashable, Any]:
    """Bounds and categories by column, from a mapping or from a schema."""
    if domain is None:
        raise ParameterError(
            "domain",
            "declare the bounds or the categories of every column",
            None,
            "Pass domain={'age': (0, 100), 'colour': ['red', 'green']} or a Schema.",
        )
    if isinstance(domain, Mapping):
        return dict(domain)
    bounds, categories = getattr(domain, "bounds", None) or {}, getattr(domain, "categories", None) or {}
    if not isinstance(bounds, Mapping) or not isinstance(categories, Mapping):
        raise ParameterError("domain", "be a mapping from columns to bounds or categories, or a Schema", type(domain))
    ordered = {name: (float(low), float(high)) for name, (low, high) in bounds.items()}
    return {**ordered, **{name: list(values) for name, values in categories.items()}}


def _column(name: Hashable, declared: Any, settings: ColumnSettings, epsilon: float) -> Column:
    if isinstance(declared, tuple) and len(declared) == 2 and all(_checks.is_real(end) for end in declared):
        column = OrderedColumn(name, float(declared[0]), float(declared[1]), settings.mechanism(epsilon))
        _ = column.values  # checks the bounds
        return column
    if isinstance(declared, Sequence) and not isinstance(declared, str | bytes | tuple):
        return NominalColumn(name, tuple(declared), epsilon)
    raise ParameterError(
        "domain", "give each column a pair (lower, upper) or a list of categories", {name: type(declared).__name__}
    )


def read_numbers(cells: RawColumn | Sequence[Any] | NDArray[Any]) -> Floats:
    """Cells as doubles, whatever they hold; what is not a number counts as missing."""
    return (cells.numbers() if isinstance(cells, RawColumn) else numbers(cells)).astype(np.float64)
