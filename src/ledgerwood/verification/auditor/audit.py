"""The statistical auditor: search a pair, choose an event, certify it on fresh outputs.

1. A pilot run measures speed and meets the problems: exceptions, nan, noise that never changes.
2. Without a pair, pairs proposed by the schema are compared on small samples; the best one stays (``pairs``).
3. On a first part of the outputs scores are learned and cut into events; a weak leak gets more, and classifiers.
4. The events chosen are counted on fresh outputs and the counts are turned into bounds (``certificate``).

Only step 4 carries the guarantee. The events, their directions and the pair are functions of outputs that step 4 never
uses, so choosing them costs nothing; the few events selected (up to three on values, one on floating-point
patterns, one for mu) share the error, and all bounds of a report hold together with the stated confidence.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from ledgerwood import _checks
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate.bound import Counts, combined_bound
from ledgerwood.verification.auditor.certificate.counts import Guesses, sizes
from ledgerwood.verification.auditor.certificate.hypotheses import ClaimedProfile, read_claim
from ledgerwood.verification.auditor.encoding import Encoded, OutputEncoder, Outputs
from ledgerwood.verification.auditor.events import Guess, scores_of
from ledgerwood.verification.auditor.pairs import candidate_pairs, search_pair
from ledgerwood.verification.auditor.pilot import Pilot, run_pilot
from ledgerwood.verification.auditor.report import AuditReport, Certificate, CertificateBlock, Picture, Subject
from ledgerwood.verification.auditor.sampling import Draws, InputPair, Mechanism, ProgressBar
from ledgerwood.verification.auditor.selection import SelectedEvent, Selection, has_few_outputs, picture_of, select
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["audit"]

#: Streams of random numbers; the pilot and the pair search have their own.
_SELECT, _CERTIFY, _SELECT_MORE, _CERTIFY_MORE, _SELECT_REST = range(1, 6)


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
    stop_early:
        Look at the first block of fresh outputs before drawing the second, and end there if it contradicts the claim,
        or if it lies so far below it that the second block cannot. A quarter of the error is spent on that look.
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
    _check(f, confidence, samples, seconds)
    started = time.monotonic()
    profile = read_claim(claim)
    pairs = _pairs(pair, schema, claim)
    entropy = secrets.randbits(63) if seed is None else int(seed)
    inputs = [data for each in pairs for data in (each.first, each.second)]
    with Draws(f, inputs, entropy, ProgressBar(2 * samples)) as draws:
        pilot = run_pilot(draws, pairs[0], samples, seconds)
        if draws.vectorized and draws.raised:
            draws.one_by_one()
            pilot = run_pilot(draws, pairs[0], samples, seconds)
        summary = _AuditSummary(
            claim, profile, confidence, entropy, started, pairs=1, stop_early=stop_early, subject=subject
        )
        if pilot.fatal:
            return summary.unfinished(pilot.problems, pairs[0])
        if pilot.clock:
            return summary.clock_seeded(pilot, pairs[0])
        total = _affordable(samples, seconds, started, pilot.per_output)
        if total < TUNING.least_outputs:
            slow = f"too slow: at {pilot.per_output:.3g} s per output the time allows {max(total, 0)} outputs per input"
            return summary.unfinished((slow,), pairs[0])
        if not draws.vectorized and pilot.may_fork:
            draws.use_all_cores(2 * total * pilot.per_output)
        chosen, spent = 0, 0
        if pair is None:
            chosen, spent, tried = search_pair(draws, pairs, schema or {}, profile, total)
            summary = replace(summary, pairs=tried)
        return _certify(draws, summary, pilot, pairs[chosen], chosen, total - spent, spent)


def _check(f: Any, confidence: float, samples: int, seconds: float | None) -> None:
    if not callable(f) and not callable(getattr(f, "sample", None)):
        raise ParameterError("f", "be callable as f(data, rng) or have sample(data, n, rng)", f)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    _checks.integer("samples", samples, TUNING.least_outputs)
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
    """Choose events on a first sample, count them on fresh outputs: in one block, or in two with a second choice."""
    early, n = int(TUNING.selection_share_of_few * total), int(TUNING.first_block_share_of_few * total)
    confidence = summary.confidence
    seen = _Seen([draws.draw(2 * which + side, early, _SELECT) for side in (0, 1)])
    if not has_few_outputs(*seen.encoded, summary.profile):
        more = int(TUNING.selection_share * total) - early
        early, n = early + more, int(TUNING.first_block_share * total)
        seen = seen.joined([draws.draw(2 * which + side, more, _SELECT_REST) for side in (0, 1)])
    selection = seen.select(pair, summary.profile, n, classifiers=False)
    if summary.profile.is_profile:
        # Which point of the profile is tested depends on the event, so there is one block, and one careful choice.
        late = int(TUNING.profile_selection_share * total)
        seen = seen.joined([draws.draw(2 * which + side, late - early, _SELECT_MORE) for side in (0, 1)])
        selection = seen.select(pair, summary.profile, total - late, classifiers=True)
        blocks = [_Block(seen.encoder, selection.selected_events(*seen.encoded), total - late)]
    elif selection.has_zero_count and selection.estimated_bound >= TUNING.strong_epsilon:
        blocks = [_Block(seen.encoder, selection.selected_events(*seen.encoded), total - early)]
    else:
        weak = selection.estimated_bound < TUNING.strong_epsilon
        if weak:
            learned = seen.select(pair, summary.profile, n, plain=False, classifiers=True)
            selection = selection.or_better(learned)
        first = _Block(seen.encoder, selection.selected_events(*seen.encoded, most=1), n)
        sizes = first.sizes(draws.entropy, _CERTIFY)
        outputs = [draws.draw(2 * which + side, sizes[side], _CERTIFY) for side in (0, 1)]
        first.count(outputs)
        if summary.stop_early:
            look = 1.0 - TUNING.look_share * (1.0 - confidence)
            looks = tuple(_certificate(chain, look) for chain in _chains([first]))
            if any(one.contradicts for one in looks) or all(_hopeless(one) for one in looks):
                picture = picture_of(first.selected_events[0].rule, *seen.encoded) if first.selected_events else None
                return summary.finished(looks, pilot, draws, pair, early + n + spent, picture)
            confidence = 1.0 - (1.0 - TUNING.look_share) * (1.0 - confidence)
        seen = seen.joined(outputs)
        rest = total - early - n
        again = seen.select(pair, summary.profile, rest, classifiers=weak)
        best = [one for one in again.selected_events(*seen.encoded, most=1) if one.kind == "values"]
        # The share of a kind is fixed by the first choice.
        second = [replace(one, share=first.selected_events[0].share) for one in best]
        # Guesses want a Poisson number of fresh outputs, events as many on either input.
        if not any(isinstance(one.rule, Guess) for one in second):
            second += [one for one in first.selected_events if one.kind != "values"]
        blocks = [first, _Block(seen.encoder, second, rest, floating=first.encoder)]
    last = blocks[-1]
    picture = picture_of(last.selected_events[0].rule, *seen.encoded) if last.selected_events else None
    del seen
    stream = _CERTIFY if len(blocks) == 1 else _CERTIFY_MORE
    sizes = last.sizes(draws.entropy, stream)
    for side in (0, 1):
        for outputs_of_side in draws.batches(2 * which + side, sizes[side], stream):
            last.count_side(side, outputs_of_side)
    certificates = tuple(_certificate(chain, confidence) for chain in _chains(blocks))
    return summary.finished(certificates, pilot, draws, pair, total + spent, picture)


@dataclass(slots=True)
class _Seen:
    """Outputs on both inputs that events are chosen from, and their encoding."""

    outputs: list[Outputs]
    more: list[list[Outputs]] = field(default_factory=list)
    encoder: OutputEncoder = field(init=False)
    encoded: tuple[Encoded, Encoded] = field(init=False)

    def __post_init__(self) -> None:
        parts = [self.outputs, *self.more]
        self.encoder = OutputEncoder.fit(*(outputs for part in parts for outputs in part))
        first, second = (_encode(self.encoder, [part[side] for part in parts]) for side in (0, 1))
        self.encoded = first, second

    def joined(self, outputs: list[Outputs]) -> _Seen:
        """These and more, as many of either input."""
        n = min(len(side) for side in outputs)
        return _Seen(self.outputs, [*self.more, [side[:n] for side in outputs]])

    def select(
        self, pair: InputPair, claim: ClaimedProfile, fresh: int, *, plain: bool = True, classifiers: bool = True
    ) -> Selection:
        """The events that these outputs suggest."""
        return select(*self.encoded, pair, claim, fresh, plain=plain, classifiers=classifiers)


@dataclass(slots=True)
class _Block:
    """Selected events, counted on ``n`` fresh outputs per input."""

    encoder: OutputEncoder
    selected_events: list[SelectedEvent]
    n: int
    floating: OutputEncoder | None = None  # of events that were chosen before this block's encoder was made
    hits: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        # Guesses need a Poisson number of outputs, events a fixed one: a block that mixed them would have neither.
        assert len({isinstance(event.rule, Guess) for event in self.selected_events}) <= 1
        self.hits = np.zeros((len(self.selected_events), 2), dtype=np.int64)

    def count(self, outputs: Sequence[Outputs]) -> None:
        """Count the events in outputs of both inputs."""
        for side in (0, 1):
            self.count_side(side, outputs[side])

    def sizes(self, entropy: int, stream: int) -> tuple[int, int]:
        """Fresh outputs on either input: ``n``, or ``n`` on average if the input is to be guessed."""
        if any(isinstance(event.rule, Guess) for event in self.selected_events):
            return sizes(self.n, default_rng(SeedSequence(entropy, spawn_key=(stream,))))
        return self.n, self.n

    def count_side(self, side: int, outputs: Outputs) -> None:
        """Count the events in outputs of one input."""
        encoded: dict[int, Encoded] = {}
        for i, event in enumerate(self.selected_events):
            own = self.encoder if event.kind == "values" or self.floating is None else self.floating
            if id(own) not in encoded:
                encoded[id(own)] = own(outputs)
            self.hits[i] += event.rule.tally(scores_of(event.rule.score, encoded[id(own)]), side)

    def counted(self, i: int) -> CertificateBlock:
        """The counts of one event."""
        rule = self.selected_events[i].rule
        hits1, hits2 = (int(h) for h in self.hits[i])
        return CertificateBlock(str(rule), rule.on, hits1, hits2, self.n, isinstance(rule, Guess))


def _chains(blocks: Sequence[_Block]) -> list[list[tuple[SelectedEvent, CertificateBlock]]]:
    """For every kind its event in each block, the last block first; of several in the only block the best."""
    if len(blocks) == 1:
        only = blocks[0]
        return [
            [(only.selected_events[i], only.counted(i))]
            for i in _best_of_each_kind(only.selected_events, only.hits, only.n)
        ]
    kinds = {event.kind: i for i, event in enumerate(blocks[0].selected_events)}
    return [
        [
            (event, blocks[1].counted(j)),
            (blocks[0].selected_events[kinds[event.kind]], blocks[0].counted(kinds[event.kind])),
        ]
        for j, event in enumerate(blocks[1].selected_events)
        if event.kind in kinds
    ]


def _hopeless(look: Certificate) -> bool:
    """Whether the ratio of the counts lies five standard errors below the claim: the rest cannot contradict it."""
    if look.quantity != "epsilon" or not look.hits1 or not look.hits2:
        return False
    claimed_delta = (2 if look.guess else 1) * look.n * look.delta  # guesses are made on the outputs of both inputs
    ratio = math.log(max(look.hits1 - claimed_delta, 0.5) / look.hits2)
    return ratio + 5.0 * math.sqrt(1.0 / look.hits1 + 1.0 / look.hits2) < look.claimed


def _encode(encoder: OutputEncoder, parts: Sequence[Outputs]) -> Encoded:
    encoded = [encoder(outputs) for outputs in parts]
    return Encoded(np.concatenate([part.numbers for part in encoded]), encoder.names)


def _best_of_each_kind(selected_events: Sequence[SelectedEvent], hits: NDArray[np.int64], n: int) -> list[int]:
    """For every kind of event the one whose counts say most; all bounds hold at once, so one may be picked."""
    best: dict[str, tuple[float, int]] = {}
    for i, event in enumerate(selected_events):
        a, b = hits[i]
        value = float(event.hypothesis.estimated_bound(a, b, n, 2.7) - event.hypothesis.claimed)
        if event.kind not in best or value > best[event.kind][0]:
            best[event.kind] = (value, i)
    return [i for _, i in best.values()]


def _certificate(chain: Sequence[tuple[SelectedEvent, CertificateBlock]], confidence: float) -> Certificate:
    """One bound from the counts of one kind of event, in one block or in two."""
    (event, last), *before = chain
    hypothesis = event.hypothesis
    level = 1.0 - (1.0 - confidence) * event.share
    counts = [
        Guesses(block.hits1, block.hits2, block.n) if block.guess else Counts(block.hits1, block.hits2, block.n)
        for _, block in reversed(chain)
    ]
    return Certificate(
        quantity=hypothesis.quantity,
        bound=max(combined_bound(counts, null=hypothesis.null, confidence=level), 0.0),  # neither is ever negative
        claimed=hypothesis.claimed,
        delta=hypothesis.delta,
        event=last.event,
        on=last.on,
        hits1=last.hits1,
        hits2=last.hits2,
        n=last.n,
        confidence=level,
        guess=last.guess,
        earlier=tuple(block for _, block in before),
    )


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
