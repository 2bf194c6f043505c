"""The calculator: a command line, a planner page and reports over the planner, the learners and the auditor.

Nothing here computes privacy; it asks :mod:`ledgerwood.accounting` and the other packages and shows what they say.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.app.reports.report import report

__all__ = ["report"]

_HOME = {
    "report": "reports.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
