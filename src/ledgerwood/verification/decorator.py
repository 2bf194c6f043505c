"""Verify your own mechanisms: a decorator that states a claim, and the function that puts it to the test.

>>> from fractions import Fraction
>>> from ledgerwood.accounting import PureDP
>>> from ledgerwood.verification.strategies import score_pairs
>>> @verify_mechanism(claim=PureDP(1.0), pairs=score_pairs(k=3, range=2))
... def two_to_the_score(scores):
...     weights = [Fraction(2) ** int(s) for s in scores]       # costs 2 log 2 = 1.386, not 1
...     return {i: w / sum(weights) for i, w in enumerate(weights)}
>>> verify(two_to_the_score)
Traceback (most recent call last):
...
ledgerwood.errors.PrivacyViolation: two_to_the_score: PureDP(epsilon=1.0) is violated at this pair: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ledgerwood.accounting import Cost
from ledgerwood.errors import MissingDependency, ParameterError, PrivacyViolation
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.exact.check import check
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.enumeration import pair_of

try:
    from hypothesis import HealthCheck, Phase, given, settings, target
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as missing:  # pragma: no cover - depends on the installation
    raise MissingDependency("hypothesis", "verify_mechanism", "verification") from missing

Method = Literal["distribution", "program", "audit"]
Mechanism = TypeVar("Mechanism", bound=Callable[..., Any])
_ATTRIBUTE = "__dp_verification__"


@dataclass(frozen=True, slots=True)
class Verification:
    """The arguments of :func:`verify_mechanism`."""

    claim: Cost
    method: Method
    pairs: SearchStrategy[tuple[Any, Any]] | tuple[tuple[Any, Any], ...] | None
    examples: int
    audit_options: Mapping[str, Any]


def verify_mechanism(
    *,
    claim: Cost,
    pairs: SearchStrategy[tuple[Any, Any]] | Iterable[tuple[Any, Any]] | None = None,
    method: Method = "distribution",
    examples: int = 300,
    **audit_options: Any,
) -> Callable[[Mechanism], Mechanism]:
    """Attach a privacy claim to a mechanism; ``pytest --dp-audit`` and :func:`verify` put it to the test.

    Parameters
    ----------
    claim : Cost
        The claim, for instance ``PureDP(1.0)``.
    pairs : strategy or iterable of pairs
        Neighbouring inputs: a Hypothesis strategy (see :mod:`ledgerwood.verification.strategies`) or a list. The audit
        may do without and search from ``schema=...``.
    method : "distribution", "program" or "audit"
        "distribution": ``f(data)`` returns its output distribution, a mapping from outcome to probability, verified
        exactly. "program": ``f(data, source)`` draws from ``source``
        (:class:`ledgerwood.verification.exact.enumeration.Choices`), verified exactly by enumeration. "audit":
        ``f(data, rng)`` returns one output, judged by :func:`ledgerwood.verification.audit`.
    examples : int
        Most pairs to draw from a strategy.
    **audit_options
        Passed on to the audit: ``schema``, ``samples``, ``confidence`` (of all pairs together), ``seed``, ``seconds``.

    >>> from fractions import Fraction
    >>> from ledgerwood.accounting import PureDP
    >>> @verify_mechanism(claim=PureDP(1.1), pairs=[(0, 1)])
    ... def flip(bit):
    ...     return {bit: Fraction(3, 4), 1 - bit: Fraction(1, 4)}
    >>> verify(flip)  # says nothing: proved
    """
    if method not in ("distribution", "program", "audit"):
        raise ParameterError("method", "be 'distribution', 'program' or 'audit'", method)
    if audit_options and method != "audit":
        raise ParameterError(
            "method", "be 'audit' when audit options are given", method, f"Drop {sorted(audit_options)}."
        )
    if pairs is None and "schema" not in audit_options:
        raise ParameterError("pairs", "be given (an audit may search them from schema= instead)", pairs)
    if not isinstance(claim, Cost):
        raise ParameterError("claim", "be a cost of ledgerwood.accounting", claim, "For example PureDP(0.1).")
    if examples < 1:
        raise ParameterError("examples", "be at least 1", examples)
    inputs = pairs if pairs is None or isinstance(pairs, SearchStrategy) else tuple(pairs)
    if isinstance(inputs, tuple):
        if not inputs:  # nothing would be verified, and that would pass
            raise ParameterError("pairs", "hold at least one pair of inputs", inputs)
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in inputs):
            raise ParameterError("pairs", "be pairs of inputs", inputs)
    plan = Verification(claim, method, inputs, examples, audit_options)

    def attach(mechanism: Mechanism) -> Mechanism:
        setattr(mechanism, _ATTRIBUTE, plan)
        return mechanism

    return attach


def verification_of(mechanism: Any) -> Verification | None:
    """The claim attached to a mechanism, or None."""
    try:
        plan = getattr(mechanism, _ATTRIBUTE, None)
    except Exception:  # a proxy in a test module that refuses to be looked at is not a mechanism
        return None
    return plan if isinstance(plan, Verification) else None


def verify(mechanism: Callable[..., Any]) -> None:
    """Put a decorated mechanism to the test; :class:`~ledgerwood.errors.PrivacyViolation` is the counterexample.

    Exact methods fail unless the claim is *proved* at every pair tried; Hypothesis climbs towards larger epsilons and
    shrinks what it finds. The search is deterministic. An audit fails if it certifies a violation, or could not be
    completed.

    >>> from fractions import Fraction
    >>> from ledgerwood.accounting import PureDP
    >>> @verify_mechanism(claim=PureDP(1.0), pairs=[(0, 1)])
    ... def flip(bit):
    ...     return {bit: Fraction(3, 4), 1 - bit: Fraction(1, 4)}
    >>> verify(flip)
    Traceback (most recent call last):
    ledgerwood.errors.PrivacyViolation: ...
    """
    plan = verification_of(mechanism)
    if plan is None:
        raise ParameterError("mechanism", "carry @verify_mechanism(claim=...)", mechanism)
    if plan.method == "audit":
        _verify_by_audit(mechanism, plan)
    elif isinstance(plan.pairs, SearchStrategy):
        _verify_by_search(mechanism, plan, plan.pairs)
    else:
        for first, second in plan.pairs or ():
            _verify_pair(mechanism, plan, first, second)


def _verify_by_search(
    mechanism: Callable[..., Any], plan: Verification, pairs: SearchStrategy[tuple[Any, Any]]
) -> None:
    @settings(
        max_examples=plan.examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.target, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(pairs)
    def every_pair_keeps_the_claim(pair: tuple[Any, Any]) -> None:
        target(_verify_pair(mechanism, plan, *pair))

    try:
        every_pair_keeps_the_claim()
    except PrivacyViolation as found:  # the counterexample says it all: drop the notes that Hypothesis adds
        raise PrivacyViolation(found.mechanism, found.finding, found.first, found.second) from None


def _verify_pair(mechanism: Callable[..., Any], plan: Verification, first: Any, second: Any) -> float:
    if plan.method == "program":
        pair = pair_of(mechanism, first, second)
    else:
        pair = Pair.from_distributions(mechanism(first), mechanism(second))
    verdict = check(pair, plan.claim)
    if not verdict.holds:
        raise PrivacyViolation(_name(mechanism), str(verdict), first, second)
    return verdict.value.upper


def _verify_by_audit(mechanism: Callable[..., Any], plan: Verification) -> None:
    if isinstance(plan.pairs, SearchStrategy):
        raise ParameterError("pairs", "be a list for an audit", plan.pairs, "Or give schema= and let the audit search.")
    pairs = plan.pairs or (None,)
    # One false alarm on any pair fails the test, so the pairs share the error.
    confidence = 1.0 - (1.0 - plan.audit_options.get("confidence", 0.99)) / len(pairs)
    for pair in pairs:
        report = audit(mechanism, plan.claim, pair=pair, **{**plan.audit_options, "confidence": confidence})
        if not report.passed:
            raise PrivacyViolation(_name(mechanism), str(report), *(pair or (None, None)))


def _name(mechanism: Callable[..., Any]) -> str:
    return getattr(mechanism, "__name__", type(mechanism).__name__)
