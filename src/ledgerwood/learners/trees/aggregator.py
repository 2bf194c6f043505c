r"""The interface between a tree learner and its data: what may be asked, and the exact integers that answer.

A learner asks an :class:`Aggregator` for sums over records. The answers are exact integers, the same bits on every
machine, thread count and partition, and only mechanisms may see them.

**Bin codes** are ``uint8``. The code of a number is how many of the feature's float32 thresholds are at most that
number (so ``x < threshold`` is on the left of it); the code of a category is its place in the declared list. The last
code of a feature means missing or unknown. A feature has at most 255 codes.

**Trees** are complete binary trees of a public depth, in level order: node ``i`` has the children ``2 i + 1`` and
``2 i + 2``; leaf ``j`` of depth ``d`` is the place ``2**d - 1 + j`` of that order. A node sends a record to the left if
``left[node, code of its feature]`` is 1: a threshold, a set of categories and the way of missing values alike.

**Scores** F are ``int32`` in steps of ``2**-16``, one for each output, and start at 0. They are sums of leaf weights.

**Gradients** are integers in steps of ``2**-12``; a record's pair (gradient, hessian) is a function of its label and
its scores alone, in integer arithmetic:

* ``table``: one output, labels 0 and 1: ``pairs[label, place]``, ``place = clip(((F + 128) >> 8) + 2048, 0, 4096)``;
  the table steps by ``2**-8`` from -8 to 8.
* ``squared``: one output, labels in steps of ``2**-16``: ``g = clip((F - label + 8) >> 4, -clip, clip)``; hessian
  ``constant_hessian``.
* ``softmax``: K >= 3 outputs, labels 0 .. K - 1: with ``d_k = min((max F - F_k + 128) >> 8, 4096)``, ``e_k = EXP[d_k]``
  and ``p_k = 4096 * e_k // sum(e)``: ``g_k = p_k - 4096 * (label == k)``, hessian ``kappa_p[p_k]``, a table. If a
  ``norm`` is given and the squares of a record's 2 K numbers sum to more, S > norm**2, every number x becomes
  ``isqrt(x**2 * norm**2 // S)``, with its sign.

The second channel of a sum is the hessian, or the number of records if the query says ``count``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.training.codec import stored

__all__ = [
    "EXP_ONE_BITS",
    "GRADIENT_BITS",
    "MAX_BIN_CODES",
    "ONE",
    "SCORE_BITS",
    "TABLE_HALF",
    "TABLE_SHIFT",
    "TABLE_SIZE",
    "Aggregator",
    "BinEdges",
    "Channel",
    "Kind",
    "PartialTree",
    "Sample",
    "Structure",
    "Task",
    "Tree",
    "exp_table",
]

SCORE_BITS = 16
"""Scores and leaf weights are multiples of 2**-16."""
GRADIENT_BITS = 12
"""Gradients and hessians are multiples of 2**-12."""
ONE = 1 << GRADIENT_BITS
"""A gradient of 1. No coordinate of a pair exceeds 1.25 of it (hessians under replace-one): 2**19 - 1 records fit."""
TABLE_SHIFT = 8
"""Tables step by 2**8 score units, that is by 2**-8."""
TABLE_HALF = 2048
"""The place of score 0 in a table of pairs; scores beyond -8 and 8 are read as -8 and 8."""
TABLE_SIZE = 2 * TABLE_HALF + 1
EXP_ONE_BITS = 24
"""The table of exponentials holds multiples of 2**-24."""
MAX_BIN_CODES = 255

Kind: TypeAlias = Literal["table", "squared", "softmax"]
Channel: TypeAlias = Literal["count", "hessian"]


@lru_cache(maxsize=1)
def exp_table() -> NDArray[np.int64]:
    """Return round(2**24 exp(-d / 256)) for d = 0 .. 4096, by decimal arithmetic: the same on every machine."""
    from decimal import ROUND_HALF_EVEN, Context, Decimal

    context = Context(prec=30)
    one = Decimal(1 << EXP_ONE_BITS)
    values = [int((one * context.exp(Decimal(-d) / 256)).to_integral_value(ROUND_HALF_EVEN)) for d in range(TABLE_SIZE)]
    table = np.array(values, dtype=np.int64)
    table.flags.writeable = False
    return table


@stored("Edges", keys={"thresholds": "cuts"})
@dataclass(frozen=True, slots=True, eq=False)
class BinEdges:
    """How values become bin codes, from public metadata or released numbers.

    Parameters
    ----------
    thresholds
        For each feature its float32 thresholds, strictly increasing and at most 253; empty for a feature of categories.
    categories
        For each feature the number of declared categories; 0 for numbers.

    Attributes
    ----------
    counts
        For each feature how many bin codes it has, the one of missing values included.
    is_set
        For each feature whether it has categories.
    """

    thresholds: tuple[NDArray[np.float32], ...]
    categories: tuple[int, ...]
    counts: NDArray[np.int64] = field(init=False, repr=False)
    is_set: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_codes = [
            (declared or len(thresholds) + 1) + 1 for thresholds, declared in zip(self.thresholds, self.categories)
        ]
        object.__setattr__(self, "counts", np.array(n_codes, dtype=np.int64))
        object.__setattr__(self, "is_set", np.array(self.categories, dtype=np.int64) > 0)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.thresholds)

    def n_codes(self, feature: int) -> int:
        """Return how many bin codes the feature has, the one of missing values included."""
        return int(self.counts[feature])

    @property
    def width(self) -> int:
        """The most bin codes of any feature: the length of the bins axis of a histogram."""
        return int(self.counts.max())


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What the gradients are: public metadata, fixed for a training.

    Parameters
    ----------
    kind
        ``table``, ``squared`` or ``softmax``: see the module.
    n_outputs
        1, or the number of classes for softmax.
    pairs
        ``int32[2, 4097, 2]``, (gradient, hessian) by label and place: for ``table``.
    clip, constant_hessian
        Largest gradient, and the hessian of every record: for ``squared``.
    hessian
        ``int32[4097]``, hessian by probability in steps of 2**-12: for ``softmax``.
    norm
        The norm to which a record's pairs are shortened, 0 for none: for ``softmax``.
    """

    kind: Kind
    n_outputs: int = 1
    pairs: NDArray[np.int32] = field(default_factory=lambda: np.zeros((2, TABLE_SIZE, 2), dtype=np.int32))
    clip: int = ONE
    constant_hessian: int = ONE
    hessian: NDArray[np.int32] = field(default_factory=lambda: np.zeros(ONE + 1, dtype=np.int32))
    norm: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A Poisson sample of the records: record r is in if siphash(key, round, r) mod 2**32 < numerator.

    ``numerator`` is the rate in steps of 2**-32. The key comes from the run's source of randomness and is secret:
    clusters log and display the arguments of their tasks, so it is not shown.
    """

    numerator: int
    key: tuple[int, int] = field(repr=False)
    round: int


@stored("Structure")
@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The splits of one tree.

    Parameters
    ----------
    depth
        Levels of splits; there are ``2**depth`` leaves.
    feature
        ``int32[2**depth - 1]``.
    left
        ``uint8[2**depth - 1, 256]``: 1 where the code goes to the left.
    """

    depth: int
    feature: NDArray[np.int32]
    left: NDArray[np.uint8]


PartialTree: TypeAlias = Structure
"""A tree whose first ``depth`` levels are decided; a histogram is taken at its ``2**depth`` open nodes."""


@stored("Tree", keys={"cover": "mass"})
@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A structure and its leaf weights, ``int32[n_outputs, 2**depth]`` in steps of 2**-16.

    ``cover`` is the released noisy hessian (or count) of every leaf and ``noise`` the standard deviation of the noise
    in its weight, both ``float32[n_outputs, 2**depth]``; None where the recipe releases no such sums.
    """

    structure: Structure
    weights: NDArray[np.int32]
    cover: NDArray[np.float32] | None = None
    noise: NDArray[np.float32] | None = None


class Aggregator(Protocol):
    """Holds the records and answers with exact integer sums over them."""

    @property
    def n_features(self) -> int:
        """How many features there are; public."""

    def start(self, task: Task) -> None:
        """Begin a training: scores are 0, no sample, the model is empty."""

    def bin(self, bin_edges: BinEdges) -> None:
        """Compute every value's bin code, for trees from now on; trees added before keep the codes that they saw."""

    def sample(self, sample: Sample | None) -> None:
        """Answer from this sample of the records from now on (None: from all). Scores are kept for all records."""

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> NDArray[np.int64]:
        """Return ``[n_outputs, 2**tree.depth, len(features), bin_edges.width, 2]``: (sum of g, second channel).

        Places beyond the last code of a feature are 0. Queried level by level of one tree, with the same features,
        an implementation may keep node numbers and obtain siblings by subtraction.
        """

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> NDArray[np.int64]:
        """Return ``[len(trees), n_outputs, leaves, 2]``: the sums in every leaf of trees of equal depth."""

    def add(self, trees: Sequence[Tree]) -> None:
        """Add released trees to the scores."""
