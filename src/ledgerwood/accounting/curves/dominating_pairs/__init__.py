r"""Dominating pairs: each mechanism as the distribution of one privacy loss.

An ordered pair :math:`(P, Q)` *dominates* a mechanism when its profile
:math:`\delta(\varepsilon) = \sup_S P(S) - e^{\varepsilon} Q(S)` is at least that of every pair of output
distributions on neighbouring inputs. Composition acts on the distribution of the loss :math:`L = \log dP/dQ` alone,
so a pair is described by the masses that P and Q give to cells of the loss axis, in logs and without cancellation
(``LossPair.log_cells`` in ``base``).

Every pair is exact for its mechanism (its profile is attained) unless its docstring says *bound*.
Derivations: ``docs/theory/privacy-loss-distributions.md``.
"""
