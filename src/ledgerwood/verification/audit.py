"""The statistical auditor: search a pair, choose an event, certify it on fresh outputs.

1. A pilot run measures speed and meets the problems: exceptions, nan, noise that never changes.
2. Without a pair, pairs proposed by the schema are compared on small samples; the best one stays (``search``).
3. On a first part of the outputs scores are learned and cut into events; a faint leak gets more, and classifiers.
4. The events chosen are counted on fresh outputs and the counts are turned into bounds (``certificates``).

Only step 4 carries the guarantee. The events, their directions and the pair are functions of outputs that step 4 never
uses, so choosing them costs nothing; the few finalists (up to three events on values, one on floating-point patterns,
one for mu) share the error, and all bounds of a report hold together with the stated confidence.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.verification.certificates import lower_bound
from ledgerwood.verification.features import Encoded, Encoder, Outputs
from ledgerwood.verification.finalists import Finalist, picture_of, select
from ledgerwood.verification.pilot import Pilot, run_pilot
from ledgerwood.verification.report import AuditReport, Certificate, Picture
from ledgerwood.verification.sampling import Draws, Mechanism, Progress
from ledgerwood.verification.search import Pair, candidate_pairs, search_pair
from ledgerwood.verification.statements import Claim, read_claim

__all__ = ["audit"]

_SELECTION = 0.45  # share of the outputs that choose the event of a faint leak
_EARLY = 0.15  # share that is enough for a strong one
_STRONG = 2.0  # promised epsilon from which a leak is strong
_LEAST = 100  # fewer outputs per input are no audit
_SELECT, _CERTIFY, _SELECT_MORE = 1, 2, 3  # streams of random numbers; the pilot and the pair search have their own


def audit(
    f: Mechanism,
    claim: Any,
    pair: tuple[Any, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    confidence: float = 0.99,
    samples: int = 2_000_000,
    seed: int | None = None,
    seconds: float | None = None,
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
        Public facts from which pairs are made (see ``ledgerwood.verification.search``); only used without a pair.
    confidence:
        Probability at least with which *all* bounds of the report hold.
    samples:
        Outputs per input, selection and certificate together.
    seed:
        Reproduces the audit if ``f`` draws all its randomness from ``rng``.
    seconds:
        Time budget. The number of outputs is fixed from the speed of a pilot run, before the certificate is drawn.

    Returns
    -------
    AuditReport
        ``flagged`` if the claim is contradicted; ``passed`` if the audit is complete and nothing is.

    Examples
    --------
    A counting query whose noise was meant for epsilon = 0.5, sold as 0.25:

    >>> from ledgerwood.verification.audit import audit
    >>> from ledgerwood.accounting import PureDP
    >>> def count(data, rng):
    ...     return sum(data) + int(rng.geometric(0.39) - rng.geometric(0.39))
    >>> report = audit(count, PureDP(0.25), pair=([1, 1], [1, 0]), samples=60_000, seed=1)
    >>> report.flagged, 0.35 < report.epsilon_lower < 0.5
    (True, True)
    """
    _check(f, confidence, samples, seconds)
    started = time.monotonic()
    reading = read_claim(claim)
    pairs = _pairs(f, pair, schema)
    entropy = secrets.randbits(63) if seed is None else int(seed)
    inputs = [data for each in pairs for data in (each.first, each.second)]
    with Draws(f, inputs, entropy, Progress(2 * samples)) as draws:
        pilot = run_pilot(draws, pairs[0], samples)
        facts = _Facts(claim, reading, confidence, seed, started, pairs=1)
        if pilot.fatal:
            return facts.unfinished(pilot.problems, pairs[0])
        if pilot.clock:
            return facts.clock_seeded(pilot, pairs[0])
        total = _affordable(samples, seconds, started, pilot.per_output)
        if total < _LEAST:
            slow = f"too slow: at {pilot.per_output:.3g} s per output the time allows {max(total, 0)} outputs per input"
            return facts.unfinished((slow,), pairs[0])
        if not draws.vectorised:
            draws.use_all_cores(2 * total * pilot.per_output)
        chosen, spent = 0, 0
        if pair is None:
            chosen, spent, tried = search_pair(draws, pairs, schema or {}, reading, total)
            facts = replace(facts, pairs=tried)
        return _certify(draws, facts, pilot, pairs[chosen], chosen, total - spent, spent)


def _check(f: Any, confidence: float, samples: int, seconds: float | None) -> None:
    if not callable(f) and not callable(getattr(f, "sample", None)):
        raise ParameterError("f", "be callable as f(data, rng) or have sample(data, n, rng)", f)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    if not isinstance(samples, (int, np.integer)) or samples < _LEAST:
        raise ParameterError("samples", f"be an integer of at least {_LEAST}", samples)
    if seconds is not None and not seconds > 0:
        raise ParameterError("seconds", "be positive", seconds)


def _pairs(f: Any, pair: tuple[Any, Any] | None, schema: Mapping[str, Any] | None) -> list[Pair]:
    if pair is not None:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ParameterError("pair", "be two neighbouring inputs", type(pair).__name__)
        return [Pair(pair[0], pair[1], "given")]
    if schema is None:
        raise ParameterError(
            "pair", "be given, or a schema to search one", None, 'For example schema={"queries": 5, "sensitivity": 1}.'
        )
    return candidate_pairs(schema)


def _affordable(samples: int, seconds: float | None, started: float, per_output: float) -> int:
    """Outputs per input that the time budget allows, fixed before the certificate is drawn."""
    if seconds is None:
        return samples
    left = seconds - (time.monotonic() - started)
    return int(min(samples, 0.7 * left / (2.0 * max(per_output, 1e-9))))


def _certify(draws: Draws, facts: _Facts, pilot: Pilot, pair: Pair, which: int, total: int, spent: int) -> AuditReport:
    """Choose events on one sample, count them on another."""
    early, late = int(_EARLY * total), int(_SELECTION * total)
    samples = [draws.draw(2 * which + side, early, _SELECT) for side in (0, 1)]
    encoder = Encoder.fit(*samples)
    first, second = (encoder(outputs) for outputs in samples)
    selection, n = select(first, second, pair, facts.reading, total - early, classifiers=False), total - early
    if facts.reading.is_profile or selection.promise < _STRONG:
        # A faint leak: the choice of the event matters more than the size of the certificate.
        more = [draws.draw(2 * which + side, late - early, _SELECT_MORE) for side in (0, 1)]
        encoder = Encoder.fit(*samples, *more)
        first, second = (_encode(encoder, parts) for parts in zip(samples, more))
        n = total - late
        selection = select(first, second, pair, facts.reading, n, classifiers=True)
    finalists = selection.finalists(first, second)
    picture = picture_of(finalists[0].event, first, second) if finalists else None
    del samples, first, second
    hits = np.zeros((len(finalists), 2), dtype=np.int64)
    for side in (0, 1):
        for outputs in draws.batches(2 * which + side, n, _CERTIFY):
            encoded = encoder(outputs)
            for i, finalist in enumerate(finalists):
                hits[i, side] += np.count_nonzero(finalist.event(encoded))
    certificates = tuple(
        _certificate(finalists[i], int(hits[i, 0]), int(hits[i, 1]), n, facts.confidence)
        for i in _best_of_each_kind(finalists, hits, n)
    )
    return facts.finished(certificates, pilot, draws.raised, pair, total + spent, picture)


def _encode(encoder: Encoder, parts: Sequence[Outputs]) -> Encoded:
    encoded = [encoder(outputs) for outputs in parts]
    return Encoded(np.concatenate([part.numbers for part in encoded]), encoder.names)


def _best_of_each_kind(finalists: Sequence[Finalist], hits: NDArray[np.int64], n: int) -> list[int]:
    """For every kind of finalist the one whose counts say most; all bounds hold at once, so one may be picked."""
    best: dict[str, tuple[float, int]] = {}
    for i, finalist in enumerate(finalists):
        a, b = hits[i, ::-1] if finalist.event.swapped else hits[i]
        value = float(finalist.statement.promise(a, b, n, 2.7) - finalist.statement.claimed)
        if finalist.kind not in best or value > best[finalist.kind][0]:
            best[finalist.kind] = (value, i)
    return [i for _, i in best.values()]


def _certificate(finalist: Finalist, on_first: int, on_second: int, n: int, confidence: float) -> Certificate:
    event, statement = finalist.event, finalist.statement
    hits1, hits2 = (on_second, on_first) if event.swapped else (on_first, on_second)
    level = 1.0 - (1.0 - confidence) * finalist.share
    return Certificate(
        quantity=statement.quantity,
        bound=lower_bound(hits1, hits2, n, null=statement.null, confidence=level),
        claimed=statement.claimed,
        delta=statement.delta,
        event=str(event),
        on="the second input" if event.swapped else "the first input",
        hits1=hits1,
        hits2=hits2,
        n=n,
        confidence=level,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What every report of one audit repeats."""

    claim: Any
    reading: Claim
    confidence: float
    seed: int | None
    started: float
    pairs: int

    def _report(self, pair: Pair, **content: Any) -> AuditReport:
        point = self.reading.points[0]
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
        }
        return AuditReport(**{**common, **content})

    def unfinished(self, problems: tuple[str, ...], pair: Pair) -> AuditReport:
        """A report of a mechanism that could not be audited."""
        return self._report(pair, problems=problems)

    def clock_seeded(self, pilot: Pilot, pair: Pair) -> AuditReport:
        """Noise that only the clock decides: the second is public, so two different outputs are told apart surely."""
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
        raised: Mapping[str, int],
        pair: Pair,
        samples: int,
        picture: Picture | None,
    ) -> AuditReport:
        """A report of a complete audit; problems of the pilot and of the run stay in it."""
        problems = list(pilot.problems)
        if raised:
            problems.append("calls raised: " + ", ".join(f"{kind} ({count:,})" for kind, count in raised.items()))
        content: dict[str, Any] = {
            "certificates": certificates,
            "problems": tuple(problems),
            "samples": samples,
            "flagged": any(certificate.contradicts for certificate in certificates),
            "picture": picture,
            "mu_lower": next((max(c.bound, 0.0) for c in certificates if c.quantity == "mu"), None),
        }
        ordered = sorted((c for c in certificates if c.quantity == "epsilon"), key=lambda c: c.bound, reverse=True)
        if ordered:
            best = ordered[0]
            content |= {"epsilon_lower": max(best.bound, 0.0), "event": best.event}
            content |= {"delta": best.delta, "epsilon_claimed": best.claimed}
        return self._report(pair, **content)


def _brief(data: Any, most: int = 120) -> str:
    text = " ".join(repr(data).split())
    return text if len(text) <= most else text[: most - 3] + "..."
