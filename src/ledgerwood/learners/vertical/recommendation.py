"""Choosing a map and its parameters (Li et al. 2022, §7.2), with the exact guarantee of every choice beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledgerwood import _checks
from ledgerwood.errors import ParameterError
from ledgerwood.learners.vertical.columns import OrderedColumn, declarations
from ledgerwood.learners.vertical.transformer import OrderPreservingTransformer

_SMALL = 2.56  # Li et al. 2022, §6.3: below this epsilon a large alpha keeps more order, above it a small one


@dataclass(frozen=True)
class MapChoice:
    """One way to randomize, and its exact guarantee for one column."""

    transformer: OrderPreservingTransformer
    reason: str

    @property
    def name(self) -> str:
        """The method and its parameters."""
        t = self.transformer
        parameters = {"adj_map": f"(theta={t.theta}, alpha={t.alpha:g})", "local_map": f"(theta={t.theta})"}
        return t.method + parameters.get(t.method, "")

    @property
    def column(self) -> OrderedColumn | None:
        """The first ordered column: all of them share levels and budget."""
        columns = self.transformer.release_.columns
        return next((column for column in columns if isinstance(column, OrderedColumn)), None)


@dataclass(frozen=True)
class Recommendation:
    """Choices in order of preference; ``print`` it, `plot` it, or take ``best``.

    >>> recommend({"age": (0, 100)}, epsilon=0.5).best.method
    'global_map'
    """

    choices: tuple[MapChoice, ...]

    @property
    def best(self) -> OrderPreservingTransformer:
        """The transformer that is recommended."""
        return self.choices[0].transformer

    def __str__(self) -> str:
        lines = []
        for number, choice in enumerate(self.choices, 1):
            line = f"{number}. {choice.name}: {choice.reason}"
            if (column := choice.column) is not None:
                ends = column.mechanism.domain.size - 1
                shown = [f"epsilon({t})={column.profile.epsilon(t):.3g}" for t in sorted({1, ends})]
                kept = [f"gamma({t})={column.order[t]:.3f}" for t in sorted({1, ends})]
                line += f" Exactly: {', '.join(shown + kept)}."
            lines.append(line)
        return "\n".join(lines)

    def plot(self) -> Any:
        """The exact profile and the exact order probability of every choice, as a matplotlib figure.

        A map that separates two parts has an infinite loss there; its curve stops.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        losses, orders = figure.subplots(1, 2)
        for choice in self.choices:
            if (column := choice.column) is None:
                continue
            distances = range(1, column.mechanism.domain.size)
            losses.plot(distances, [column.profile.epsilon(t) for t in distances], marker=".", label=choice.name)
            orders.plot(distances, column.order[1:], marker=".", label=choice.name)
        losses.set(xlabel="levels apart, at most", ylabel="exact privacy loss", title="Guarantee by distance")
        orders.set(xlabel="levels apart", ylabel="probability", title="Order kept", ylim=(0, 1.02))
        if orders.lines:
            orders.legend(fontsize="small")
        return figure


def recommend(
    schema: Any, epsilon: float, *, utility_first: bool = False, levels: int = 10, theta: int | None = None
) -> Recommendation:
    """Order the maps for a table by OpBoost's guidelines, and state the exact guarantee of each.

    Parameters
    ----------
    schema
        The public metadata: a ``Schema``, or a mapping from columns to bounds or categories.
    epsilon
        The budget of a record for one level's difference, split evenly over the columns.
    utility_first
        True if it does not matter that the *part* of a value becomes known: then Local-map comes first. False keeps
        every pair of values protected.
    levels, theta
        The number of levels, and the width of a part; OpBoost leaves theta to the meaning of the column, about a fifth
        of the levels is taken unless given.

    Examples
    --------
    >>> advice = recommend({"age": (0, 100)}, epsilon=0.5)
    >>> [choice.name for choice in advice.choices]
    ['global_map', 'laplace_map', 'adj_map(theta=2, alpha=2)']
    >>> recommend({"age": (0, 100)}, epsilon=0.5, utility_first=True).best.method
    'local_map'
    """
    names = list(declarations(schema))
    width = max(2, round(levels / 5)) if theta is None else theta
    if not _checks.is_bool(utility_first):
        raise ParameterError("utility_first", "be True or False", utility_first)
    alpha = 2.0 if epsilon <= _SMALL else 0.5

    def choice(method: str, reason: str) -> MapChoice:
        transformer = OrderPreservingTransformer(
            method, epsilon=epsilon, theta=width, alpha=alpha, levels=levels, domain=schema
        )
        return MapChoice(transformer.declare(names), reason)

    local = choice(
        "local_map", "keeps most order, and reveals the part of every value (Li et al. 2022, §7.2, utility first)."
    )
    even = choice(
        "global_map",
        "protects every pair by its distance, with nothing to choose (Li et al. 2022, §7.2, privacy first).",
    )
    sharper = choice("laplace_map", "the same guarantee per level with half the noise; not in OpBoost.")
    adjusted = choice(
        "adj_map",
        f"OpBoost keeps more order with alpha={alpha:g} at this epsilon, but neighbours across a part's edge get a "
        "weaker guarantee than epsilon says: read epsilon(1).",
    )
    return Recommendation((local, adjusted, sharper, even) if utility_first else (even, sharper, adjusted))
