"""Boosted AdaSSP of many parties: X'X and the sums of gradient times row, by the loop of the linear learners.

The ridge takes what it knows of the smallest eigenvalue from the noisy X'X: an eigenvalue of the exact one is not a
sum. X'X and the first gradients depend on no answer, so T rounds of boosting take T rounds of messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _checks
from ledgerwood.accounting import Plan
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Table, read_table
from ledgerwood.learners.federated.tree_job import PendingSession, Planned, declared_columns
from ledgerwood.learners.linear.aggregator import encoded_rows
from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.encoding import RowEncoder
from ledgerwood.learners.linear.integer_rows import MAX_CLIP, IntegerRows
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, loss_named
from ledgerwood.learners.linear.plan import (
    CROSS_PRODUCTS,
    GRADIENTS,
    LinearSettings,
    automatic_clip,
    automatic_shares,
    plan_linear,
)
from ledgerwood.learners.linear.sensitivity import RowBound

__all__ = ["MOST_ROUNDS", "RECIPE", "LinearJob"]

RECIPE = "boosted_adassp"
MOST_ROUNDS = 10
_USUAL = {
    "loss": "logistic", "n_rounds": 5, "bins": 8, "ridge": 1.0, "step_size": None, "gradient_clip": None,
    "clip_decay": 1.0, "accounting": "tight",
}  # fmt: skip


@dataclass(frozen=True)
class LinearJob:
    """A linear model of classes, or of a number between public bounds.

    ``options``: ``loss``, ``n_rounds`` (at most 10), ``bins``, ``ridge``, ``step_size``, ``gradient_clip``,
    ``clip_decay`` and ``accounting`` ("tight", or "paper" for AdaSSP's own ridge), as in
    :class:`~ledgerwood.learners.linear.BoostedAdaSSPClassifier`.
    """

    schema: Schema
    columns: tuple[str | int, ...]
    options: tuple[tuple[str, Any], ...]

    @cached_property
    def settings(self) -> LinearSettings:
        """The public choices of the loop."""
        unknown = sorted(dict(self.options).keys() - _USUAL.keys())
        if unknown:
            raise ParameterError("options", f"be among {', '.join(sorted(_USUAL))} for {RECIPE}", unknown)
        given = {**_USUAL, **({} if self._coded else {"loss": "squared"}), **dict(self.options)}
        rounds, paper = given["n_rounds"], given["accounting"] == "paper"
        rounds = _checks.integer("n_rounds", rounds, 1, MOST_ROUNDS, hint="Each is a round of messages")
        loss = loss_named(str(given["loss"]))
        clip = given["gradient_clip"]
        if clip is None:
            clip = automatic_clip(loss.name, coded=self._coded, rounds=rounds, outputs=self.outputs)
            clip = math.sqrt(self.outputs) if paper else clip
        step = given["step_size"]
        if step is None:
            step = 1.0 if paper else 1 / loss.hessian_bound
        shares = (1.0, 1.0, 0.0) if paper else automatic_shares(rounds)
        sizes = {"step_size": step, "gradient_clip": clip, "clip_decay": given["clip_decay"], "ridge": given["ridge"]}
        for name, value in sizes.items():
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ParameterError(name, "be a positive finite number", value)
        if clip > MAX_CLIP:
            raise ParameterError("gradient_clip", f"be at most {MAX_CLIP:g}", clip)
        if loss.name == "squared" and clip > math.sqrt(self.outputs):
            # Beyond it the loop forms residuals from X'y and X'X and rounds them, which parties would do one by one.
            raise ParameterError("gradient_clip", f"be at most {math.sqrt(self.outputs):g} for the squared loss", clip)
        decay, ridge = float(given["clip_decay"]), float(given["ridge"])
        return LinearSettings(loss, rounds, shares, float(step), float(clip), decay, ridge, paper)

    @property
    def _coded(self) -> bool:
        return self.schema.target_bounds is None

    @property
    def outputs(self) -> int:
        """Scores of a record: one for two classes, one for each of more."""
        classes = len(self.schema.classes or ())
        if self._coded and classes < 2:
            raise ParameterError("schema", "declare classes, or target_bounds", self.schema.classes)
        return classes if classes > 2 else 1

    @property
    def resolution(self) -> int:
        """A record touches every pair of its columns in X'X: finer steps than for trees."""
        return 11

    @property
    def neighbours(self) -> str:
        """The relation."""
        return str(self.schema.neighbours)

    @cached_property
    def encoder(self) -> RowEncoder:
        """The public map from columns to rows."""
        columns = declared_columns(self.schema, self.columns)
        return RowEncoder(columns, {**_USUAL, **dict(self.options)}["bins"])

    @property
    def _bound(self) -> RowBound:
        return RowBound(self.encoder.square_bound, self.neighbours)

    def outline(self) -> tuple[Planned, ...]:
        """Return what will be released: X'X once, gradients in every round."""
        settings, bound, outputs = self.settings, self._bound, self.outputs
        pairs = 2 if self.neighbours == "replace_one" else 1
        entries = len(self.columns) + 1  # a row has one entry for every column of the table, and the intercept
        clip = settings.clip * min(1.0, settings.clip_decay) ** (settings.rounds - 1)
        least = max(1, math.ceil(clip * GRADIENT_ONE))
        if not settings.paper:
            least = min(least, settings.loss.gradient_bound(bound.norm / ENTRY_ONE, 0.0, outputs))
        touched = {CROSS_PRODUCTS: pairs * entries * (entries + 1) // 2, GRADIENTS: pairs * entries * outputs}
        sizes = {CROSS_PRODUCTS: bound.gram(plain=settings.paper), GRADIENTS: bound.gradient_sum(least)}
        return tuple(
            Planned(r.label, r.times, float(r.share or 0.0), 1, touched[r.label], sizes[r.label])
            for r in plan_linear(settings, self.neighbours).releases()
        )

    @property
    def entries(self) -> int:
        """How many numbers the training opens."""
        columns = self.encoder.width
        return columns * (columns + 1) // 2 + self.settings.rounds * self.outputs * columns

    def rows(self, table: Table, labels: Labels) -> IntegerRows:
        """Return a party's rows."""
        return encoded_rows(self.encoder, table, labels)

    def nobody(self) -> IntegerRows:
        """Return no rows."""
        none = np.zeros(0, dtype=np.int64)
        empty = IntegerRows(
            np.zeros(1, dtype=np.uint64), np.zeros(0, dtype=np.uint16), np.zeros(0, dtype=np.int16),
            self.encoder.width, ENTRY_ONE, none, self._coded,
        )  # fmt: skip
        return empty

    def train(
        self, rows: Any, session: PendingSession, ratios: Mapping[str, float], keep: Callable[[Any], None]
    ) -> NDArray[np.float64]:
        """Run :func:`~ledgerwood.learners.linear.boosting.boost`."""
        own = plan_linear(self.settings, self.neighbours)
        plan = Plan([r.with_scale(ratios[r.label]) for r in own.releases()], neighbours=self.neighbours)
        return boost(rows, self._bound, self.settings, plan, _Turns(session), self.outputs, after_round=keep)

    def untrained(self) -> NDArray[np.float64]:
        """Return weights of zero."""
        return np.zeros((self.outputs, self.encoder.width))

    def probabilities(self, model: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
        """Return class probabilities; those of a squared or hinge score are ordered, not calibrated."""
        return self.settings.loss.probabilities(self.encoder.scores(read_table(X, self.schema), model))


@dataclass
class _Turns:
    """The session, closed to queries that depend on answers not yet known: all gradients but the first."""

    session: PendingSession
    gradients_released: int = 0

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        if label == GRADIENTS:
            if self.gradients_released:
                self.session.require_answers()
            self.gradients_released += 1
        return self.session.release(mechanism, value, label)
