"""A guarantee that is true and says little: what to tell whoever relies on it. Public facts only."""

from __future__ import annotations

import math
import warnings

from ledgerwood.errors import WeakGuarantee
from ledgerwood.learners.facts import delta_of

__all__ = ["LARGE_EPSILON", "cautions", "warn_if_weak"]

LARGE_EPSILON = 20.0
"""More than this hardly constrains what an attacker learns; the 2020 census of the United States spent 19.61."""

_FEW_ROWS = 100
"""A probability of one in so many is not small for anybody, however few the rows are."""


def cautions(epsilon: float, delta: float, rows: int | None = None) -> tuple[str, ...]:
    """Return why a guarantee says little, in words for its reader; nothing if it is an ordinary one.

    Parameters
    ----------
    epsilon, delta
        The guarantee.
    rows
        The public number of rows, if it is known.

    Examples
    --------
    >>> cautions(1.0, 1e-6, 30_000)
    ()
    >>> print(*cautions(1.0, 0.1, 500))
    CAUTION: delta=0.1 is not small: publishing whole records of about 50 of 500 people at random would be allowed. ...
    """
    found = []
    if epsilon > LARGE_EPSILON:
        found.append(
            f"CAUTION: epsilon={epsilon:g} is so large that the guarantee says little: the model may make a suspicion "
            f"about one person up to 10^{math.floor(epsilon / math.log(10))} times as likely as it was. Common values "
            "lie between 0.1 and 10."
        )
    if delta * max(rows or 0, _FEW_ROWS) >= 1:
        allowed = (
            "with that probability it may fail altogether"
            if rows is None
            else f"publishing whole records of about {delta * rows:.3g} of {rows} people at random would be allowed"
        )
        found.append(
            f"CAUTION: delta={delta:g} is not small: {allowed}. Choose it well below one over the number of people, "
            f"such as {delta_of(rows or _FEW_ROWS):g}."
        )
    return tuple(found)


def warn_if_weak(epsilon: float, delta: float, rows: int) -> None:
    """Warn of a guarantee that says little; it is never refused."""
    found = cautions(epsilon, delta, rows)
    if found:
        warnings.warn(" ".join(found), WeakGuarantee, stacklevel=4)
