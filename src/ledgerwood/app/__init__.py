"""The calculator: a command line, a planner page and reports over the planner, the learners and the auditor.

Nothing here computes privacy; it asks :mod:`ledgerwood.accounting` and the other packages and shows what they say.
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

if TYPE_CHECKING:
    from ledgerwood.app.reports.report import report

__all__ = ["report"]

_HOME = {
    "report": "reports.report",
}

__getattr__ = at_first_use(__name__, _HOME)
