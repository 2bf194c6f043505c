"""Proofs by machine: exact checks, a statistical auditor with certificates, and a zoo of broken mechanisms.

The exact verifier needs mpmath and Hypothesis; its names are imported at first use.

>>> from ledgerwood.verification import Pair, audit, check
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.certificate.bound import lower_bound
from ledgerwood.verification.auditor.determinism import check_determinism
from ledgerwood.verification.auditor.float_attacks import attainable
from ledgerwood.verification.auditor.report import AuditReport, Certificate, Subject
from ledgerwood.verification.training_audit import audit_one_run, audit_training

if TYPE_CHECKING:
    from ledgerwood.verification.conformance import LearnerReport, check_learner
    from ledgerwood.verification.decorator import verify, verify_mechanism
    from ledgerwood.verification.exact.check import Verdict, check
    from ledgerwood.verification.exact.distributions import Event, Pair
    from ledgerwood.verification.exact.enumeration import Choices, distribution_of, pair_of, verify_domain
    from ledgerwood.verification.exact.intervals import Bounds, Interval

_HOME = {
    "Bounds": "exact.intervals",
    "Choices": "exact.enumeration",
    "Event": "exact.distributions",
    "Interval": "exact.intervals",
    "LearnerReport": "conformance",
    "Pair": "exact.distributions",
    "Verdict": "exact.check",
    "check": "exact.check",
    "check_learner": "conformance",
    "distribution_of": "exact.enumeration",
    "pair_of": "exact.enumeration",
    "verify": "decorator",
    "verify_domain": "exact.enumeration",
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
    "distribution_of",
    "lower_bound",
    "pair_of",
    "verify",
    "verify_domain",
    "verify_mechanism",
]

__getattr__ = at_first_use(__name__, _HOME)
