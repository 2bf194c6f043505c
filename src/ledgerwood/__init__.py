"""Differential privacy: a certified accountant, exact mechanisms, an auditor, and private learners.

Import the part you need: :mod:`ledgerwood.accounting`, :mod:`ledgerwood.mechanisms`,
:mod:`ledgerwood.verification`.
"""

from ledgerwood._version import __version__

__all__ = ["__version__"]
