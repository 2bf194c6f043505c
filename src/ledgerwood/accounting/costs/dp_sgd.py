"""What a training by DP-SGD costs: noisy sums of clipped gradients over sampled batches."""

from __future__ import annotations

import math
from fractions import Fraction

from ledgerwood import _checks
from ledgerwood._rounding import ratio_up
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.allocation import RandomAllocation
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.costs.fixed_batches import TruncatedPoisson, WithoutReplacement
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import ParameterError

SAMPLERS = ("poisson", "without_replacement", "balls_in_bins")
"""The batch samplers that :func:`dp_sgd` prices."""


def dp_sgd(
    *,
    noise_multiplier: float,
    steps: int | None = None,
    epochs: float | None = None,
    rate: float | None = None,
    sample_size: float | None = None,
    batch_size: float | None = None,
    dataset_size: int | None = None,
    limit: int | None = None,
    sampler: str = "poisson",
    neighbours: str | None = None,
) -> Cost:
    """The cost of a training by DP-SGD (DP-Adam, DP-FTRL without correlated noise: any optimizer on the same sums).

    In every step the gradients of a batch are clipped to a norm C each and summed, and Gaussian noise of standard
    deviation ``noise_multiplier`` × C is added. The price is that of all noisy sums together, so any of them may be
    published. It holds only for a loop that draws its batches as ``sampler`` says: docs/howto/dp-sgd.md.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise over the clipping norm.
    steps, epochs
        How long: noisy sums, or passes over the data (of 1 / rate steps each, rounded up). Exactly one of the two.
    rate, sample_size, batch_size
        How much of the data one batch holds: the chance of a record to be in it, or the number of records (expected,
        where it is random) out of ``dataset_size``. Exactly one of the three.
    dataset_size
        The public number of records.
    limit
        The most records a Poisson batch may have; more are cut at random. Needs ``dataset_size``.
    sampler
        ``"poisson"``: each record is in each batch with probability ``rate``, independently. ``"without_replacement"``:
        each batch is a random set of exactly ``batch_size`` records. ``"balls_in_bins"``: in each epoch each record
        is put into one of dataset_size // batch_size batches, independently of the others.
    neighbours
        The relation; by default ``"add_remove"``, ``"zero_out"`` with a limit, ``"replace_one"`` without replacement.

    Returns
    -------
    Cost
        Price it with ``.epsilon(delta)`` or ``.account(delta)``, add it to others, give it to a plan.

    >>> cost = dp_sgd(rate=256 / 60000, noise_multiplier=1.1, steps=14062)
    >>> f"{cost.epsilon(delta=1e-5):.3f}"
    '2.382'
    >>> dp_sgd(batch_size=256, dataset_size=60000, noise_multiplier=1.1, epochs=60) == cost + cost.terms[0][0]
    True
    """
    sigma = _checks.positive("noise_multiplier", noise_multiplier)
    if sampler not in SAMPLERS:
        raise ParameterError("sampler", f"be one of {', '.join(SAMPLERS)}", sampler, _why_not(sampler))
    relation = None if neighbours is None else as_neighbours(neighbours)
    share, size, whole = _batch(rate, sample_size, batch_size, dataset_size)
    if limit is not None and sampler != "poisson":
        raise ParameterError("limit", "be given for Poisson batches only", limit)
    if sampler == "poisson":
        return _count(steps, epochs, share) * _poisson(sigma, float(share), limit, whole, relation)
    if whole is None or size is None or size != int(size):
        hint = "Give batch_size and dataset_size, both whole numbers"
        raise ParameterError("batch_size", f"be given with dataset_size for sampler={sampler!r}", batch_size, hint)
    if sampler == "without_replacement":
        if relation not in (None, Neighbours.REPLACE_ONE):
            hint = "Batches of a fixed size compare datasets of equal size"
            raise ParameterError("neighbours", f"be 'replace_one' for sampler={sampler!r}", neighbours, hint)
        # A replaced record moves a sum of clipped gradients by twice the clipping norm.
        moved = Gaussian(sigma=sigma, sensitivity=2.0, neighbours=Neighbours.REPLACE_ONE)
        return _count(steps, epochs, share) * WithoutReplacement(moved, population=whole, batch=int(size))
    if relation is Neighbours.REPLACE_ONE:
        raise ParameterError("neighbours", f"be 'add_remove' or 'zero_out' for sampler={sampler!r}", neighbours)
    bins = whole // int(size)
    each = Gaussian(sigma=sigma, neighbours=relation or Neighbours.ADD_REMOVE)
    # An epoch that was begun costs what a whole one costs, at most.
    return math.ceil(Fraction(_count(steps, epochs, Fraction(1, bins)), bins)) * RandomAllocation(each, bins=bins)


def _poisson(sigma: float, rate: float, limit: int | None, whole: int | None, relation: Neighbours | None) -> Cost:
    if limit is not None:
        if whole is None:
            raise ParameterError("dataset_size", "be given with a limit of the batch", None)
        given = relation or Neighbours.ZERO_OUT
        return TruncatedPoisson(Gaussian(sigma=sigma), rate=rate, limit=limit, population=whole, neighbours=given)
    if relation is Neighbours.REPLACE_ONE:
        return PoissonSubsampled(Gaussian(sigma=sigma), rate=rate, neighbours=relation)
    return PoissonSubsampled(Gaussian(sigma=sigma, neighbours=relation or Neighbours.ADD_REMOVE), rate=rate)


def _batch(
    rate: float | None, sample_size: float | None, batch_size: float | None, dataset_size: int | None
) -> tuple[Fraction, float | None, int | None]:
    """The part of the data in one batch, the number of records in it, and of all: as far as known."""
    sizes = {"rate": rate, "sample_size": sample_size, "batch_size": batch_size}
    given = [name for name, value in sizes.items() if value is not None]
    whole = None if dataset_size is None else _checks.integer("dataset_size", dataset_size, 1)
    if len(given) != 1:
        rule = "be given, or else sample_size or batch_size with dataset_size (one of the three)"
        raise ParameterError("rate", rule, given or None)
    if rate is not None:
        return Fraction(_checks.probability("rate", rate)), None, whole
    size = _checks.positive(given[0], sizes[given[0]])
    if whole is None:
        raise ParameterError("dataset_size", f"be given with {given[0]}", None)
    if size > whole:
        raise ParameterError(given[0], f"be at most dataset_size ({whole})", size)
    return Fraction(min(ratio_up(size, float(whole)), 1.0)), size, whole


def _count(steps: int | None, epochs: float | None, share: Fraction) -> int:
    if (steps is None) == (epochs is None):
        raise ParameterError("steps", "be given, or else epochs (one of the two)", steps)
    if steps is not None:
        return _checks.integer("steps", steps)
    passes = Fraction(_checks.non_negative("epochs", epochs))
    return math.ceil(passes / share * (1 - Fraction(1, 10**12))) if share else 0


def _why_not(sampler: object) -> str | None:
    if isinstance(sampler, str) and sampler.lower() in ("shuffle", "shuffled", "shuffling", "permutation"):
        return (
            "Batches cut from a shuffled dataset have no known price that is anywhere near these: where one record is "
            "tells where others are, and the privacy can be much worse than that of Poisson batches (Chua et al. 2024, "
            "arXiv:2411.04205). Draw Poisson batches, or put each record into a batch of its own (balls_in_bins)"
        )
    return None
