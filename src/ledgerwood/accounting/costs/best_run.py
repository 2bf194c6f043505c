r"""The best of a random number of private runs: what a search over hyper-parameters costs.

K runs, K random and secret, each returns an output with a score; only the best output is released. With φ the
generating function of K, m = φ'(1) its mean and F the distribution function of one run's output in order of its score,
the released output has the density φ'(F) over one run. If φ'(F)/φ'(F') ≤ c on neighbouring data, there are z_j ≤ c with

.. math:: \delta_{\text{best}}(\varepsilon) \le \sum_j\omega_j\,\delta_{\text{run}}(\varepsilon - \log z_j),
          \quad \sum_j\omega_j \le m, \qquad
          D_\alpha \le D_\alpha^{\text{run}} + \log c + \frac{\log (m + \Pr[K=0])}{\alpha - 1}.

The proofs, how c is bounded, and every rounding: docs/theory/private-search.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.parallel import Worst
from ledgerwood.accounting.curves import renyi
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
from ledgerwood.accounting.curves.dominating_pairs.discrete import AtomPair, LossAtoms
from ledgerwood.errors import ParameterError

LAWS = ("geometric", "logarithmic", "poisson", "negative_binomial")
"""How the number of runs may be distributed."""
ROUNDING = 1e-9
"""Relative slack of the parameters of K and of c, far above what floating point loses in them."""
_FARTHEST = 600.0
"""Losses beyond this one count as infinite: their exponentials leave floating point."""


@dataclass(frozen=True, slots=True)
class BestRunTuning:
    """How finely the two bounds are computed; both are bounds on any grid."""

    lines: int = 24
    """Values of ε on which each of the three searches for the worst ratio is based."""
    knots: int = 192
    """Values of ε at which the profile is kept when the cost is composed with others."""
    shifts: int = 48
    """How many shifted copies of a run's profile the bound is made of."""
    tail: float = 1e-13
    """The δ of a run beyond which the profile counts as infinite loss in a composition."""


TUNING = BestRunTuning()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Selected(Atom):
    r"""The best of a random number of runs, each of the cost ``cost``: a search over hyper-parameters.

    The number of runs is drawn from ``law`` with mean ``mean``: ``"geometric"``, ``"logarithmic"``, ``"poisson"``
    (there may be no run at all, and then nothing is released) or ``"negative_binomial"``, truncated to at least one
    run, with the parameter ``eta`` above -1 (1 is the geometric, 0 the logarithmic distribution). It must not depend on
    the data. The number of runs, the other outputs and their scores stay secret, ``cost`` pays for the score too, and
    ties are broken by a fixed order of the outputs or at random.

    >>> from ledgerwood.accounting import Gaussian
    >>> search = Selected(Gaussian(sigma=10.0), mean=10)
    >>> account = search.account(delta=1e-6)
    >>> f"[{account.lower:.3f}, {account.epsilon:.3f}]"
    '[0.447, 0.598]'
    """

    cost: Cost
    mean: float
    law: str
    eta: float
    neighbours: Neighbours

    def __init__(
        self,
        cost: Cost,
        *,
        mean: float,
        law: str = "geometric",
        eta: float | None = None,
        neighbours: str | None = None,
    ) -> None:
        if not isinstance(cost, Cost):
            raise ParameterError("cost", "be a cost", cost)
        if neighbours is not None and neighbours != cost.neighbours:
            raise ParameterError("neighbours", f"equal those of the cost ({str(cost.neighbours)!r})", neighbours)
        if law not in LAWS:
            raise ParameterError("law", f"be one of {', '.join(LAWS)}", law)
        if (eta is None) == (law == "negative_binomial"):
            rule = "be given" if eta is None else "be left out"
            raise ParameterError("eta", f"{rule} for the {law} law", eta)
        number = _checks.positive("mean", mean)
        if not 1 < number <= 1e12 and not (law == "poisson" and number <= 1):
            raise ParameterError("mean", "be above 1, for there is at least one run, and at most 1e12", mean)
        named = {"geometric": 1.0, "logarithmic": 0.0, "poisson": 0.0}
        shape = _checks.real("eta", named.get(law, eta), "be a number in (-1, 100]")
        if not -1 < shape <= 100:
            raise ParameterError("eta", "be a number in (-1, 100]", eta)
        if law != "poisson" and _log_mean_of(_LEAST_LOG_RATE, shape) < math.log(number):
            rule = f"be at most {math.exp(_log_mean_of(_LEAST_LOG_RATE, shape)):.3g} for eta={shape:g}"
            raise ParameterError("mean", rule, mean, "Raise eta: near -1 even few runs are spread over far too many")
        set_fields(self, cost.neighbours, cost=cost, mean=number, law=law, eta=shape)

    def parameters(self) -> dict[str, Any]:
        found = {"cost": self.cost, "mean": self.mean, "law": self.law}
        return found | {"eta": self.eta} if self.law == "negative_binomial" else found

    def at_most(self, other: Cost) -> bool:
        if not isinstance(other, Selected) or (self.law, self.eta, self.mean) != (other.law, other.eta, other.mean):
            return False
        return isinstance(self.cost, Atom) and self.cost.at_most(other.cost)

    @property
    def log_ratio(self) -> float:
        """Log c: how much likelier to win an output becomes, beyond its own loss."""
        return 0.0 if self.is_free() else max(shift for _, shift in self._shifts)

    @property
    def _shifts(self) -> tuple[tuple[float, float], ...]:
        return _shifts(self.cost, self.mean, self.law, self.eta)

    @property
    def _log_mean(self) -> float:
        return math.log(self.mean) + ROUNDING

    def is_free(self) -> bool:
        return self.cost.is_free()

    def is_tight(self) -> bool:
        return False

    def pure_epsilon(self) -> float:
        base = self.cost.pure_epsilon()
        return 0.0 if self.is_free() else base if base == math.inf else base + self.log_ratio

    def infinite_mass(self) -> float:
        mass = self.cost.infinite_mass()
        return min(mass * math.exp(self._log_mean), 1.0) if mass else 0.0

    def largest_order(self) -> float:
        return self.cost.largest_order()

    def renyi(self, alpha: Array) -> Array:
        if self.is_free():
            return np.zeros_like(alpha)
        if self.infinite_mass() > 0:
            pure = self.pure_epsilon()
            return renyi.randomized_response(pure, alpha) if pure < math.inf else np.full_like(alpha, math.inf)
        orders = np.maximum(alpha, 1.01)  # D rises with the order
        none = math.exp(-self.mean) if self.law == "poisson" else 0.0
        extra = self.log_ratio + (math.log(self.mean + none) + ROUNDING) / (orders - 1)
        pure = self.pure_epsilon()
        curve = self.cost.renyi(orders) + extra
        return np.minimum(curve, renyi.randomized_response(pure, alpha)) if pure < math.inf else curve

    def pairs(self) -> tuple[LossPair, ...] | None:
        return (BestRunPair(self),)

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of a run whose score is its own privacy loss."""
        base = _attained(self.cost)
        return None if base is None else (WinnerPair(base, self.mean, self.law, self.eta),)

    def _group(self, k: int) -> Cost:
        eta = self.eta if self.law == "negative_binomial" else None
        return Selected(self.cost.group(k), mean=self.mean, law=self.law, eta=eta)


# -- the number of runs -------------------------------------------------------------------------------------------


_LEAST_LOG_RATE = -600.0


@lru_cache(maxsize=256)
def success_rate(mean: float, eta: float) -> float:
    r"""γ of the truncated negative binomial with this mean, :math:`\eta(1-\gamma)/(\gamma(1-\gamma^\eta))`.

    >>> success_rate(10.0, 1.0)
    0.1
    """
    if eta == 1.0:
        return 1 / mean
    low, high = _LEAST_LOG_RATE, -1e-13  # of log γ; the mean falls as γ rises
    for _ in range(100):
        middle = (low + high) / 2
        if _log_mean_of(middle, eta) > math.log(mean):
            low = middle
        else:
            high = middle
    return math.exp(high)


def _log_mean_of(log_gamma: float, eta: float) -> float:
    rest = math.log(-math.expm1(log_gamma)) - log_gamma
    return rest - math.log(-log_gamma) - _log_of_mean_exponential(eta * log_gamma)


def _log_of_mean_exponential(x: float) -> float:
    """Log((e^x - 1) / x) for any x, 0 included: what is left of η / (1 - γ^η) at η = 0."""
    if abs(x) < 1e-3:
        return x / 2 + x * x / 24  # the next term is x^4 / 2880
    if x > 0:
        return x + math.log(-math.expm1(-x)) - math.log(x)
    return math.log(-math.expm1(x)) - math.log(-x)


def generating(mean: float, law: str, eta: float, x: Array) -> Array:
    """1 − φ(1 − x): the chance that the best run is in a set at the top of the order that one run hits with x."""
    if law == "poisson":
        return -np.expm1(-mean * x)
    gamma = success_rate(mean, eta)
    log_gamma = math.log(gamma)
    r = np.log1p((1 - gamma) / gamma * x)
    if abs(eta * log_gamma) < 1e-13:
        return np.asarray(r / -log_gamma)
    return np.asarray(np.expm1(-eta * r) / np.expm1(eta * log_gamma))


# -- the bound --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _shifts(cost: Cost, mean: float, law: str, eta: float) -> tuple[tuple[float, float], ...]:
    r"""Pairs (weight ω, log z) with :math:`\delta_{best}(\varepsilon) \le \sum\omega\,\delta(\varepsilon-\log z)`.

    For any values of ε the lines e^ε·G + δ(ε) lie above the power function T(G). On a cell of G with one line the ratio
    of the two densities is monotone, so the worse of its ends bounds it, and the larger density is at the left end.
    The cells are where the lines cross, which makes the bound sharp and matters to nothing else.
    """
    gamma = 1.0 if law == "poisson" else success_rate(mean, eta) * (1 - ROUNDING)
    mass, pure = cost.infinite_mass(), cost.pure_epsilon()
    spread = np.linspace(0.0, _reach(cost, min(max(1e-3 / mean, 1.01 * mass), 0.5)), TUNING.lines)
    known = dict(zip(spread.tolist(), _run_deltas(cost, spread).tolist(), strict=True))
    if pure <= _FARTHEST:
        known[pure] = mass
    for _ in range(2):
        cells = _cells(known, mean, law, gamma, eta)
        worst, points = max(range(len(cells)), key=lambda i: cells[i][1]), sorted(known)
        around = points[max(worst - 2, 0)], points[min(worst, len(points) - 1)]  # one line stands before the points
        wanted = np.linspace(*around, TUNING.lines)
        known |= dict(zip(wanted.tolist(), _run_deltas(cost, wanted).tolist(), strict=True))
    return _envelope(_cells(known, mean, law, gamma, eta))


def _cells(known: dict[float, float], mean: float, law: str, gamma: float, eta: float) -> list[tuple[float, float]]:
    """(largest density, largest log ratio) of each cell, rounded up."""
    points = sorted(known)
    slopes, heights = [0.0, *(math.exp(e) for e in points)], [1.0, *(known[e] for e in points)]
    ends = [1.0]  # from the right: where the next steeper line begins to count
    for (s, h), (t, k) in pairwise(zip(slopes, heights, strict=True)):
        ends.append(min(max((h - k) / (t - s) if t > s else 0.0, 0.0), ends[-1]))
    ends.append(0.0)
    cells = []
    for i, (s, h) in enumerate(zip(slopes, heights, strict=True)):
        left, right = ends[i + 1], ends[i]
        if law == "poisson":
            log_density = -mean * left
            log_ratio = mean * (1 + ROUNDING) * max((s - 1) * g + h for g in (left, right))
        else:
            log_density = -(1 + eta) * math.log1p((1 - gamma) / gamma * left)
            log_ratio = (1 + eta) * max(
                math.log((gamma + (1 - gamma) * (s * g + h)) / (gamma + (1 - gamma) * g)) for g in (left, right)
            )
        slack = (4 + max(eta, 0.0)) * ROUNDING  # γ was rounded down, for the ratio's sake
        cells.append((mean * math.exp(log_density + slack), max(log_ratio, 0.0) * (1 + ROUNDING) + ROUNDING))
    return cells


def _envelope(cells: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    r"""The largest of the lines w(1 − z/c) and 0, as a sum of :math:`\omega(1 - z/z_j)_+`."""
    if (top := max(c for _, c in cells)) > _FARTHEST / 2:  # one line above all: no exponential is needed
        return ((max(w for w, _ in cells) * (1 + ROUNDING), top + ROUNDING),)
    lines = sorted({(w / math.exp(c), w, c) for w, c in cells}, key=lambda line: (line[0], line[1]))
    hull: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)]  # from flat to steep; the steepest is on top at z = 0
    crossings: list[float] = []
    for slope, height, c in lines:
        while hull and height > 0:
            flat, low, _ = hull[-1]
            cross = (height - low) / (slope - flat) if slope > flat else math.inf
            if height <= low or (crossings and cross >= crossings[-1]):
                if height <= low:
                    break
                hull.pop()
                crossings.pop()
                continue
            hull.append((slope, height, c))
            crossings.append(cross)
            break
    found = []
    for (flat, _, _), (steep, _, _), z in zip(hull, hull[1:], crossings, strict=False):
        found.append(((steep - flat) * z * (1 + ROUNDING), math.log(z) + ROUNDING))
    # Shifts that are close are taken as the larger one of them: fewer questions to the accountant of the run.
    largest = max(shift for _, shift in found)
    merged: dict[int, tuple[float, float]] = {}
    for weight, shift in found:
        place = math.floor(max(largest - shift, 0.0) / largest * TUNING.shifts)
        total, top = merged.get(place, (0.0, 0.0))
        merged[place] = total + weight, max(top, shift)
    return tuple(merged.values())


# -- pairs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BestRunPair(AtomPair):
    """The profile of the theorem; in a composition, chords of it between knots, which lie above it."""

    slow = True

    selected: Selected
    turned: bool = False

    def _symmetric(self) -> bool:
        return False  # one pair for both directions, each bounded by it

    def _reversed(self) -> BestRunPair:
        return BestRunPair(self.selected, not self.turned)

    def _infinite_mass(self) -> float:
        _, infinite, lost = _knots(self.selected)
        return lost if self.turned else infinite

    def _lost_mass(self) -> float:
        _, infinite, lost = _knots(self.selected)
        return infinite if self.turned else lost

    def _support(self) -> tuple[float, float]:
        loss = self._atoms().loss
        return (float(loss[0]), float(loss[-1])) if len(loss) else (0.0, 0.0)

    def _atoms(self) -> LossAtoms:
        atoms = _knots(self.selected)[0]
        return LossAtoms(-atoms.loss[::-1], (atoms.log_p - atoms.loss)[::-1]) if self.turned else atoms

    def _log_delta(self, epsilon: Array) -> Array:
        chords = super()._log_delta(epsilon)
        if self.turned:
            return chords
        return np.asarray(np.minimum(_log_profile(self.selected, epsilon), chords + ROUNDING))


def _log_profile(selected: Selected, epsilon: Array) -> Array:
    """Log of the theorem's bound of δ at ε ≥ 0; what is asked of a run lies a rounding below ε − log z."""
    weights, shifts = np.array(selected._shifts).T
    place = epsilon[..., None] - shifts - 2.0**-50 * (epsilon[..., None] + np.abs(shifts))
    deltas = _run_deltas(selected.cost, np.maximum(place, 0.0).ravel()).reshape(place.shape)
    total = np.where(place >= 0, deltas, 1.0) @ weights
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(np.log(total) + 2.0**-40, 0.0))


def _run_deltas(run: Cost, epsilon: Array) -> Array:
    """Upper bounds of a run's δ: by a formula where there is one, else off one composition."""
    if isinstance(run, Worst):
        return np.asarray(np.max([_run_deltas(option, epsilon) for option in run.options], axis=0))
    pairs = _closed_pairs(run)
    if pairs:
        deltas = np.max([np.exp(np.minimum(pair.log_delta(epsilon) + ROUNDING, 0.0)) for pair in pairs], axis=0)
    else:
        deltas = run.profile(epsilon, tail=TUNING.tail)
    return np.asarray(np.where(epsilon >= run.pure_epsilon(), run.infinite_mass(), np.minimum(deltas, 1.0)))


def _closed_pairs(run: Cost) -> tuple[LossPair, ...]:
    """The pairs of one release, or of a sum of Gaussian ones, whose profile is a formula; else none."""
    if mu := run.mu():
        return (GaussianPair(mu),)
    terms = run.priced_terms()
    if len(terms) != 1 or terms[0][1] != 1:
        return ()
    pairs = terms[0][0].pairs() or ()
    return pairs if all(pair.closed_form for pair in pairs) else ()


@lru_cache(maxsize=32)
def _reach(run: Cost, delta: float) -> float:
    """About the ε at which the profile of a run falls to δ; the pure ε if that is not much farther."""
    end = min(run.pure_epsilon(), _FARTHEST)
    low, high = 0.0, end
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _run_deltas(run, np.array([middle]))[0] > delta else (low, middle)
    return end if end <= 1.1 * high else high


@lru_cache(maxsize=32)
def _knots(selected: Selected) -> tuple[LossAtoms, float, float]:
    """Atoms of the pair whose profile is the chords: losses with log P-mass, infinite mass, Q-mass without P.

    A profile is convex in x = e^ε and 1 at x = 0, so chords of upper bounds are upper bounds. Slopes are taken from
    differences of ε, so that nothing cancels where the knots are close.
    """
    shift, nothing = selected.log_ratio, LossAtoms(np.zeros(0), np.zeros(0))
    tail = max(TUNING.tail, 1.01 * selected.cost.infinite_mass())
    last = min(_reach(selected.cost, tail), _FARTHEST - shift)
    if last < 0:
        return nothing, 1.0, 1.0
    places = np.unique(np.linspace(0.0, last, TUNING.knots) + shift)
    heights = np.exp(_log_profile(selected, places))
    if last == selected.cost.pure_epsilon():
        heights[-1] = selected.infinite_mass()
    heights = np.minimum.accumulate(np.minimum(heights * (1 + ROUNDING), 1.0))  # the profile falls
    hull: list[int] = []
    slopes: list[float] = []  # in units of e^-shift; the first is that of the chord from (0, 1)
    for i in range(len(places)):
        while True:
            if not hull:
                slope = (heights[i] - 1.0) * math.exp(shift - places[i])
            else:
                width = math.expm1(places[i] - places[hull[-1]]) * math.exp(places[hull[-1]] - shift)
                slope = (heights[i] - heights[hull[-1]]) / width
            if not hull or slope > slopes[-1]:
                break
            hull.pop()
            slopes.pop()
        hull.append(i)
        slopes.append(float(slope))
    kept = places[hull]
    log_q = np.log(np.diff(np.append(slopes, 0.0))) - shift if slopes[-1] < 0 else None
    if log_q is None:  # the last stretch is flat: no atom there
        kept, log_q = kept[:-1], np.log(np.diff(slopes)) - shift
    lost = -math.expm1(-kept[0]) + heights[hull[0]] * math.exp(-kept[0]) if len(kept) else 1.0
    return LossAtoms(kept, log_q + kept), float(heights[-1]), float(lost)


def _attained(cost: Cost) -> LossPair | None:
    """The pair of one release that some mechanism of this cost attains exactly."""
    terms, mu = cost.priced_terms(), cost.mu()
    if not all(part.is_tight() for part, _ in terms) or cost.infinite_mass() > 0:
        return None
    if mu:
        return GaussianPair(mu)
    if len(terms) != 1 or terms[0][1] != 1:
        return None
    pairs = terms[0][0].pairs()
    return pairs[0] if pairs and pairs[0].below() is pairs[0] else None


@dataclass(frozen=True)
class WinnerPair(AtomPair):
    """The best run where the score is the loss of ``base``, as finitely many intervals of the loss: a lower end."""

    base: LossPair
    mean: float
    law: str
    eta: float

    def _symmetric(self) -> bool:
        return False

    def _support(self) -> tuple[float, float]:
        loss = self._atoms().loss
        return float(loss[0]), float(loss[-1])

    def _lost_mass(self) -> float:
        return 0.0

    def _atoms(self) -> LossAtoms:
        return _winner_atoms(self)


@lru_cache(maxsize=16)
def _winner_atoms(pair: WinnerPair) -> LossAtoms:
    low, high = (min(max(end, -40.0), 40.0) for end in pair.base.support())
    edges = np.linspace(low - 1e-9, high + 1e-9, 64)
    for _ in range(2):  # the second grid is spread over the losses that occur
        log_p, log_q = pair.base.log_cells(edges)
        seen = edges[(np.cumsum(np.exp(log_q[:-1])) > 1e-13) & (np.cumsum(np.exp(log_p[::-1]))[::-1][1:] > 1e-13)]
        first, last = (float(seen[0]), float(seen[-1])) if len(seen) else (low, high)
        margin = (high - low) / 63 + 1e-9
        edges = np.linspace(max(first - margin, low - 1e-9), min(last + margin, high + 1e-9), 2048)
    log_p, log_q = pair.base.log_cells(edges)
    masses, tops, clear = [], [], np.ones(len(log_p), dtype=bool)
    for logs in (log_p, log_q):
        above = np.cumsum(np.exp(logs)[::-1])  # chance of one run to be in cells i, i+1, ...
        top = generating(pair.mean, pair.law, pair.eta, np.minimum(above, 1.0))
        tops.append(top[::-1])
        masses.append(np.diff(np.concatenate(([0.0], top)))[::-1])
        clear &= (masses[-1] > 1e-7 * tops[-1]) & (masses[-1] > 1e-290)
    # The other cells join one that is clear, which makes the output coarser.
    groups = np.maximum(np.cumsum(clear) - 1, 0)
    p, q = (np.bincount(groups, weights=mass).astype(np.float64) for mass in masses)
    # 2048 terms are summed and mapped to within 2^-40 of each chance; what a difference of two loses is counted.
    lost_p, lost_q = (2.0**-39 * np.maximum.reduceat(top, np.flatnonzero(np.diff(groups, prepend=-1))) for top in tops)
    if pair.law == "poisson":  # no run: the same on both sides, so it may join any cell
        p[0], q[0] = p[0] + math.exp(-pair.mean), q[0] + math.exp(-pair.mean)
    p, q = np.maximum(p - lost_p, 1e-300), (q + lost_q) * (1 + 2.0**-40)
    loss = np.log(p) - np.log(q) - 2.0**-40
    order = np.argsort(loss, kind="stable")
    return LossAtoms(loss[order], np.log(p[order]))
