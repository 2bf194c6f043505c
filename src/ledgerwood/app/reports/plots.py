"""Pictures of costs and plans, with Matplotlib. Functions draw on the axes given, or on new ones, and return them.

>>> from ledgerwood.accounting import Gaussian
>>> axes = plot_profile(50 * Gaussian(sigma=45.0), delta=1e-5)
>>> axes.get_xlabel()
'epsilon'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ledgerwood.app import curves
from ledgerwood.errors import MethodUnavailable, MissingDependency, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Cost, Plan

__all__ = ["plot_composition", "plot_plan", "plot_profile", "plot_tradeoff"]

_COLOURS = {"optimal": "#17624a", "gdp": "#17624a", "rdp": "#b4541a", "zcdp": "#6a5aa8", "pld": "#1f6fa8"}
_DASHES: dict[str, Any] = {"rdp": (0, (6, 2)), "zcdp": (0, (2, 2)), "pld": (0, (7, 2, 2, 2))}
_METHODS = ("optimal", "gdp", "rdp", "zcdp")


def plot_composition(
    cost: Cost,
    *,
    delta: float,
    times: Iterable[int] = (1, 5, 10, 20, 40, 70, 100),
    methods: Sequence[str] = _METHODS,
    axes: Any = None,
) -> Any:
    """Draw epsilon after this many repetitions of a cost, by each method that can price it.

    Parameters
    ----------
    cost
        What is repeated, such as one tree: ``4 * BoundedRange(0.03) + Gaussian(sigma=45.0)``.
    delta
        At which epsilon is drawn.
    times
        Numbers of repetitions.
    methods
        Accounting methods, in the order of the legend.
    """
    axes = axes if axes is not None else new_axes()
    counts = sorted(set(times))
    drawn = 0
    for method in methods:
        try:
            values = [(count * cost).epsilon(delta, method) for count in counts]
        except MethodUnavailable:
            continue
        style = {"color": _COLOURS.get(method), "linestyle": _DASHES.get(method, "-")}
        axes.plot(counts, values, label=curves.NAMES[method], marker="o", markersize=3, **style)
        drawn += 1
    if not drawn:
        raise ParameterError("methods", "hold one that can price the cost", tuple(methods))
    axes.set(xlabel="repetitions", ylabel=f"epsilon at delta = {delta:.3g}", ylim=(0, None))
    axes.legend(frameon=False)
    return _finished(axes)


def plot_profile(
    cost: Cost, *, delta: float | None = None, epsilons: Sequence[float] | None = None, axes: Any = None
) -> Any:
    """Draw the privacy profile: delta at every epsilon; the point at ``delta`` is marked if one is given."""
    axes = axes if axes is not None else new_axes()
    target = _finite_epsilon(cost, delta)
    points = curves.profile(cost, curves.grid(target, 13) if epsilons is None else epsilons, None)
    shown = [(e, d) for e, d in points if d > 1e-15]
    axes.plot(*zip(*shown), color=_COLOURS["optimal"], marker="o", markersize=3)
    if delta:
        style = {"color": _COLOURS["rdp"], "markersize": 8, "fillstyle": "none", "linestyle": ""}
        axes.plot([target], [delta], marker="D", label=f"epsilon = {target:.4g} at {delta:.3g}", **style)
        axes.legend(frameon=False)
    axes.set(xlabel="epsilon", ylabel="delta", yscale="log")
    return _finished(axes)


def plot_tradeoff(cost: Cost, *, delta: float | None = None, axes: Any = None) -> Any:
    """Draw what any attacker must put up with: missed records against false accusations.

    The curve is made of guarantees (epsilon, delta) for epsilons around that of ``delta``, 1e-6 by default.
    """
    axes = axes if axes is not None else new_axes()
    target = _finite_epsilon(cost, delta)
    curve = curves.tradeoff(curves.profile(cost, curves.grid(target, 15), None), steps=100)
    alarms, missed = zip(*curve)
    axes.plot([0, 1], [1, 0], color="#777777", linestyle=":", label="blind guessing")
    axes.plot(alarms, missed, color=_COLOURS["optimal"], label="the best attack, at most")
    axes.fill_between(alarms, missed, [1 - a for a in alarms], color=_COLOURS["rdp"], alpha=0.12, linewidth=0)
    axes.set(xlabel="wrongly accused (type I error)", ylabel="not recognised (type II error)", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    return _finished(axes)


def plot_plan(plan: Plan, *, axes: Any = None) -> Any:
    """Draw where the budget of a calibrated plan goes, with the noise of each kind of release."""
    rows = list(plan.table())
    axes = axes if axes is not None else new_axes(height=1.2 + 0.55 * len(rows))
    places = range(len(rows))
    bars = axes.barh(places, [row["spend"] for row in rows], color=_COLOURS["optimal"], height=0.6)
    noise = ["" if r["scale"] is None else f" × {r['noise'] or 'scale'} = {r['scale']:.4g}" for r in rows]
    texts = [f"{100 * r['spend']:.0f} %: {r['times']}{each}" for r, each in zip(rows, noise, strict=True)]
    axes.bar_label(bars, texts, padding=4, fontsize=9)
    axes.set_yticks(places, [row["label"] for row in rows], parse_math=False)
    axes.invert_yaxis()
    axes.set(xlabel="part of the budget", xlim=(0, 1.6))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.spines["bottom"].set_bounds(0, 1)
    return _finished(axes, grid="x")


def bars(names: Sequence[str], values: Sequence[float], label: str, *, axes: Any = None) -> Any:
    """Draw named numbers as horizontal bars, the first on top."""
    axes = axes if axes is not None else new_axes(height=1.0 + 0.3 * len(names))
    axes.barh(range(len(names)), values, color=_COLOURS["optimal"], height=0.6)
    axes.set_yticks(range(len(names)), names, parse_math=False)  # a name may have dollars
    axes.invert_yaxis()
    axes.axvline(0, color="#777777", linewidth=0.8)
    axes.set(xlabel=label)
    return _finished(axes, grid="x")


def _finite_epsilon(cost: Cost, delta: float | None) -> float:
    """Return epsilon at delta, or at the least larger delta at which a cost of approximate DP has an epsilon."""
    for tried in (delta or 1e-6, 1e-4, 1e-2, 0.5):
        found = cost.epsilon(tried)
        if math.isfinite(found):
            return found
    raise ParameterError("cost", "have a finite epsilon at delta = 0.5", cost)


def new_axes(width: float = 6.4, height: float = 4.0) -> Any:
    """Return axes of a new figure that no window will show by itself; sizes are in inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "a plot", "cli") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def _finished(axes: Any, grid: str = "both") -> Any:
    axes.set_axisbelow(True)
    axes.grid(alpha=0.25, axis=grid)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
