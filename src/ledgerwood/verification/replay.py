"""See inside a mechanism: record its releases on one table, replay them on a neighbour, compare what was to be noised.

A mechanism that releases through a :class:`~ledgerwood.accounting.Ledger` shows two things that a black box hides: the
exact value of every release, and what it was charged for. A run on a table is recorded. The run on a neighbouring table
is given the recorded outputs in the place of its own noise, so that both have seen the same past. If the accounting is
right, they agree in everything that is public (labels, costs, order, shapes, types, exceptions, warnings, and the
result, which is a function of the outputs alone), and no exact value moves by more than its mechanism states.

A difference is a counterexample: two neighbours that the proof of the mechanism does not cover. None is no proof, for
other tables were not tried. Record and replay of ledgers: Kong et al. (arXiv:2602.17454).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Ledger
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.mechanisms.base import Sensitivity
from ledgerwood.verification.auditor.encoding import OutputEncoder, row_keys

__all__ = ["Difference", "RecordedRelease", "Transcript", "compare", "record", "replay"]

_SLACK = 1e-9  # relative, for sums of floats on their way to a mechanism


@dataclass(frozen=True, slots=True)
class RecordedRelease:
    """One release: its label, the mechanism, the exact value and the output."""

    label: str
    mechanism: Any
    value: Any
    output: Any


@dataclass(slots=True)
class Transcript:
    """What a run did, in order: its releases, the generators for choices that it took, how it ended."""

    releases: list[RecordedRelease] = field(default_factory=list)
    choices: list[Any] = field(default_factory=list)
    ending: str = "a result"
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs part that must not, and the inputs of both.

    >>> print(Difference("release 3 (leaf)", "moved by 2.5 in L2, 1 is stated"))
    release 3 (leaf): moved by 2.5 in L2, 1 is stated
    """

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class _Parted(Exception):
    """A replayed run asked for what was not recorded."""


@contextmanager
def _releases_go_to(
    release: Callable[[Callable[[], Any], Any, Any, str], Any], choice: Callable[[Callable[[], Any]], Any]
) -> Iterator[None]:
    """Every release of a session or a ledger passes ``release(draw, mechanism, value, label)``, every choice too."""
    plain = {
        (owner, name): getattr(owner, name)
        for owner, name in (
            (ReleaseSession, "release"),
            (ReleaseSession, "sample_key"),
            (ReleaseSession, "generator"),
            (Ledger, "release"),
        )
    }

    def of_session(self: Any, mechanism: Any, value: Any, label: str) -> Any:
        draw = plain[ReleaseSession, "release"]
        return release(lambda: draw(self, mechanism, value, label), mechanism, value, label)

    def of_ledger(self: Any, mechanism: Any, value: Any, *, label: str, rng: Any = None) -> Any:
        draw = plain[Ledger, "release"]
        return release(lambda: draw(self, mechanism, value, label=label, rng=rng), mechanism, value, label)

    def key(self: Any) -> Any:
        return choice(lambda: plain[ReleaseSession, "sample_key"](self))

    def generator(self: Any) -> Any:
        return choice(lambda: plain[ReleaseSession, "generator"](self))

    new = dict(zip(plain, (of_session, key, generator, of_ledger), strict=True))
    for (owner, name), function in new.items():
        setattr(owner, name, function)
    try:
        yield
    finally:
        for (owner, name), function in plain.items():
            setattr(owner, name, function)


@contextmanager
def record() -> Iterator[Transcript]:
    """Record every release that is made in this block by a ledger or by a learner of this package.

    >>> from ledgerwood.accounting import Ledger
    >>> from ledgerwood.mechanisms import GaussianMechanism
    >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
    >>> with record() as transcript:
    ...     _ = ledger.release(GaussianMechanism(sigma=8.0), 100.0, label="rows")
    >>> [(each.label, each.value) for each in transcript.releases]
    [('rows', 100.0)]
    """
    transcript = Transcript()

    def release(draw: Callable[[], Any], mechanism: Any, value: Any, label: str) -> Any:
        output = draw()
        kept = copy.deepcopy((value, output))
        transcript.releases.append(RecordedRelease(label, mechanism, *kept))
        return output

    def choice(draw: Callable[[], Any]) -> Any:
        made = draw()
        transcript.choices.append(copy.deepcopy(made))
        return made

    with _releases_go_to(release, choice):
        yield transcript


@contextmanager
def replay(transcript: Transcript) -> Iterator[list[Difference]]:
    """Give every release of this block its recorded output, and collect where it differs from the recorded run.

    The block must end normally; an exception of the code under test is compared by :func:`compare`.
    """
    found: list[Difference] = []
    done = {"releases": 0, "choices": 0}

    def release(draw: Callable[[], Any], mechanism: Any, value: Any, label: str) -> Any:
        place = f"release {done['releases'] + 1} ({label})"
        if done["releases"] >= len(transcript.releases):
            found.append(Difference(place, "was not made on the neighbour"))
            raise _Parted
        before = transcript.releases[done["releases"]]
        done["releases"] += 1
        differing = _differing(before, mechanism, value, label)
        if differing is not None:
            found.append(Difference(place, differing))
            if before.label != label:
                raise _Parted
        return copy.deepcopy(before.output)

    def choice(draw: Callable[[], Any]) -> Any:
        if done["choices"] >= len(transcript.choices):
            found.append(Difference("a choice without data", "was not made on the neighbour"))
            raise _Parted
        done["choices"] += 1
        return copy.deepcopy(transcript.choices[done["choices"] - 1])

    with _releases_go_to(release, choice):
        yield found
    left = transcript.releases[done["releases"] :]
    if left and not found:
        found.append(Difference(f"release {done['releases'] + 1} ({left[0].label})", "was made on the neighbour only"))


def compare(
    run: Callable[[Any], Any], first: Any, second: Any, *, result: Callable[[Any], Any] | None = None
) -> list[Difference]:
    """Run on ``first``, replay on ``second``; where the runs part, most telling first. Empty if they agree.

    ``run(data)`` makes its releases and returns its result; ``result`` says what of that is published, everything by
    default.

    >>> from ledgerwood.accounting import Ledger
    >>> from ledgerwood.mechanisms import GaussianMechanism
    >>> def mean(data):
    ...     ledger = Ledger(epsilon=1.0, delta=1e-6)
    ...     total = ledger.release(GaussianMechanism(sigma=8.0, sensitivity=1.0), float(sum(data)), label="sum")
    ...     return total / len(data)
    >>> for difference in compare(mean, [1.0, 0.0], [1.0, 0.0, 3.0]):
    ...     print(difference)
    release 1 (sum): moved by 3 in L2, 1 is stated
    the result: differs although every release had the same output
    """
    with record() as transcript:
        ended, said, output = _end_of(run, first)
    with replay(transcript) as found:
        again, said_again, other = _end_of(run, second)
    if again == _Parted.__name__:
        return found
    if ended != again:
        found.append(Difference("the end", f"{ended} on one input, {again} on the other"))
    elif said != said_again:
        found.append(Difference("the warnings", f"{said} on one input, {said_again} on the other"))
    elif ended == "a result":
        published = [each if result is None else result(each) for each in (output, other)]
        encoded = OutputEncoder.fit(published)(published)
        if np.unique(row_keys(encoded.numbers)).size > 1:
            found.append(Difference("the result", "differs although every release had the same output"))
    return found


def _end_of(run: Callable[[Any], Any], data: Any) -> tuple[str, tuple[str, ...], Any]:
    """How a run ended, what it warned of, and its result."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            output, ended = run(data), "a result"
        except Exception as error:
            output, ended = None, type(error).__name__
    texts = tuple(sorted({f"{each.category.__name__}: {each.message}" for each in said}))
    return ended, texts, output


def _differing(before: RecordedRelease, mechanism: Any, value: Any, label: str) -> str | None:
    """What of a release is not as recorded: public facts, or a value that moved too far."""
    if before.label != label:
        return f"the neighbour released {before.label!r} here"
    if before.mechanism.cost != mechanism.cost:
        return f"costs {mechanism.cost!r}, and {before.mechanism.cost!r} on the neighbour"
    if before.mechanism != mechanism:
        return f"is made by {mechanism!r}, and by {before.mechanism!r} on the neighbour"
    kinds = [_kind(each) for each in (value, before.value)]
    if kinds[0] != kinds[1]:
        return f"is of {kinds[0]}, and of {kinds[1]} on the neighbour"
    return _moved_too_far(mechanism, before.value, value)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"shape {value.shape}, {value.dtype}"
    return type(value).__name__


def _moved_too_far(mechanism: Any, before: Any, after: Any) -> str | None:
    """How far a value moved, if that is further than its mechanism states; None if not, or if nothing is stated."""
    stated = getattr(mechanism, "sensitivity", None)
    arrays = [_numeric(mechanism, each) for each in (before, after)]
    if stated is None or arrays[0] is None or arrays[1] is None:
        return None
    step = arrays[1] - arrays[0]
    for name, moved, limit in _moves(mechanism, stated, step):
        if moved > limit * (1.0 + _SLACK):
            return f"moved by {moved:.6g} in {name}, {limit:.6g} is stated"
    return None


def _numeric(mechanism: Any, value: Any) -> NDArray[np.float64] | None:
    """The value as the mechanism reads it: clamped to its bounds, if it has any."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    bounds = getattr(mechanism, "bounds", None)
    return array if bounds is None else np.clip(np.nan_to_num(array, nan=bounds[0]), *bounds)


def _moves(mechanism: Any, stated: Any, step: NDArray[np.float64]) -> Sequence[tuple[str, float, float]]:
    """(norm, how far the value moved, how far it may), for each norm that the mechanism states."""
    if hasattr(mechanism, "range_sensitivity"):
        rows = step.reshape(step.shape[0] if step.ndim == 2 else 1, -1)
        ranges = rows.max(axis=1) - rows.min(axis=1)
        if getattr(mechanism, "monotone", False):
            ranges = np.abs(rows).max(axis=1)
        parts = 2.0 if "replace" in str(getattr(mechanism.cost, "neighbours", "")) and rows.shape[0] > 1 else 1.0
        return [("range of the scores", float(ranges.sum()), parts * float(stated))]
    flat = np.abs(step).ravel()
    norms = {"L1": float(flat.sum()), "L2": float(np.sqrt((flat**2).sum())), "Linf": float(flat.max(initial=0.0))}
    if isinstance(stated, Sensitivity):
        given = (("L1", stated.l1), ("L2", stated.l2), ("Linf", stated.linf))
        return [(name, norms[name], float(limit)) for name, limit in given if limit is not None]
    if not isinstance(stated, (int, float)):
        return []
    norm = "L2" if "aussian" in type(mechanism).__name__ else "L1"
    return [(norm, norms[norm], float(stated))]
