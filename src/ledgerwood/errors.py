"""Every exception and warning of the library, in one tree.

::

    LedgerwoodError
    ├── ParameterError (ValueError)          a public parameter breaks its rule
    ├── NeighboursMismatch (ValueError)      two adjacencies in one composition
    ├── MethodUnavailable (ValueError)       an accounting method cannot price this cost
    ├── CalibrationError (ValueError)        no noise meets the target
    ├── ReleaseRefused
    │   ├── BudgetExceeded                   the release would overspend
    │   ├── OffPlan                          the release is not the next one of the plan
    │   └── LedgerClosed                     the ledger may not be used here (fork, copy, closed)
    ├── JournalError (OSError)               the journal could not be written or read
    │   └── JournalTampered                  the journal contradicts its hash chain or its anchor
    ├── PrivacyViolation (AssertionError)    a mechanism breaks, or cannot be shown to keep, its claim
    ├── EngineLost                           a cluster lost its workers or its scheduler
    ├── AggregationFailed                    a secure sum could not be opened; no sum was seen
    ├── FormatError (ValueError)             a file or JSON text of the wrong form or version
    ├── PartyError                           between parties that train together
    │   ├── PartyUnreachable (ConnectionError)  no answer, or no certificate that both sides trust
    │   ├── PartyRefused                     the other party refused a request and said why
    │   └── ProtocolError                    a message of the wrong version, size, order or content
    ├── FitStopped                           a callback ended a fit before there was a model
    ├── UnsupportedSystem (OSError)          the operating system lacks what a durable file needs
    └── MissingDependency (ImportError)      an optional package is not installed

    LedgerwoodWarning (UserWarning)
    ├── OrderAtEdge                          the best Rényi order lies at the edge of the grid
    ├── UntrackedFits                        several fits of a search were charged to no common ledger
    ├── WeakGuarantee                        epsilon or delta is so large that the guarantee says little
    └── NotPrivate                           a seeded generator was used: the release is not private

Messages name the value, the rule, what was done and what to try; they never quote data.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


class LedgerwoodError(Exception):
    """Root of the tree."""


class ParameterError(LedgerwoodError, ValueError):
    """A public parameter breaks its rule.

    >>> raise ParameterError("delta", "lie in [0, 1)", 10)
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: delta must lie in [0, 1), got delta=10
    """

    def __init__(self, name: str, rule: str, value: Any, hint: str | None = None) -> None:
        self.name, self.rule, self.value, self.hint = name, rule, value, hint
        text = f"{name} must {rule}, got {name}={value!r}"
        super().__init__(text if hint is None else f"{text}. {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.rule, self.value, self.hint)


def did_you_mean(given: object, known: Collection[str]) -> str | None:
    """Return a hint that names the nearest of the known names, or none if nothing is near.

    >>> did_you_mean("xgbb", ["tr", "xgb"])
    "Did you mean 'xgb'?"
    """
    from difflib import get_close_matches

    small = {name.lower(): name for name in known}
    return next((f"Did you mean {small[near]!r}?" for near in get_close_matches(str(given).lower(), small, n=1)), None)


class NeighboursMismatch(LedgerwoodError, ValueError):
    """Costs that are stated for different adjacencies cannot be added."""

    def __init__(self, left: str, right: str) -> None:
        self.left, self.right = left, right
        super().__init__(
            f"cannot combine a cost under {left!r} with a cost under {right!r}: the two guarantees are "
            f"stated for different adjacencies. Price every release under one of them (the argument neighbours=...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.left, self.right)


class MethodUnavailable(LedgerwoodError, ValueError):
    """An accounting method cannot price a cost; the message says why and what can."""

    def __init__(self, method: str, reason: str) -> None:
        self.method, self.reason = method, reason
        super().__init__(f"method {method!r} cannot price this cost: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.method, self.reason)


class CalibrationError(LedgerwoodError, ValueError):
    """No noise scale meets the target, or the search was given an unusable function."""


class ReleaseRefused(LedgerwoodError):
    """A ledger refused a release; nothing was drawn or released."""


class BudgetExceeded(ReleaseRefused):
    """The release would overspend; nothing was released.

    Attributes
    ----------
    needed, remaining, limit
        What it takes, what is left and what there was, in the ``unit`` in which the ledger decides.
    delta
        The ledger's delta.
    """

    def __init__(
        self,
        label: str,
        *,
        needed: float,
        remaining: float,
        delta: float,
        limit: float,
        unit: str = "epsilon",
        hint: str = "",
    ) -> None:
        self.label, self.needed, self.remaining = label, needed, remaining
        self.delta, self.limit, self.unit, self.hint = delta, limit, unit, hint
        digits = next((n for n in range(6, 17) if f"{needed:.{n}g}" != f"{remaining:.{n}g}"), 17)
        super().__init__(
            f"{label!r} takes {needed:.{digits}g} of the ledger's {limit:.{digits}g}, of which {remaining:.{digits}g} "
            f"is left (counted in: {unit}); nothing was released. "
            f"{hint or 'Use more noise, fewer releases, or a larger budget.'}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("needed", "remaining", "delta", "limit", "unit", "hint")
        return _rebuild, (type(self), (self.label,), {name: getattr(self, name) for name in names})


def _rebuild(cls: type[LedgerwoodError], args: tuple[Any, ...], kwargs: dict[str, Any]) -> LedgerwoodError:
    return cls(*args, **kwargs)


class OffPlan(ReleaseRefused):
    """The release is not the next one of the plan; nothing was released."""


class LedgerClosed(ReleaseRefused):
    """The ledger may not be used here: it was closed, or this process is a forked copy."""


class JournalError(LedgerwoodError, OSError):
    """The journal could not be written or read; nothing was released."""


class JournalTampered(JournalError):
    """The journal contradicts its hash chain or its anchor."""


class PrivacyViolation(LedgerwoodError, AssertionError):
    """A mechanism under verification breaks its claim, or the claim could not be proved; carries the pair of inputs.

    The inputs are test data made up by the verifier, so the message may show them. Both are None if an audit searched
    the pair: then the finding names it.
    """

    def __init__(self, mechanism: str, finding: str, first: Any, second: Any) -> None:
        self.mechanism, self.finding, self.first, self.second = mechanism, finding, first, second
        pair = "" if first is None and second is None else f"\n  first  = {_short(first)}\n  second = {_short(second)}"
        super().__init__(f"{mechanism}: {finding}{pair}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mechanism, self.finding, self.first, self.second)


def _short(value: Any) -> str:
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else repr(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


class EngineLost(LedgerwoodError):
    """A cluster lost its workers or its scheduler; the releases made until then stay spent."""


class AggregationFailed(LedgerwoodError):
    """A round of secure aggregation ended without a sum: too few nodes, a forged message, a step out of turn."""


class FormatError(LedgerwoodError, ValueError):
    """A file or a JSON text has an unknown field, a wrong form, or a version from the future."""


class PartyError(LedgerwoodError):
    """Something went wrong between parties that train together."""


class PartyUnreachable(PartyError, ConnectionError):
    """The other party does not answer, or one side does not trust the other's certificate."""


class PartyRefused(PartyError):
    """The other party refused a request; the message is its own."""


class ProtocolError(PartyError):
    """A message of the wrong version, size, order or content; it was not acted upon."""


class FitStopped(LedgerwoodError):
    """A callback ended a fit before there was a model; what was released is spent."""


class UnsupportedSystem(LedgerwoodError, OSError):
    """The operating system lacks what a durable file needs; no file was made."""


class MissingDependency(LedgerwoodError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        self.package, self.purpose, self.extra = package, purpose, extra
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'ledgerwood[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.purpose, self.extra)


class LedgerwoodWarning(UserWarning):
    """Root of the warnings."""


class OrderAtEdge(LedgerwoodWarning):
    """The best Rényi order lies at the edge of what the curve allows: a wider curve may give less."""


class UntrackedFits(LedgerwoodWarning):
    """A search or a cross-validation fitted several private models, and no ledger adds up what they cost."""


class WeakGuarantee(LedgerwoodWarning):
    """Epsilon or delta is so large that the guarantee is true and says little."""


class NotPrivate(LedgerwoodWarning):
    """A seeded generator was used: the output is reproducible and not private."""
