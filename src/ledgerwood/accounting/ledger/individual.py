r"""Individual accounting: every record has a budget of its own and retires when it is used up.

Feldman & Zrnic 2021 (arXiv:2008.11193). Before each release the records' own costs are compared with what
each has left; the release is computed from the records that can pay. For add/remove neighbours only the record in
question pays, so if no record ever pays more than :math:`B` at order :math:`\alpha` the whole interaction has Rényi
divergence at most :math:`B`, however many releases there were (``docs/theory/filters.md``, Theorem 7).

**What is in here is data.** Which records have retired, how many, and what each has spent are functions of the records:
never release them, and never let control flow that an observer can see depend on them.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import MARGIN, next_up
from ledgerwood.accounting.accountant.filters import RenyiFilter
from ledgerwood.accounting.costs.guarantees import RDP
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.accountant.filters import Balance


@dataclass(frozen=True, slots=True)
class IndividualBudget:
    """A Rényi budget per record, bought from a ledger in one piece.

    It is a mechanism whose release is the per-record filter: ``ledger.release(budget, n, label=...)`` pays for the
    whole interaction once and returns an :class:`IndividualFilter` of ``n`` records.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.accounting import Ledger
    >>> ledger = Ledger(epsilon=2.0, delta=1e-6, filter="rdp")
    >>> budget = IndividualBudget.share_of(ledger.remaining(), 0.5)
    >>> records = ledger.release(budget, 3, label="per-record budget")
    >>> paying = records.admit(records.gaussian([0.0, 1.0, 20.0], sigma=30.0))
    >>> paying
    array([ True,  True, False])
    >>> round(ledger.spent().fraction, 6)
    0.5
    """

    order: float
    limit: float

    def __post_init__(self) -> None:
        if not 1 < _checks.real("order", self.order) < math.inf:
            raise ParameterError("order", "be finite and above 1", self.order)
        _checks.positive("limit", self.limit)

    @classmethod
    def for_target(cls, epsilon: float, delta: float) -> IndividualBudget:
        """Return the budget with which every record has (epsilon, delta)."""
        rule = RenyiFilter(epsilon, delta)
        return cls(rule.order, rule.limit)

    @classmethod
    def share_of(cls, balance: Balance, fraction: float) -> IndividualBudget:
        """Return a fraction of what a ledger with a Rényi filter has left: ``share_of(ledger.remaining(), 0.5)``."""
        if not isinstance(balance.filter, RenyiFilter):
            raise ParameterError("balance", "come from a ledger with filter='rdp'", balance)
        if not 0 < fraction <= 1:
            raise ParameterError("fraction", "lie in (0, 1]", fraction)
        return cls(balance.filter.order, balance.amount * fraction * (1 - 2 * MARGIN))

    @property
    def cost(self) -> RDP:
        """What the whole interaction costs: the limit, at the order."""
        return RDP({self.order: self.limit})

    @property
    def sensitivity(self) -> None:
        """None: every record is charged by its own contribution."""

    def check(self, value: int) -> None:
        """Refuse what is not a number of records."""
        _checks.integer("records", value)

    def release(self, value: int, rng: Any = None) -> IndividualFilter:
        """Return a fresh filter of ``value`` records. Nothing is drawn."""
        return IndividualFilter(value, self)


class IndividualFilter:
    """Retires records whose own budget is used up. Vectorised over records.

    Parameters
    ----------
    records
        How many records there are.
    budget
        What each of them may spend.
    """

    def __init__(self, records: int, budget: IndividualBudget) -> None:
        self.budget = budget
        self._spent = np.zeros(_checks.integer("records", records))
        self._active = np.ones(self._spent.size, dtype=bool)
        self._mutex = threading.Lock()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an IndividualFilter cannot be copied or pickled: every copy would grant the budgets again")

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which records have not retired. Data: do not release."""
        return self._active.copy()

    @property
    def spent(self) -> NDArray[np.float64]:
        """What each record has paid. Data: do not release."""
        return self._spent.copy()

    def gaussian(self, norms: ArrayLike, sigma: float) -> NDArray[np.float64]:
        r"""Return each record's price for a sum with Gaussian noise, :math:`\alpha \lVert x_i \rVert^2 / 2\sigma^2`.

        ``norms`` are the L2 norms of the records' own contributions to the sum (after clipping).
        """
        norm, sigma = _numbers(norms), _checks.positive("sigma", sigma)
        with np.errstate(over="ignore", under="ignore"):
            price = self.budget.order / 2 * (norm / sigma) ** 2
        return _above_zero(price, norm)

    def bounded_range(self, epsilons: ArrayLike) -> NDArray[np.float64]:
        r"""Return each record's price for a selection, at most :math:`\min(\alpha\varepsilon_i^2/8, \varepsilon_i)`.

        ``epsilons`` are the coefficient of the exponential mechanism times the range by which each record alone can
        change the scores.
        """
        e = _numbers(epsilons)
        with np.errstate(over="ignore", under="ignore"):
            price = np.minimum(self.budget.order * e**2 / 8, e)
        return _above_zero(price, e)

    def admit(self, prices: ArrayLike) -> NDArray[np.bool_]:
        """Charge every record that can pay and return which those are; the others retire for good.

        Parameters
        ----------
        prices
            The Rényi divergence, at the budget's order, that each record's own contribution to the next release causes;
            a function of that record and of earlier outputs only. A price that is not a number retires its record.

        Returns
        -------
        array of bool
            The records to compute the release from. No other record may enter it.
        """
        price = _numbers(prices)
        if price.shape != self._spent.shape:
            raise ParameterError("prices", "have one entry per record", price.shape)
        price = np.where(price >= 0, price, np.inf)  # also nan: values never raise
        with self._mutex, np.errstate(over="ignore"):
            after = next_up(self._spent + price * (1 + MARGIN))
            after = np.where(price == 0, self._spent, after)
            self._active &= after <= self.budget.limit
            self._spent = np.where(self._active, after, self._spent)
            return self._active.copy()


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as floats; what is not a number, or is too large for one, is nan or infinite and never raises."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return np.array([_number(value) for value in np.asarray(values, dtype=object)], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:
        return math.nan


def _above_zero(price: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the price, positive also where the square of a contribution is too small for a float."""
    return np.where((price == 0) & (size != 0), next_up(price), price)
