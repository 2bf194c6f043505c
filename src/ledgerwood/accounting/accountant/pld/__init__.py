r"""The ``pld`` accountant: privacy-loss distributions composed by tilted FFT, certified from both sides.

``compose`` puts every pair on one uniform grid, from above and from below
(:mod:`ledgerwood.accounting.accountant.pld.discretization`), and
answers come from tilted convolutions (:mod:`ledgerwood.accounting.accountant.pld.tilted_fft`) with every truncation and
rounding error on the
safe side. One call covers one direction (P, Q): with an asymmetric pair in the mix, ask both directions and
take the worse.

>>> from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
>>> composed = compose([(GaussianPair(1 / 50), 1000)], delta=1e-5)
>>> composed.epsilon_lower(1e-5) < 2.594383 < composed.epsilon_upper(1e-5) < 2.59439
True
"""

from ledgerwood.accounting.accountant.pld.composition import ComposedLoss, LossPmf, compose

__all__ = ["ComposedLoss", "LossPmf", "compose"]
