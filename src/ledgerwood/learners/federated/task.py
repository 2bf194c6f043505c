r"""The public facts of a federated training, and what it will cost every party.

Only recipes whose questions are sums can be asked of many parties: a selection by score needs exact sums in one place.

**Noise.** Each party adds Skellam noise to its own sums, a share of the variance sized for the fewest honest parties
whose sum may be opened (threshold − colluding). Skellam is closed under sums, so the opened total carries at least
the planned variance; more parties only add noise.

**Sensitivity.** A party's sums are integers in steps of :math:`2^{-12}`. One record moves ``width`` coordinates of
them by a vector of L2 norm at most :math:`\Lambda`. Before noise they are divided by :math:`2^s` and rounded down,
which moves a coordinate by at most one more: L2 at most :math:`\Lambda / 2^s + \sqrt{width}`, L1 at most
:math:`\sqrt{width}` times that (Cauchy and Schwarz). The record lies with one party, so this is the sensitivity of
the total. Its cost is the Rényi curve of Skellam noise (Agarwal, Kairouz & Liu 2021).

**Modulus.** The total is opened modulo :math:`2^{bits}`. That is a function of the noisy total, so it costs no
privacy; it spoils an entry only if the total leaves :math:`\pm 2^{bits-1}`. With at most ``rows`` records a total is
at most :math:`2 \cdot rows \cdot 2^{12-s}` in absolute value, and Skellam noise of variance :math:`v` exceeds
:math:`t` with probability at most :math:`2 e^{-t^2 / (2 (v + t))}` (Bernstein): ``bits`` is chosen so that no entry
of the training is spoiled with probability :math:`1 - 10^{-9}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ledgerwood.accounting import Cost, Plan, Release, Skellam
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.trees.candidates import Domain
from ledgerwood.learners.trees.leaves import layout_of
from ledgerwood.learners.trees.plan import outline
from ledgerwood.learners.trees.recipes import recipe_settings
from ledgerwood.learners.trees.seam import GRADIENT_BITS
from ledgerwood.learners.trees.settings import Settings

__all__ = ["FederatedTask", "SkellamOf"]

_UNBOUNDED = 1 << 40
"""A bound of the scores that no training reaches: sensitivities at it hold in every round."""
_SPOILED = 1e-9
_VERSION = 1


@dataclass(frozen=True, slots=True)
class SkellamOf:
    """A cost template: Skellam noise whose standard deviation is ``ratio`` times the L2 sensitivity."""

    l2: float
    width: int
    neighbours: str

    def __call__(self, ratio: float) -> Cost:
        """Return the cost at that ratio."""
        return Skellam(
            variance=self.variance(ratio),
            l1_sensitivity=self.l2 * math.sqrt(self.width) * (1 + 2.0**-50),
            l2_sensitivity=self.l2,
            neighbours=self.neighbours,
        )

    def variance(self, ratio: float) -> float:
        """Return the variance of one coordinate, in coarse units."""
        return (self.l2 * ratio) ** 2


@dataclass(frozen=True)
class FederatedTask:
    """What all parties agree on before anyone looks at data.

    Parameters
    ----------
    schema
        Bounds or categories of every column, in the order of the columns, and the classes or the target's bounds.
        Nothing is
        learned from data here.
    columns
        The names of the features, in order.
    identities
        Node id to Ed25519 public key (hex).
    threshold, colluding
        The fewest parties whose sum is opened, and how many of them may work with the server.
    rows
        A public upper bound on the number of rows of all parties together.
    recipe, options
        The recipe and overrides of its components.
    epsilon, delta
        The guarantee for one record of one party, towards the server and everybody who sees the model.
    spare_rounds
        Rounds paid for in advance that a failed one may use.
    coarsen
        How many bits of the sums are rounded away before noise.
    seed
        Public randomness for splits and features (hex).

    Examples
    --------
    >>> schema = Schema(bounds={"age": (0, 100), "hours": (0, 99)}, classes=[0, 1])
    >>> task = FederatedTask(schema, ("age", "hours"), {1: "aa" * 32, 2: "bb" * 32, 3: "cc" * 32}, threshold=2,
    ...     rows=50_000, recipe="tr_cyc", options={"n_trees": 20, "batch": 10}, epsilon=1.0, delta=1e-6)
    >>> task.plan["leaf"].times, task.bits
    (20, 32)
    """

    schema: Schema
    columns: tuple[str | int, ...]
    identities: Mapping[int, str]
    threshold: int
    rows: int
    recipe: str = "tr_ih_ebm_batched"
    options: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 1.0
    delta: float = 1e-6
    colluding: int = 0
    spare_rounds: int = 0
    coarsen: int = 4
    seed: str = "00" * 32

    def __post_init__(self) -> None:
        for name in ("rows", "threshold"):
            if (
                isinstance(getattr(self, name), bool)
                or not isinstance(getattr(self, name), int)
                or getattr(self, name) < 1
            ):
                raise ParameterError(name, "be a whole number of at least 1", getattr(self, name))
        if not 0 <= self.coarsen <= 8:
            raise ParameterError("coarsen", "lie between 0 and 8", self.coarsen)
        if self.spare_rounds < 0:
            raise ParameterError("spare_rounds", "be at least 0", self.spare_rounds)
        known = {**dict(self.schema.bounds or {}), **dict(self.schema.categories or {})}
        missing = [name for name in self.columns if name not in known]
        if missing or not self.columns:
            raise ParameterError("schema", "declare bounds or categories of every column", missing)
        if self.schema.unit is not None:
            raise ParameterError(
                "schema", "have no unit: a person's rows may lie with several parties", self.schema.unit
            )
        _ = self.plan

    # ---- derived facts

    @cached_property
    def settings(self) -> Settings:
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
        laplace = settings.leaf in ("laplace", "noisy_average") or settings.candidates == "laplace_sketch"
        reason = (
            "needs exact scores in one place"
            if settings.selects
            else "adds Laplace noise"
            if laplace
            else "samples rows, and the server must not know which"
            if settings.rows < 1
            else None
        )
        if reason is not None:
            hint = "Take a recipe of sums: tr, tr_cyc, tr_ada, tr_ada_cyc, dp_ebm, dp_rf, feverless, pr, tr_ih_ebm"
            raise ParameterError(
                "recipe", f"ask for sums alone, under Gaussian-like noise: it {reason}", self.recipe, hint
            )
        return settings

    @cached_property
    def domain(self) -> Domain:
        """What the features may be."""
        bounds, categories = dict(self.schema.bounds or {}), dict(self.schema.categories or {})
        pairs = tuple(
            (float(low), float(high)) for low, high in (bounds.get(name, (0.0, 0.0)) for name in self.columns)
        )
        return Domain(pairs, tuple(len(categories.get(name, ())) for name in self.columns))

    def template(self, label: str) -> SkellamOf:
        """Return the cost template of a label of the plan."""
        settings, loss = self.settings, self.settings.make_loss()
        loops = settings.loops(len(self.columns))
        layout = layout_of(settings, loss, _UNBOUNDED, balanced=False)
        cells = 2 * loss.n_outputs if layout.channel == "curvature" else loss.n_outputs + 1
        if label == "sketch":
            size = 1.0 if settings.candidates == "quantiles" else float(loss.curvature_sum(_UNBOUNDED))
            width, cells = loops.sketch_width, 1
        else:
            size, width = layout.sensitivity, loops.split_width if label == "split" else 1
        pairs = 2 if settings.neighbours == "replace_one" else 1  # a record leaves one cell and enters another
        if label == "sketch":
            size *= math.sqrt(pairs)
        l2 = size * math.sqrt(width) / 2**self.coarsen + math.sqrt(pairs * cells * width)
        return SkellamOf(l2 * (1 + 2.0**-48), pairs * cells * width, settings.neighbours)

    @cached_property
    def plan(self) -> Plan:
        """What every party's ledger will let out: Skellam-noised sums, the spare rounds included."""
        loops = self.settings.loops(len(self.columns))
        per_round = {"sketch": 1, "leaf": loops.batch, "split": loops.splits // max(loops.rounds, 1)}
        releases = [
            Release(r.label, self.template(r.label), r.times + self.spare_rounds * per_round[r.label], r.share)
            for r in outline(self.settings, len(self.columns)).releases()
        ]
        return Plan(releases, neighbours=self.settings.neighbours).calibrate(self.epsilon, self.delta, method="rdp")

    @cached_property
    def loop_plan(self) -> Plan:
        """The same noise in the language of the training loop: Gaussian sums of equal standard deviation."""
        own = outline(self.settings, len(self.columns))
        items = []
        for release in own.releases():
            ratio = self.plan[release.label].scale
            assert ratio is not None
            items.append(release.with_scale(ratio * dict(release.fixed).get("sensitivity", 1.0)))
        return Plan(items, neighbours=self.settings.neighbours)

    def variance(self, label: str) -> float:
        """Return the variance of the opened totals of a label, in coarse units."""
        ratio = self.plan[label].scale
        assert ratio is not None
        return self.template(label).variance(ratio)

    @property
    def honest(self) -> int:
        """How many parties' noise surely counts."""
        return self.threshold - self.colluding

    @cached_property
    def bits(self) -> int:
        """The modulus on the wire: 32 or 40 bits an entry."""
        largest = 2 * self.rows * 2 ** (GRADIENT_BITS - self.coarsen) + len(self.identities)
        # More parties than the honest ones add noise too; all of it may come.
        v = max(self.variance(r.label) for r in self.plan.releases()) * len(self.identities) / self.honest
        log = math.log(2 * self.entries / _SPOILED)
        tail = log + math.sqrt(log * log + 2 * v * log)  # where the Bernstein bound falls below 1e-9 / entries
        for bits in (32, 40):
            if largest + tail < 2 ** (bits - 1):
                return bits
        raise ParameterError("rows", "be few enough for sums of 40 bits", self.rows, "Take a larger coarsen")

    @cached_property
    def entries(self) -> int:
        """A bound on how many numbers the training opens."""
        loops, settings = self.settings.loops(len(self.columns)), self.settings
        outputs = settings.make_loss().n_outputs + 1
        cells = 256 * len(self.columns) * 2 * outputs
        return loops.trees * (1 << settings.max_depth) * 2 * outputs + (loops.sketches + loops.splits * 256) * cells

    # ---- JSON

    def to_json(self) -> str:
        """Return the task as JSON; :meth:`from_json` gives back an equal one."""
        fields = {k: v for k, v in asdict(self).items() if k != "schema"}
        fields["identities"] = {str(k): v for k, v in self.identities.items()}
        return json.dumps({"version": _VERSION, **fields, "schema": json.loads(self.schema.to_json())}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> FederatedTask:
        """Read what :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
            if data.pop("version") != _VERSION:
                raise FormatError("a federated task of another version")
            schema = Schema.from_json(json.dumps(data.pop("schema")))
            identities = {int(k): str(v) for k, v in data.pop("identities").items()}
            return cls(schema=schema, identities=identities, columns=tuple(data.pop("columns")), **data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise FormatError(f"not a federated task: {type(error).__name__}") from error
