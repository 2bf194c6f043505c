r"""The probability that randomizing moves no value across a split (Li et al., Theorem 5.1), exactly.

With left values :math:`I_l`, right values :math:`I_r` and independent outputs, a split survives when the largest left
output lies below the smallest right one. The law of the largest left output is a difference of products, so

.. math:: \beta = \sum_o \Bigl(\prod_{j \in I_l} F_j(o) - \prod_{j \in I_l} F_j(o - 1)\Bigr)
          \prod_{j \in I_r} \bigl(1 - F_j(o)\bigr), \qquad F_j(o) = \Pr[\text{output of } j \le o].

Li et al. print :math:`\sum_o \sum_{k \in I_l} \Pr[k \to o] \prod_{j \ne k} F_j(o) \prod_r (1 - F_j(o))` instead,
which takes every k one after the other for *the* largest and so counts an outcome once for every value tied for
largest: it is not a lower bound, and can exceed one (`printed_beta`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.local.distributions import Floats


def split_survives(mechanism: OrderedMechanism, left: ArrayLike, right: ArrayLike) -> float:
    """The exact probability that all left outputs stay below all right ones.

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap
    >>> f"{split_survives(GlobalMap(Domain(1, 100), epsilon=1.0), [10, 12], [40, 41, 50]):.6f}"
    '0.999992'
    """
    below, above, _ = _pieces(mechanism, left, right)
    return float(np.sum(np.diff(below, prepend=0.0) * above))


def printed_beta(mechanism: OrderedMechanism, left: ArrayLike, right: ArrayLike) -> float:
    """Theorem 5.1 as Li et al. print it, for comparison only.

    >>> from ledgerwood.mechanisms.local import Domain, LocalMap, Partition
    >>> mechanism = LocalMap(Domain(1, 4), Partition.even(4, 2), epsilon_ner=0.1)  # 1 and 4 never cross
    >>> f"{split_survives(mechanism, [1, 1], [4]):.3f} {printed_beta(mechanism, [1, 1], [4]):.3f}"
    '1.000 1.500'
    """
    below, above, ties = _pieces(mechanism, left, right)
    return float(np.sum(ties * below * above))


def _pieces(mechanism: OrderedMechanism, left: ArrayLike, right: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """For each output o: all left at most o, all right above o, and the sum of Pr[k -> o] / F_k(o) over the left."""
    law = [mechanism.probabilities(side) for side in (np.ravel(left), np.ravel(right))]
    at_most = np.minimum(np.cumsum(law[0], axis=1), 1.0)
    above = np.cumsum(law[1][:, ::-1], axis=1)[:, ::-1] - law[1]
    shares = np.divide(law[0], at_most, out=np.zeros_like(law[0]), where=at_most > 0)
    with np.errstate(divide="ignore"):
        logs = np.log(at_most).sum(axis=0), np.log(np.clip(above, 0.0, 1.0)).sum(axis=0)
    return np.exp(logs[0]), np.exp(logs[1]), shares.sum(axis=0)
