"""Three levers of the literature, tried with a prototype of ``recipe="auto"`` on development splits.

    python -m benchmarks.auto.levers --data DIR [--splits 8]

The prototype trains the grids of the automatic choice with the library's own candidates, structures, integer pairs and
leaf weights, in numpy and with continuous Gaussian noise, which can be shaped at will. It is no mechanism: nothing here
is released. Results go to ``levers.jsonl``; the notebook has the verdicts.

* individual filter: a record's squared norms are added up, and it is left out (or paced) when its own budget is spent;
* non-spherical noise: other weights of gradient against hessian, of early against late trees, of main effects against
  interactions;
* hierarchical estimate: leaf weights as the posterior mean under a prior that ties neighbouring intervals, level by
  level.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.auto.problems import load
from ledgerwood.learners.trees.aggregator import ONE, BinEdges, Structure
from ledgerwood.learners.trees.binning import FeatureDomain, mixed_bin_edges
from ledgerwood.learners.trees.grower import grid_tree
from ledgerwood.learners.trees.leaves import weights_of
from ledgerwood.learners.trees.local_aggregator import bin_columns
from ledgerwood.learners.trees.recipes import choose_trees, signal_to_noise
from ledgerwood.learners.trees.settings import TreeSettings

RESULTS = Path(__file__).with_name("levers.jsonl")
FIRST = 2000
"""Development splits: seeds 2000 and up, used by nothing else."""


@dataclass(frozen=True)
class Lever:
    """What is changed.

    Parameters
    ----------
    options
        Settings of the trees that differ from the automatic ones.
    noise
        The noise is multiplied by this; below 1 it is paid for by the filter, or by nobody (``filter="none"``).
    filter
        ``drop``: a record whose squared norms exceed the budget is left out from then on; ``pace``: it is shortened so
        that the rest lasts; ``none``: no record is touched, which bounds the gain from above; ``mean``: as none, with
        the noise that the mean record would need, the most that any individual accounting could hope for.
    weight
        Gradient and hessian are balanced for a leaf weight of this size (0.5 in the library).
    late
        The last tree has this times the squared parameter of the first, in a straight line between.
    interactions
        Trees of several features have this times the squared parameter of the others.
    prior
        None, or (correlation, scale): intervals of a number have a prior covariance of that correlation between
        siblings of the finest level, its square one level up, and so on; ``scale`` is the standard deviation.
    """

    options: tuple[tuple[str, Any], ...] = ()
    noise: float = 1.0
    filter: str = "none"
    weight: float = 0.5
    late: float = 1.0
    interactions: float = 1.0
    prior: tuple[float, float] | None = None


LEVERS: dict[str, Lever] = {
    "auto": Lever(),
    "filter, bound: the mean record pays": Lever(filter="mean"),
    "filter, noise .9": Lever(noise=0.9, filter="drop"),
    "filter, noise .8": Lever(noise=0.8, filter="drop"),
    "filter, clip .3, noise .8": Lever((("gradient_clip", 0.3),), noise=0.8, filter="drop"),
    "paced, noise .8": Lever(noise=0.8, filter="pace"),
    "paced, noise .7": Lever(noise=0.7, filter="pace"),
    "paced, clip .7, noise .7": Lever((("gradient_clip", 0.7),), noise=0.7, filter="pace"),
    "weight .125": Lever(weight=0.125),
    "weight 2": Lever(weight=2.0),
    "late trees x 2": Lever(late=2.0),
    "late trees x 4": Lever(late=4.0),
    "late trees x .25": Lever(late=0.25),
    "interactions x 2": Lever(interactions=2.0),
    "prior .5, 1": Lever(prior=(0.5, 1.0)),
    "prior .5, 2": Lever(prior=(0.5, 2.0)),
    "prior .3, 1": Lever(prior=(0.3, 1.0)),
    "prior .3, 2": Lever(prior=(0.3, 2.0)),
    "prior .8, 2": Lever(prior=(0.8, 2.0)),
    "prior .0, 2": Lever(prior=(0.0, 2.0)),
    "16 intervals": Lever((("max_depth", 4),)),
    "prior .5, 1, 16 intervals": Lever((("max_depth", 4),), prior=(0.5, 1.0)),
    "prior .5, 2, 16 intervals": Lever((("max_depth", 4),), prior=(0.5, 2.0)),
    "prior .8, 2, 32 intervals": Lever((("max_depth", 5),), prior=(0.8, 2.0)),
}


def evaluate(name: str, problem_name: str, epsilon: float, split: int, folder: str) -> dict[str, Any]:
    """Train with a lever on a split and return the test AUC."""
    from sklearn.metrics import roc_auc_score

    problem = load(problem_name, folder)
    X, y, X_test, y_test = problem.split(split)
    codes = {c: list(v) for c, v in problem.schema.categories.items()}
    bounds = problem.schema.bounds
    domain = FeatureDomain(
        tuple(tuple(map(float, bounds.get(c, (0.0, 0.0)))) for c in X.columns),
        tuple(len(codes.get(c, ())) for c in X.columns),
    )
    edges = mixed_bin_edges(domain, 160)
    rng = np.random.default_rng([split, 77])
    trainer = Trainer(LEVERS[name], len(y), epsilon, _cells(X, edges, codes), y.astype(int), edges)
    scores = trainer.train(_cells(X_test, edges, codes), rng)
    found = {"lever": name, "problem": problem_name, "epsilon": epsilon, "split": split}
    return {**found, "score": round(float(roc_auc_score(y_test, scores)), 5), "left": round(trainer.left, 3)}


def _cells(X: Any, edges: BinEdges, categories: dict[str, list[Any]]) -> NDArray[np.uint8]:
    columns = [
        np.array(X[c].map({v: i for i, v in enumerate(categories[c])}).fillna(-1), dtype=np.int32)
        if c in categories
        else X[c].to_numpy(dtype=np.float32)
        for c in X.columns
    ]
    cells = np.empty((len(columns), len(X)), dtype=np.uint8)
    bin_columns(columns, edges, 0, len(X), cells)
    return cells


def leaf_tables(tree: Structure) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the one or two features of a grid and what each code adds to the number of the leaf, ``[2, 256]``."""
    names = list(dict.fromkeys(tree.feature.tolist()))
    tables = np.zeros((2, 256), dtype=np.int64)
    every = np.arange(256)
    for place, name in enumerate(names):
        node = np.zeros(256, dtype=np.int64)
        for level in range(tree.depth):
            mine = tree.feature[(1 << level) - 1] == name  # other features: any way, their bits are not read
            right = 1 - (tree.left[node, every] != 0) if mine else np.zeros(256, dtype=np.int64)
            tables[place] += right << (tree.depth - 1 - level)
            node = 2 * node + 1 + right
    return np.array([names[0], names[-1]]), tables


@njit(cache=True)
def add_weights(cells, features, tables, weights, scores):  # type: ignore[no-untyped-def]
    """Add the weights of a tree to the scores."""
    first, second = cells[features[0]], cells[features[1]]
    for i in range(len(scores)):
        scores[i] += weights[tables[0, first[i]] + tables[1, second[i]]]


@njit(cache=True)
def sums(cells, features, tables, scores, y, pairs, a, b, price, budget, rest, mode, spent, out):  # type: ignore[no-untyped-def]
    """Sum the pairs of each leaf; return the mean cost of a record and the share that takes part.

    ``mode`` 0: all; 1: those whose squared costs stay within the budget; 2: shortened to ``rest`` of what is left.
    """
    first, second = cells[features[0]], cells[features[1]]
    mean = inside = 0.0
    for i in range(len(y)):
        place = min(max((((int(np.floor(scores[i] * 65536.0 + 0.5)) + 128) >> 8) + 2048), 0), 4096)
        g, h = float(pairs[y[i], place, 0]), float(pairs[y[i], place, 1])
        cost = (g * g * a * a + h * h * b * b) * price
        mean += cost
        keep = 1.0
        if mode == 1 and spent[i] + cost > budget:
            keep = 0.0
        elif mode == 2:
            allowed = max(budget - spent[i], 0.0) * rest
            if cost > allowed:
                keep = (allowed / cost) ** 0.5
        spent[i] += cost * keep * keep
        inside += keep
        leaf = tables[0, first[i]] + tables[1, second[i]]
        out[leaf, 0] += keep * g
        out[leaf, 1] += keep * h
    return mean / len(y), inside / len(y)


class Trainer:
    """The automatic choice for two classes, in floats, with a lever."""

    def __init__(
        self, lever: Lever, rows: int, epsilon: float, cells: NDArray[np.uint8], y: NDArray[np.int64], edges: BinEdges
    ) -> None:
        self.lever, self.cells, self.y, self.edges = lever, cells, y, edges
        chosen = choose_trees(n_rows=rows, n_features=len(cells), epsilon=epsilon, delta=1 / rows).settings
        assert chosen is not None
        self.settings: TreeSettings = chosen.with_options(**dict(lever.options))
        self.mu = signal_to_noise(rows, epsilon, 1 / rows) / rows
        self.loss = self.settings.make_loss()
        self.turn: list[int] = []
        self.tabled: dict[int, tuple[int, int, float]] = {}
        self.left = 1.0

    def _best(self, steps: int) -> tuple[int, int, float]:
        """Return the factors of gradient and hessian and the norm of the largest pair, for the lever's weight."""
        kappa = float(self.loss.kappa)
        best = None
        for part in range(1, 9):
            square = self.loss.pair_square(steps, "add_remove", factors=(8, part))
            noise = square * (1 + (self.lever.weight * 8 / (part * kappa)) ** 2)
            if best is None or noise < best[0] * (1 - 1e-12):
                best = noise, part, square
        assert best is not None
        return 8, best[1], float(np.sqrt(best[2]))

    def factors(self, bound: float) -> tuple[int, int, float]:
        """Return the same at scores within the bound, by steps that are tabled."""
        steps = min(-(-int(bound * (1 << 16)) // 2048) * 2048, 8 << 16)
        if steps not in self.tabled:
            self.tabled[steps] = self._best(steps)
        return self.tabled[steps]

    def train(self, test: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the scores of the test records."""
        s, lever = self.settings, self.lever
        n, trees = len(self.y), s.n_trees
        parts = np.array(
            [
                (1 + (lever.late - 1) * t / max(1, trees - 1)) * (lever.interactions if self.interacts(t) else 1.0)
                for t in range(trees)
            ]
        )
        mus = self.mu * np.sqrt(parts / parts.sum())
        F, out, bound = np.zeros(n), np.zeros(test.shape[1]), 0.0
        spent = np.zeros(n)  # in squared parameters
        budget = self.mu**2  # of each record, whatever the noise
        mode = {"none": 0, "mean": 0, "drop": 1, "pace": 2}[lever.filter]
        for t in range(trees):
            features, depth = self.features(t, rng)
            tree = grid_tree(self.edges, features, depth, rng)
            where, tables = leaf_tables(tree)
            a, b, most = self.factors(bound)
            price = (mus[t] / (lever.noise * most)) ** 2
            rest = parts[t] / parts[t:].sum()
            exact = np.zeros((1 << depth, 2))
            pairs = self.loss.task.pairs
            mean, self.left = sums(
                self.cells, where, tables, F, self.y, pairs, a, b, price, budget, rest, mode, spent, exact
            )  # fmt: skip
            noise = float(np.sqrt(mean)) / mus[t] if lever.filter == "mean" else lever.noise
            sigma = noise * most / mus[t]
            G, H = (exact + rng.normal(size=exact.shape) * np.array([sigma / a, sigma / b])).T
            w = self.weights(G / ONE, H / (ONE * float(self.loss.kappa)), sigma / (a * ONE), features)
            w = np.rint(s.learning_rate * w * (1 << 16)) / (1 << 16)
            add_weights(self.cells, where, tables, w, F)
            add_weights(test, where, tables, w, out)
            bound += float(np.abs(w).max())
        return out

    def weights(
        self, G: NDArray[np.float64], H: NDArray[np.float64], sigma: float, features: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Return leaf weights; with a prior, those of an ordered feature by its posterior mean."""
        if self.lever.prior is None or len(features) > 1 or self.edges.categories[int(features[0])]:
            return weights_of(self.settings, G, H, sigma)
        r, tau = self.lever.prior
        place = np.arange(len(G))
        apart = np.array([[int(i ^ j).bit_length() for j in place] for i in place])
        K = tau**2 * np.where(apart == 0, 1.0, r**apart)
        D = np.diag(np.maximum(H, 0.0))
        w = -K @ D @ np.linalg.solve(D @ K @ D + sigma**2 * np.eye(len(G)), G)
        whole = float(np.sum(G * G))
        kept = max(0.0, 1 - self.settings.shrink * len(G) * sigma**2 / whole)
        return np.clip(w * kept, -self.settings.leaf_clip, self.settings.leaf_clip)

    def interacts(self, tree: int) -> bool:
        """Whether a tree takes several features."""
        before, after = (self.settings.interactions_before(t, self.settings.n_trees) for t in (tree, tree + 1))
        return after > before

    def features(self, tree: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], int]:
        """Return the features of a tree and its depth."""
        m = len(self.cells)
        if self.interacts(tree):
            return rng.permutation(m)[: self.settings.interaction_order].astype(
                np.int32
            ), self.settings.interaction_depth
        if not self.turn:
            self.turn = rng.permutation(m).tolist()
        return np.array([self.turn.pop()], dtype=np.int32), self.settings.max_depth


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data")
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--only", default="", help="levers whose name contains this")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    done = {(d["lever"], d["problem"], d["epsilon"], d["split"]): d for d in lines}
    for split in range(FIRST, FIRST + arguments.splits):
        for name in LEVERS:
            for problem in ("adult", "bank"):
                for epsilon in (0.1, 0.5, 1.0):
                    if (name, problem, epsilon, split) in done or arguments.only not in name:
                        continue
                    line = evaluate(name, problem, epsilon, split, arguments.data)
                    done[name, problem, epsilon, split] = line
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    for name in LEVERS:
        cells = []
        for problem in ("adult", "bank"):
            for epsilon in (0.1, 0.5, 1.0):
                pairs = [
                    (d["score"], done["auto", problem, epsilon, split]["score"])
                    for (lever, p, e, split), d in done.items()
                    if (lever, p, e) == (name, problem, epsilon) and ("auto", problem, epsilon, split) in done
                ]
                if pairs:
                    gap = np.subtract(*np.array(pairs).T)
                    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0
                    cells.append(f"{np.mean([p[0] for p in pairs]):.4f} {gap.mean():+.4f}±{error:.4f}")
        print(f"{name:38s}", " | ".join(cells))


if __name__ == "__main__":
    main()
