"""Order-preserving randomization as a scikit-learn transformer, and its public parameters as JSON.

Party B sends the description to party A (:func:`describe`, :func:`rebuild`); its digest identifies a release.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _clone_parametrized
from sklearn.utils.validation import check_is_fitted

from ledgerwood import _checks
from ledgerwood._rounding import share_down
from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError, ProtocolError
from ledgerwood.learners.data.frames import column_names, columns_of
from ledgerwood.learners.training import sklearn_guard
from ledgerwood.learners.vertical.columns import ColumnSettings, NominalColumn, declarations, declare
from ledgerwood.learners.vertical.release import WITHHELD, ReleaseStatement, TableRelease
from ledgerwood.mechanisms.randomness import SeededSource

Table = NDArray[np.float64]


class ReleaseCount:
    """How often a transformer and its copies have released: clones and copies share it, a pickle carries it on.

    >>> import copy
    >>> count = ReleaseCount()
    >>> copy.deepcopy(count) is count
    True
    """

    def __init__(self) -> None:
        self.released = self.charged = 0
        self.last: TableRelease | None = None
        self.mixed = False  # whether all were made with the same parameters

    def add(self, release: TableRelease, *, charged: bool) -> None:
        """One more table."""
        self.mixed = self.mixed or (self.last is not None and self.last != release)
        self.last = release
        self.released += 1
        self.charged += charged

    def __deepcopy__(self, memo: Any) -> ReleaseCount:
        return self


class OrderPreservingTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Randomize every cell before it leaves, so that far-apart values keep their order (OpBoost, Li et al. 2022).

    Parameters
    ----------
    method
        ``"global_map"``, ``"adj_map"``, ``"local_map"`` (OpBoost's maps), ``"laplace_map"`` (half of Global-map's
        noise at the same guarantee), or the LDP baselines ``"piecewise"`` and ``"grr"``.
    epsilon
        The budget of one record: of one level's difference for the maps, of any two levels for the baselines.
        A mapping gives every column its own.
    split
        ``"even"``: each of d columns gets epsilon / d. ``"sample"``: each record shows ``columns_per_record``
        = k random columns with epsilon / k each, the other cells are missing (Li et al. 2022, §7.1). ``"each"``: every
        column gets epsilon, as in OpBoost's experiments; the record then pays d times.
    theta, alpha
        Width of a part, and how much of the budget goes to the choice of the part (``adj_map``).
    domain
        The public metadata: ``{"age": (0, 100), "colour": ["red", "green"]}`` or a ``Schema``. Bounds make a column
        ordered, a list of categories makes it nominal (one-hot, unary encoding). Required, for every column.
    levels
        How many levels an ordered column has.
    sampler
        ``"exponential"`` (a table) or ``"bounded_discrete_laplace"`` (no table; any number of levels).
    missing
        The level that a missing cell counts as: ``"lower"``, ``"middle"`` or ``"upper"``.
    parts_public
        Declare that the part a value lies in is public: what Local-map needs before a ledger can charge it.
    random_state
        A seed, for tests: the release is then not private, and says so.

    Notes
    -----
    `fit` learns the names of the columns and nothing else. Every `transform` is a release: it is charged to the
    ledger given, or counted. Fitting again does not start the count anew, and clones and copies share it; only
    pickled copies count on their own from then on. Cells outside the declared domain are clamped; no cell raises.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[23.0, 1.0], [68.0, 3.0], [41.0, 2.0]])
    >>> transformer = OrderPreservingTransformer(epsilon=1.0, domain={0: (0, 100), 1: (1, 3)}, levels=5)
    >>> released = transformer.fit(table).transform(table)
    >>> released.shape
    (3, 2)
    >>> print(str(transformer.privacy_statement()).splitlines()[1])
    - 0: 5 levels on [0, 100]; epsilon(1)=0.37, epsilon(2)=0.6562, epsilon(4)=1; order kept: gamma(1)=0.4417, ...
    """

    _leaks: tuple[str, ...] = ()
    _unseen: tuple[str, ...] = ()

    def __init__(
        self,
        method: str = "global_map",
        *,
        epsilon: float | Mapping[Hashable, float] = 1.0,
        split: str = "even",
        columns_per_record: int | None = None,
        theta: int = 2,
        alpha: float = 2.0,
        domain: Any = None,
        levels: int = 10,
        sampler: str = "exponential",
        missing: str = "middle",
        parts_public: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.split = split
        self.columns_per_record = columns_per_record
        self.theta = theta
        self.alpha = alpha
        self.domain = domain
        self.levels = levels
        self.sampler = sampler
        self.missing = missing
        self.parts_public = parts_public
        self.random_state = random_state

    def __sklearn_clone__(self) -> OrderPreservingTransformer:
        copied = _clone_parametrized(self)
        copied._count = self._counted()
        return copied  # type: ignore[no-any-return]

    def __getstate__(self) -> Any:
        self._counted()  # so that every copy has it
        return super().__getstate__()

    def _counted(self) -> ReleaseCount:
        """The count, begun at the first need: a constructor only keeps its arguments."""
        if not hasattr(self, "_count"):
            self._count = ReleaseCount()
        return self._count

    @property
    def n_releases_(self) -> int:
        """How many tables this transformer and its copies have released."""
        return self._counted().released

    @property
    def n_charged_(self) -> int:
        """How many of them were charged to a ledger."""
        return self._counted().charged

    def fit(self, X: Any, y: Any = None) -> OrderPreservingTransformer:
        """Learn the names of the columns; check what is declared. No cell is looked at."""
        return self.declare(column_names(X))

    def declare(self, names: list[Hashable]) -> OrderPreservingTransformer:
        """Like `fit`, from the names alone."""
        settings = ColumnSettings(self.method, self.theta, self.alpha, self.levels, self.sampler, self.missing)
        declarations(self.domain)  # its own message first
        columns = declare(self.domain, names, settings, self._epsilons(names))
        self.release_ = TableRelease(columns, self._per_record(), self.parts_public)
        self._leaks, self._unseen = sklearn_guard.leaks(), sklearn_guard.unseen_callers()
        self.names_in_ = list(names)
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._source = None if self.random_state is None else SeededSource(np.random.default_rng(self.random_state))
        return self

    def transform(self, X: Any, *, ledger: Ledger | None = None) -> Table:
        """Release the table: every cell randomized, in the units of its column; nan where a cell was not drawn.

        Parameters
        ----------
        X
            The table, with the columns of `fit`: numpy, pandas, polars or Arrow.
        ledger
            Charged before anything is drawn; it must be stated for ``replace_one``. Without one the release is counted.
        """
        outputs = self.release(X, ledger=ledger)
        tables = [column.values for column in self.release_.columns for _ in column.names]
        values = [
            np.where(row == WITHHELD, np.nan, table[row]) for row, table in zip(outputs, tables, strict=True)
        ]  # a withheld cell reads the last value first, then becomes nan
        return np.column_stack(values) if values else np.empty((0, 0))

    def fit_transform(self, X: Any, y: Any = None, *, ledger: Ledger | None = None) -> Table:
        """Fit, then release."""
        result: Table = self.fit(X, y).transform(X, ledger=ledger)
        return result

    def release(self, X: Any, *, ledger: Ledger | None = None, label: str = "randomized table") -> NDArray[np.int32]:
        """Release the table as output numbers, one row for each output column; what `transform` puts into units."""
        check_is_fitted(self, "release_")
        cells = columns_of(X, self.names_in_)
        codes = [column.encode(column_cells) for column, column_cells in zip(self.release_.columns, cells, strict=True)]
        if ledger is None:
            self._counted().add(self.release_, charged=False)  # first: an interrupt may overcount, never under
            return self.release_.release(codes, self._source)
        outputs = ledger.release(self.release_, codes, label=label, rng=self._source)
        self._counted().add(self.release_, charged=True)
        return outputs

    def snap(self, X: Any) -> Table:
        """The table on the same levels without noise: for records that are not private, before a model sees them."""
        check_is_fitted(self, "release_")
        cells = columns_of(X, self.names_in_)
        rows = [column.snap(own) for column, own in zip(self.release_.columns, cells, strict=True)]
        return np.column_stack([np.atleast_2d(row).T for row in rows])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that come out."""
        check_is_fitted(self, "release_")
        return np.array([name for column in self.release_.columns for name in column.names], dtype=object)

    def privacy_statement(self) -> ReleaseStatement:
        """The exact guarantee of every column, and how often it was given."""
        check_is_fitted(self, "release_")
        count = self._counted()
        return ReleaseStatement(
            self.release_,
            self.method,
            count.released,
            count.charged,
            seeded=self.random_state is not None,
            mixed=count.mixed or count.last not in (None, self.release_),
            leaks=self._leaks,
            unseen=self._unseen,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _per_record(self) -> int | None:
        if self.split not in ("even", "each", "sample"):
            raise ParameterError("split", "be 'even', 'sample' or 'each'", self.split)
        if (self.split == "sample") != (self.columns_per_record is not None):
            raise ParameterError("columns_per_record", "be given with split='sample' only", self.columns_per_record)
        return self.columns_per_record

    def _epsilons(self, names: list[Hashable]) -> dict[Hashable, float]:
        if isinstance(self.epsilon, Mapping):
            absent = [name for name in names if name not in self.epsilon]
            if absent or len(self.epsilon) != len(names):
                raise ParameterError("epsilon", "name exactly the columns of the table", list(self.epsilon))
            return dict(self.epsilon)
        share = {"even": len(names), "each": 1, "sample": self._per_record()}.get(self.split, 1)
        return {name: _part(self.epsilon, share or 1) for name in names}


def _part(epsilon: Any, share: int) -> float:
    """An equal share, rounded down so that the shares never add up to more."""
    if not _checks.is_real(epsilon):
        raise ParameterError("epsilon", "be a positive number, or one for each column", epsilon)
    return share_down(float(epsilon), share)


_PLAIN = ("method", "split", "columns_per_record", "theta", "alpha", "levels", "sampler", "missing", "parts_public")


def describe(transformer: OrderPreservingTransformer) -> dict[str, Any]:
    """Everything declared, for columns named by strings and categories that JSON keeps."""
    names = transformer.names_in_
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("columns", "be named by strings to be sent to another party", names)
    epsilon = transformer.epsilon
    columns: list[Any] = []
    for column in transformer.release_.columns:
        if isinstance(column, NominalColumn):
            if not all(isinstance(category, str | int) for category in column.categories):
                raise ParameterError("domain", "have categories that are strings or integers", str(column.name))
            columns.append([column.name, list(column.categories)])
        else:
            columns.append([column.name, {"bounds": [column.lower, column.upper]}])
    plain = {name: getattr(transformer, name) for name in _PLAIN}
    return {**plain, "epsilon": dict(epsilon) if not isinstance(epsilon, int | float) else epsilon, "columns": columns}


def rebuild(described: Any) -> OrderPreservingTransformer:
    """The transformer that was described: it can put clean records on the same levels, and state the guarantee.

    >>> from ledgerwood.learners.vertical import OrderPreservingTransformer
    >>> mine = OrderPreservingTransformer(domain={"age": (0, 100), "colour": ["red"]}).declare(["age", "colour"])
    >>> describe(rebuild(describe(mine))) == describe(mine)
    True
    """
    try:
        domain = {
            name: tuple(what["bounds"]) if isinstance(what, dict) else list(what) for name, what in described["columns"]
        }
        plain = {name: described[name] for name in _PLAIN}
        return OrderPreservingTransformer(**plain, epsilon=described["epsilon"], domain=domain).declare(list(domain))
    except (TypeError, KeyError, ValueError) as error:
        raise ProtocolError(f"the other party's description of its columns is not understood: {error}") from None
