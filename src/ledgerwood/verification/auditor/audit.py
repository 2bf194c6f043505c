"""The statistical auditor: search a pair, choose an event, certify it on fresh outputs.

1. A pilot run measures speed and meets the problems: exceptions, nan, noise that never changes.
2. Without a pair, pairs proposed by the schema are compared on small samples; the best one stays (``pairs``).
3. On a first part of the outputs scores are learned and cut into events (``choice``).
4. The event chosen is counted on fresh outputs and its counts are turned into a bound (``certificate``).

Only step 4 carries the guarantee. The event, its direction and the pair are functions of outputs that step 4 never
uses, so choosing them costs nothing. If further quantities are bounded beside the claim's own (mu of a Gaussian
claim), they have events of their own and a share of the error: all bounds of a report hold together with the stated
confidence.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import SeedSequence, default_rng

from ledgerwood import _checks
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate.bound import Counts, certified_bound
from ledgerwood.verification.auditor.certificate.counts import Guesses, sizes
from ledgerwood.verification.auditor.certificate.hypotheses import ClaimedProfile, Hypothesis, read_claim
from ledgerwood.verification.auditor.choice import Candidate, choose, learned, propose
from ledgerwood.verification.auditor.encoding import Encoded, OutputEncoder, Outputs
from ledgerwood.verification.auditor.events import Guess, Rule, picture_of
from ledgerwood.verification.auditor.pairs import candidate_pairs, search_pair
from ledgerwood.verification.auditor.pilot import Pilot, run_pilot
from ledgerwood.verification.auditor.report import AuditReport, Certificate, Picture, Subject
from ledgerwood.verification.auditor.sampling import Draws, InputPair, Mechanism, ProgressBar
from ledgerwood.verification.auditor.scores import scores_of
from ledgerwood.verification.auditor.tuning import LIMITS, TUNING

__all__ = ["audit"]

#: Streams of random numbers; the pilot and the pair search have their own.
_SELECT, _SELECT_REST, _CERTIFY, _CERTIFY_MORE = range(1, 5)


def audit(
    f: Mechanism,
    claim: Any,
    pair: tuple[Any, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    confidence: float = 0.99,
    samples: int = 2_000_000,
    seed: int | None = None,
    seconds: float | None = None,
    *,
    delta: float | None = None,
    randomness: Literal["given", "own"] = "given",
    stop_early: bool = False,
    subject: Subject | None = None,
) -> AuditReport:
    """Look for a violation of a privacy claim by a black box, and certify what is found.

    Parameters
    ----------
    f:
        ``f(data, rng)`` returns one output: a number, a vector, a label, a string, a model. If ``f`` has ``sample(data,
        n, rng)``, that is called instead and returns ``n`` outputs (an array whose first axis is the output, or a
        list).
    claim:
        A cost of ``ledgerwood.accounting``: pure, approximate, GDP, RDP, zCDP or a composition.
    pair:
        Two neighbouring inputs. ``None`` searches among pairs made from ``schema``.
    schema:
        Public metadata from which pairs are made (see ``verification.auditor.pairs``); only used without a pair. A
        table without a ``relation`` has the claim's.
    confidence:
        Probability at least with which *all* bounds of the report hold.
    samples:
        Outputs per input, selection and certificate together; on average, where the input is to be guessed.
    seed:
        Reproduces the audit if ``f`` draws all its randomness from ``rng``. ``None`` takes one from the operating
        system; the report says which.
    seconds:
        Time budget. The number of outputs is fixed from the speed of a pilot run, before the certificate is drawn.
    delta:
        Where epsilon is bounded beside a claim that is a whole profile; 1e-5 by default. A claim at one point is tested
        at its own delta.
    randomness:
        "given" if ``f`` draws from ``rng`` alone. "own" if it draws its own noise, as a library with a secure generator
        does: the outputs are checked for repetitions then, and a seed does not reproduce the audit.
    stop_early:
        Look at three tenths of the fresh outputs first, and end there if they contradict the claim, or lie so far below
        it that the others cannot. A quarter of the error is spent on that look.
    subject:
        The estimator whose trainings ``f`` runs, as ``Subject.of(estimator)``. The report keeps it, and only then it
        can be shown in the report of a model.

    Returns
    -------
    AuditReport
        ``flagged`` if the claim is contradicted; ``passed`` if the audit is complete and nothing is.

    Examples
    --------
    A counting query whose noise was meant for epsilon = 0.5, claimed as 0.25:

    >>> from ledgerwood.verification.auditor.audit import audit
    >>> from ledgerwood.accounting import PureDP
    >>> def count(data, rng):
    ...     return sum(data) + int(rng.geometric(0.39) - rng.geometric(0.39))
    >>> report = audit(count, PureDP(0.25), pair=([1, 1], [1, 0]), samples=60_000, seed=1)
    >>> report.flagged, 0.35 < report.epsilon_lower < 0.5
    (True, True)
    """
    _check(f, confidence, samples, seconds, randomness)
    started = time.monotonic()
    profile = read_claim(claim, delta)
    pairs = _pairs(pair, schema, claim)
    entropy = secrets.randbits(63) if seed is None else int(seed)
    inputs = [data for each in pairs for data in (each.first, each.second)]
    with Draws(f, inputs, entropy, ProgressBar(2 * samples)) as draws:
        pilot = run_pilot(draws, pairs[0], samples, seconds, own=randomness == "own")
        if draws.vectorized and draws.raised:
            draws.one_by_one()
            pilot = run_pilot(draws, pairs[0], samples, seconds, own=randomness == "own")
        summary = _AuditSummary(
            claim, profile, confidence, entropy, started, pairs=1, stop_early=stop_early, subject=subject
        )
        if pilot.fatal:
            return summary.unfinished(pilot.problems, pairs[0])
        if pilot.clock:
            return summary.clock_seeded(pilot, pairs[0])
        total = _affordable(samples, seconds, started, pilot.per_output)
        if total < LIMITS.least_outputs:
            slow = f"too slow: at {pilot.per_output:.3g} s per output the time allows {max(total, 0)} outputs per input"
            return summary.unfinished((slow,), pairs[0])
        if not draws.vectorized and pilot.may_fork:
            draws.use_all_cores(2 * total * pilot.per_output)
        chosen, spent = 0, 0
        if pair is None:
            chosen, spent, tried = search_pair(draws, pairs, schema or {}, profile, total)
            summary = replace(summary, pairs=tried)
        return _certify(draws, summary, pilot, pairs[chosen], chosen, total - spent, spent)


def _check(f: Any, confidence: float, samples: int, seconds: float | None, randomness: str) -> None:
    if not callable(f) and not callable(getattr(f, "sample", None)):
        raise ParameterError("f", "be callable as f(data, rng) or have sample(data, n, rng)", f)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    if randomness not in ("given", "own"):
        raise ParameterError("randomness", 'be "given" or "own"', randomness)
    _checks.integer("samples", samples, LIMITS.least_outputs)
    if seconds is not None and not seconds > 0:
        raise ParameterError("seconds", "be positive", seconds)


def _pairs(pair: tuple[Any, Any] | None, schema: Mapping[str, Any] | None, claim: Any) -> list[InputPair]:
    if pair is not None:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ParameterError("pair", "be two neighbouring inputs", type(pair).__name__)
        return [InputPair(pair[0], pair[1], "given")]
    if schema is None:
        raise ParameterError(
            "pair", "be given, or a schema to search one", None, 'For example schema={"queries": 5, "sensitivity": 1}.'
        )
    relation = getattr(claim, "neighbours", None)
    if isinstance(schema, Mapping) and "columns" in schema and relation is not None:
        schema = {"relation": str(relation), **schema}  # what the claim is about, unless the schema says else
    return candidate_pairs(schema)


def _affordable(samples: int, seconds: float | None, started: float, per_output: float) -> int:
    """Outputs per input that the time budget allows, fixed before the certificate is drawn."""
    if seconds is None:
        return samples
    left = seconds - (time.monotonic() - started)
    return int(min(samples, 0.7 * left / (2.0 * max(per_output, 1e-9))))


def _certify(
    draws: Draws, summary: _AuditSummary, pilot: Pilot, pair: InputPair, which: int, total: int, spent: int
) -> AuditReport:
    """Choose an event on a first sample and count it on fresh outputs."""
    profile = summary.profile
    rows = int(min(TUNING.first_share * total, TUNING.selection_rows))
    seen = [draws.draw(2 * which + side, rows, _SELECT) for side in (0, 1)]
    encoder = OutputEncoder.fit(*seen)
    first, second = (encoder(outputs) for outputs in seen)
    candidates = _candidates(first, second, profile, total - rows, classifiers=False)
    if not (candidates and candidates[0].settles):
        more = int(min(TUNING.selection_share * total, TUNING.selection_rows)) - rows
        rows += more
        seen = [_joined(outputs, draws.draw(2 * which + side, more, _SELECT_REST)) for side, outputs in enumerate(seen)]
        encoder = OutputEncoder.fit(*seen)
        first, second = (encoder(outputs) for outputs in seen)
        candidates = _candidates(first, second, profile, total - rows, classifiers=True)
    del seen
    count = total - rows
    if not candidates:  # both inputs always give one and the same output
        return summary.finished((), pilot, draws, pair, total + spent, None)
    best = candidates[0]
    chosen = [_Chosen(profile.worst(best.hits1, best.hits2, rows), learned(best, first, second))]
    for hypothesis in profile.extras:
        other = choose(
            propose(first, second, classifiers=False), first, second, hypothesis.estimated_bound, fresh=count
        )
        chosen += [_Chosen(hypothesis, learned(each, first, second)) for each in other[:1]]
    picture = picture_of(chosen[0].rule, first, second)
    shares = [1.0 - TUNING.extra_share * (len(chosen) - 1), *[TUNING.extra_share] * (len(chosen) - 1)]
    look = int(TUNING.look_rows * count) if summary.stop_early else 0
    error = 1.0 - summary.confidence
    if look:
        _count(draws, encoder, chosen, which, look, _CERTIFY)
        early = [one.certificate(look, TUNING.look_share * share * error) for one, share in zip(chosen, shares)]
        if any(one.contradicts for one in early) or all(_hopeless(one) for one in early):
            return summary.finished(tuple(early), pilot, draws, pair, rows + look + spent, picture)
        error *= 1.0 - TUNING.look_share
    _count(draws, encoder, chosen, which, count - look, _CERTIFY_MORE)
    certificates = tuple(one.certificate(count, share * error) for one, share in zip(chosen, shares))
    return summary.finished(certificates, pilot, draws, pair, total + spent, picture)


def _candidates(
    first: Encoded, second: Encoded, profile: ClaimedProfile, fresh: int, *, classifiers: bool
) -> list[Candidate]:
    proposals = propose(first, second, classifiers=classifiers)
    return choose(proposals, first, second, profile.estimated_bound, fresh=fresh, claimed_delta=profile.claimed_delta)


def _joined(outputs: Outputs, more: Outputs) -> Outputs:
    if isinstance(outputs, np.ndarray) and isinstance(more, np.ndarray):
        return np.concatenate([outputs, more])
    return [*outputs, *more]


@dataclass(slots=True)
class _Chosen:
    """A rule, the hypothesis that it may contradict, and its counts on fresh outputs."""

    hypothesis: Hypothesis
    rule: Rule
    hits1: int = 0
    hits2: int = 0

    def count(self, encoded: Encoded, side: int) -> None:
        """Add the counts of outputs of one input."""
        hits1, hits2 = self.rule.tally(scores_of(self.rule.score, encoded), side)
        self.hits1 += hits1
        self.hits2 += hits2

    def certificate(self, n: int, error: float) -> Certificate:
        """The bound of the counts so far, on ``n`` outputs per input."""
        guess = isinstance(self.rule, Guess)
        counts = (Guesses if guess else Counts)(self.hits1, self.hits2, n)
        null, level = self.hypothesis.null, 1.0 - error
        bound = certified_bound(counts, null=null, confidence=level)
        ideal = Guesses(2 * n, 0, n) if guess else Counts(n, 0, n)
        return Certificate(
            quantity=self.hypothesis.quantity,
            bound=max(bound, 0.0),  # neither is ever negative
            claimed=self.hypothesis.claimed,
            delta=self.hypothesis.delta,
            event=str(self.rule),
            on=self.rule.on,
            hits1=self.hits1,
            hits2=self.hits2,
            n=n,
            confidence=level,
            guess=guess,
            most=max(certified_bound(ideal, null=null, confidence=level), bound, 0.0),
        )


def _count(draws: Draws, encoder: OutputEncoder, chosen: Sequence[_Chosen], which: int, n: int, stream: int) -> None:
    """Count the rules in ``n`` fresh outputs of either input, or ``n`` on average if the input is to be guessed."""
    guesses = {isinstance(one.rule, Guess) for one in chosen}
    assert len(guesses) == 1, "guesses need a Poisson number of outputs, events a fixed one"
    numbers = sizes(n, default_rng(SeedSequence(draws.entropy, spawn_key=(stream,)))) if True in guesses else (n, n)
    for side in (0, 1):
        for outputs in draws.batches(2 * which + side, numbers[side], stream):
            encoded = encoder(outputs)
            for one in chosen:
                one.count(encoded, side)


def _hopeless(look: Certificate) -> bool:
    """Whether the ratio of the counts lies five standard errors below the claim: the rest cannot contradict it."""
    if look.quantity != "epsilon" or not look.hits1 or not look.hits2:
        return False
    claimed_delta = (2 if look.guess else 1) * look.n * look.delta  # guesses are made on the outputs of both inputs
    ratio = math.log(max(look.hits1 - claimed_delta, 0.5) / look.hits2)
    return ratio + 5.0 * math.sqrt(1.0 / look.hits1 + 1.0 / look.hits2) < look.claimed


@dataclass(frozen=True, slots=True)
class _AuditSummary:
    """What every report of one audit repeats."""

    claim: Any
    profile: ClaimedProfile
    confidence: float
    seed: int
    started: float
    pairs: int
    stop_early: bool = False
    subject: Subject | None = None

    def _report(self, pair: InputPair, **content: Any) -> AuditReport:
        point = self.profile.points[0]
        common: dict[str, Any] = {
            "claim": repr(self.claim),
            "epsilon_lower": 0.0,
            "delta": point.delta,
            "epsilon_claimed": point.claimed,
            "flagged": False,
            "event": "",
            "samples": 0,
            "confidence": self.confidence,
            "pair": (_brief(pair.first), _brief(pair.second)),
            "pair_origin": pair.origin,
            "pairs_tried": self.pairs,
            "seed": self.seed,
            "seconds": time.monotonic() - self.started,
            "subject": self.subject,
        }
        return AuditReport(**{**common, **content})

    def unfinished(self, problems: tuple[str, ...], pair: InputPair) -> AuditReport:
        """A report of a mechanism that could not be audited."""
        return self._report(pair, problems=problems)

    def clock_seeded(self, pilot: Pilot, pair: InputPair) -> AuditReport:
        """Noise that only the clock decides: the second is public, so two different outputs identify their inputs."""
        event = "the output is the one that the clock's second and the input determine"
        bound = math.inf if pilot.inputs_differ else 0.0
        return self._report(
            pair,
            epsilon_lower=bound,
            flagged=pilot.inputs_differ,
            event=event,
            samples=pilot.outputs,
            problems=("the noise is seeded with the clock: within one second every call returns the same output",),
        )

    def finished(
        self,
        certificates: tuple[Certificate, ...],
        pilot: Pilot,
        draws: Draws,
        pair: InputPair,
        samples: int,
        picture: Picture | None,
    ) -> AuditReport:
        """A report of a complete audit; problems of the pilot and of the run stay in it."""
        problems = list(pilot.problems)
        if draws.raised:
            kinds = ", ".join(f"{kind} ({count:,})" for kind, count in draws.raised.items())
            problems.append(f"calls raised: {kinds}")
            if draws.vectorized:  # one exception became a batch of equal outputs: no counts of independent draws
                problems.append("sample raised and left whole batches without outputs: audit f(data, rng) instead")
                return self.unfinished(tuple(problems), pair)
        content: dict[str, Any] = {
            "certificates": certificates,
            "problems": tuple(problems),
            "notes": pilot.notes,
            "samples": samples,
            "flagged": any(certificate.contradicts for certificate in certificates),
            "picture": picture,
            "mu_lower": next((c.bound for c in certificates if c.quantity == "mu"), None),
        }
        ordered = sorted((c for c in certificates if c.quantity == "epsilon"), key=lambda c: c.bound, reverse=True)
        if ordered:
            best = ordered[0]
            content |= {"epsilon_lower": best.bound, "event": best.event}
            content |= {"delta": best.delta, "epsilon_claimed": best.claimed}
        return self._report(pair, **content)


def _brief(data: Any, most: int = 120) -> str:
    text = " ".join(repr(data).split())
    return text if len(text) <= most else text[: most - 3] + "..."
