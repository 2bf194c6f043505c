"""The settings of a training: one value per component, checked before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from ledgerwood import _checks
from ledgerwood.accounting.adjacency import LEARNABLE, as_neighbours
from ledgerwood.errors import ParameterError
from ledgerwood.learners.training.codec import stored
from ledgerwood.learners.trees.loss import LossName, TreeLoss, make_loss

__all__ = ["CHOICES", "MAX_DEPTH", "TreeSettings"]

Candidates: TypeAlias = Literal["uniform", "log", "mixed", "quantiles", "hessian", "laplace_sketch"]
Split: TypeAlias = Literal["exponential", "permute_and_flip", "histogram", "partial", "random"]
Leaf: TypeAlias = Literal["newton", "gradient", "average", "laplace", "noisy_average"]

CHOICES: dict[str, tuple[str, ...]] = {
    "candidates": ("uniform", "log", "mixed", "quantiles", "hessian", "laplace_sketch"),
    "split": ("exponential", "permute_and_flip", "histogram", "partial", "random"),
    "structure": ("free", "symmetric", "grid"),
    "leaf": ("newton", "gradient", "average", "laplace", "noisy_average"),
    "features": ("all", "cyclic", "shuffled", "random"),
    "loss": ("logistic", "squared", "hinge", "softmax"),
    "missing": ("random", "private"),
    "accounting": ("tight", "paper"),
    "sketch_features": ("all", "tree"),
    "paper_method": ("rdp", "pure"),
}
MAX_DEPTH = 8
"""Leaf numbers are bytes."""
LARGEST_SCORE = 8192
"""Scores are 32-bit numbers in steps of 2**-16; differences of two must fit."""


@stored("Settings")
@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Every choice of a training, from public metadata alone.

    Parameters
    ----------
    candidates
        Where splits may lie: ``uniform`` or ``log`` grids of the declared bounds or a ``mixed`` one, even and dense
        near zero at once; private ``quantiles`` (a noisy count of a fine grid), ``hessian`` (grids refined by noisy
        hessian sums in the first ``sketch_rounds`` rounds) or ``laplace_sketch`` (a Laplace-noised hessian
        histogram for every round).
    n_bins
        Bins of a numeric feature.
    split
        ``exponential`` or ``permute_and_flip`` selection, the best of a noisy ``histogram``, the best of one random
        candidate per feature (``partial``), or ``random``.
    structure
        ``free``, ``symmetric``: one split for a whole level, or ``grid`` (random splits only): the features of a tree
        are each cut at random into as many intervals as fit its depth.
    interactions, interaction_order, interaction_depth
        The share of trees, among the last ones, that are grids of ``interaction_order`` random features, no group
        a second time before all were drawn.
    leaf
        ``newton``, ``gradient``, ``average`` (for forests), ``laplace`` noise on the weight, or ``noisy_average``.
    features, features_per_tree
        ``all``, or groups of ``features_per_tree``: ``cyclic`` in order, ``shuffled`` anew for every turn, ``random``.
    batch
        Trees between two updates of the scores: a number, or a fraction of all trees; 1.0 is a forest.
    rows
        The rate of the Poisson sample of every release; 1.0 takes all rows.
    loss, n_classes
        What is minimised.
    missing
        Whether the side of missing values is part of the ``private`` choice, or ``random``.
    n_trees, trees_per_feature
        Trees, or trees for each feature if ``trees_per_feature``.
    max_depth, learning_rate, leaf_clip, l2
        As usual; a leaf weight before the learning rate is clipped to ``leaf_clip``.
    ridge
        The standard deviation of the noise times this is added to the denominator of a leaf weight.
    shrink
        The weights of a tree are multiplied by 1 - shrink * (expected square of the noise) / (square of the released
        gradient sums), at least 0: a tree that may be noise alone moves little (James and Stein).
    gradient_clip
        Shortens a record's pair to this norm.
    min_child_weight
        Leaves whose *released* weight is below it get weight 0; with ``laplace`` leaves a sum is divided by at least
        this many rows, and needs less noise.
    sketch_rounds, sketch_features
        How many rounds refine the ``hessian`` candidates, and whether of all features or of the tree's own.
    shares
        (sketch, split, leaf) shares of the budget; None gives every query the same.
    neighbours, accounting, paper_method
        The relation; ``tight`` or the ``paper``'s own sensitivities and composition, ``rdp`` or ``pure``.

    Examples
    --------
    >>> TreeSettings(split="exponential", max_depth=4).loops(n_features=10).splits
    400
    """

    candidates: Candidates = "uniform"
    n_bins: int = 32
    split: Split = "random"
    structure: str = "free"
    interactions: float = 0.0
    interaction_order: int = 2
    interaction_depth: int = 4
    leaf: Leaf = "newton"
    features: str = "all"
    features_per_tree: int = 1
    batch: int | float = 1
    rows: float = 1.0
    loss: LossName = "logistic"
    n_classes: int = 2
    missing: str = "random"
    n_trees: int = 100
    trees_per_feature: bool = False
    max_depth: int = 4
    learning_rate: float = 0.3
    leaf_clip: float = 2.0
    l2: float = 1.0
    ridge: float = 1.0
    shrink: float = 0.0
    gradient_clip: float | None = None
    min_child_weight: float = 0.0
    sketch_rounds: int = 5
    sketch_features: str = "all"
    shares: tuple[float, float, float] | None = None
    neighbours: str = "add_remove"
    accounting: str = "tight"
    paper_method: str = "rdp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", str(as_neighbours(self.neighbours, LEARNABLE)))
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(name, f"be one of {', '.join(allowed)}", getattr(self, name))
        for name, least, most in (
            ("n_bins", 2, 253),
            ("features_per_tree", 1, _checks.LARGEST_COUNT),
            ("n_trees", 1, 100_000),
            ("max_depth", 1, MAX_DEPTH),
            ("interaction_depth", 1, MAX_DEPTH),
            ("interaction_order", 1, _checks.LARGEST_COUNT),
            ("sketch_rounds", 1, _checks.LARGEST_COUNT),
            ("n_classes", 1, 1000),
        ):
            object.__setattr__(self, name, _checks.integer(name, getattr(self, name), least, most))
        for name, allow_zero, top in (
            ("rows", False, 1.0),
            ("learning_rate", False, 16.0),
            ("leaf_clip", False, 64.0),
            ("l2", True, 2.0**20),
            ("ridge", True, 2.0**10),
            ("shrink", True, 16.0),
            ("interactions", True, 1.0),
            ("min_child_weight", True, 2.0**40),
        ):
            value = getattr(self, name)
            if (
                not isinstance(value, int | float)
                or _checks.is_bool(value)
                or not (0 <= value <= top)
                or (value == 0 and not allow_zero)
            ):
                rule = f"be a number {'of at least 0' if allow_zero else 'above 0'} and at most {top:g}"
                raise ParameterError(name, rule, value)
        trees = isinstance(self.batch, int) and not _checks.is_bool(self.batch) and self.batch >= 1
        if not trees and not (isinstance(self.batch, float) and 0 < self.batch <= 1):
            raise ParameterError("batch", "be a number of trees, or a fraction in (0, 1]", self.batch)
        if self.shares is not None and (
            len(self.shares) != 3 or not all(isinstance(s, int | float) and 0 <= s < math.inf for s in self.shares)
        ):
            raise ParameterError("shares", "be three shares (sketch, split, leaf) of at least 0", self.shares)
        self._check_together()

    def _check_together(self) -> None:
        if (self.structure == "grid" or self.interactions) and self.split != "random":
            raise ParameterError(
                "structure", "be free or symmetric, without interactions, if splits are not random", self.structure
            )
        if self.interactions and self.loops(1).batch > 1:
            raise ParameterError("interactions", "be 0 in batches: trees of a batch have one depth", self.interactions)
        if self.rows < 1 and self.neighbours != "add_remove":
            raise ParameterError("rows", "be 1 under replace_one: Poisson samples hide presence", self.rows)
        if self.leaf == "average" and not self.is_forest:
            raise ParameterError("batch", "be 1.0 with averaging leaves: a forest has one update", self.batch)
        if self.leaf == "laplace" and self.loss == "softmax":
            raise ParameterError("leaf", "not be laplace for the softmax loss: noisy_average is", self.leaf)
        if self.from_histograms and self.leaf not in ("newton", "gradient", "average"):
            rule = "be newton, gradient or average: the leaves of this split method come from its released sums"
            raise ParameterError("leaf", rule, self.leaf)
        _ = self.make_loss()

    # ---- derived

    @property
    def tight(self) -> bool:
        """Whether our own sensitivities and the tightest composition are used."""
        return self.accounting == "tight"

    @property
    def from_histograms(self) -> bool:
        """Whether splits and leaves are read from noisy sums, so that leaves cost nothing more."""
        return self.split in ("histogram", "partial")

    @property
    def is_forest(self) -> bool:
        """Whether all trees are fitted to the same scores."""
        return isinstance(self.batch, float) and self.batch == 1.0

    @property
    def selects(self) -> bool:
        """Whether splits are selected by score."""
        return self.split in ("exponential", "permute_and_flip")

    def make_loss(self) -> TreeLoss:
        """Return the loss with its integer tables."""
        return make_loss(
            self.loss,
            n_classes=self.n_classes,
            neighbours=self.neighbours,
            gradient_clip=self.gradient_clip,
            kappa=None if self.tight else Fraction(1),
        )

    def k(self, n_features: int) -> int:
        """Return how many features a tree may use."""
        return n_features if self.features == "all" else min(self.features_per_tree, n_features)

    def loops(self, n_features: int) -> Loops:
        """Return how often each kind of release runs."""
        trees = self.n_trees * (n_features if self.trees_per_feature else 1)
        batch = self.batch if isinstance(self.batch, int) else max(1, math.ceil(self.batch * trees))
        batch = min(batch, trees)
        rounds = -(-trees // batch)
        if rounds * self.leaf_clip * self.learning_rate > LARGEST_SCORE:
            rule = f"keep rounds * leaf_clip * learning_rate within {LARGEST_SCORE}, the range of the scores"
            raise ParameterError("n_trees", rule, trees)
        k = self.k(n_features)
        sketch = {"quantiles": 1, "hessian": min(self.sketch_rounds, trees), "laplace_sketch": rounds}.get(
            self.candidates, 0
        )
        if self.candidates == "hessian" and self.split == "histogram":
            sketch = 0  # the histograms of the splits are the sketch
        wide = k if self.sketch_features == "tree" and self.candidates == "hessian" else n_features
        splits = {"random": 0}.get(self.split, trees * self.max_depth)
        if self.from_histograms and k == 1:
            splits = trees  # one histogram of the root serves all levels
        leaves = 0 if self.from_histograms else trees
        return Loops(trees, batch, rounds, sketch, wide, splits, k if self.from_histograms else 1, leaves)

    def interactions_before(self, tree: int, trees: int) -> int:
        """Return how many trees before that number are interactions.

        They are spread over the last half of the trees, or over as many as it takes at every second place.

        >>> s = TreeSettings(interactions=0.25)
        >>> [s.interactions_before(t + 1, 8) - s.interactions_before(t, 8) for t in range(8)]
        [0, 0, 0, 0, 0, 1, 0, 1]
        """
        if not self.interactions:
            return 0
        late = min(1.0, 2 * self.interactions)
        first = trees - math.floor(late * trees)
        return max(0, math.floor((tree - first) * (self.interactions / late)))

    def with_options(self, **options: Any) -> TreeSettings:
        """Return the same settings with some replaced; an unknown name is an error."""
        known = {field.name for field in fields(self)}
        for name in options:
            if name not in known:
                raise ParameterError("option", f"be one of {', '.join(sorted(known))}", name)
        return replace(self, **options)


@dataclass(frozen=True, slots=True)
class Loops:
    """How often things happen, from public metadata.

    ``sketches`` releases of ``sketch_width`` features each, ``splits`` of ``split_width`` each, ``leaves``; in units
    of one feature's histogram these are the query counts of Maddock et al.'s Table 1.
    """

    trees: int
    batch: int
    rounds: int
    sketches: int
    sketch_width: int
    splits: int
    split_width: int
    leaves: int

    @property
    def queries(self) -> tuple[int, int, int]:
        """(kappa_c, kappa_s, kappa_w): queries for candidates, splits and weights, one per histogram."""
        return self.sketches * self.sketch_width, self.splits * self.split_width, self.leaves
