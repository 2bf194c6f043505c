"""Proofs by machine: exact checks, a statistical auditor with certificates, and a zoo of broken mechanisms."""

from ledgerwood.verification.audit import audit
from ledgerwood.verification.certificates import lower_bound
from ledgerwood.verification.determinism import check_determinism
from ledgerwood.verification.lattice import attainable
from ledgerwood.verification.one_run import audit_one_run
from ledgerwood.verification.report import AuditReport, Certificate

__all__ = [
    "AuditReport",
    "Certificate",
    "attainable",
    "audit",
    "audit_one_run",
    "check_determinism",
    "lower_bound",
]
