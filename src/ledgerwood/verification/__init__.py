"""Proofs by machine: exact checks, a statistical auditor with certificates, and a zoo of broken mechanisms.

The exact verifier needs mpmath and Hypothesis; its names are imported at first use.

>>> from ledgerwood.verification import Pair, audit, check
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledgerwood.verification.audit import audit
from ledgerwood.verification.certificates import lower_bound
from ledgerwood.verification.determinism import check_determinism
from ledgerwood.verification.lattice import attainable
from ledgerwood.verification.one_run import audit_one_run, audit_training
from ledgerwood.verification.report import AuditReport, Certificate, Subject

if TYPE_CHECKING:
    from ledgerwood.verification.claims import Verdict, check
    from ledgerwood.verification.conformance import LearnerReport, check_learner
    from ledgerwood.verification.decorator import verify, verify_mechanism
    from ledgerwood.verification.enumerate import Choices, law_of, pair_of, verify_domain
    from ledgerwood.verification.exact import Event, Pair
    from ledgerwood.verification.intervals import Bounds, Interval

_HOME = {
    "Bounds": "intervals",
    "Choices": "enumerate",
    "Event": "exact",
    "Interval": "intervals",
    "LearnerReport": "conformance",
    "Pair": "exact",
    "Verdict": "claims",
    "check": "claims",
    "check_learner": "conformance",
    "law_of": "enumerate",
    "pair_of": "enumerate",
    "verify": "decorator",
    "verify_domain": "enumerate",
    "verify_mechanism": "decorator",
}

__all__ = [
    "AuditReport",
    "Bounds",
    "Certificate",
    "Choices",
    "Event",
    "Interval",
    "LearnerReport",
    "Pair",
    "Subject",
    "Verdict",
    "attainable",
    "audit",
    "audit_one_run",
    "audit_training",
    "check",
    "check_determinism",
    "check_learner",
    "law_of",
    "lower_bound",
    "pair_of",
    "verify",
    "verify_domain",
    "verify_mechanism",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
