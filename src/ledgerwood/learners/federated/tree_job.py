"""What is trained: a loop that asks for sums, and the public metadata that price its queries.

A job knows its queries before any data is seen (:meth:`Job.outline`), opens a party's rows (:meth:`Job.rows`), and
runs its loop against any session (:meth:`Job.train`). The loops are those of the local learners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Plan
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column, Ints, Key
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Table, read_table
from ledgerwood.learners.trees.aggregator import (
    Aggregator,
    BinEdges,
    Channel,
    PartialTree,
    Sample,
    Structure,
    Task,
    Tree,
)
from ledgerwood.learners.trees.binning import FeatureDomain, domain_of, integer_labels
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.leaves import layout_of
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.plan import outline
from ledgerwood.learners.trees.recipes import recipe_settings
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = ["Job", "PendingSession", "Planned", "TreeJob", "declared_columns"]

SUMS = "tr, tr_cyc, tr_ada, tr_ada_cyc, dp_ebm, dp_ebm_newton, dp_rf, feverless, pr, tr_ih_ebm, boosted_adassp"


@dataclass(frozen=True, slots=True)
class Planned:
    """One label of a job.

    Parameters
    ----------
    label, times, share
        As in a plan.
    per_round
        How many releases of it one round of messages may hold.
    touched
        How many coordinates of a release one record can change.
    least
        The least L2 sensitivity, in fine steps, that a release of it may have.
    """

    label: str
    times: int
    share: float
    per_round: int
    touched: int
    least: float


class PendingSession(Protocol):
    """A release session whose answers may not be known yet."""

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Return the answer, or zeros if it is not known yet."""

    def sample_key(self) -> tuple[int, int]:
        """Never called: a job that samples rows is refused."""

    def require_answers(self) -> None:
        """Stop where the loop would act on an answer that is not there."""


class Job(Protocol):
    """A training that many parties can do together."""

    @property
    def resolution(self) -> int:
        """One record should move a sum by about 2**resolution coarse steps."""

    @property
    def neighbours(self) -> str:
        """The relation."""

    def outline(self) -> tuple[Planned, ...]:
        """Return what will be released."""

    @property
    def entries(self) -> int:
        """A bound on how many numbers the training opens."""

    def rows(self, table: Table, labels: Labels) -> Any:
        """Return a party's rows as the loop reads them."""

    def nobody(self) -> Any:
        """Return no rows, for the server."""

    def train(
        self, rows: Any, session: PendingSession, ratios: Mapping[str, float], keep: Callable[[Any], None]
    ) -> Any:
        """Run the loop with noise of ``ratios`` times the sensitivity; call ``keep`` with the model each round."""

    def untrained(self) -> Any:
        """Return the model before the first round."""

    def probabilities(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Return class probabilities."""


def declared_columns(schema: Schema, names: Sequence[Key]) -> tuple[Column, ...]:
    """Return the columns of these names, all of which the schema declares."""
    bounds, categories = dict(schema.bounds or {}), dict(schema.categories or {})
    return tuple(
        Column(name, "category", categories=tuple(categories[name]))
        if name in categories
        else Column(name, "number", bounds=bounds[name])
        for name in names
    )


@dataclass(frozen=True)
class TreeJob:
    """Boosted trees and forests by recipes whose queries are sums."""

    schema: Schema
    columns: tuple[str | int, ...]
    recipe: str
    options: tuple[tuple[str, Any], ...]
    seed: int

    @cached_property
    def settings(self) -> TreeSettings:
        """The components of the training."""
        options = dict(self.options)
        if isinstance(options.get("shares"), list):
            options["shares"] = tuple(options["shares"])
        if self.schema.classes is None:
            if self.schema.target_bounds is None:
                raise ParameterError("schema", "declare classes, or target_bounds", None)
            options["loss"] = "squared"
        elif len(self.schema.classes) > 2:
            options |= {"loss": "softmax", "n_classes": len(self.schema.classes)}
        settings = recipe_settings(self.recipe, **options, neighbours=str(self.schema.neighbours))
        reason = _not_sums(settings)
        if reason is not None:
            rule = f"ask for sums alone, under Gaussian-like noise: it {reason}"
            raise ParameterError("recipe", rule, self.recipe, f"Take a recipe of sums: {SUMS}")
        return settings

    @property
    def resolution(self) -> int:
        """A record touches few coordinates: little is lost to rounding."""
        return 8

    @property
    def neighbours(self) -> str:
        """The relation."""
        return self.settings.neighbours

    @cached_property
    def domain(self) -> FeatureDomain:
        """What the features may be."""
        return domain_of(declared_columns(self.schema, self.columns))

    def outline(self) -> tuple[Planned, ...]:
        """Return what will be released: sensitivities grow with the scores, so they are least at scores of zero."""
        settings, loss = self.settings, self.settings.make_loss()
        loops = settings.loops(len(self.columns))
        layout = layout_of(settings, loss, 0, balanced=False)
        numbers = 2 * loss.n_outputs if layout.channel == "hessian" else loss.n_outputs + 1
        pairs = 2 if settings.neighbours == "replace_one" else 1  # a record leaves one bin and enters another
        per_round = {"sketch": 1, "leaf": loops.batch, "split": loops.splits // max(loops.rounds, 1)}
        found = []
        for release in outline(settings, len(self.columns)).releases():
            if release.label == "sketch":
                size = 1.0 if settings.candidates == "quantiles" else float(loss.hessian_sum(0))
                least, touched = size * math.sqrt(pairs * loops.sketch_width), pairs * loops.sketch_width
            else:
                width = loops.split_width if release.label == "split" else 1
                least, touched = layout.sensitivity * math.sqrt(width), pairs * numbers * width
            share, label = float(release.share or 0.0), release.label
            found.append(Planned(label, release.times, share, per_round[label], touched, least))
        return tuple(found)

    @cached_property
    def entries(self) -> int:
        """A bound on how many numbers the training opens."""
        loops, settings = self.settings.loops(len(self.columns)), self.settings
        outputs = settings.make_loss().n_outputs + 1
        numbers = 256 * len(self.columns) * 2 * outputs
        return loops.trees * (1 << settings.max_depth) * 2 * outputs + (loops.sketches + loops.splits * 256) * numbers

    def rows(self, table: Table, labels: Labels) -> LocalAggregator:
        """Return a party's rows."""
        return LocalAggregator(table.values, integer_labels(labels, self.settings))

    def nobody(self) -> LocalAggregator:
        """Return no rows."""
        columns = tuple(np.empty(0, dtype=np.int32 if n else np.float32) for n in self.domain.categories)
        return LocalAggregator(columns, np.empty(0, dtype=np.int32))

    def train(
        self, rows: Any, session: PendingSession, ratios: Mapping[str, float], keep: Callable[[Any], None]
    ) -> Forest:
        """Run :func:`~ledgerwood.learners.trees.boosting.boost`."""
        plan = self.plan(ratios)
        rng = np.random.default_rng(self.seed)
        return boost(
            self.settings, self.domain, _QueryGate(rows, session), session, plan, rng=rng, keep=keep, balanced=False
        )

    def plan(self, ratios: Mapping[str, float]) -> Plan:
        """Return the plan of the loop: Gaussian sums whose noise is ``ratios`` times their sensitivity."""
        own = outline(self.settings, len(self.columns))
        items = [r.with_scale(ratios[r.label] * dict(r.fixed).get("sensitivity", 1.0)) for r in own.releases()]
        return Plan(items, neighbours=self.settings.neighbours)

    def untrained(self) -> Forest:
        """Return a forest without trees."""
        settings = self.settings
        return Forest((), (), (), settings.make_loss().n_outputs, settings.loss, settings.leaf == "average")

    def probabilities(self, model: Forest, X: Any) -> NDArray[np.float64]:
        """Return class probabilities."""
        return model.probabilities(read_table(X, self.schema).values)


def _not_sums(settings: TreeSettings) -> str | None:
    """Return why a training cannot be asked of many parties, or None."""
    if settings.selects:
        return "selects splits by the exponential mechanism, which needs exact scores in one place"
    if settings.leaf in ("laplace", "noisy_average") or settings.candidates == "laplace_sketch":
        return "adds Laplace noise"
    if settings.rows < 1:
        return "samples rows, and the server must not know which"
    return None


@dataclass
class _QueryGate:
    """The aggregator, closed to queries that depend on answers not yet known."""

    inner: Aggregator
    session: PendingSession

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    def start(self, task: Task) -> None:
        self.inner.start(task)

    def bin(self, edges: BinEdges) -> None:
        self.session.require_answers()
        self.inner.bin(edges)

    def sample(self, sample: Sample | None) -> None:
        raise ParameterError("rows", "be 1 in a federated training", sample)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        if tree.depth:  # its splits came from answers
            self.session.require_answers()
        return self.inner.histogram(tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        self.session.require_answers()
        return self.inner.leaf_sums(trees, channel)

    def add(self, trees: Sequence[Tree]) -> None:
        self.session.require_answers()
        self.inner.add(trees)
