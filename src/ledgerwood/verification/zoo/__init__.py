"""A zoo of mechanisms, 25 broken and 21 correct, each as runnable code with its claim and the exact truth at a pair.

>>> entry = ZOO["svt_4"]
>>> print(entry.verdict())
PureDP(epsilon=0.1) is violated at this pair: epsilon is at least 0.172471
  first against second, output in {5}: probability ... against ...

``python -m ledgerwood.verification.zoo`` prints the scoreboard.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ledgerwood.verification.zoo import boosting, leaks, learners, noise, selection, sparse_vector
from ledgerwood.verification.zoo.entry import Entry

__all__ = ["ZOO", "Entry"]

_ALL = (
    *noise.ENTRIES,
    *selection.ENTRIES,
    *sparse_vector.ENTRIES,
    *leaks.ENTRIES,
    *boosting.ENTRIES,
    *learners.ENTRIES,
)

#: Every entry by name, the correct ones first.
ZOO: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in sorted(_ALL, key=lambda entry: not entry.correct)}
)
