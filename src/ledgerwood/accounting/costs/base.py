"""Costs as an algebra: what a release costs, how costs add, and what each accounting language says of them.

A cost is an immutable value. ``a + b`` is sequential (adaptive) composition, ``k * a`` is k-fold composition,
:func:`sequence` is a composition whose order of execution is fixed in advance, and
:func:`ledgerwood.accounting.parallel` is parallel composition on disjoint records. How a cost is *priced* is the
business of an accountant, which installs itself here (:func:`install_accountant`) so that costs need not know it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, overload, runtime_checkable

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.errors import NeighboursMismatch, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair
    from ledgerwood.accounting.curves.tradeoff import GaussianFit, RiskCurve


@dataclass(frozen=True)
class Pricing:
    """The questions that a cost passes on to the accountant."""

    epsilon: Callable[[Cost, float, str | None], float]
    delta: Callable[[Cost, float, str | None], float]
    account: Callable[[Cost, float, bool], Account]
    risk: Callable[[Cost, float, bool], RiskCurve]
    advantage: Callable[[Cost, bool], tuple[float, float]]


_installed: list[Pricing] = []


def install_accountant(pricing: Pricing) -> None:
    """Let an accountant answer for every cost; the last one installed does."""
    _installed.append(pricing)


class Cost(ABC):
    """What a release costs. Subclasses say it in the tightest language known for them."""

    neighbours: Neighbours

    # -- what each language says; a subclass overrides what it can say ---------------------------------------

    def pure_epsilon(self) -> float:
        """The ε of pure DP, ``inf`` if there is none."""
        return math.inf

    def infinite_mass(self) -> float:
        """The probability that nothing is promised for (the δ of an approximate-DP cost)."""
        return 0.0

    def rho(self) -> float | None:
        """The ρ of zero-concentrated DP, ``None`` if none is known."""
        return None

    def mu(self) -> float | None:
        """The μ of Gaussian DP, ``None`` if the cost is not exactly (or provably at most) Gaussian."""
        return None

    def largest_order(self) -> float:
        """The largest Rényi order at which the curve says something."""
        return math.inf

    def is_tight(self) -> bool:
        """Whether the dominating pair is attained by the mechanisms of this cost, and not only a bound."""
        return True

    @abstractmethod
    def renyi(self, alpha: Array) -> Array:
        """Rényi curve of the part outside :meth:`infinite_mass`; ``inf`` where nothing is known."""

    def pairs(self) -> tuple[LossPair, ...] | None:
        """Dominating pairs: one if it is symmetric, (remove, add) if not, ``None`` if no pair is known."""
        return None

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Pairs of outputs that some mechanism of this cost attains or exceeds, for certified lower ends."""
        return self.pairs() if self.is_tight() else None

    @abstractmethod
    def _group(self, k: int) -> Cost:
        """The cost of k ≥ 2 changed records."""

    # -- the algebra ----------------------------------------------------------------------------------------------

    @property
    def terms(self) -> tuple[tuple[Cost, int], ...]:
        """The cost as (part, count) pairs."""
        return ((self, 1),)

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        """The terms an accountant prices: none if the release is free; a choice of one alternative is that one."""
        return () if self.is_free() else self.terms

    def __add__(self, other: object) -> Cost:
        if isinstance(other, (int, float)) and other == 0:  # so that sum(costs) works
            return self
        if not isinstance(other, Cost):
            return NotImplemented
        return compose([*self.terms, *other.terms], neighbours=common_neighbours([self, other]))

    __radd__ = __add__

    def __mul__(self, times: object) -> Cost:
        if isinstance(times, Cost):
            return NotImplemented
        k = _checks.integer("count", times)
        return compose([(part, k * n) for part, n in self.terms], neighbours=self.neighbours)

    __rmul__ = __mul__

    def group(self, k: int) -> Cost:
        """The cost when k records change at once (a person with k rows)."""
        k = _checks.integer("k", k, 1)
        return self if k == 1 else self._group(k)

    def is_free(self) -> bool:
        """Whether the release says nothing about the data."""
        return self.pure_epsilon() == 0 and self.infinite_mass() == 0

    # -- prices -----------------------------------------------------------------------------------------------------

    @overload
    def rdp(self, alpha: float) -> float: ...
    @overload
    def rdp(self, alpha: Iterable[float] | Array) -> Array: ...
    def rdp(self, alpha: Any) -> float | Array:
        """Rényi divergence bound at order(s) alpha in [1, ∞]; ``inf`` where none exists.

        >>> from ledgerwood.accounting import Gaussian
        >>> Gaussian(sigma=2.0).rdp(8.0)
        1.0
        """
        orders = _checks.orders(alpha)
        if self.infinite_mass() > 0:
            values = np.full_like(orders, math.inf)
        else:
            values = self.renyi(orders)
        return float(values) if values.ndim == 0 else values

    def epsilon(self, delta: float, method: str | None = None) -> float:
        """An upper bound on ε at ``delta``; the smallest certified one when no method is named."""
        return _installed[-1].epsilon(self, _checks.delta_value(delta), method)

    def delta(self, epsilon: float, method: str | None = None) -> float:
        """An upper bound on δ at ``epsilon``, which may be negative; never 0 when the truth is positive."""
        value = _checks.real("epsilon", epsilon, "be finite")
        if not math.isfinite(value):
            raise ParameterError("epsilon", "be finite", epsilon)
        return _installed[-1].delta(self, value + 0.0, method)

    def profile(self, epsilon: Array, *, tail: float) -> Array:
        """Upper bounds of δ at many ε, all from one composition that is sharp for δ down to ``tail``."""
        return _installed[-1].risk(self, tail, False).deltas(epsilon)

    def account(self, delta: float, *, lower_end: bool = True) -> Account:
        """The price by every method, with the certified lower end unless that is not wanted."""
        return _installed[-1].account(self, _checks.delta_value(delta), lower_end)

    # -- risk: what an attacker can do --------------------------------------------------------------------------------

    @overload
    def tradeoff(self, alpha: float, *, bounds: Literal[False] = False) -> float: ...
    @overload
    def tradeoff(self, alpha: float, *, bounds: Literal[True]) -> tuple[float, float]: ...
    def tradeoff(self, alpha: float, *, bounds: bool = False) -> float | tuple[float, float]:
        """The least false-negative rate (type II error) of any test with false-positive rate ``alpha``.

        The test tells whether a record was there, or which of two; the smaller value of the two directions. A lower
        bound; with ``bounds`` the pair (lower, upper) between which the truth of this class of mechanisms lies.

        >>> from ledgerwood.accounting import Gaussian
        >>> f"{Gaussian(sigma=1.0).tradeoff(0.05):.4f}"
        '0.7405'
        """
        rate = _checks.probability("alpha", alpha)
        curve = _installed[-1].risk(self, rate, bounds)
        value = curve.tradeoff(rate)
        return (value, max(value, 1.0 - curve.tpr_lower(rate))) if bounds else value

    @overload
    def tpr(self, fpr: float, *, bounds: Literal[False] = False) -> float: ...
    @overload
    def tpr(self, fpr: float, *, bounds: Literal[True]) -> tuple[float, float]: ...
    def tpr(self, fpr: float, *, bounds: bool = False) -> float | tuple[float, float]:
        """The greatest true-positive rate of any test with false-positive rate ``fpr``: an upper bound.

        >>> from ledgerwood.accounting import PureDP
        >>> f"{PureDP(1.0).tpr(0.01):.6f}"
        '0.027183'
        """
        rate = _checks.probability("fpr", fpr)
        curve = _installed[-1].risk(self, rate, bounds)
        value = curve.tpr(rate)
        return (curve.tpr_lower(rate), value) if bounds else value

    @overload
    def advantage(self, *, bounds: Literal[False] = False) -> float: ...
    @overload
    def advantage(self, *, bounds: Literal[True]) -> tuple[float, float]: ...
    def advantage(self, *, bounds: bool = False) -> float | tuple[float, float]:
        """The greatest true-positive rate minus false-positive rate of any test: δ at ε = 0. An upper bound.

        >>> from ledgerwood.accounting import Gaussian
        >>> f"{Gaussian(sigma=1.0).advantage():.4f}"
        '0.3829'
        """
        ends = _installed[-1].advantage(self, bounds)
        return ends if bounds else ends[1]

    @overload
    def bayes_risk(self, prior: float = 0.5, *, bounds: Literal[False] = False) -> float: ...
    @overload
    def bayes_risk(self, prior: float = 0.5, *, bounds: Literal[True]) -> tuple[float, float]: ...
    def bayes_risk(self, prior: float = 0.5, *, bounds: bool = False) -> float | tuple[float, float]:
        """The least probability of a wrong guess, if one of the two datasets has probability ``prior`` beforehand.

        A lower bound, whichever of the two it is.

        >>> from ledgerwood.accounting import Gaussian
        >>> f"{Gaussian(sigma=1.0).bayes_risk(0.5):.4f}"
        '0.3085'
        """
        share = _checks.probability("prior", prior)
        if share in (0.0, 1.0):
            return (0.0, 0.0) if bounds else 0.0
        curve = _installed[-1].risk(self, min(share, 1 - share), bounds)
        odds = math.log1p(-share) - math.log(share)
        delta = curve.delta(odds)
        if odds == 0.0:  # which has a composition of its own
            delta = min(delta, self.advantage())
        value = max(share * (1.0 - delta) - 2.0**-50, 0.0)
        return (value, max(value, share * (1.0 - curve.delta_lower(odds)))) if bounds else value

    @overload
    def reconstruction(self, baseline: float, *, bounds: Literal[False] = False) -> float: ...
    @overload
    def reconstruction(self, baseline: float, *, bounds: Literal[True]) -> tuple[float, float]: ...
    def reconstruction(self, baseline: float, *, bounds: bool = False) -> float | tuple[float, float]:
        """The greatest probability of reconstructing a record that a guess without the release hits with ``baseline``.

        Hayes, Mahloujifar & Balle 2023: the attacker knows every other record. "Hits" is any criterion that is fixed
        beforehand, and ``baseline`` its probability under the attacker's prior for the best fixed guess. An upper
        bound: ``tpr(baseline)``, and more if records may lie in parts of different cost.

        >>> from ledgerwood.accounting import PureDP
        >>> f"{PureDP(1.0).reconstruction(0.001):.6f}"
        '0.002718'
        """
        rate = _checks.probability("baseline", baseline)
        curve = _installed[-1].risk(self, rate, bounds)
        value = curve.mean_tpr(rate)
        return (curve.tpr_lower(rate), value) if bounds else value

    def dominating_mu(self, alpha: tuple[float, float] = (1e-6, 1 - 1e-6), *, bounds: bool = False) -> GaussianFit:
        """The least μ so that no test with a false-positive rate in the range ``alpha`` beats μ-Gaussian DP.

        Outside the range it promises nothing: no central limit theorem is used, and tails are often heavier than
        Gaussian ones. ``excess`` says by how much the Gaussian curve overstates the power; with ``bounds`` the lower
        end says that no smaller μ would do.

        >>> from ledgerwood.accounting import PureDP
        >>> fit = PureDP(1.0).dominating_mu((0.01, 0.5))
        >>> f"{fit.mu:.3f}", fit.alpha
        ('1.232', (0.01, 0.5))
        """
        low, high = (_checks.probability("alpha", end) for end in alpha)
        if not 0 < low < high < 1:
            raise ParameterError("alpha", "be a range (least, greatest) inside (0, 1)", alpha)
        curve = _installed[-1].risk(self, min(low, 1 - high), bounds)
        return curve.gaussian(low, high, ends=bounds, known=self.mu())


class Atom(Cost):
    """A cost that is one release. Knows its noise parameter, so that a plan can calibrate it."""

    #: the constructor's noise parameter, and +1 if more of it means more noise, -1 if it means less
    noise_parameter: ClassVar[str | None] = None
    noise_direction: ClassVar[int] = -1

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        """The release of this kind whose small-scale concentrated cost is ``rho`` (shares of a plan)."""
        raise ParameterError("cost", "have one noise parameter that can be calibrated", cls.__name__)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, without the neighbouring relation."""

    def at_most(self, other: Cost) -> bool:
        """Whether ``other`` is known to dominate this cost."""
        return self == other

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array] | None:
        """(losses, log-probabilities under P) of the dominating pair, as atoms or as a quadrature rule good for
        Rényi orders up to ``largest_order``; ``None`` if no pair is known.
        """
        return None

    def __repr__(self) -> str:
        arguments = dict(self.parameters())
        if self.neighbours is not Neighbours.ADD_REMOVE:
            arguments["neighbours"] = str(self.neighbours)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class EpsilonCost(Atom):
    """A release with one ε of its own, in ``size``: ``cost.epsilon(delta=…)`` is the price."""

    noise_parameter: ClassVar[str | None] = "epsilon"
    #: its ρ over ε²/2, the ρ of pure ε-DP
    rho_ratio: ClassVar[float] = 1.0

    size: float
    neighbours: Neighbours

    def __init__(self, epsilon: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=_checks.non_negative("epsilon", epsilon))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(math.sqrt(2 * rho / cls.rho_ratio), **fixed)

    def pure_epsilon(self) -> float:
        return self.size

    def rho(self) -> float | None:
        return _checks.half_square(self.size) * self.rho_ratio

    def _group(self, k: int) -> Cost:
        # What successive changes of one record may reveal adds up: losses, and ranges of losses.
        return type(self)(k * self.size, neighbours=self.neighbours)


def set_fields(cost: Atom, neighbours: str, /, **values: Any) -> None:
    """Set the fields of a frozen cost once, on construction."""
    object.__setattr__(cost, "neighbours", as_neighbours(neighbours))
    for name, value in values.items():
        object.__setattr__(cost, name, value)


def common_neighbours(costs: Iterable[Cost]) -> Neighbours:
    """The relation shared by all costs, or an error."""
    relations = list(dict.fromkeys(c.neighbours for c in costs))
    if len(relations) > 1:
        raise NeighboursMismatch(str(relations[0]), str(relations[1]))
    return relations[0] if relations else Neighbours.ADD_REMOVE


def sort_key(part: Cost) -> tuple[str, str]:
    """A canonical order, so that the order of ``+`` changes no bit of the price."""
    return type(part).__name__, repr(part)


@dataclass(frozen=True, slots=True)
class Composition(Cost):
    """Sequential, adaptive composition of (part, count) pairs.

    Unordered (a sum): priced for the worst order of execution. Ordered (a plan): priced for its own.
    """

    parts: tuple[tuple[Cost, int], ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    ordered: bool = False
    _hash: int = field(init=False, repr=False, compare=False, default=0)
    #: The same in any order, equal parts together: a plan of many rounds repeats a few parts hundreds of times.
    _counted: tuple[tuple[Cost, int], ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.parts, self.neighbours, self.ordered)))
        counts: dict[Cost, int] = {}
        for part, n in self.parts:
            counts[part] = counts.get(part, 0) + n
        for n in counts.values():
            _checks.integer("count", n)
        object.__setattr__(self, "_counted", tuple(counts.items()))

    def __hash__(self) -> int:
        return self._hash

    @property
    def terms(self) -> tuple[tuple[Cost, int], ...]:
        return self.parts

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        return tuple((t, m * n) for part, n in self.parts for t, m in part.priced_terms())

    def __repr__(self) -> str:
        if not self.parts:
            return f"zero(neighbours={str(self.neighbours)!r})" if self.neighbours != "add_remove" else "zero()"
        joiner = " then " if self.ordered else " + "
        return joiner.join(repr(part) if n == 1 else f"{n} * {part!r}" for part, n in self.parts)

    def __mul__(self, times: object) -> Cost:
        if self.ordered and not isinstance(times, Cost):
            return sequence(self.parts * _checks.integer("count", times), neighbours=self.neighbours)
        return Cost.__mul__(self, times)

    __rmul__ = __mul__

    def pure_epsilon(self) -> float:
        return _checks.total(n * part.pure_epsilon() for part, n in self.parts)

    def infinite_mass(self) -> float:
        masses = [(m, n) for part, n in self.parts if (m := part.infinite_mass())]
        if len(masses) == 1 and masses[0][1] == 1:
            return masses[0][0]
        survive = math.fsum(n * math.log1p(-m) if m < 1 else -math.inf for m, n in masses)
        return min(-math.expm1(survive) * (1 + 2.0**-49), 1.0)  # upwards

    def rho(self) -> float | None:
        rhos = [part.rho() for part, _ in self._counted]
        if any(r is None for r in rhos):
            return None
        return _checks.total(n * r for (_, n), r in zip(self._counted, rhos) if r is not None)

    def mu(self) -> float | None:
        mus = [part.mu() for part, _ in self._counted]
        if any(m is None for m in mus):
            return None
        return math.sqrt(_checks.total(n * m * m for (_, n), m in zip(self._counted, mus) if m is not None))

    def largest_order(self) -> float:
        return min((part.largest_order() for part, _ in self._counted), default=math.inf)

    def renyi(self, alpha: Array) -> Array:
        total = np.zeros_like(alpha)
        for part, n in self._counted:
            total = total + n * part.renyi(alpha)
        return total

    def _group(self, k: int) -> Cost:
        parts = [(g, m * n) for part, n in self.parts for g, m in part.group(k).terms]
        return (sequence if self.ordered else compose)(parts, neighbours=self.neighbours)


def compose(parts: Iterable[tuple[Cost, int]], *, neighbours: str = Neighbours.ADD_REMOVE) -> Cost:
    """Sequential composition whose order of execution is unknown: equal parts are merged, free ones dropped."""
    relation = as_neighbours(neighbours)
    merged: dict[Cost, int] = {}
    for part, n in parts:
        if part.neighbours != relation:
            raise NeighboursMismatch(str(relation), str(part.neighbours))
        if n and not part.is_free():
            merged[part] = merged.get(part, 0) + n
    ordered = tuple(sorted(merged.items(), key=lambda item: sort_key(item[0])))
    if len(ordered) == 1 and ordered[0][1] == 1:
        return ordered[0][0]
    return Composition(ordered, relation)


def sequence(parts: Iterable[Cost | tuple[Cost, int]], *, neighbours: str | None = None) -> Cost:
    """Sequential composition in an order that is fixed before any data is touched (a plan).

    The order matters for bounded-range releases only: the optimal accountant prices the executed order, which is
    never more than the worst order a plain sum is priced for.

    >>> from ledgerwood.accounting import BoundedRange
    >>> grow = sequence([BoundedRange(0.5), BoundedRange(1.0)]).delta(epsilon=0)
    >>> shrink = sequence([BoundedRange(1.0), BoundedRange(0.5)]).delta(epsilon=0)
    >>> f"{grow:.3f} {shrink:.3f}"
    '0.260 0.245'
    """
    steps: list[tuple[Cost, int]] = []
    for item in parts:
        cost, n = item if isinstance(item, tuple) else (item, 1)
        n = _checks.integer("count", n)
        inner = cost.terms if n else ()
        if isinstance(cost, Composition) and len(inner) > 1 and n > 1:
            expanded = list(inner) * n
        else:
            expanded = [(part, m * n) for part, m in inner]
        for part, m in expanded:
            if steps and steps[-1][0] == part:
                steps[-1] = (part, steps[-1][1] + m)
            elif m and not part.is_free():
                steps.append((part, m))
    relation = as_neighbours(neighbours) if neighbours is not None else common_neighbours(p for p, _ in steps)
    for part, _ in steps:
        if part.neighbours != relation:
            raise NeighboursMismatch(str(relation), str(part.neighbours))
    if len(steps) == 1 and steps[0][1] == 1:
        return steps[0][0]
    return Composition(tuple(steps), relation, ordered=len(steps) > 1)


def zero(neighbours: str = Neighbours.ADD_REMOVE) -> Cost:
    """The cost of releasing nothing.

    >>> zero().epsilon(delta=0)
    0.0
    """
    return Composition((), as_neighbours(neighbours))


@dataclass(frozen=True, slots=True)
class Account:
    """The price of a cost at δ by every method.

    Attributes
    ----------
    epsilon
        The smallest certified upper bound.
    lower
        A certified lower end: no valid accountant can report less for this class of mechanisms (0 if none is known).
    method, order
        The method that gives ``epsilon``; the Rényi order behind ``rdp``'s price.
    table
        Every method's ε, or why it cannot price the cost.

    >>> from ledgerwood.accounting import BoundedRange
    >>> account = (20 * BoundedRange(0.1)).account(delta=1e-5)
    >>> account.method, f"{account.lower:.4f} <= {account.epsilon:.4f}"
    ('optimal', '0.8182 <= 0.8183')
    """

    epsilon: float
    lower: float
    delta: float
    method: str
    order: float | None
    table: dict[str, float | str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "epsilon": self.epsilon,
            "lower": self.lower,
            "delta": self.delta,
            "method": self.method,
            "order": self.order,
            "table": dict(self.table),
        }

    def __repr__(self) -> str:
        lines = [f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.6g} (by {self.method})"]
        if self.lower > 0:
            lines.append(f"certified: the truth lies in [{self.lower:.6g}, {self.epsilon:.6g}]")
        for name, value in self.table.items():
            mark = "*" if name == self.method else " "
            shown = f"{value:.6g}" if isinstance(value, float) else f"-  ({value})"
            if name == "rdp" and isinstance(value, float) and self.order is not None:
                shown += f"  (order {self.order:.4g})"
            lines.append(f" {mark} {name:<9} {shown}")
        return "\n".join(lines)


Value = TypeVar("Value", contravariant=True)
Result = TypeVar("Result", covariant=True)


@runtime_checkable
class Mechanism(Protocol[Value, Result]):
    """What every mechanism is: its cost, the sensitivity that the cost assumes, a check of values, and a draw.

    The only declaration of the protocol. A class that inherits from it gets a ``check`` that accepts every value.

    >>> from ledgerwood.mechanisms import LaplaceMechanism, Mechanism
    >>> isinstance(LaplaceMechanism(scale=2.0, sensitivity=1.0), Mechanism)
    True
    """

    @property
    def cost(self) -> Cost:
        """What one release costs."""

    @property
    def sensitivity(self) -> Any:
        """How far neighbouring data may move the value; None if the cost holds for any two values."""

    def check(self, value: Value) -> None:
        """Raise an error if the value cannot be released; nothing is drawn, so nothing is spent on it."""

    def release(self, value: Value, rng: Any = None) -> Result:
        """Draw noise from the operating system's source, or from ``rng`` (seeded: not private)."""


def check_value(mechanism: Mechanism[Value, Any], value: Value) -> None:
    """Let a mechanism check the value before anything is spent; a mechanism of a user may have no check."""
    check = getattr(mechanism, "check", None)  # the only such question: an exception would take longer than a charge
    if check is not None:
        check(value)
