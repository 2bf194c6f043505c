"""The state of a boosting run: the aggregator, the release session, and the trees and scores so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import raised
from ledgerwood.accounting import Release
from ledgerwood.learners.trees.aggregator import SCORE_BITS, Aggregator, BinEdges, Sample, Structure, Tree
from ledgerwood.learners.trees.binning import (
    FeatureDomain,
    even_bin_edges,
    fine_bin_edges,
    log_bin_edges,
    merged_bin_edges,
    mixed_bin_edges,
    quantile_bin_edges,
)
from ledgerwood.learners.trees.candidates import open_tree
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.leaves import SumsLayout, laplace_values, layout_of, noise_of, quantised, weights_of
from ledgerwood.learners.trees.loss import TreeLoss
from ledgerwood.learners.trees.planned_noise import GaussianSums, LaplaceSums
from ledgerwood.learners.trees.settings import Loops, TreeSettings

__all__ = ["BoostingState", "SupportsTreeRelease"]


class SupportsTreeRelease(Protocol):
    """What a training needs of a release session."""

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Release an exact value by a mechanism, under a label of the plan."""

    def sample_key(self) -> tuple[int, int]:
        """Return the secret key of a fresh sample of rows; called only where rows are sampled."""


@dataclass
class BoostingState:
    """The state of a training: settings, released trees, and the public bound of the scores. No data, no exact sum."""

    settings: TreeSettings
    domain: FeatureDomain
    aggregator: Aggregator
    session: SupportsTreeRelease
    releases: dict[str, Release]
    rng: np.random.Generator
    loss: TreeLoss
    loops: Loops
    bin_edges: list[BinEdges] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    phase: list[int] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    groups: set[frozenset[int]] = field(default_factory=set)
    bound: int = 0
    released: int = 0
    balanced: bool = True

    # ---- releases

    def layout(self, *, laplace: bool = False) -> SumsLayout:
        """Return how sums of gradients are released at the present scores."""
        return layout_of(self.settings, self.loss, self.bound, laplace=laplace, balanced=self.balanced)

    def release(self, label: str, mechanism: Callable[[Any], Any], query: Callable[[], Any]) -> Any:
        """Release ``query()`` by the mechanism of the label's planned cost, on a fresh sample if rows are sampled."""
        planned = self.releases[label]
        self.released += 1
        return self.session.release(
            mechanism(planned.record_cost(self.settings.neighbours)), self._exact(planned, query), label
        )

    def _exact(self, planned: Release, query: Callable[[], Any]) -> Any:
        """Return the exact answer, of a fresh secret sample if rows are sampled, which is forgotten at once."""
        if planned.rate == 1:
            return query()
        self.aggregator.sample(Sample(round(planned.rate * 2**32), self.session.sample_key(), self.released))
        try:
            return query()
        finally:
            self.aggregator.sample(None)

    # ---- candidates

    def use(self, bin_edges: BinEdges) -> None:
        """Bin values by these edges from now on."""
        self.bin_edges.append(bin_edges)
        self.aggregator.bin(bin_edges)

    def start(self) -> None:
        """Begin: scores at 0 and the first bin edges."""
        self.aggregator.start(self.loss.task)
        bins = self.settings.n_bins
        if self.settings.candidates == "quantiles":
            fine = fine_bin_edges(self.domain)
            self.use(fine)
            self.use(quantile_bin_edges(self.domain, fine, self._sketch(fine, range(self.domain.n_features)), bins))
        elif self.settings.candidates == "log":
            self.use(log_bin_edges(self.domain, bins))
        elif self.settings.candidates == "mixed":
            self.use(mixed_bin_edges(self.domain, bins))
        else:
            self.use(even_bin_edges(self.domain, bins))

    def refine(self, features: NDArray[np.int32]) -> None:
        """Refine the bin edges of some features by a noisy sum of hessians in every bin (Maddock et al. 2022)."""
        bin_edges = self.bin_edges[-1]
        weights = self._sketch(bin_edges, features.tolist())
        self.use(self._merged(bin_edges, weights, features))

    def _merged(self, bin_edges: BinEdges, weights: NDArray[np.float64], features: NDArray[np.int32]) -> BinEdges:
        found = merged_bin_edges(self.domain, bin_edges, weights, self.settings.n_bins)
        thresholds = [
            found.thresholds[f] if f in set(features.tolist()) else bin_edges.thresholds[f]
            for f in range(bin_edges.n_features)
        ]
        return BinEdges(tuple(thresholds), bin_edges.categories)

    def resketch(self) -> None:
        """Find candidates anew from a noisy histogram of hessians of fine bins (Grislain & Gonzalez 2021)."""
        fine = fine_bin_edges(self.domain)
        self.aggregator.bin(fine)
        weights = self._sketch(fine, range(self.domain.n_features))
        self.use(quantile_bin_edges(self.domain, fine, weights, self.settings.n_bins))

    def _sketch(self, bin_edges: BinEdges, features: Any) -> NDArray[np.float64]:
        released = np.array(list(features), dtype=np.int32)
        counts = self.settings.candidates == "quantiles"
        size = 1.0 if counts else float(self.loss.hessian_sum(self.bound))
        replace = self.settings.neighbours == "replace_one"  # one bin loses a record, one gains one

        def query() -> NDArray[np.int64]:
            found = self.aggregator.histogram(open_tree(0), released, "count" if counts else "hessian")
            second: NDArray[np.int64] = found[0, 0, :, :, 1] if counts else found[:, 0, :, :, 1].sum(axis=0)
            return second

        if self.settings.candidates == "laplace_sketch":
            noisy = self.release(
                "sketch", lambda cost: LaplaceSums(cost, size * (2 if replace else 1) * len(released)), query
            )
        else:
            wide = raised(size * math.sqrt((2 if replace else 1) * len(released)))
            noisy = self.release("sketch", lambda cost: GaussianSums(cost, wide), query)
        weights = np.zeros((bin_edges.n_features, noisy.shape[1]))
        weights[released] = noisy
        return weights

    # ---- trees

    def features_of(self, tree: int) -> NDArray[np.int32]:
        """Return the features that a tree may use."""
        m, k = self.domain.n_features, self.loops_k
        if self.interacts(tree):
            return self._group(min(self.settings.interaction_order, m))
        tree -= self.settings.interactions_before(tree, self.loops.trees)  # main effects keep their turns
        match self.settings.features:
            case "cyclic":
                return np.sort((np.arange(k) + tree * k) % m).astype(np.int32)
            case "shuffled":
                while len(self.turn) < k:
                    self.turn += self.rng.permutation(m).tolist()
                taken, self.turn = self.turn[:k], self.turn[k:]
                return np.unique(np.array(taken, dtype=np.int32))
            case "random":
                return np.sort(self.rng.choice(m, size=k, replace=False)).astype(np.int32)
        return np.arange(m, dtype=np.int32)

    def _group(self, order: int) -> NDArray[np.int32]:
        """Return a random group of features, none a second time before all were drawn."""
        if len(self.groups) == math.comb(self.domain.n_features, order):
            self.groups.clear()
        while True:
            drawn = self.rng.permutation(self.domain.n_features)[:order].astype(np.int32)
            if (group := frozenset(drawn.tolist())) not in self.groups:
                self.groups.add(group)
                return drawn

    def interacts(self, tree: int) -> bool:
        """Whether the tree of that number is one of the interactions."""
        before, after = (self.settings.interactions_before(t, self.loops.trees) for t in (tree, tree + 1))
        return after > before

    @property
    def loops_k(self) -> int:
        """How many features a tree may use."""
        return self.settings.k(self.domain.n_features)

    def weigh(self, structures: list[Structure], factor: float) -> list[Tree]:
        """Ask for the sums in the leaves of structures and return the trees."""
        s, outputs = self.settings, self.loss.n_outputs
        noise = LaplaceSums if s.leaf in ("laplace", "noisy_average") else GaussianSums
        sums = None if s.rows < 1 else self.aggregator.leaf_sums(structures, self._channel())
        found = []
        for i, structure in enumerate(structures):

            def query(i: int = i, structure: Structure = structure) -> NDArray[np.int64]:
                found = self.aggregator.leaf_sums([structure], self._channel())[0] if sums is None else sums[i]
                return np.asarray(found)

            if s.leaf == "laplace":
                found.append(self._laplace_tree(structure, query, factor))
                continue
            layout = self.layout(laplace=noise is LaplaceSums)
            used: list[float] = []

            def mechanism(cost: Any, layout: Any = layout, used: list[float] = used) -> Any:
                made = noise(cost, layout.sensitivity)
                used.append(layout.noise(made.sigma))
                return made

            def packed(query: Any = query, layout: SumsLayout = layout) -> NDArray[np.int64]:
                return layout.pack(query())

            noisy = self.release("leaf", mechanism, packed)
            gradients, hessian = layout.unpack(noisy, outputs)
            weights = self._quantised(weights_of(s, gradients, hessian, used[0]), factor)
            scale = 1.0 / self.loops.trees if s.leaf == "average" else factor
            spread = (noise_of(s, gradients, hessian, used[0]) * scale).astype(np.float32)
            found.append(Tree(structure, weights, hessian.astype(np.float32), spread))
        return found

    def _channel(self) -> Any:
        return "hessian" if self.settings.leaf == "newton" else "count"

    def _laplace_tree(self, structure: Structure, query: Callable[[], NDArray[np.int64]], factor: float) -> Tree:
        nothing = np.zeros((1, 1, 2), dtype=np.int64)
        size = laplace_values(self.settings, self.loss, self.bound, nothing)[1]

        def values() -> NDArray[np.int64]:
            return laplace_values(self.settings, self.loss, self.bound, query())[0]

        noisy = self.release("leaf", lambda cost: LaplaceSums(cost, size), values)
        clip = self.settings.leaf_clip
        weights = np.clip(noisy[None, :] / float(1 << SCORE_BITS), -clip, clip)
        return Tree(structure, self._quantised(weights, factor))

    def _quantised(self, weights: NDArray[np.float64], factor: float) -> NDArray[np.int32]:
        if self.settings.leaf == "average":
            return quantised(np.clip(weights, -1.0, 1.0), 1.0 / self.loops.trees)
        return quantised(weights, factor)

    def add(self, trees: list[Tree]) -> None:
        """Add released trees to the model, and widen the public bound of the scores by their largest weights."""
        self.trees += trees
        self.phase += [len(self.bin_edges) - 1] * len(trees)
        self.bound += sum(int(np.abs(tree.weights).max()) for tree in trees)
        self.aggregator.add(trees)

    def forest(self) -> Forest:
        """Return the model so far."""
        averages = self.settings.leaf == "average"
        return Forest(
            tuple(self.bin_edges), tuple(self.trees), tuple(self.phase), self.loss.n_outputs, self.loss.name, averages
        )
