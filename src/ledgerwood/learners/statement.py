"""What a fitted model says about itself: a full sentence, and every release in machine-readable form."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ledgerwood.accounting import Ledger, serialize
from ledgerwood.accounting.books import round_up
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.learners.cautions import cautions

ROWS_ASSUMED = (
    "each row given, its label and whether it is given depend on its own record and public facts only, and no "
    "record gives more than one row"
)


@dataclass(frozen=True)
class Line:
    """One release: its label, what it cost (as plain values), and whether its noise was private."""

    label: str
    cost: dict[str, Any]
    private: bool


@dataclass(frozen=True)
class Receipt:
    """A frozen copy of a journal: it pickles, and spends nothing.

    >>> len(Receipt(()))
    0
    """

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Receipt:
        """Copy a ledger's journal."""
        written: dict[int, dict[str, Any]] = {}  # by identity: equal costs may state different sensitivities
        lines = []
        for entry in ledger.journal():
            if entry.kind == "release" and entry.cost is not None:
                if id(entry.cost) not in written:
                    written[id(entry.cost)] = serialize.to_dict(entry.cost)
                lines.append(Line(entry.label, dict(written[id(entry.cost)]), entry.private))
        return cls(tuple(lines))

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    @property
    def private(self) -> bool:
        """Whether all noise came from a private source."""
        return all(line.private for line in self.lines)

    def counts(self) -> dict[str, int]:
        """How often each label was released."""
        return dict(Counter(line.label for line in self.lines))

    def to_dict(self) -> list[dict[str, Any]]:
        """Every release, oldest first."""
        return [asdict(line) for line in self.lines]


@dataclass(frozen=True)
class Fact:
    """A fact the guarantee rests on, and where it comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class PrivacyStatement:
    """The guarantee of one fitted model. ``str()`` is the full text, :meth:`to_dict` the record of every release.

    Attributes
    ----------
    epsilon, delta
        The guarantee of everything this fit released, by the plan's price (a fit that stopped early is covered).
    unit
        What is protected: a row, or the rows with one value of a column.
    public, learned
        The facts assumed public with their sources, and those learned privately with what was spent on them.
    leaks
        What was taken from the private data, by this fit or by what scikit-learn did to the rows before it.

    >>> import numpy as np
    >>> from ledgerwood.learners import AdaSSPRegressor, Schema
    >>> schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    >>> model = AdaSSPRegressor(epsilon=1.0, delta=1e-6, schema=schema).fit(np.eye(1), [1.0])
    >>> statement = model.privacy_statement()
    >>> statement.private, statement.unit
    (True, 'one record')
    """

    learner: str
    epsilon: float
    delta: float
    neighbours: str
    unit: str
    accounting: str
    receipt: Receipt
    planned: int
    public: tuple[Fact, ...] = ()
    learned: tuple[Fact, ...] = ()
    conventions: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    charged_to: str | None = None
    stopped_early: bool = False
    search: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: private noise, and no fact taken from the data."""
        return self.receipt.private and not self.leaks

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the caller promises and no fit can see; a promise that is seen to be broken is among the leaks."""
        return (ROWS_ASSUMED,)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why this guarantee says little, if epsilon or delta is very large."""
        rows = self.details.get("rows")
        return cautions(self.epsilon, self.delta, rows if isinstance(rows, int) else None)

    def __str__(self) -> str:
        return "\n".join(textwrap.fill(part, 110) for part in self.paragraphs())

    def paragraphs(self) -> Iterator[str]:
        """The text, paragraph by paragraph and not yet wrapped."""
        if self.leaks:
            yield (
                f"NOT PRIVATE: THESE FACTS WERE TAKEN FROM THE PRIVATE DATA: {', '.join(self.leaks).upper()}. One "
                f"record may change them, and no noise covers that."
            )
        if not self.receipt.private:
            yield "NOT PRIVATE: a random_state was set, so the noise can be reproduced and taken away."
        claim = "is" if self.private else "would be"
        counts = ", ".join(f"{n} x {label}" for label, n in self.receipt.counts().items()) or "nothing"
        yield (
            f"This {self.learner} {claim} (epsilon={round_up(self.epsilon)}, delta={round_up(self.delta)})-"
            f"differentially private for {self.unit} {_change(self.neighbours)}; accounting: {self.accounting}."
        )
        yield from self.cautions
        if self.search:
            yield self.search
        yield (
            f"Released: {counts}, each by an exactly sampled mechanism; the model is a function of these numbers, of "
            f"the public facts and of coin tosses that ignore the data."
        )
        if self.stopped_early:
            yield (
                f"Training stopped after {len(self.receipt)} of {self.planned} releases; the price is that of the "
                f"whole plan."
            )
        for title, facts in (("Assumed public", self.public), ("Learned privately", self.learned)):
            if facts:
                yield f"{title}: " + "; ".join(f"{fact.name} = {fact.value} ({fact.source})" for fact in facts) + "."
        yield f"Assumed of the caller: {'; '.join(self.assumptions)}."
        yield from self.conventions
        if self.charged_to:
            yield f"Every release was also charged to {self.charged_to}."
        source = "the operating system's generator" if self.receipt.private else "a seeded generator"
        yield (
            f"Randomness: {source}. Not covered: scores computed on private rows (see private_score), and what is "
            f"fitted to them around this model, such as a calibration or a threshold."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the statement with every release."""
        body = {name: getattr(self, name) for name in ("learner", "epsilon", "delta", "unit", "accounting", "planned")}
        return {
            "format": "ledgerwood.statement",
            "version": 1,
            **body,
            "neighbours": str(self.neighbours),
            "private": self.private,
            "stopped_early": self.stopped_early,
            "charged_to": self.charged_to,
            "search": self.search,
            "leaks": list(self.leaks),
            "cautions": list(self.cautions),
            "assumptions": list(self.assumptions),
            "conventions": list(self.conventions),
            "public": [asdict(fact) for fact in self.public],
            "learned": [asdict(fact) for fact in self.learned],
            "details": self.details,
            "text": str(self),
            "releases": self.receipt.to_dict(),
        }


def _change(neighbours: str) -> str:
    return "added or removed" if neighbours == Neighbours.ADD_REMOVE else "replaced by another"
