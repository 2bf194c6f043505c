"""What the linear estimators share: settings from parameters, plan from settings, training on exact sums, export."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.engines.estimator import PartedEstimator
from ledgerwood.learners.engines.parted import PartedTable
from ledgerwood.learners.engines.resting import RestingLinear
from ledgerwood.learners.engines.sums import LinearParts
from ledgerwood.learners.linear import export
from ledgerwood.learners.linear.boost import GRADIENTS, Settings, boost, plan_linear
from ledgerwood.learners.linear.defaults import automatic_clip, automatic_loss, automatic_rounds, automatic_shares
from ledgerwood.learners.linear.encoding import MAX_BINS, Encoder
from ledgerwood.learners.linear.losses import loss_named
from ledgerwood.learners.linear.rows import CELL_ONE, MAX_CLIP, MAX_ROWS
from ledgerwood.learners.linear.seam import LinearRecords, LinearSums, encoded_rows
from ledgerwood.learners.linear.sensitivities import RowBound

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan
    from ledgerwood.learners.door import Door
    from ledgerwood.learners.facts import PublicFacts
    from ledgerwood.learners.tables import Labels, Table

__all__ = ["LinearModel", "Shares"]

Shares = tuple[float, float, float] | str


class LinearModel(PartedEstimator):
    """Plan, training and export of a private linear model; parameters that a subclass leaves out have these values."""

    _most_rows = MAX_ROWS
    loss: str = "auto"
    n_rounds: int | str = 1
    step_size: float | str = "auto"
    gradient_clip: float | str = "auto"
    clip_decay: float = 1.0
    ridge: float = 1.0
    shares: Shares = "auto"
    bins: int | None = None
    row_norm: float | None = None
    fit_intercept: bool = True
    accounting: str = "tight"

    weights_: NDArray[np.float64]
    encoder_: Encoder

    # ---- what PrivateEstimator asks

    def _plan(self, facts: PublicFacts) -> Plan:
        rounds = automatic_rounds(facts) if self.n_rounds == "auto" else _whole("n_rounds", self.n_rounds)
        return plan_linear(self._settings(rounds, facts.n_outputs), facts.neighbours)

    def _train(self, table: Table, labels: Labels, plan: Plan, door: Door) -> Mapping[str, Any]:
        encoder = Encoder(table.columns, self.bins, self.fit_intercept, self.row_norm)
        bound = RowBound(encoder.square_bound, str(plan.neighbours))
        classes = len(labels.classes or ())
        outputs = classes if classes > 2 else 1
        known: dict[str, Any] = {"encoder_": encoder}
        if labels.bounds is not None:
            known["target_bounds_"] = labels.bounds

        def fitted(weights: NDArray[np.float64]) -> dict[str, Any]:
            return {"weights_": weights, **known}

        sums = RestingLinear(lambda: self._sums(encoder, table, labels), encoder.width, lambda: door.recalling)
        weights = boost(
            sums, bound, self._settings(plan[GRADIENTS].times, outputs), plan, door, outputs,
            after_round=lambda so_far: door.keep(fitted(so_far)),
        )  # fmt: skip
        return fitted(weights)

    def _sums(self, encoder: Encoder, table: Table, labels: Labels) -> LinearSums:
        """Return who answers for the records of this fit."""
        if isinstance(table, PartedTable):
            about = encoder, table.target, labels.classes, labels.bounds
            records = [LinearRecords(part, *about, rows) for part, _, rows in table.parts()]
            return LinearParts(self._engine.sums(records), encoder.width)
        return encoded_rows(encoder, table, labels)

    # ---- reading the fitted model

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the columns of :meth:`design`, per unit of a number and per indicator; one row per output."""
        return export.coefficients(self)[0]

    @property
    def intercept_(self) -> Any:
        """Intercepts that belong to ``coef_``."""
        return export.coefficients(self)[1]

    def design(self, X: Any) -> NDArray[np.float64]:
        """Return the matrix that ``coef_`` multiplies: clipped numbers, indicators of categories or bins."""
        table = self._table(X)
        return self.encoder_.design(table)

    def to_json(self) -> str:
        """Return the model as plain JSON: released numbers and public facts; see :func:`to_sklearn`."""
        return export.to_json(self)

    # ---- parameters

    @property
    def _loss_name(self) -> str:
        if self.loss == "auto":
            return automatic_loss(self._task)
        if self._task == "regression" and self.loss != "squared":
            raise ParameterError("loss", "be squared for regression", self.loss)
        return self.loss

    def _settings(self, rounds: int, outputs: int) -> Settings:
        loss = loss_named(self._loss_name)
        if self.accounting not in ("tight", "paper"):
            raise ParameterError("accounting", "be 'tight' or 'paper'", self.accounting)
        paper = self.accounting == "paper"
        step: Any = self.step_size
        if step == "auto":
            step = 1.0 if paper else 1 / loss.curvature
        clip: Any = self.gradient_clip
        if clip == "auto":
            coded = self._task == "classification"
            clip = (
                math.sqrt(outputs) if paper else automatic_clip(loss.name, coded=coded, rounds=rounds, outputs=outputs)
            )
        if self.bins is not None and not 2 <= _whole("bins", self.bins) <= MAX_BINS:
            raise ParameterError("bins", f"lie in 2 .. {MAX_BINS}, or be None", self.bins)
        if self.row_norm is not None and _positive("row_norm", self.row_norm) < 1 / CELL_ONE:
            raise ParameterError("row_norm", "be at least 2**-12, one step of a cell", self.row_norm)
        return Settings(
            loss, rounds, self._resolved_shares(paper, rounds), _positive("step_size", step),
            _positive("gradient_clip", clip, MAX_CLIP), _positive("clip_decay", self.clip_decay, 1.0),
            _positive("ridge", self.ridge), paper,
        )  # fmt: skip

    def _resolved_shares(self, paper: bool, rounds: int) -> tuple[float, float, float]:
        if isinstance(self.shares, str):
            if self.shares != "auto":
                raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares)
            return (1.0, 1.0, 1.0) if paper else automatic_shares(rounds)
        try:
            a, b, c = (float(share) for share in self.shares)
        except (TypeError, ValueError):
            raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares) from None
        if not (0 < a < math.inf and 0 < b < math.inf and 0 <= c < math.inf) or (c > 0 and not paper):
            raise ParameterError(
                "shares", "be positive, the last one 0 unless accounting='paper'", self.shares,
                "Only the paper's ridge uses the smallest eigenvalue",
            )  # fmt: skip
        return a, b, c


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(name, "be a whole number of at least 1", value)
    return int(value)


def _positive(name: str, value: Any, most: float = math.inf) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= most or value == math.inf:
        limit = "" if most == math.inf else f" of at most {most:g}"
        raise ParameterError(name, f"be a positive finite number{limit}", value)
    return float(value)
