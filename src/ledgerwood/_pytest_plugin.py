"""The pytest plug-in: ``pytest --dp-audit`` turns every decorated mechanism of a test module into a test.

A mechanism is anything that carries :func:`ledgerwood.verification.verify_mechanism`, defined in the module or
imported into it. Every pytest run in an environment with Ledgerwood loads this module, so it imports nothing but
pytest unless the option is given.
"""

from __future__ import annotations

from typing import Any

import pytest

from ledgerwood.errors import PrivacyViolation


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("ledgerwood").addoption(
        "--dp-audit", action="store_true", help="verify every mechanism decorated with @verify_mechanism"
    )


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> pytest.Item | None:
    """Collect a decorated mechanism as a test of its own."""
    if not collector.config.getoption("dp_audit"):
        return None
    from ledgerwood.verification.decorator import verification_of

    obj = obj.__func__ if isinstance(obj, staticmethod) else obj  # of a test class
    if verification_of(obj) is None:
        return None
    return MechanismItem.from_parent(collector, name=f"{name}[dp-audit]", mechanism=obj)


class MechanismItem(pytest.Item):
    """One mechanism under verification."""

    def __init__(self, *, mechanism: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mechanism = mechanism

    def runtest(self) -> None:
        """Verify; a :class:`~ledgerwood.errors.PrivacyViolation` fails the test."""
        from ledgerwood.verification.decorator import verify

        verify(self.mechanism)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the counterexample alone, any other error with its traceback."""
        if isinstance(excinfo.value, PrivacyViolation):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where the mechanism is, for the report's headline."""
        return self.path, None, f"{self.name}: privacy claim"
