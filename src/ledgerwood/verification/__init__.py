"""Proofs by machine: exact checks, a statistical auditor with certificates, and a zoo of broken mechanisms.

Names are imported at first use, so that the pytest plug-in costs nothing in a session that does not verify.

>>> from ledgerwood.verification import Pair, check
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.verification.claims import Verdict, check
    from ledgerwood.verification.decorator import verify, verify_mechanism
    from ledgerwood.verification.enumerate import Choices, law_of, pair_of, verify_domain
    from ledgerwood.verification.exact import Event, Pair
    from ledgerwood.verification.intervals import Bounds, Interval

_HOME = {
    "Bounds": "intervals",
    "Choices": "enumerate",
    "Event": "exact",
    "Interval": "intervals",
    "Pair": "exact",
    "Verdict": "claims",
    "check": "claims",
    "law_of": "enumerate",
    "pair_of": "enumerate",
    "verify": "decorator",
    "verify_domain": "enumerate",
    "verify_mechanism": "decorator",
}

__all__ = [
    "Bounds",
    "Choices",
    "Event",
    "Interval",
    "Pair",
    "Verdict",
    "check",
    "law_of",
    "pair_of",
    "verify",
    "verify_domain",
    "verify_mechanism",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
