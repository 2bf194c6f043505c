"""Per-record budgets: vectorised, safe, and valid on every small case."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerwood.accounting import BoundedRange, Gaussian, Ledger
from ledgerwood.accounting.ledger.individual import IndividualBudget, IndividualFilter
from ledgerwood.errors import BudgetExceeded, ParameterError

ORDER = 4.0


@given(
    st.lists(st.lists(st.floats(0, 2), min_size=5, max_size=5), max_size=12),
    st.floats(0.1, 5),
)
def test_records_pay_until_they_cannot_and_then_never_again(rounds: list[list[float]], limit: float) -> None:
    filter_ = IndividualFilter(5, IndividualBudget(ORDER, limit))
    alive, spent = [True] * 5, [0.0] * 5
    for prices in rounds:
        admitted = filter_.admit(prices)
        for i, price in enumerate(prices):
            slack = 1e-9 * limit
            if alive[i] and spent[i] + price <= limit - slack:
                assert admitted[i]
            if not alive[i] or spent[i] + price > limit + slack:
                assert not admitted[i]
            alive[i] = bool(admitted[i])
            spent[i] += price * admitted[i]
    assert np.all(filter_.spent <= limit)
    assert np.all(filter_.spent >= np.array(spent) * (1 - 1e-15))


def test_prices_that_are_no_numbers_retire_their_record_and_do_not_raise() -> None:
    filter_ = IndividualFilter(4, IndividualBudget(ORDER, 1.0))
    assert filter_.admit([0.5, math.nan, -1.0, math.inf]).tolist() == [True, False, False, False]
    assert filter_.admit([0.1, 0.0, 0.0, 0.0]).tolist() == [True, False, False, False]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [1e200, 1.7e308, np.inf, np.nan, np.longdouble(10) ** 400, 10**400, "x", None, [1]])
def test_no_contribution_of_one_record_raises_or_warns(odd: object) -> None:
    """An error or a warning would say that a record is there; what cannot be priced retires, and the others pay."""
    given = np.array([0.01, None, 0.01], dtype=object)
    given[1] = odd
    for price in ("gaussian", "bounded_range", "admit"):
        filter_ = IndividualFilter(3, IndividualBudget(ORDER, 1.0))
        if price == "gaussian":
            given_prices = filter_.gaussian(given, sigma=0.1)  # 1.7e308 / 0.1 is no float
        else:
            given_prices = filter_.bounded_range(given) if price == "bounded_range" else given
        assert filter_.admit(given_prices).tolist() == [True, False, True]


def test_a_contribution_is_never_free() -> None:
    """The square of 1e-200 is no float: at a price of zero it could be released again and again."""
    filter_ = IndividualFilter(2, IndividualBudget(ORDER, 1.0))
    for price in (filter_.gaussian([1e-200, 0.0], sigma=1.0), filter_.bounded_range([1e-200, 0.0])):
        assert price[0] > 0 and price[1] == 0
        before = filter_.spent
        filter_.admit(price)
        assert filter_.spent[0] > before[0] and filter_.spent[1] == 0


def test_untouched_records_pay_nothing() -> None:
    filter_ = IndividualFilter(2, IndividualBudget(ORDER, 1.0))
    for _ in range(1000):
        filter_.admit([0.0, 0.0])
    assert filter_.spent.tolist() == [0.0, 0.0]


def test_prices_are_those_of_the_costs() -> None:
    filter_ = IndividualFilter(3, IndividualBudget(ORDER, 1.0))
    norms = np.array([0.0, 0.5, 2.0])
    exact = [0.0] + [float(Gaussian(sigma=3.0, sensitivity=n).rdp(ORDER)) for n in norms[1:]]
    assert filter_.gaussian(norms, sigma=3.0) == pytest.approx(exact, rel=1e-14)
    for epsilon, price in zip([0.1, 1.0, 9.0], filter_.bounded_range([0.1, 1.0, 9.0]), strict=True):
        assert price >= BoundedRange(epsilon).rdp(ORDER)


def test_more_rounds_than_the_worst_case_allows() -> None:
    """What it is for: small contributions let records stay far longer than their clipping bound would."""
    budget = IndividualBudget.for_target(1.0, 1e-6)
    worst_case = int(budget.limit / (budget.order / 2 / 20.0**2))
    filter_, rounds = IndividualFilter(1, budget), 0
    while filter_.admit(filter_.gaussian([0.1], sigma=20.0))[0]:
        rounds += 1
    assert rounds >= 99 * worst_case


def test_the_whole_interaction_is_paid_for_at_once() -> None:
    ledger = Ledger(1.0, 1e-6, filter="rdp")
    records = ledger.release(IndividualBudget.share_of(ledger.remaining(), 1.0), 10, label="all of it")
    assert records.active.sum() == 10
    with pytest.raises(BudgetExceeded):
        ledger.release(IndividualBudget(records.budget.order, 1e-3), 10, label="more")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: IndividualBudget(1.0, 1.0),
        lambda: IndividualBudget(2.0, 0.0),
        lambda: IndividualBudget.share_of(Ledger(1.0, 1e-6, filter="gdp").remaining(), 0.5),
        lambda: IndividualBudget.share_of(Ledger(1.0, 1e-6).remaining(), 1.5),
        lambda: IndividualFilter(-1, IndividualBudget(2.0, 1.0)),
        lambda: IndividualFilter(3, IndividualBudget(2.0, 1.0)).admit([1.0]),
        lambda: IndividualFilter(3, IndividualBudget(2.0, 1.0)).gaussian([1.0], sigma=0.0),
    ],
)
def test_bad_public_metadata_is_refused(attempt: object) -> None:
    with pytest.raises(ParameterError):
        attempt()  # type: ignore[operator]


# ---- validity by enumeration

NOISE = (0.4, 0.22, 0.08, 0.08, 0.22)  # on the integers mod 5; adding a contribution shifts it


def divergence(shift: int) -> float:
    """Rényi divergence of the noise and its shift, exactly; symmetric because the noise is."""
    moment = sum(p**ORDER * q ** (1 - ORDER) for p, q in ((NOISE[k], NOISE[(k - shift) % 5]) for k in range(5)))
    return math.log(moment) / (ORDER - 1)


def outcome_distribution(
    data: tuple[str, ...], strategy: dict, budget: IndividualBudget, rounds: int, lazy: bool
) -> dict:
    """The exact distribution of all outputs of an adaptive interaction with retirement.

    A query maps (record, outputs so far) to a contribution; a lazy filter, the planted bug, forgets to charge.
    """
    distribution = {}
    for outputs in itertools.product(range(5), repeat=rounds):
        filter_, probability = IndividualFilter(len(data), budget), 1.0
        for t in range(rounds):
            contributions = [strategy[record, outputs[:t]] for record in data]
            paying = filter_.admit([0.0 if lazy else divergence(c) for c in contributions])
            total = sum(c for c, pays in zip(contributions, paying, strict=True) if pays)
            probability *= NOISE[(outputs[t] - total) % 5]
        distribution[outputs] = probability
    return distribution


def worst_divergence(seed: int, lazy: bool = False, rounds: int = 3) -> float:
    rng = random.Random(seed)
    histories = [h for t in range(rounds) for h in itertools.product(range(5), repeat=t)]
    strategy = {(record, history): rng.choice([0, 1, 1, 2]) for record in "ab" for history in histories}
    budget = IndividualBudget(ORDER, 1.3 * divergence(1))
    worst = 0.0
    for larger in [("a",), ("a", "b"), ("b", "b"), ("a", "b", "b")]:
        for i in range(len(larger)):
            p = outcome_distribution(larger, strategy, budget, rounds, lazy)
            q = outcome_distribution(larger[:i] + larger[i + 1 :], strategy, budget, rounds, lazy)
            for x, y in ((p, q), (q, p)):
                moment = sum(x[o] ** ORDER * y[o] ** (1 - ORDER) for o in x)
                worst = max(worst, math.log(moment) / (ORDER - 1))
    return worst / budget.limit


@pytest.mark.parametrize("seed", range(6))
def test_no_small_interaction_exceeds_the_budget_of_any_record(seed: int) -> None:
    assert worst_divergence(seed) <= 1 + 1e-12


def test_the_enumeration_notices_a_filter_that_forgets_to_charge() -> None:
    assert worst_divergence(0, lazy=True) > 1.2
