"""What an audit found: numbers, a sentence, JSON and a picture."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any

from ledgerwood.errors import FormatError, MissingDependency

__all__ = ["AuditReport", "Block", "Certificate", "Picture"]

_FORMAT = "ledgerwood-audit-1"


@dataclass(frozen=True, slots=True)
class Block:
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
    ``guess``, it guessed the input right and wrong so many times (see ``Block``). ``earlier`` holds the
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
    earlier: tuple[Block, ...] = ()

    @property
    def contradicts(self) -> bool:
        """Whether the bound exceeds the claim."""
        return self.bound > self.claimed

    def __str__(self) -> str:
        at = f" at delta={self.delta:.3g}" if self.quantity == "epsilon" and self.delta > 0 else ""
        last = Block(self.event, self.on, self.hits1, self.hits2, self.n, self.guess)
        shown = math.floor(self.bound * 1e4) / 1e4 if math.isfinite(self.bound) else self.bound
        nothing = "" if self.bound > 0 else "; these counts certify nothing"
        return f"{self.quantity} >= {shown:.4f}{at} (claimed {self.claimed:.6g}{nothing}): " + "; and before, ".join(
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
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  {certificate}" for certificate in self.certificates]
        if self.certificates:
            lines.append(
                f"  confidence {self.confidence:.6g} for all of it; {self.samples:,} outputs per input "
                f"({self.pairs_tried} pair{'s' if self.pairs_tried != 1 else ''} tried), {self.seconds:.1f} s"
            )
            lines.append(f"  pair ({self.pair_origin}): {self.pair[0]} / {self.pair[1]}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as a JSON text; infinite numbers are written as the string "inf"."""
        from dataclasses import asdict

        content = {**asdict(self), "verdict": self.verdict, "passed": self.passed, "format": _FORMAT}
        return json.dumps(plain(content), allow_nan=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AuditReport:
        """Read what :meth:`to_json` wrote."""
        try:
            content = _restored(json.loads(text))
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise FormatError(f"an audit must be a JSON object with the field 'format': {_FORMAT!r}")
            own = {item.name: content[item.name] for item in fields(cls)}
            own["certificates"] = tuple(
                Certificate(**{**each, "earlier": tuple(Block(**block) for block in each["earlier"])})
                for each in own["certificates"]
            )
            own["picture"] = None if own["picture"] is None else Picture(**own["picture"])
            found = cls(**own)
            str(found)  # a field of the wrong type shows here
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
            _, axes = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(2, 1), layout="constrained")
        left, right = axes
        if self.picture is not None:
            self._plot_distributions(left)
        names = [c.quantity if c.quantity == "mu" else f"epsilon\n{c.event[:24]}" for c in self.certificates]
        right.bar(range(len(names)), [max(c.bound, 0.0) for c in self.certificates], color="#4477aa")
        right.set_xticks(range(len(names)), names, fontsize=8)
        for i, certificate in enumerate(self.certificates):
            right.hlines(certificate.claimed, i - 0.45, i + 0.45, color="#aa3377", label="claimed" if i == 0 else None)
        right.set_ylabel(f"certified at {self.confidence:.4g}")
        if self.certificates:
            right.legend(loc="best", fontsize=8)
        left.set_title(self.verdict)
        return axes

    def _plot_distributions(self, axis: Any) -> None:
        picture = self.picture
        assert picture is not None
        axis.stairs(picture.counts1, picture.edges, label="first input", color="#4477aa")
        axis.stairs(picture.counts2, picture.edges, label="second input", color="#ee6677")
        low, high = picture.edges[0], picture.edges[-1]
        cut = min(max(picture.cut, low), high)
        axis.axvspan(*((cut, high) if picture.above else (low, cut)), alpha=0.15, color="grey", label="the event")
        if picture.below is not None:
            axis.axvspan(low, max(picture.below, low), alpha=0.15, color="grey")
        axis.set_xlabel(picture.score)
        axis.set_ylabel("outputs")
        axis.legend(loc="best", fontsize=8)


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
