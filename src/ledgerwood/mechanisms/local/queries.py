r"""Range queries on released values: what share of the values lies in [a, b]?

P1 (§6.2) answers with the share of *released* values in the range, which randomisation flattens. The
mechanism's probabilities are public, so the released values also have a likelihood; its maximum (the EM
algorithm, post-processing, no cost) estimates the shares of the raw values and answers every range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.errors import ParameterError

from .domain import Codes, numeric, within
from .laws import Floats
from .ordered import OrderedMechanism


@dataclass(frozen=True)
class RangeQueries:
    """Answers to range queries from estimated shares of the values of a domain.

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap
    >>> mechanism = GlobalMap(Domain(1, 4), epsilon=3.0)
    >>> queries = RangeQueries.from_released(mechanism, [1, 1, 2, 4])
    >>> queries.share(1, 2)
    0.75
    """

    lower: int
    shares: tuple[float, ...]

    @classmethod
    def from_released(cls, mechanism: OrderedMechanism, released: ArrayLike) -> RangeQueries:
        """P1's estimator: the shares of the released values themselves (outputs must be domain values)."""
        _check_outputs(mechanism)
        return cls(mechanism.domain.lower, tuple(_shares(mechanism.domain.encode(released), mechanism.domain.size)))

    @classmethod
    def most_likely(cls, mechanism: OrderedMechanism, released: ArrayLike, *, iterations: int = 200) -> RangeQueries:
        r"""The maximum-likelihood shares by EM from the uniform ones.

        Each step, :math:`\pi_x \leftarrow \pi_x \sum_o f_o \Pr[o|x] / (\pi P)_o`, f the shares of the
        outputs, never lowers the likelihood; stopping early regularises.
        """
        within("iterations", iterations, at_least=1)
        p = mechanism.probabilities(mechanism.domain.values)
        codes = np.clip(numeric("released", released).astype(np.int64) - mechanism.outputs[0], 0, p.shape[1] - 1)
        observed = _shares(codes, p.shape[1])
        shares = np.full(p.shape[0], 1 / p.shape[0])
        for _ in range(iterations):
            expected = shares @ p
            ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
            shares = shares * (p @ ratio)
        return cls(mechanism.domain.lower, tuple((shares / shares.sum()).tolist()))

    def share(self, start: int, stop: int) -> float:
        """The estimated share of values in ``start, ..., stop``, both included."""
        top = self.lower + len(self.shares) - 1
        start = within("start", start, at_least=self.lower, at_most=top)
        stop = within("stop", stop, at_least=start, at_most=top)
        return float(np.sum(self.shares[start - self.lower : stop - self.lower + 1]))

    def answer(self, starts: ArrayLike, stops: ArrayLike) -> Floats:
        """The estimated shares of many ranges at once."""
        first, last = np.asarray(starts), np.asarray(stops)
        top = self.lower + len(self.shares) - 1
        if first.dtype.kind not in "iu" or last.dtype.kind not in "iu" or first.shape != last.shape:
            raise ParameterError("starts", "be integers, as many as stops", first.shape)
        if first.size and not (self.lower <= first.min() and (first <= last).all() and last.max() <= top):
            raise ParameterError("starts", f"give ranges inside [{self.lower}, {top}]", "an empty or outer range")
        total = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.asarray(total[last - self.lower + 1] - total[first - self.lower])


def _check_outputs(mechanism: OrderedMechanism) -> None:
    if mechanism.outputs.size != mechanism.domain.size:
        raise ParameterError(
            "mechanism", "release values of its domain", type(mechanism).__name__, "Use most_likely instead."
        )


def _shares(codes: Codes, size: int) -> Floats:
    counts = np.bincount(codes.ravel(), minlength=size)
    return np.asarray(counts / max(1, counts.sum()))
