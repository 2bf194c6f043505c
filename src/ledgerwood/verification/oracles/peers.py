"""Other libraries asked in their own words: their mechanism or event for a cost, at their default settings."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledgerwood.accounting import interop
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, RandomizedResponse
from ledgerwood.accounting.costs.guarantees import ZCDP, PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import LedgerwoodError, MethodUnavailable, MissingDependency

__all__ = ["PEERS", "Answer", "Peer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a peer said: a number (with a lower end if it gives one), or why there is none.

    >>> Answer(failure="no such mechanism", offered=False).value is None
    True
    """

    value: float | None = None
    lower: float | None = None
    failure: str = ""
    offered: bool = True  # False: the library has no such mechanism


@dataclass(frozen=True, slots=True)
class Peer:
    """One way of asking one library.

    >>> from ledgerwood.accounting import Gaussian
    >>> Peer("mine", "my-package", None, lambda cost, order: 0.125 * order).ask(Gaussian(sigma=2.0), order=8.0).value
    1.0
    """

    name: str
    package: str
    epsilon: Callable[[Cost, float], tuple[float | None, float]] | None
    rdp: Callable[[Cost, float], float] | None

    def ask(self, cost: Cost, *, delta: float | None = None, order: float | None = None) -> Answer:
        """The answer to ε(δ) or to D_α; an exception, a nan or an infinity is an answer too."""
        if (self.epsilon if order is None else self.rdp) is None:
            return Answer(failure="no such question", offered=False)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if order is not None:
                    assert self.rdp is not None
                    lower, value = None, float(self.rdp(cost, order))
                else:
                    assert self.epsilon is not None and delta is not None
                    lower, value = self.epsilon(cost, delta)
        except MethodUnavailable as error:
            return Answer(failure=error.reason, offered=False)
        except MissingDependency:
            raise
        except Exception as error:  # the peer's own failure is what the table reports
            return Answer(failure=f"{type(error).__name__}: {str(error).split('. ')[0][:60]}")
        return Answer(value=value, lower=lower) if not math.isnan(value) else Answer(failure="nan")


def _module(name: str, package: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        raise MissingDependency(package, "asking it", "peers") from None


# -- autodp -----------------------------------------------------------------------------------------------------------


def _autodp_mechanism(part: Cost) -> Any:
    zoo = _module("autodp.mechanism_zoo", "autodp")
    if isinstance(part, Gaussian):
        return zoo.GaussianMechanism(1 / part.ratio)
    if isinstance(part, Laplace):
        return zoo.LaplaceMechanism(part.scale / part.sensitivity)
    if isinstance(part, BoundedRange):
        return zoo.ExponentialMechanism(part.size)
    if isinstance(part, PureDP):
        return zoo.PureDP_Mechanism(part.size)
    if isinstance(part, RandomizedResponse) and part.k == 2:
        return zoo.RandresponseMechanism(1 / (1 + math.exp(-part.size)))
    if isinstance(part, DiscreteGaussian):
        return zoo.DiscreteGaussianMechanism(part.sigma / part.sensitivity)
    if isinstance(part, ZCDP):
        return zoo.zCDP_Mechanism(part.size)
    if isinstance(part, PoissonSubsampled) and not part.replaced:
        sample = _module("autodp.transformer_zoo", "autodp").AmplificationBySampling()
        return sample(_autodp_mechanism(part.cost), part.rate, improved_bound_flag=isinstance(part.cost, Gaussian))
    raise MethodUnavailable("autodp", "no such mechanism")


def _autodp_epsilon(cost: Cost, delta: float) -> tuple[None, float]:
    transformers = _module("autodp.transformer_zoo", "autodp")
    terms = cost.terms
    counts = [n for _, n in terms]
    if cost.mu() is not None:  # its exact route for Gaussians
        zoo = _module("autodp.mechanism_zoo", "autodp")
        exact = [zoo.ExactGaussianMechanism(1 / part.ratio) for part, _ in terms if isinstance(part, Gaussian)]
        return None, float(transformers.ComposeGaussian()(exact, counts).get_eps(delta))
    mechanisms = [_autodp_mechanism(part) for part, _ in terms]
    if counts == [1]:
        return None, float(mechanisms[0].get_eps(delta))
    return None, float(transformers.Composition()(mechanisms, counts).get_eps(delta))


def _autodp_rdp(cost: Cost, order: float) -> float:
    return math.fsum(n * float(_autodp_mechanism(part).RenyiDP(order)) for part, n in cost.terms)


# -- dp-accounting ----------------------------------------------------------------------------------------------------


def _event(part: Cost) -> Any:
    try:
        return interop.to_dp_accounting(part)
    except MissingDependency:
        raise
    except LedgerwoodError:
        raise MethodUnavailable("dp-accounting", "no such event") from None


def _relation(cost: Cost) -> Any:
    relations = _module("dp_accounting", "dp-accounting").NeighboringRelation
    known = {Neighbours.REPLACE_ONE: relations.REPLACE_ONE, Neighbours.ZERO_OUT: relations.REPLACE_SPECIAL}
    return known.get(cost.neighbours, relations.ADD_OR_REMOVE_ONE)


def _accountant(cost: Cost, accountant: Any, event: Callable[[Cost], Any]) -> Any:
    composed = _module("dp_accounting", "dp-accounting").SelfComposedDpEvent
    for part, n in cost.terms:
        accountant.compose(composed(event(part), n))
    return accountant


def _dp_accounting_pld(cost: Cost, delta: float) -> tuple[None, float]:
    package = _module("dp_accounting.pld.pld_privacy_accountant", "dp-accounting")
    losses = _module("dp_accounting.pld.privacy_loss_distribution", "dp-accounting")
    if all(type(part) is PureDP or isinstance(part, DiscreteGaussian) for part, _ in cost.terms):
        common = _module("dp_accounting.pld.common", "dp-accounting")
        total = losses.identity()
        for part, n in cost.terms:
            if isinstance(part, DiscreteGaussian):
                one = losses.from_discrete_gaussian_mechanism(part.sigma, sensitivity=int(part.sensitivity))
            else:
                one = losses.from_privacy_parameters(common.DifferentialPrivacyParameters(part.pure_epsilon(), 0))
            total = total.compose(one.self_compose(n))
        return None, float(total.get_epsilon_for_delta(delta))
    if any(isinstance(part, ZCDP) for part, _ in cost.terms):
        raise MethodUnavailable("dp-accounting", "its PLD accountant has no zCDP")
    accountant = package.PLDAccountant(_relation(cost))
    return None, float(_accountant(cost, accountant, _event).get_epsilon(delta))


def _dp_accounting_rdp(cost: Cost, delta: float) -> tuple[None, float]:
    package = _module("dp_accounting.rdp.rdp_privacy_accountant", "dp-accounting")
    accountant = package.RdpAccountant(neighboring_relation=_relation(cost))
    return None, float(_accountant(cost, accountant, _concentrated).get_epsilon(delta))


def _dp_accounting_order(cost: Cost, order: float) -> float:
    package = _module("dp_accounting.rdp.rdp_privacy_accountant", "dp-accounting")
    accountant = package.RdpAccountant(orders=[order], neighboring_relation=_relation(cost))
    return float(_accountant(cost, accountant, _concentrated)._rdp[0])


def _concentrated(part: Cost) -> Any:
    """Their event; for a selection, which has none in 0.6.0, the zCDP event of ε²/8."""
    return _event(ZCDP(part.size**2 / 8)) if isinstance(part, BoundedRange) else _event(part)


# -- prv-accountant ---------------------------------------------------------------------------------------------------


def _prv_epsilon(cost: Cost, delta: float) -> tuple[float, float]:
    prv = _module("prv_accountant", "prv-accountant")

    def variable(part: Cost) -> Any:
        if isinstance(part, Gaussian):
            return prv.GaussianMechanism(1 / part.ratio)
        if isinstance(part, Laplace):
            return prv.LaplaceMechanism(part.size)
        if type(part) is PureDP:
            return prv.PureDPMechanism(part.size)
        if isinstance(part, PoissonSubsampled) and isinstance(part.cost, Gaussian) and not part.replaced:
            return prv.PoissonSubsampledGaussianMechanism(part.rate, 1 / part.cost.ratio)
        raise MethodUnavailable("prv-accountant", "no such mechanism")

    variables = [variable(part) for part, _ in cost.terms]
    counts = [n for _, n in cost.terms]
    accountant = prv.PRVAccountant(
        prvs=variables, max_self_compositions=counts, eps_error=0.01, delta_error=delta / 1000
    )
    lower, _, upper = accountant.compute_epsilon(delta, counts)
    return float(lower), float(upper)


PEERS = (
    Peer("autodp", "autodp", _autodp_epsilon, _autodp_rdp),
    Peer("dp-accounting PLD", "dp-accounting", _dp_accounting_pld, None),
    Peer("dp-accounting RDP", "dp-accounting", _dp_accounting_rdp, _dp_accounting_order),
    Peer("prv-accountant", "prv-accountant", _prv_epsilon, None),
)
