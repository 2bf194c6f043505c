r"""The public metadata of a federated training, and what it will cost every party.

Only recipes whose queries are sums can be trained by many parties: a selection by score needs exact sums in one place.

**Who adds the noise** (``noise``):

``shares``
    Each party adds Skellam noise to its own sums, a share of the variance sized for the fewest honest parties whose
    sum may be opened (threshold − colluding). Skellam is closed under sums, so the opened total carries at least the
    planned variance; more parties only add noise. Nobody sees an exact sum. Price: Rényi accounting
    (:mod:`ledgerwood.learners.federated.distributed_noise`).
``central``
    The server opens exact sums of at least ``threshold`` parties and adds normal noise to them. It must be trusted
    with them. Price: exact Gaussian accounting.
``local``
    Every record adds the whole noise by itself (a party adds what its rows together would): no one need be trusted
    beyond the party. The baseline of Maddock et al. 2022, section 5.3.2; one record may be replaced, their number is
    public.

**Modulus.** The total is opened modulo :math:`2^{bits}`. That is a function of the noisy total, so it costs no
privacy; it spoils an entry only if the total leaves :math:`\pm 2^{bits-1}`. A record moves a coordinate by less than
:math:`2^{resolution+1} + \sqrt{touched}` coarse steps, so ``rows`` records stay below ``rows`` times that, and Skellam
noise of variance :math:`v` exceeds :math:`t` with probability at most :math:`2 e^{-t^2 / (2 (v + t))}` (Bernstein):
``bits`` is chosen so that no entry of the training is spoiled with probability :math:`1 - 10^{-9}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ledgerwood import _checks, _files
from ledgerwood.accounting import Gaussian, Plan, Release
from ledgerwood.errors import FormatError, LedgerwoodError, ParameterError
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.federated.distributed_noise import NoiseGrid, SkellamOf
from ledgerwood.learners.federated.linear_job import RECIPE, LinearJob
from ledgerwood.learners.federated.tree_job import Job, TreeJob

__all__ = ["NOISES", "FederatedTask"]

NOISES = ("shares", "central", "local")
_SPOILED = 1e-9
_VERSION = 2


@dataclass(frozen=True)
class FederatedTask:
    """What all parties agree on before anyone looks at data.

    Parameters
    ----------
    schema
        Bounds or categories of every column, in the order of the columns, and the classes or the target's bounds.
        Nothing is learned from data here.
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
    noise
        ``"shares"`` of every party, ``"central"`` by a trusted server, or ``"local"`` by every record.
    spare_rounds
        Rounds paid for in advance that a failed one may use.
    resolution
        Sums are rounded to steps of which one record moves them by about 2**resolution before noise. By default what
        the job asks for: rounding then costs less than one part in a hundred of the noise.
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
    noise: str = "shares"
    colluding: int = 0
    spare_rounds: int = 0
    resolution: int | None = None
    seed: str = "00" * 32

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("threshold", 1), ("colluding", 0), ("spare_rounds", 0), ("resolution", 0)):
            value = getattr(self, name)
            if value is None and name == "resolution":
                continue
            object.__setattr__(self, name, _checks.integer(name, value, least))
        if self.noise not in NOISES:
            raise ParameterError("noise", f"be one of {', '.join(NOISES)}", self.noise)
        if self.honest < 1:
            raise ParameterError("colluding", "be less than the threshold", self.colluding)
        known = {**dict(self.schema.bounds or {}), **dict(self.schema.categories or {})}
        missing = [name for name in self.columns if name not in known]
        if missing or not self.columns:
            raise ParameterError("schema", "declare bounds or categories of every column", missing)
        if self.schema.unit is not None:
            rule = "have no unit: a person's rows may lie with several parties"
            raise ParameterError("schema", rule, self.schema.unit)
        if self.noise == "local" and str(self.schema.neighbours) != "replace_one":
            rule = "be replace_one where every record adds its own noise"
            raise ParameterError("neighbours", rule, str(self.schema.neighbours))
        _ = self.plan

    # ---- derived

    @cached_property
    def job(self) -> Job:
        """What is trained."""
        options = tuple(sorted((name, value) for name, value in self.options.items()))
        if self.recipe == RECIPE:
            return LinearJob(self.schema, self.columns, options)
        return TreeJob(self.schema, self.columns, self.recipe, options, int(self.seed, 16))

    @property
    def steps(self) -> int:
        """The resolution: given, or the job's own."""
        return self.job.resolution if self.resolution is None else self.resolution

    @cached_property
    def plan(self) -> Plan:
        """What every party will release, the spare rounds included; scales are noise per sensitivity."""
        items = []
        for p in self.job.outline():
            times = p.times + self.spare_rounds * p.per_round
            if self.noise == "central":
                items.append(Release(p.label, Gaussian, times, p.share))
            else:
                template = SkellamOf(min(p.least, 2.0**self.steps), p.touched, self.job.neighbours)
                items.append(Release(p.label, template, times, p.share))
        method = None if self.noise == "central" else "rdp"
        return Plan(items, neighbours=self.job.neighbours).calibrate(self.epsilon, self.delta, method=method)

    @cached_property
    def ratios(self) -> dict[str, float]:
        """The standard deviation of the noise over the sensitivity, by label."""
        return {release.label: float(release.scale or 0.0) for release in self.plan.releases()}

    def grid(self, label: str, sensitivity: float) -> NoiseGrid:
        """Return the grid of a release whose sensitivity is known."""
        return NoiseGrid(sensitivity, self._touched[label], self.steps)

    def variance(self, label: str, grid: NoiseGrid) -> float:
        """Return the variance of the opened total of a release, in coarse steps."""
        return (self.ratios[label] * grid.l2) ** 2

    @cached_property
    def _touched(self) -> dict[str, int]:
        return {p.label: p.touched for p in self.job.outline()}

    @property
    def honest(self) -> int:
        """How many parties' noise surely counts."""
        return self.threshold - self.colluding

    @cached_property
    def bits(self) -> int:
        """The modulus on the wire: 32 or 40 bits an entry."""
        moves = {label: 2.0 ** (self.steps + 1) + math.sqrt(touched) for label, touched in self._touched.items()}
        v = max((self.ratios[label] * move) ** 2 for label, move in moves.items())
        # More parties than the honest ones add noise too; all of it may come.
        v *= self.rows if self.noise == "local" else len(self.identities) / self.honest
        log = math.log(2 * self.job.entries / _SPOILED)
        tail = log + math.sqrt(log * log + 2 * v * log)  # where the Bernstein bound falls below 1e-9 / entries
        largest = self.rows * max(moves.values()) + len(self.identities)
        for bits in (32, 40):
            if largest + tail < 2 ** (bits - 1):
                return bits
        raise ParameterError("rows", "be few enough for sums of 40 bits", self.rows, "Take a smaller resolution")

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
            data = _files.parse_json(text)
            if data.pop("version") != _VERSION:
                raise FormatError("a federated task of another version")
            schema = Schema.from_json(json.dumps(data.pop("schema")))
            identities = {int(k): str(v) for k, v in data.pop("identities").items()}
            return cls(schema=schema, identities=identities, columns=tuple(data.pop("columns")), **data)
        except LedgerwoodError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FormatError(f"not a federated task: {type(error).__name__}") from error
