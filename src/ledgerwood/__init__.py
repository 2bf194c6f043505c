"""Differential privacy: a certified accountant, exact mechanisms, an auditor, and private learners.

The names used most often are offered here and imported at first use, so ``import ledgerwood`` stays light.
Each part has more to offer:

- :mod:`ledgerwood.accounting`: what privacy costs; costs, accountants, calibration, plans and ledgers.
- :mod:`ledgerwood.mechanisms`: how a value is released; exact noise and private selection.
- :mod:`ledgerwood.learners`: private models in the style of scikit-learn; on one machine, a cluster, several parties.
- :mod:`ledgerwood.verification`: exact checks of a privacy claim, and audits of black boxes.
- :mod:`ledgerwood.datasets`: two public tables with their schemas.
- :mod:`ledgerwood.errors`: every exception and warning, in one tree.

The command ``ledgerwood`` (``python -m ledgerwood``) plans, prices, trains, predicts and audits from a shell.

>>> import ledgerwood as lw
>>> plan = 200 * lw.BoundedRange(0.0339) + 50 * lw.Gaussian(sigma=45.0)
>>> print(f"{plan.epsilon(delta=1/32561):.4f}")
0.9957
"""

from ledgerwood._version import __version__ as __version__

# Not from typing: ``import ledgerwood`` loads no other module, not even of the standard library.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ledgerwood import accounting as accounting
    from ledgerwood import datasets as datasets
    from ledgerwood import errors as errors
    from ledgerwood import learners as learners
    from ledgerwood import mechanisms as mechanisms
    from ledgerwood import verification as verification
    from ledgerwood.accounting import BoundedRange as BoundedRange
    from ledgerwood.accounting import Gaussian as Gaussian
    from ledgerwood.accounting import Laplace as Laplace
    from ledgerwood.accounting import Ledger as Ledger
    from ledgerwood.accounting import Plan as Plan
    from ledgerwood.accounting import PureDP as PureDP
    from ledgerwood.accounting import Release as Release
    from ledgerwood.accounting import calibrate as calibrate
    from ledgerwood.accounting import parallel as parallel
    from ledgerwood.learners import AdaSSPRegressor as AdaSSPRegressor
    from ledgerwood.learners import BoostedAdaSSPClassifier as BoostedAdaSSPClassifier
    from ledgerwood.learners import BoostedAdaSSPRegressor as BoostedAdaSSPRegressor
    from ledgerwood.learners import PrivateBoostingClassifier as PrivateBoostingClassifier
    from ledgerwood.learners import PrivateBoostingRegressor as PrivateBoostingRegressor
    from ledgerwood.learners import PrivateClassifier as PrivateClassifier
    from ledgerwood.learners import PrivateRegressor as PrivateRegressor
    from ledgerwood.learners import PrivateSearch as PrivateSearch
    from ledgerwood.learners import Schema as Schema
    from ledgerwood.learners import load as load
    from ledgerwood.learners import private_score as private_score
    from ledgerwood.mechanisms import ExponentialMechanism as ExponentialMechanism
    from ledgerwood.mechanisms import GaussianMechanism as GaussianMechanism
    from ledgerwood.verification import Pair as Pair
    from ledgerwood.verification import audit as audit
    from ledgerwood.verification import check as check

_PACKAGES = ("accounting", "datasets", "errors", "learners", "mechanisms", "verification")

#: Where each name comes from.
_HOME = {
    "AdaSSPRegressor": "learners",
    "BoostedAdaSSPClassifier": "learners",
    "BoostedAdaSSPRegressor": "learners",
    "BoundedRange": "accounting",
    "ExponentialMechanism": "mechanisms",
    "Gaussian": "accounting",
    "GaussianMechanism": "mechanisms",
    "Laplace": "accounting",
    "Ledger": "accounting",
    "Pair": "verification",
    "Plan": "accounting",
    "PrivateBoostingClassifier": "learners",
    "PrivateBoostingRegressor": "learners",
    "PrivateClassifier": "learners",
    "PrivateRegressor": "learners",
    "PrivateSearch": "learners",
    "PureDP": "accounting",
    "Release": "accounting",
    "Schema": "learners",
    "audit": "verification",
    "calibrate": "accounting",
    "check": "verification",
    "load": "learners",
    "parallel": "accounting",
    "private_score": "learners",
}

#: Names that need an extra, by a module that only the extra brings.
_NEEDS = {name: "sklearn" for name, home in _HOME.items() if home == "learners"} | {"Pair": "mpmath", "check": "mpmath"}

__all__ = sorted({"__version__", *_PACKAGES, *_HOME})


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        errors = import_module(f"{__name__}.errors")
        raise errors.MissingDependency(error.name or "", f"ledgerwood.{name}", _HOME[name]) from error


def __dir__() -> list[str]:
    from importlib.util import find_spec

    # Without its extra a name cannot be imported, and help() imports every name that is listed.
    missing = {name for name, module in _NEEDS.items() if find_spec(module) is None}
    return sorted({*globals(), *__all__} - missing)
