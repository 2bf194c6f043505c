"""The ledger: the only way out of the data.

``release`` runs these steps in this order: the mechanism checks the value, the ledger refuses or records the charge (on
disk and fsynced if it has a journal), the mechanism draws noise. A crash between two of them may count a release that
never came out; it cannot lose one that did. The charge is a step of its own (:meth:`Ledger.charge_release`), so that
whoever charges two ledgers, or a cost other than the mechanism's own, needs no wrapper around the mechanism.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ledgerwood import _checks
from ledgerwood.accounting.accountant.filters import Balance
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Cost, Mechanism, Result, Value, check_value
from ledgerwood.accounting.costs.guarantees import ApproxDP
from ledgerwood.accounting.ledger.database import DatabaseJournal, is_database
from ledgerwood.accounting.ledger.entries import Charge, LedgerEntry, child_name, curve_to_json, drawn_elsewhere
from ledgerwood.accounting.ledger.filter_state import FilterState
from ledgerwood.accounting.ledger.journal import Anchor, Journal, Record
from ledgerwood.accounting.ledger.plan_state import PlanState
from ledgerwood.accounting.ledger.records import (
    checked_opening,
    checked_plan,
    different_terms,
    fresh_id,
    from_record,
    now,
    opening,
    state_for,
    to_record,
    written,
)
from ledgerwood.accounting.plan.plan import Plan
from ledgerwood.errors import FormatError, JournalError, LedgerClosed, ParameterError, ReleaseRefused

_INTERRUPTED = "a release was interrupted by another one in the same thread; nothing was released"


class Ledger:
    r"""A privacy budget that cannot be overspent.

    Parameters
    ----------
    epsilon, delta
        The guarantee: whatever is released, in whatever adaptive order, is (epsilon, delta)-DP.
    neighbours
        ``"add_remove"`` or ``"replace_one"``; every cost must be stated for the same.
    filter
        ``"pure"`` (epsilons and deltas add; default when delta is 0), ``"rdp"``, ``"gdp"`` or ``"zcdp"``: see
        :mod:`ledgerwood.accounting.accountant.filters`. By default the first admitted request chooses, before anything
        is released: a whole plan (a training) takes ``"pure"``, and so does a release of which that takes the smaller
        part; any other takes ``"rdp"``.
    order
        The order of the Rényi filter; by default the best one for Gaussian noise at (epsilon, delta).
    reserved_delta
        The part of delta kept for costs that spend a delta of their own (``ApproxDP``). It is taken from ``delta``.
    plan
        A calibrated :class:`Plan` instead of all of the above: its releases and nothing else.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Ledger
    >>> class Count:
    ...     cost = Gaussian(sigma=20.0)
    ...     def release(self, value, rng=None):
    ...         return value + rng.normal(0, 20.0)
    >>> import numpy as np
    >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
    >>> noisy = ledger.release(Count(), 1000, label="rows", rng=np.random.default_rng(1))
    >>> round(ledger.spent().fraction, 3)
    0.051
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "add_remove",
        filter: str | None = None,
        order: float | None = None,
        reserved_delta: float = 0.0,
        plan: Plan | None = None,
    ) -> None:
        header = opening(
            epsilon, delta, neighbours=neighbours, filter=filter, order=order, reserved_delta=reserved_delta, plan=plan
        )
        self._start(header, None)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "add_remove",
        filter: str | None = None,
        order: float | None = None,
        reserved_delta: float = 0.0,
        plan: Plan | None = None,
        anchor: Anchor | str | None = None,
        name: str | None = None,
    ) -> Ledger:
        """Open a ledger whose journal is the file ``path``; create it, or replay and continue it.

        To continue a journal give its path alone, or the same parameters again (they are compared). ``anchor`` is one
        kept from ``ledger.anchor``: the journal must pass through it.

        ``path`` may be the URL of a PostgreSQL database that many machines share, ``postgresql://host/db``; ``name``
        is then the budget's name in it (``docs/howto/many-machines.md``).
        """
        wanted = None
        relation = as_neighbours(neighbours)
        if any(given is not None for given in (epsilon, delta, filter, order, plan)) or reserved_delta:
            wanted = written(
                opening(
                    epsilon, delta, neighbours=neighbours, filter=filter, order=order, reserved_delta=reserved_delta,
                    plan=plan,
                )
            )  # fmt: skip
        elif not is_database(path) and not os.path.exists(path):
            raise ParameterError("epsilon", "be given to open a new journal", epsilon)
        kept = Anchor.parse(anchor) if isinstance(anchor, str) else anchor
        journal: Journal | DatabaseJournal
        if is_database(path):
            journal = DatabaseJournal(str(path), name or "", kept)
        elif name is not None:
            raise ParameterError("name", "be given for a budget in a database only", name)
        else:
            journal = Journal(path, kept)
        try:
            ledger = cls._opened(journal, wanted)
            if relation is not Neighbours.ADD_REMOVE and relation != ledger._state.neighbours:
                raise ParameterError("neighbours", "be those of the journal", neighbours)
            return ledger
        except BaseException:
            journal.close()
            raise

    @classmethod
    def _opened(cls, journal: Journal | DatabaseJournal, wanted: Record | None) -> Ledger:
        self = object.__new__(cls)
        with journal.locked(writing=wanted is not None):
            records = journal.replay()
            if not records:
                if wanted is None:
                    raise ParameterError("epsilon", "be given: the journal is empty", None)
                records = [journal.append(wanted)]
            header = checked_opening(records[0])
            if different := different_terms(header, wanted):
                raise ParameterError(
                    "the journal's opening record", "agree with the arguments", ", ".join(different),
                    "Open it by its path alone to continue it, or choose a new path",
                )  # fmt: skip
            self._start(header, journal)
            self._apply(records[1:])
        return self

    def _start(self, header: Record, journal: Journal | DatabaseJournal | None) -> None:
        self._state = state_for(header)
        self._journal = journal
        self._header = header
        self._entries: list[LedgerEntry] = []
        self._named: dict[str, tuple[int, LedgerEntry]] = {}
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self.who: str | None = None
        self._entering = False
        self._held = False

    # ---- spending

    def release(self, mechanism: Mechanism[Value, Result], value: Value, *, label: str, rng: Any = None) -> Result:
        """Check, record, draw noise, return the noisy value.

        Parameters
        ----------
        mechanism
            Anything with a ``cost`` and ``release(value, rng)``; its ``check(value)``, if it has one, is asked first.
        value
            The exact value. It is passed on and never looked at, recorded or quoted.
        label
            A public name for the journal; with a plan, the plan's label.
        rng
            A seeded generator for tests. The release is then recorded as not private, unless ``rng.private`` is True
            (a source of true randomness). A source with a ``release_id`` names the release, and binds its words to
            mechanism and value (``bound``): they are a secret function of all three, so that making the release of the
            same value again shows nothing new. If the name is on record, with this label, cost and value (known by
            its ``seal``), nothing is charged; with any other it is refused (``docs/theory/replay.md``).

        Raises
        ------
        BudgetExceeded, OffPlan, LedgerClosed, JournalError
            Nothing was drawn and nothing released.
        """
        check_value(mechanism, value)
        source = rng if rng is None else bound_source(mechanism, value, rng)
        self._record(_release_entry(mechanism.cost, label, source))
        return mechanism.release(value, source)

    def charge_release(self, cost: Cost, label: str, source: Any = None) -> None:
        """Refuse, or record, one release whose noise the caller draws from ``source`` after this returns.

        :meth:`release` without its check and its draw. ``source`` is None (the operating system's) or what
        :func:`bound_source` returned.
        """
        self._record(_release_entry(cost, label, source))

    def charge(self, cost: Cost, label: str) -> None:
        """Charge for a release whose noise is drawn elsewhere: by a database, another library, another party.

        It is refused like a release, and recorded before this returns; only then may the noise be drawn. That the
        noise has this cost is the caller's promise: the journal, receipts and the statement mark such entries.

        >>> from ledgerwood.accounting import Gaussian, Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> ledger.charge(Gaussian(sigma=20.0), "query 17 of the warehouse")
        >>> [(entry.kind, entry.label) for entry in ledger.journal()]
        [('charge', 'query 17 of the warehouse')]
        >>> "drawn elsewhere" in ledger.statement()
        True
        """
        self._record(LedgerEntry("charge", _checked_label(label), cost))

    def pay(self, plan: Plan, label: str, *, id: str | None = None, private: bool = True) -> PaidPlan:
        """Pay for a whole plan at the epsilon and delta that it states; its releases then cost nothing more.

        For a ledger that adds epsilons and deltas. The plan's releases are recorded as they are made, and nothing that
        is not in the plan is: :meth:`PaidPlan.charge_release`. What of the plan is not run stays paid.

        >>> from ledgerwood.accounting import Gaussian, Ledger, Plan, Release
        >>> plan = Plan([Release("sums", Gaussian, times=2, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> paid = ledger.pay(plan, "training")
        >>> paid.charge_release(plan["sums"].priced(), "training: sums")
        >>> ledger.spent().epsilon, ledger.remaining().epsilon
        (1.0, 0.0)
        """
        followed = checked_plan(plan)
        assert followed.epsilon is not None and followed.delta is not None
        cost = ApproxDP(followed.epsilon, followed.delta, neighbours=followed.neighbours)
        entry = LedgerEntry("plan", _checked_label(label), cost, private, data={"plan": followed.to_dict()}, id=id)
        return PaidPlan(self, self._record(entry))

    @contextlib.contextmanager
    def parallel(self, label: str) -> Iterator[LedgerParts]:
        """Open a block of releases about disjoint sets of records.

        ``parts[i].release(...)`` spends in part ``i``. Within a part costs add; across parts the block costs its worst
        part (add/remove), or the worst of two parts together and of two records in one part (replace-one). The costs
        of its releases are those for one record added to a part or removed from it, under either relation; a
        replace-one cost is refused (see :func:`ledgerwood.accounting.parallel`). That every record lies in one part
        only, fixed before the block begins, is the caller's promise; the journal records that it was made.

        >>> from ledgerwood.accounting import Ledger, PureDP
        >>> class Zero:
        ...     cost = PureDP(0.5)
        ...     def release(self, value, rng=None):
        ...         return 0
        >>> ledger = Ledger(epsilon=1.0, delta=0.0)
        >>> with ledger.parallel("leaves") as parts:
        ...     noisy = [parts[i].release(Zero(), 7, label="leaf") for i in range(100)]
        >>> ledger.spent().epsilon
        0.5
        """
        promise = {"promise": "every record lies in one part, fixed before the block began"}
        number = self._record(LedgerEntry("parallel", _checked_label(label), data=promise))
        try:
            yield LedgerParts(self, number)
        finally:
            if self._process == os.getpid() and not self._state.closed and not (self._journal and self._journal.broken):
                self._record(LedgerEntry("end", label, block=number))

    def split(self, by: Sequence[float]) -> list[Ledger]:
        """Divide what is left among sub-ledgers, for workers or a search.

        Each gets its fraction of what is left now; the sum is set aside here at once. :meth:`merge` gives back what a
        sub-ledger did not spend. With a journal the sub-ledgers have journals of their own beside it, and another
        process may open one by its path.
        """
        fractions = [float(fraction) for fraction in by]
        if not fractions or not all(f > 0 for f in fractions) or sum(fractions) > 1 + 1e-12:
            raise ParameterError("by", "be positive fractions with a sum of at most 1", by)
        if not isinstance(self._state, FilterState):
            raise ParameterError("split", "be used on a ledger with a filter: a plan has its own order", "plan")
        with self._locked(writing=True):
            shares = self._state.divide(fractions)
            if not all(units > 0 for units, _ in shares):
                raise ParameterError("by", "leave something to every sub-ledger", by)
            entry = LedgerEntry("split", "split", data={"shares": [[str(u), str(o)] for u, o in shares]})
            number = self._enter(entry)
            return [self._child(child_name(number, i), share) for i, share in enumerate(shares)]

    def merge(self, child: Ledger | str | os.PathLike[str]) -> None:
        """Close a sub-ledger (itself, or the path of its journal) and take back what it did not spend."""
        if not isinstance(child, Ledger):
            if isinstance(self._journal, DatabaseJournal):  # by its name
                found = DatabaseJournal(self._journal.url, os.fspath(child))
                with contextlib.closing(Ledger._opened(found, None)) as opened:
                    self.merge(opened)
                return
            if not os.path.exists(child):
                raise ParameterError("child", "be an existing journal", os.fspath(child))
            with contextlib.closing(Ledger.open(child)) as opened:
                self.merge(opened)
            return
        if child._header.get("parent") != self._header["id"]:
            raise ParameterError("child", "be a sub-ledger that this ledger's split() made", child)
        with self._locked(writing=True), child._locked(writing=True):
            state = child._state
            assert isinstance(state, FilterState)
            if not state.closed:
                child._enter(LedgerEntry("closed"))
            data = {
                "child": child._header["child"],
                "units": str(state.used),
                "outright": str(state.delta_used),
                "curve": curve_to_json(state.running_total.total()),
            }
            if charges := child._charges():
                data["charges"] = charges
            self._enter(LedgerEntry("merge", child._header["child"], private=child._all_private(), data=data))

    def move_to(self, url: str, name: str) -> None:
        """Move this ledger from its file to a budget of a database, where it continues; the file is closed for good.

        The file takes its last record first: a crash before the database has them leaves no second budget, and the
        same call moves the records again.
        """
        if not isinstance(self._journal, Journal):
            raise ParameterError("ledger", "have a journal file", repr(self))
        target = DatabaseJournal(url, name)
        moved = LedgerEntry("closed", f"moved to {target}")
        with contextlib.closing(target), self._locked(writing=True), target.locked():
            found = target.replay()
            if found and found[0].get("id") != self.id:
                raise ParameterError("name", "be that of a new budget", name)
            if not self._state.closed:
                self._enter(moved)
            if self._entries[-1].request != moved:
                raise LedgerClosed("this ledger was closed before; nothing was moved")
            with contextlib.closing(Journal(self._journal.path)) as again:  # this process holds the file's lock
                records = again.replay()[:-1]
            if not found:
                target.append_all(records)

    # ---- reading

    def spent(self) -> Balance:
        """Return what has been spent, sub-ledgers and open blocks included.

        ``.amount`` is the filter's own sum. ``.epsilon`` is its conversion at delta: the smallest budget of a ledger
        with the same filter that would have accepted the same releases. For a bound on what was lost so far that
        holds whenever you look, use :meth:`odometer`.
        """
        with self._locked():
            return self._state.spent()

    def remaining(self) -> Balance:
        """Return what is left to spend, in the filter's unit and as a budget of its own."""
        with self._locked():
            return self._state.remaining()

    def odometer(self, delta: float | None = None) -> float:
        """Return epsilon such that, with probability at least 1 - delta, no loss ever exceeded its reading.

        Valid at all times at once, so also at a time chosen by looking at the outputs:
        :mod:`ledgerwood.accounting.ledger.odometer`. What the ledger keeps for costs that spend delta itself is part of
        ``delta``; the reading is infinite when delta is smaller than that and such a cost was released.
        """
        with self._locked():
            own = self._state.odometer_delta(None if delta is None else _checks.delta_value(delta))
            return math.inf if own is None else self._state.running_total.epsilon(own)

    def journal(self) -> tuple[LedgerEntry, ...]:
        """Return every entry so far, oldest first."""
        with self._locked():
            return tuple(self._entries)

    @property
    def anchor(self) -> Anchor | None:
        """The journal's number of records and last hash, to keep elsewhere; None without a journal."""
        with self._locked():
            return None if self._journal is None else self._journal.anchor

    @property
    def path(self) -> Path | None:
        """The journal's file; None in memory and in a database."""
        return None if self._journal is None else self._journal.path

    @property
    def place(self) -> str:
        """Where the journal is, for people: a file, a budget in a database (without its password), or memory."""
        return "in memory" if self._journal is None else str(self._journal)

    @property
    def id(self) -> str:
        """A name that no other ledger has, the same whenever its journal is opened."""
        return str(self._header["id"])

    @property
    def neighbours(self) -> str:
        """The relation that every cost must be stated for."""
        return self._state.neighbours

    @property
    def plan(self) -> Plan | None:
        """The plan this ledger follows."""
        return self._state.plan if isinstance(self._state, PlanState) else None

    def statement(self) -> str:
        """Return the guarantee as one sentence."""
        with self._locked():
            releases = sum(entry.kind in ("release", "charge") for entry in self._entries)
            said = self._state.statement(releases=releases, private=self._all_private())
            return said + drawn_elsewhere(self._charges())

    def close(self) -> None:
        """Close the journal's file. The ledger cannot be used afterwards; open it again by its path."""
        with self._mutex:
            self._process = -1
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """What is spent and left, as known here; the journal is not read again."""
        spent, left = self._state.spent(), self._state.remaining()
        unit = "share of the plan" if spent.filter is None else spent.filter.unit
        return (
            f"<Ledger {self.place}: {spent.amount:.6g} of {spent.limit:.6g} spent, "
            f"{left.amount:.6g} left ({unit}; delta={spent.delta:.3g}, {self._state.neighbours})>"
        )

    # ---- never twice

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger cannot be copied or pickled: every copy would grant the budget again")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()

    # ---- inside

    @contextlib.contextmanager
    def _locked(self, *, writing: bool = False) -> Iterator[None]:
        """Hold the ledger, with all that other processes recorded.

        Code that interrupts its own thread here (a signal handler, a finaliser, a cost that looks at the ledger) may
        read what is known; it must not write, nor drop the file's lock.
        """
        self._check_alive()
        with self._mutex:
            if self._held:
                if writing:
                    raise LedgerClosed(_INTERRUPTED)
                yield
                return
            self._held = True
            try:
                if self._journal is None:
                    yield
                    return
                with self._journal.locked(writing=writing):
                    self._catch_up(self._journal)
                    yield
            finally:
                self._held = False

    def _catch_up(self, journal: Journal | DatabaseJournal) -> None:
        try:
            self._apply(journal.catch_up())
        except BaseException:  # an interrupt too: what was read and not entered would be forgotten
            journal.broken = True
            raise

    def _check_alive(self) -> None:
        if self._process != os.getpid():
            raise LedgerClosed(
                "this ledger was closed, or this process is a fork of the one that made it; nothing was released. "
                "Open the journal by its path, or hand out sub-ledgers with split()"
            )

    def _record(self, entry: LedgerEntry) -> int:
        """Record an entry and return its number. After this returns, noise may be drawn."""
        if self._journal is not None:
            with self._locked(writing=True):
                return self._enter(entry)
        if self._process != os.getpid():
            self._check_alive()
        with self._mutex:
            return self._enter(entry)

    def _enter(self, entry: LedgerEntry) -> int:
        if self._entering:
            raise LedgerClosed(_INTERRUPTED)
        if entry.id is not None and entry.id in self._named:
            return self._again(entry)
        self._entering = True
        try:
            charge = self._state.quote(entry._replace(at=now(), who=self.who))
            self._state.check(charge)
            return self._commit(charge)
        finally:
            self._entering = False

    def _again(self, entry: LedgerEntry) -> int:
        """Return the number of a release that is on record under this name; refuse another one under its name."""
        number, found = self._named[entry.id or ""]
        if found.request._replace(data=None) != entry._replace(data=None):
            raise ReleaseRefused(
                f"{entry.label!r} has the name of the release {found.label!r} on record, and is another one: nothing "
                "was released"
            )
        if found.data != entry.data:
            raise ReleaseRefused(
                f"{entry.label!r} was begun before, under this name, with another value: the table or the arithmetic "
                "of this machine is not that of the record. Nothing was released; resume where it was begun, or begin "
                "a new run"
            )
        return number

    def _apply_charge(self, number: int, charge: Charge) -> None:
        self._state.commit(charge)
        self._entries.append(charge.entry)
        if charge.entry.id is not None:
            self._named[charge.entry.id] = number, charge.entry

    def _commit(self, charge: Charge) -> int:
        number = self._state.next_number
        record = None if self._journal is None else to_record(charge.entry)
        try:
            if self._journal is not None and record is not None:
                self._journal.append(record)
            self._apply_charge(number, charge)
        except JournalError:  # a database that could not be reached is tried again; memory was not touched
            self._state.closed = self._state.closed or self._journal is None or self._journal.broken
            raise
        except BaseException:  # an interrupt too: from here on file and memory may differ, or memory be half changed
            if self._journal is not None:
                self._journal.broken = True
            self._state.closed = True
            raise
        return number

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                charge = self._state.quote(from_record(record))
            except ParameterError as error:
                raise FormatError(f"record {record.get('n')} of the journal has no price: {error}") from None
            self._apply_charge(self._state.next_number, charge)

    def _child(self, name: str, share: tuple[int, int]) -> Ledger:
        assert isinstance(self._state, FilterState)
        header = {
            **self._header,
            **self._state.filter.to_dict(),
            "id": fresh_id(),
            "parent": self._header["id"],
            "child": name,
            "budget": [str(share[0]), str(share[1])],
        }
        if self._journal is None:
            child = object.__new__(Ledger)
            child._start(header, None)
            return child
        return Ledger._opened(self._journal.child(name), header)

    def _charges(self) -> int:
        """How many charges, also of merged sub-ledgers, were for noise drawn elsewhere."""
        own = sum(entry.kind == "charge" for entry in self._entries)
        return own + sum(int((e.data or {}).get("charges", 0)) for e in self._entries if e.kind == "merge")

    def _all_private(self) -> bool:
        return all(entry.private for entry in self._entries)


class PaidPlan:
    """A plan that a ledger has paid for as a whole: :meth:`Ledger.pay`.

    >>> from ledgerwood.accounting import Gaussian, Ledger, Plan, Release
    >>> plan = Plan([Release("sums", Gaussian, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
    >>> Ledger(epsilon=1.0, delta=1e-6).pay(plan, "training").charge_release(Gaussian(sigma=1.0), "training: sums")
    Traceback (most recent call last):
    ...
    ledgerwood.errors.OffPlan: 'sums' is planned at the cost ...
    """

    __slots__ = ("_ledger", "_number")

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger, self._number = ledger, number

    def charge_release(self, cost: Cost, label: str, source: Any = None) -> None:
        """Record one release of the plan, or refuse it; the caller draws its noise after this returns.

        ``label`` is the plan's, which may have the label of the payment before it: ``"training: sums"``.
        """
        self._ledger._record(_release_entry(cost, label, source)._replace(block=self._number))


class LedgerParts:
    """The parts of a parallel block: ``parts[key]`` for any int or string."""

    __slots__ = ("_block", "_ledger")

    def __init__(self, ledger: Ledger, block: int) -> None:
        self._ledger, self._block = ledger, block

    def __getitem__(self, key: int | str) -> LedgerPart:
        if not isinstance(key, int | str) or _checks.is_bool(key):
            raise ParameterError("part", "be an int or a string", key)
        if isinstance(key, int) and key.bit_length() > 64:
            raise ParameterError("part", "be an int of at most 64 bits", f"<{key.bit_length()} bits>")
        return LedgerPart(self._ledger, self._block, key)


class LedgerPart:
    """One part of a parallel block."""

    __slots__ = ("_block", "_key", "_ledger")

    def __init__(self, ledger: Ledger, block: int, key: int | str) -> None:
        self._ledger, self._block, self._key = ledger, block, key

    def release(self, mechanism: Mechanism[Value, Result], value: Value, *, label: str, rng: Any = None) -> Result:
        """Like :meth:`Ledger.release`, about this part's records only."""
        check_value(mechanism, value)
        source = bound_source(mechanism, value, rng)
        self._record(_release_entry(mechanism.cost, label, source))
        return mechanism.release(value, source)

    def charge(self, cost: Cost, label: str) -> None:
        """Like :meth:`Ledger.charge`, about this part's records only."""
        self._record(LedgerEntry("charge", _checked_label(label), cost))

    def _record(self, entry: LedgerEntry) -> None:
        self._ledger._record(entry._replace(block=self._block, part=self._key))


def bound_source(mechanism: Mechanism[Value, Any], value: Value, rng: Any) -> Any:
    """Return the source to draw this release from: one that names its releases is bound to mechanism and value."""
    if _release_id(rng) is None:
        return rng
    try:
        bind = rng.bound
    except AttributeError:
        rule = "bind its words to the value: a name alone would serve for two"
        raise ParameterError("rng", rule, type(rng).__name__) from None
    return bind(mechanism, value)


def _release_entry(cost: Cost, label: str, source: Any) -> LedgerEntry:
    if source is None:
        return LedgerEntry("release", _checked_label(label), cost)
    entry = LedgerEntry("release", _checked_label(label), cost, getattr(source, "private", False) is True)
    name = _release_id(source)
    return entry if name is None else entry._replace(id=name, data={"seal": source.seal})


def _release_id(rng: Any) -> str | None:
    """The name that a source gives its release; numpy's generators and the operating system give none."""
    name: str | None = getattr(rng, "release_id", None)
    return name


def _checked_label(label: str) -> str:
    if not isinstance(label, str) or not label:
        raise ParameterError("label", "be a non-empty string", label)
    return label
