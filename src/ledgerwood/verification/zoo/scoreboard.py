"""The scoreboard: the exact verifier on every entry, the auditor on those asked for."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.zoo.entry import Entry


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One line: the truth, what the exact verifier proved, and what the audit certified."""

    name: str
    status: str
    claim: str
    exact_lower: float
    exact_upper: float
    exact_verdict: str
    audit_lower: float | None = None
    audit_flagged: bool | None = None
    audit_seconds: float | None = None

    @property
    def right(self) -> bool:
        """Whether the exact verifier agrees with the truth."""
        return self.exact_verdict == ("holds" if self.status == "correct" else "violated")

    @property
    def false_flag(self) -> bool:
        """Whether the audit flagged a correct entry, as it may once in 1/(1 - confidence) audits."""
        return self.status == "correct" and bool(self.audit_flagged)


def score(
    entries: Iterable[Entry], *, samples: int | None, seed: int = 0, confidence: float = 0.99
) -> Iterator[ScoreLine]:
    """Judge entries one by one; with ``samples`` each is audited too, at its pair."""
    for entry in entries:
        verdict, epsilon = entry.verdict(), entry.exact_epsilon()
        audited: dict[str, float | bool] = {}
        if samples is not None:
            started = time.process_time()
            report = audit(entry, entry.claim, pair=entry.pair, samples=samples, seed=seed, confidence=confidence)
            audited = {
                "audit_lower": report.epsilon_lower,
                "audit_flagged": report.flagged,
                "audit_seconds": time.process_time() - started,
            }
        yield ScoreLine(
            entry.name,
            entry.status,
            repr(entry.claim),
            epsilon.lower,
            epsilon.upper,
            verdict.status,
            **audited,  # type: ignore[arg-type]
        )


def header(*, audited: bool) -> str:
    """Column names of :func:`line`."""
    left = f"{'mechanism':32} {'truth':8} {'claimed':>14} {'exact at the pair':>22} {'verdict':>10}"
    return f"{left} {'audit >=':>9} {'flag':>5} {'CPU s':>6}" if audited else left


def line(entry: Entry, found: ScoreLine) -> str:
    """One line of the scoreboard."""
    claim = f"{entry.claim.epsilon(entry.claimed_delta):g}"
    if entry.claimed_delta:
        claim += f", {entry.claimed_delta:g}"
    upper = found.exact_upper
    if found.exact_lower == upper or upper - found.exact_lower <= 1e-6 * upper < math.inf:
        exact = f"{upper:.5f}"
    else:
        exact = f"[{found.exact_lower:.5f}, {upper:.5f}]"
    text = f"{found.name:32} {found.status:8} {claim:>14} {exact:>22} {found.exact_verdict:>10}"
    if found.audit_lower is not None:
        flag = "yes" if found.audit_flagged else "no"
        text += f" {found.audit_lower:9.4f} {flag:>5} {found.audit_seconds:6.1f}"
    if found.false_flag:
        text += "  <- false flag"
    return text if found.right else f"{text}  <- wrong"


def summary(scores: Iterable[ScoreLine]) -> str:
    """The totals in two lines."""
    found = list(scores)
    broken = [s for s in found if s.status == "broken"]
    correct = [s for s in found if s.status == "correct"]
    text = (
        f"exact verifier: {sum(s.exact_verdict == 'violated' for s in broken)}/{len(broken)} broken refuted, "
        f"{sum(s.exact_verdict == 'holds' for s in correct)}/{len(correct)} correct proved at the pair"
    )
    audited = [s for s in found if s.audit_flagged is not None]
    if audited:
        text += (
            f"\naudit: {sum(bool(s.audit_flagged) for s in audited if s.status == 'broken')}"
            f"/{sum(s.status == 'broken' for s in audited)} broken flagged, "
            f"{sum(s.false_flag for s in audited)} of {sum(s.status == 'correct' for s in audited)} correct flagged"
        )
    return text


def to_json(scores: Iterable[ScoreLine]) -> str:
    """The scores as JSON; infinite numbers are the strings "inf"."""
    rows = [{k: "inf" if v == math.inf else v for k, v in asdict(each).items()} for each in scores]
    return json.dumps(rows, indent=1)
