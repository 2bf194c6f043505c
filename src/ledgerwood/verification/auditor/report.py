"""What an audit found: numbers, a sentence, JSON and a picture."""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from dataclasses import dataclass, field, fields
from typing import Any

from ledgerwood import _files
from ledgerwood.errors import FormatError, MissingDependency, ParameterError

__all__ = ["AuditReport", "Certificate", "CertificateBlock", "Picture", "Subject"]

_FORMAT = "ledgerwood-audit-1"
#: Parameters that are part of the claim, or say how and where a fit runs and not what is released.
_NO_SETTINGS = {
    "allow_leak", "callbacks", "delta", "engine", "epsilon", "n_threads", "random_state", "recipe", "schema", "verbose",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of training that an audit ran: the learner, its recipe and settings, and what it claims.

    >>> from ledgerwood.learners import PrivateBoostingClassifier
    >>> subject = Subject.of(PrivateBoostingClassifier(recipe="tr", n_trees=3, epsilon=1.0, delta=1e-6))
    >>> print(subject)
    PrivateBoostingClassifier, recipe 'tr', epsilon=1.0, delta=1e-06, add_remove
    >>> dict(subject.settings)["n_trees"], len(subject.digest)
    ('3', 64)
    """

    learner: str
    recipe: str | None
    settings: tuple[tuple[str, str], ...]
    epsilon: float
    delta: float
    neighbours: str

    @classmethod
    def of(cls, estimator: Any) -> Subject:
        """Return the subject of a private estimator: as its statement says if it is fitted, else by its parameters."""
        if not hasattr(estimator, "get_params") or not hasattr(estimator, "epsilon"):
            raise ParameterError("subject", "be a private estimator of one table", type(estimator).__name__)
        given = estimator.get_params(deep=False)
        settings = {name: repr(value) for name, value in given.items() if name not in _NO_SETTINGS}
        statement = getattr(estimator, "statement_", None)
        if statement is not None:
            epsilon, delta, neighbours = statement.epsilon, statement.delta, statement.neighbours
            if statement.search is not None:
                settings["chosen by"] = "PrivateSearch"
        elif estimator.delta is None:
            raise ParameterError("delta", "be given, so that it is known what was audited", None)
        else:
            epsilon, delta = estimator.epsilon, estimator.delta
            neighbours = getattr(estimator.schema, "neighbours", "add_remove")
        named = type(estimator).__name__, given.get("recipe"), tuple(sorted(settings.items()))
        return cls(*named, float(epsilon), float(delta), str(neighbours))

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        from dataclasses import asdict

        return hashlib.sha256(json.dumps(plain(asdict(self)), sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        recipe = "" if self.recipe is None else f"recipe {self.recipe!r}, "
        return f"{self.learner}, {recipe}epsilon={self.epsilon}, delta={self.delta}, {self.neighbours}"

    def differences(self, other: Subject) -> list[tuple[str, str, str]]:
        """Return what is not the same in another subject: its name, its value here and its value there."""
        names = ("learner", "recipe", "epsilon", "delta", "neighbours")
        mine, theirs = ({name: str(getattr(one, name)) for name in names} | dict(one.settings) for one in (self, other))
        shown = [(name, mine.get(name, ""), theirs.get(name, "")) for name in {**mine, **theirs}]
        return [row for row in shown if row[1] != row[2]]


@dataclass(frozen=True, slots=True)
class CertificateBlock:
    """An event that happened ``hits1`` times in ``n`` fresh outputs on one input, ``hits2`` in ``n`` on the other.

    If ``guess``, the event is a rule that guesses the input: ``hits1`` right and ``hits2`` wrong guesses on
    fresh outputs of both inputs, a Poisson number of each with mean ``n``.
    """

    event: str
    on: str
    hits1: int
    hits2: int
    n: int
    guess: bool = False

    def __str__(self) -> str:
        if self.guess:
            return (
                f"{{{self.event}}} guessed the input right {self.hits1:,} times and wrong {self.hits2:,} times, "
                f"out of about {2 * self.n:,} fresh outputs"
            )
        return (
            f"{{{self.event}}} happened {self.hits1:,} times on {self.on}, {self.hits2:,} times on its neighbour, "
            f"out of {self.n:,} fresh outputs each"
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """One bound: ``quantity`` ("epsilon" at ``delta``, or "mu") is at least ``bound``, claimed ``claimed``.

    The event happened ``hits1`` times in ``n`` fresh outputs of one input, ``hits2`` times in ``n`` of the other; if
    ``guess``, it guessed the input right and wrong this many times (see ``CertificateBlock``). ``earlier`` holds the
    counts of a block before it, with the event chosen then, where both make one bound.

    >>> Certificate("epsilon", 1.2, 1.0, 0.0, "output > 0", "first", 900, 100, 1000, 0.99).contradicts
    True
    >>> print(Certificate("mu", 0.0, 1.0, 0.0, "output > 0", "first", 0, 0, 10, 0.99))
    mu >= 0.0000 (claimed 1; these counts certify nothing): ...
    """

    quantity: str
    bound: float
    claimed: float
    delta: float
    event: str
    on: str
    hits1: int
    hits2: int
    n: int
    confidence: float
    guess: bool = False
    earlier: tuple[CertificateBlock, ...] = ()
    #: the bound of an event that always happens on one input and never on the other: no leak shows more in ``n`` outputs
    most: float | None = None

    @property
    def contradicts(self) -> bool:
        """Whether the bound exceeds the claim."""
        return self.bound > self.claimed

    @property
    def _shown(self) -> str:
        """The bound with four digits, rounded down."""
        return f"{math.floor(self.bound * 1e4) / 1e4 if math.isfinite(self.bound) else self.bound:.4f}"

    def __str__(self) -> str:
        at = f" at delta={self.delta:.3g}" if self.quantity == "epsilon" and self.delta > 0 else ""
        last = CertificateBlock(self.event, self.on, self.hits1, self.hits2, self.n, self.guess)
        notes = [f"claimed {self.claimed:.6g}" if self.claimed < math.inf else "nothing claimed"]
        notes += [] if self.bound > 0 else ["these counts certify nothing"]
        notes += [] if self.most is None else [f"this many outputs show {self.most:.3g} at most"]
        return f"{self.quantity} >= {self._shown}{at} ({'; '.join(notes)}): " + "; and before, ".join(
            str(block) for block in (last, *self.earlier)
        )


@dataclass(frozen=True, slots=True)
class Picture:
    """Histograms of the certified score on the selection sample of each input, and the cut; a guess has two cuts."""

    score: str
    edges: tuple[float, ...]
    counts1: tuple[int, ...]
    counts2: tuple[int, ...]
    cut: float
    above: bool
    below: float | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of ``audit``.

    ``flagged`` means that the claim is contradicted. ``passed`` means that the audit ran to its end, met no problem and
    contradicted nothing. A mechanism that raises, returns nan, ignores its generator or is too slow is neither.

    >>> from ledgerwood.accounting import PureDP
    >>> from ledgerwood.verification import audit
    >>> report = audit(lambda data, rng: len(data), PureDP(1.0), pair=([1], []), samples=2000, seed=1)
    >>> report.flagged, report.passed
    (True, False)
    """

    claim: str
    #: largest certified lower bound on epsilon, at ``delta``; 0 if nothing was certified
    epsilon_lower: float
    delta: float
    #: what the claim allows at ``delta``
    epsilon_claimed: float
    flagged: bool
    #: the event behind ``epsilon_lower``
    event: str
    #: outputs drawn per input (on average, where the input was guessed), selection and certificate together
    samples: int
    confidence: float
    #: lower bound on mu, for GDP claims
    mu_lower: float | None = None
    certificates: tuple[Certificate, ...] = ()
    #: why this audit cannot count as a pass
    problems: tuple[str, ...] = ()
    pair: tuple[str, str] = ("", "")
    pair_origin: str = "given"
    pairs_tried: int = 1
    seed: int | None = None
    seconds: float = 0.0
    picture: Picture | None = field(default=None, repr=False)
    #: the kind of training that was audited; None for a bare mechanism
    subject: Subject | None = None
    #: what a reader of the result has to know, and is no reason against a pass
    notes: tuple[str, ...] = ()

    @property
    def power(self) -> float | None:
        """The largest epsilon that these outputs could have certified; None if nothing was counted."""
        found = [c.most for c in self.certificates if c.quantity == "epsilon" and c.most is not None]
        return max(found, default=None)

    @property
    def passed(self) -> bool:
        """Whether the audit is complete and contradicts nothing."""
        return not self.flagged and not self.problems

    @property
    def verdict(self) -> str:
        """One of "violation", "no violation found" and "not audited"."""
        if self.flagged:
            return "violation"
        return "not audited" if self.problems else "no violation found"

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.claim}"]
        lines += [] if self.subject is None else [f"  audited: trainings of {self.subject}"]
        lines += [f"  problem: {problem}" for problem in self.problems]
        if not self.flagged and self.power is not None and self.power <= self.epsilon_claimed:
            lines.append(f"  without power: so few outputs could not have shown an epsilon above {self.power:.3g}")
        lines += [f"  {certificate}" for certificate in self.certificates]
        if self.certificates:
            lines.append(
                f"  confidence {self.confidence:.6g} for all of it; {self.samples:,} outputs per input "
                f"({self.pairs_tried} pair{'s' if self.pairs_tried != 1 else ''} tried), {self.seconds:.1f} s"
            )
            lines.append(f"  pair ({self.pair_origin}): {self.pair[0]} / {self.pair[1]}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as a JSON text; infinite numbers are written as the string "inf"."""
        from dataclasses import asdict

        content = {**asdict(self), "verdict": self.verdict, "passed": self.passed, "format": _FORMAT}
        content |= {"digest": None if self.subject is None else self.subject.digest}
        return json.dumps(plain(content), allow_nan=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AuditReport:
        """Read what :meth:`to_json` wrote, also in older versions."""
        try:
            content = _restored(_files.parse_json(text))
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise FormatError(f"an audit must be a JSON object with the field 'format': {_FORMAT!r}")
            subject = content.setdefault("subject", None)  # files of older versions do not name it
            content.setdefault("notes", ())
            own = {item.name: content[item.name] for item in fields(cls)}
            own["certificates"] = tuple(
                Certificate(**{**each, "earlier": tuple(CertificateBlock(**block) for block in each["earlier"])})
                for each in own["certificates"]
            )
            own["picture"] = None if own["picture"] is None else Picture(**own["picture"])
            if subject is not None:
                subject = own["subject"] = Subject(**subject)
                subject.differences(subject)  # a field of the wrong type shows here
                if subject.digest != content["digest"]:
                    raise FormatError("the digest of this audit does not belong to what it says was audited")
            found = cls(**own)
            str(found)  # and here
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"not the result of an audit: {type(error).__name__}: {error}") from None
        return found

    def plot(self, axes: Any = None) -> Any:
        """The two output distributions, the event and the bound against the claim; returns the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise MissingDependency("matplotlib", "AuditReport.plot", "verification") from error
        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained")
        left, right = axes
        if self.picture is not None:
            self._plot_distributions(left)
        else:
            left.set_axis_off()
            why = "\n".join(textwrap.fill(problem, 60) for problem in self.problems) or "no event was certified"
            left.text(0.5, 0.5, why, ha="center", va="center", transform=left.transAxes)
        left.set_title(textwrap.fill(f"{self.verdict}: {self.claim}", 70), fontsize=10)
        if self.certificates:
            self._plot_bounds(right)
        else:
            right.set_axis_off()
        return axes

    def _plot_bounds(self, axis: Any) -> None:
        """A bar for each bound, with its number, and a line at what is claimed there."""
        bounds = [max(c.bound, 0.0) for c in self.certificates]
        finite = [value for value in [*bounds, *(c.claimed for c in self.certificates)] if math.isfinite(value)]
        top = 1.3 * max(finite, default=0.0) or 1.0
        heights = [min(bound, top) for bound in bounds]
        axis.bar(range(len(bounds)), heights, width=0.6, color="#4477aa", label="certified")
        for i, certificate in enumerate(self.certificates):
            axis.annotate(f"≥ {certificate._shown}", (i, heights[i]), (0, 2), textcoords="offset points", ha="center")
            line = min(certificate.claimed, top)
            axis.hlines(line, i - 0.45, i + 0.45, color="#aa3377", lw=2, label="claimed" if i == 0 else None)
        names = [
            c.quantity + (f" at δ = {c.delta:.3g}" if c.delta else "") + "\n" + _wrapped(c.event)
            for c in self.certificates
        ]
        axis.set_xticks(range(len(names)), names, fontsize=7)
        axis.set_xlim(-0.6, len(names) - 0.4)
        axis.set_ylim(0.0, top)
        axis.set_ylabel(f"certified at {self.confidence:.6g}")
        axis.legend(loc="upper center", ncols=2, fontsize=8)

    def _plot_distributions(self, axis: Any) -> None:
        picture = self.picture
        assert picture is not None
        axis.stairs(picture.counts1, picture.edges, label="first input", color="#4477aa")
        axis.stairs(picture.counts2, picture.edges, label="second input", color="#ee6677")
        margin = 0.04 * (picture.edges[-1] - picture.edges[0])  # an event at the very end is seen too
        low, high = picture.edges[0] - margin, picture.edges[-1] + margin
        first_bin, last_bin = picture.edges[1], picture.edges[-2]
        cut = min(max(picture.cut, low), last_bin) if picture.above else max(min(picture.cut, high), first_bin)
        name = "the event" if picture.below is None else "an input is guessed"
        axis.axvspan(*((cut, high) if picture.above else (low, cut)), alpha=0.15, color="grey", label=name)
        if picture.below is not None:
            axis.axvspan(low, max(min(picture.below, high), first_bin), alpha=0.15, color="grey")
        axis.set_xlim(low, high)
        axis.set_xlabel(picture.score)
        axis.set_ylabel("outputs")
        axis.legend(loc="best", fontsize=8)


def _wrapped(text: str) -> str:
    """A few short lines for the foot of a bar."""
    lines = textwrap.wrap(text, 24)
    return "\n".join(lines[:4]) + ("..." if len(lines) > 4 else "")


def plain(value: Any) -> Any:
    """A value as JSON can write it: keys are texts, sequences lists, infinite numbers texts."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _restored(value: Any) -> Any:
    """Undo :func:`plain`: lists were tuples, and some strings were numbers."""
    if isinstance(value, dict):
        return {key: _restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    return float(value) if value in ("inf", "-inf", "nan") else value
