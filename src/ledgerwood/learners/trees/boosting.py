"""The training loop: public choices, queries released through the session, post-processing.

``boost`` is the whole algorithm that Maddock et al. 2022 take apart; every method of the papers is a value of its
settings. Nothing that it keeps, returns or branches on is an exact sum: those go from the aggregator to a mechanism and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Plan
from ledgerwood.learners.trees.aggregator import Aggregator, Structure, Tree
from ledgerwood.learners.trees.binning import FeatureDomain
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.grower import Grown, grow
from ledgerwood.learners.trees.plan import check_plan
from ledgerwood.learners.trees.settings import TreeSettings
from ledgerwood.learners.trees.training_state import BoostingState, SupportsTreeRelease

__all__ = ["boost"]


def boost(
    settings: TreeSettings,
    domain: FeatureDomain,
    aggregator: Aggregator,
    session: SupportsTreeRelease,
    plan: Plan,
    *,
    rng: np.random.Generator | None = None,
    keep: Callable[[Forest], None] | None = None,
    max_rows_per_unit: int = 1,
    start_bound: int = 0,
    balanced: bool = True,
) -> Forest:
    """Train.

    Parameters
    ----------
    settings, domain, plan
        Public metadata: the components, what features may be, and the calibrated plan of exactly this training.
    aggregator
        Holds the records.
    session
        Releases through a ledger.
    rng
        For choices independent of the data: random splits, features, sides. The system's entropy by default.
    keep
        Called with the model after every round, so that an interrupted training leaves a smaller one.
    max_rows_per_unit
        The group size that the plan is priced for.
    start_bound
        The largest score that the aggregator may start from, in steps of 2**-16; public.
    balanced
        Whether the hessian counts less in what is released while scores are small. False where noise is added
        before the release, by parties who know one scale for all rounds.
    """
    releases = check_plan(plan, settings, domain.n_features, max_rows_per_unit)
    loops = settings.loops(domain.n_features)
    rng = np.random.default_rng() if rng is None else rng
    public = settings, domain, aggregator, session, releases, rng, settings.make_loss(), loops
    training = BoostingState(*public, bound=start_bound, balanced=balanced)
    training.start()
    refinements = loops.sketches if settings.candidates == "hessian" else 0
    done = 0
    for round_number in range(loops.rounds):
        size = min(loops.batch, loops.trees - done)
        # A refinement before each of the first rounds; if there are few rounds, all that are left before the first.
        ahead = refinements - min(refinements, loops.rounds) + 1 if round_number == 0 else 1
        for _ in range(min(ahead, refinements)):
            training.refine(
                training.features_of(done)
                if settings.sketch_features == "tree"
                else np.arange(domain.n_features, dtype=np.int32)
            )
            refinements -= 1
        _round(training, done, size)
        done += size
        if keep is not None:
            keep(training.forest())
    return training.forest()


def _round(training: BoostingState, first: int, size: int) -> None:
    """Fit ``size`` trees to the present scores, then add them."""
    settings = training.settings
    factor = settings.learning_rate / size
    trees: list[Tree] = []
    structures: list[Structure] = []
    refined: tuple[NDArray[np.float64], NDArray[np.int32]] | None = None
    if settings.candidates == "laplace_sketch":
        training.resketch()
    for number in range(first, first + size):
        features = training.features_of(number)
        grown: Grown = grow(training, features, interaction=training.interacts(number))
        if grown.weights is not None:
            trees.append(Tree(grown.structure, training._quantised(grown.weights, factor)))
        else:
            structures.append(grown.structure)
        if grown.hessian is not None:
            refined = grown.hessian, features
    if structures:
        trees += training.weigh(structures, factor)
    training.add(trees)
    if refined is not None and settings.candidates == "hessian":
        training.use(training._merged(training.bin_edges[-1], *refined))
