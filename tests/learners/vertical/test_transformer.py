"""The transformer: what it refuses, charges and states, and that its distribution is the stated one."""

from __future__ import annotations

import copy
import itertools
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from ledgerwood.accounting import Ledger
from ledgerwood.errors import BudgetExceeded, NeighboursMismatch, ParameterError
from ledgerwood.learners.vertical import OrderPreservingTransformer
from ledgerwood.learners.vertical.columns import METHODS

DOMAIN: dict[Any, Any] = {"age": (0, 100), "colour": ["red", "green"], "hours": (0.0, 40.0)}
FRAME = pd.DataFrame({"age": [20.0, 35.0, np.nan], "colour": ["red", "blue", None], "hours": [1, 39, 400]})
ORDERED = {0: (0.0, 9.0), 1: (-1.0, 1.0)}


def fitted(method: str = "global_map", **kwargs: Any) -> OrderPreservingTransformer:
    return OrderPreservingTransformer(method, **{"domain": DOMAIN, **kwargs}).declare(
        list(kwargs.get("domain", DOMAIN))
    )


# ---- refusals: public metadata raise, cells never do


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"domain": None}, "domain"),
        ({"domain": {"age": (0, 100)}}, "domain"),
        ({"domain": {**DOMAIN, "height": (0, 3)}}, "domain"),
        ({"domain": {**DOMAIN, "age": (100, 0)}}, "upper"),
        ({"domain": {**DOMAIN, "age": "0-100"}}, "domain"),
        ({"domain": {**DOMAIN, "colour": ["red", "red"]}}, "domain"),
        ({"domain": {**DOMAIN, "colour": []}}, "domain"),
        ({"domain": 3}, "domain"),
        ({"method": "shuffle"}, "method"),
        ({"sampler": "uniform"}, "sampler"),
        ({"missing": "mean"}, "missing"),
        ({"levels": 1}, "levels"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": {"age": 1.0}}, "epsilon"),
        ({"split": "all"}, "split"),
        ({"split": "sample"}, "columns_per_record"),
        ({"columns_per_record": 2}, "columns_per_record"),
        ({"split": "sample", "columns_per_record": 4}, "columns_per_record"),
        ({"method": "local_map", "theta": 1}, "theta"),
        ({"method": "adj_map", "alpha": -1.0}, "alpha"),
    ],
)
def test_wrong_public_metadata_is_refused_by_name(kwargs: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        OrderPreservingTransformer(**{"domain": DOMAIN, **kwargs}).fit(FRAME)
    assert caught.value.name == name


def test_a_table_with_other_columns_is_refused() -> None:
    transformer = fitted()
    with pytest.raises(ParameterError, match="height"):
        transformer.transform(FRAME.assign(height=1.0))
    with pytest.raises(ParameterError, match="columns"):
        transformer.transform(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="dimensions"):
        transformer.transform(np.zeros(3))
    assert transformer.n_releases_ == 0


cells = st.one_of(
    st.none(), st.floats(), st.integers(-(10**400), 10**400), st.text(max_size=3), st.booleans(), st.lists(st.none())
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=5), st.sampled_from(METHODS))
def test_no_cell_raises(rows: list[tuple[Any, Any, Any]], method: str) -> None:
    table = np.empty((len(rows), 3), dtype=object)
    for i, j in itertools.product(range(len(rows)), range(3)):
        table[i, j] = rows[i][j]
    domain = dict(enumerate(DOMAIN.values()))
    released = OrderPreservingTransformer(method, domain=domain).fit_transform(table)
    assert released.shape == (len(rows), 5) and np.isfinite(released).all()


def test_clamping_and_missing_follow_the_stated_rules() -> None:
    domain = {0: (0.0, 9.0)}
    table = np.array([[-5.0], [100.0], [np.nan], [np.inf], [-np.inf]])
    expected = {"lower": 0.0, "middle": 4.0, "upper": 9.0}
    for missing, value in expected.items():
        transformer = OrderPreservingTransformer(epsilon=1000.0, domain=domain, missing=missing)
        assert transformer.fit_transform(table).ravel().tolist() == [0.0, 9.0, value, 9.0, 0.0]
        assert transformer.snap(table).ravel().tolist() == [0.0, 9.0, value, 9.0, 0.0]


# ---- charging


def test_every_call_is_charged_and_the_last_straw_is_refused_before_anything_is_drawn() -> None:
    transformer = fitted(epsilon=0.3)
    once = transformer.release_.cost.epsilon(0.0)
    ledger = Ledger(2.001 * once, 0.0, neighbours="replace_one")
    for spent in (once, 2 * once):
        transformer.transform(FRAME, ledger=ledger)
        assert ledger.spent().epsilon == pytest.approx(spent)
    with pytest.raises(BudgetExceeded):
        transformer.transform(FRAME, ledger=ledger)
    assert (transformer.n_releases_, transformer.n_charged_) == (2, 2)
    assert "released 2 tables, 0 of them without a ledger" in str(transformer.privacy_statement())


def test_without_a_ledger_releases_are_counted_and_the_statement_says_so() -> None:
    transformer = fitted()
    assert "ledger" not in str(transformer.privacy_statement())
    transformer.transform(FRAME)
    assert "One table was released without a ledger" in str(transformer.privacy_statement())
    transformer = pickle.loads(pickle.dumps(transformer))
    transformer.transform(FRAME)
    assert "released 2 tables, 2 of them without a ledger" in str(transformer.privacy_statement())
    assert transformer.privacy_statement().to_dict()["releases"] == 2


def test_fitting_again_and_copying_do_not_start_the_count_anew() -> None:
    transformer = OrderPreservingTransformer(domain=DOMAIN)
    copies = [clone(transformer), copy.copy(transformer), copy.deepcopy(transformer), transformer, transformer]
    for number, each in enumerate(copies, 1):
        each.fit_transform(FRAME)
        assert all(other.n_releases_ == number for other in copies)
    assert "may have been released 5 times" in str(clone(transformer).fit(FRAME).privacy_statement())
    make_pipeline(transformer).fit_transform(FRAME)
    search = clone(make_pipeline(transformer)).fit(FRAME)
    search.transform(FRAME)
    assert transformer.n_releases_ == 7
    assert "own" not in str(transformer.privacy_statement()).splitlines()[-1]
    transformer.set_params(epsilon=0.5).fit(FRAME)
    assert str(transformer.privacy_statement()).endswith("each has the losses of its own.")
    assert transformer.privacy_statement().to_dict()["mixed"]
    restored = pickle.loads(pickle.dumps(transformer))
    assert restored.n_releases_ == 7
    restored.transform(FRAME)
    assert (restored.n_releases_, transformer.n_releases_) == (8, 7)


def test_an_interrupted_release_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = fitted()

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(transformer.release_), "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        transformer.transform(FRAME)
    assert transformer.n_releases_ == 1


@settings(deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(1, 60))
def test_even_shares_never_add_up_to_more(epsilon: float, columns: int) -> None:
    names = list(range(columns))
    made = OrderPreservingTransformer("grr", epsilon=epsilon, domain=dict.fromkeys(names, (0, 1)))
    shares = [Fraction(share) for share in made._epsilons(names).values()]
    assert Fraction(epsilon) * Fraction(1 - 1e-15) <= sum(shares) <= Fraction(epsilon)


def test_one_record_does_not_change_how_the_others_are_read() -> None:
    rows: list[list[Any]] = [[1, 20.0], [2, 30.0], [1, 40.0]]
    made = OrderPreservingTransformer(domain={0: [1, 2], 1: (0, 100)}).declare([0, 1])
    plain = made.snap(rows)
    for cell in ("x", None, 10**400, 2.5, True):
        other = made.snap([*rows, [cell, cell]])
        assert np.array_equal(plain, other[:-1])
    assert np.array_equal(plain, made.snap([["1", "20.0"], ["2", "30"], ["1", "4e1"]]))


def test_a_ledger_of_another_relation_is_refused() -> None:
    with pytest.raises(NeighboursMismatch):
        fitted().transform(FRAME, ledger=Ledger(100.0, 0.0))


def test_local_map_has_no_price_until_its_parts_are_declared_public() -> None:
    ledger = Ledger(1.0, 0.0, neighbours="replace_one")
    kwargs = {"epsilon": 0.2, "split": "each", "domain": ORDERED, "theta": 4}
    secret = fitted("local_map", **kwargs)
    with pytest.raises(ParameterError, match="parts_public"):
        secret.transform(np.zeros((3, 2)), ledger=ledger)
    assert ledger.spent().epsilon == 0 and secret.n_releases_ == 0
    assert "no finite epsilon" in str(secret.privacy_statement())
    public = fitted("local_map", parts_public=True, **kwargs)
    public.transform(np.zeros((3, 2)), ledger=ledger)
    assert ledger.spent().epsilon == pytest.approx(2 * 0.1 * 3)  # two columns, rate 0.1, three steps in a part
    assert "agree on the public parts" in str(public.privacy_statement())


def test_a_seeded_transformer_says_that_it_is_not_private() -> None:
    transformer = fitted(random_state=1)
    ledger = Ledger(100.0, 0.0, neighbours="replace_one")
    first = transformer.transform(FRAME, ledger=ledger)
    assert not ledger.journal()[-1].private
    assert str(transformer.privacy_statement()).startswith("NOT PRIVATE")
    assert np.array_equal(first, fitted(random_state=1).transform(FRAME))


# ---- what is promised is exact


@settings(deadline=None, max_examples=120)
@given(
    method=st.sampled_from(METHODS),
    levels=st.integers(2, 64),
    epsilon=st.floats(1e-3, 8.0),
    theta=st.integers(2, 64),
    alpha=st.floats(0.05, 20.0),
    sampler=st.sampled_from(["exponential", "bounded_discrete_laplace"]),
)
def test_profile_and_order_are_those_of_an_enumeration(
    method: str, levels: int, epsilon: float, theta: int, alpha: float, sampler: str
) -> None:
    transformer = OrderPreservingTransformer(
        method, epsilon=epsilon, levels=levels, theta=min(theta, levels), alpha=alpha, sampler=sampler,
        domain={0: (-1.0, 2.5)}, split="each",
    ).declare([0])  # fmt: skip
    column = transformer.release_.columns[0]
    distribution = np.stack([column.mechanism.probabilities(x) for x in column.mechanism.domain.values])
    assert distribution.sum(axis=1) == pytest.approx(1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.abs(np.log(distribution[:, None, :]) - np.log(distribution[None, :, :]))
    loss = np.where(np.isnan(loss), 0.0, loss).max(axis=2)  # 0 / 0: an output that neither can show
    below = np.tril(np.ones((distribution.shape[1], distribution.shape[1])), -1)
    kept = distribution @ below.T @ distribution.T  # kept[x, x'] = Pr[o < o']
    facts = transformer.privacy_statement().to_dict()["columns"][0]
    distance = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels)))
    for t in range(levels):
        largest = loss[distance <= t].max()
        stated = np.inf if facts["profile"][t] is None else facts["profile"][t]
        assert stated == pytest.approx(largest, rel=1e-9, abs=1e-9)
        assert facts["order"][t] == pytest.approx(np.diagonal(kept, t).min(), rel=1e-9, abs=1e-12)
        claimed = np.inf if facts["claim"][t] is None else facts["claim"][t]
        assert largest <= claimed * (1 + 1e-9) + 1e-9
    whole = transformer.privacy_statement().to_dict()["record_epsilon"]
    assert (np.inf if whole is None else whole) == pytest.approx(loss.max(), rel=1e-9, abs=1e-9)


def test_the_statement_shows_what_adj_map_promises_to_near_neighbours() -> None:
    transformer = OrderPreservingTransformer(
        "adj_map", epsilon=0.1, theta=10, alpha=1.0, levels=100, domain={0: (1, 100)}
    ).declare([0])
    facts = transformer.privacy_statement().to_dict()["columns"][0]
    assert facts["profile"][1] == pytest.approx(0.6601, abs=1e-4)  # theory.md §6: not 0.1
    assert "epsilon(1)=0.6601" in str(transformer.privacy_statement())


def test_budgets_are_split_as_stated() -> None:
    even = fitted("grr", epsilon=1.2, domain=ORDERED)
    assert [c.mechanism.epsilon for c in even.release_.columns] == [0.6, 0.6]
    sampled = fitted("grr", epsilon=1.2, domain=ORDERED, split="sample", columns_per_record=1)
    assert [c.mechanism.epsilon for c in sampled.release_.columns] == [1.2, 1.2]
    assert sampled.release_.cost.epsilon(0.0) == pytest.approx(1.2)
    own = fitted("grr", epsilon={0: 0.5, 1: 2.0}, domain=ORDERED)
    assert own.release_.cost.epsilon(0.0) == pytest.approx(2.5)
    for share in range(1, 40):
        names = dict.fromkeys(range(share), (0, 1))
        parts = [c.mechanism.epsilon for c in fitted("grr", epsilon=0.7, domain=names).release_.columns]
        assert sum(parts) <= 0.7 * (1 + 1e-15)


# ---- the distribution of the release


def joint_counts(released: Any, values: list[Any]) -> Any:
    codes = [np.searchsorted(v, released[:, i]) for i, v in enumerate(values)]
    return np.bincount(codes[0] * len(values[1]) + codes[1], minlength=len(values[0]) * len(values[1]))


@pytest.mark.parametrize("method", METHODS)
def test_column_order_and_batching_do_not_change_the_distribution(method: str) -> None:
    n, row = 6000, {"a": 2.0, "b": 0.4}
    domain = {"a": (0.0, 4.0), "b": (0.0, 1.0)}
    table = pd.DataFrame({name: np.full(n, value) for name, value in row.items()})
    options = {"epsilon": {"a": 0.9, "b": 0.5}, "levels": 5, "domain": domain}
    for reverse, batches in itertools.product((False, True), (1, 7)):
        names = ["b", "a"] if reverse else ["a", "b"]
        transformer = OrderPreservingTransformer(method, random_state=5, **options).declare(names)
        columns = {c.name: c for c in transformer.release_.columns}
        pieces = [transformer.transform(part) for part in np.array_split(table[names].to_numpy(), batches)]
        released = np.concatenate(pieces)[:, [names.index("a"), names.index("b")]]
        values = [columns[name].values for name in ("a", "b")]
        distribution = [
            columns[name].mechanism.probabilities(columns[name].encode([row[name]]) + 1)[0] for name in ("a", "b")
        ]
        expected = n * np.outer(*distribution).ravel()
        counts = joint_counts(released, values)
        seen = expected > 0
        assert counts[~seen].sum() == 0
        assert chisquare(counts[seen], expected[seen]).pvalue > 1e-5


def test_unary_bits_follow_their_distribution() -> None:
    transformer = OrderPreservingTransformer(epsilon=1.0, domain={0: ["a", "b"]}, random_state=3).declare([0])
    bits = transformer.transform(np.full((8000, 1), "b", dtype=object)).astype(int)
    exact = transformer.release_.columns[0].mechanism.probabilities(1)
    counts = np.bincount(bits @ [1, 2, 4], minlength=8)
    assert chisquare(counts, 8000 * exact).pvalue > 1e-5


def test_sampled_columns_are_uniform_and_the_rest_is_withheld() -> None:
    domain = dict.fromkeys(range(4), (0.0, 1.0)) | {4: ["x"]}
    transformer = OrderPreservingTransformer(
        epsilon=1.0, domain=domain, split="sample", columns_per_record=2, levels=2, random_state=1
    ).declare(list(domain))
    table = np.array([[0.0, 1.0, 0.0, 1.0, "x"]] * 6000, dtype=object)
    released = transformer.transform(table)
    assert np.array_equal(np.isnan(released[:, 4]), np.isnan(released[:, 5]))
    shown = ~np.isnan(released[:, :5])
    assert (shown.sum(axis=1) == 2).all()
    subsets = np.unique(shown @ (1 << np.arange(5)), return_counts=True)[1]
    assert subsets.size == 10 and chisquare(subsets).pvalue > 1e-5
    truth = np.nanmean(released[:, 1]), 1 - np.nanmean(released[:, 0])
    expected = transformer.release_.columns[0].mechanism.probabilities(1)[0]
    assert truth == pytest.approx((expected, expected), abs=0.05)


# ---- scikit-learn and tables


def test_frames_of_every_kind_give_the_same_release() -> None:
    results = []
    for table in (FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), FRAME[["hours", "age", "colour"]]):
        transformer = OrderPreservingTransformer(domain=DOMAIN, random_state=2).declare(list(DOMAIN))
        results.append(transformer.transform(table))
    assert all(np.array_equal(results[0], other) for other in results[1:])
    nullable = FRAME.astype({"age": "Float64", "hours": "Int64"})
    transformer = OrderPreservingTransformer(domain=DOMAIN, random_state=2).declare(list(DOMAIN))
    assert np.array_equal(results[0], transformer.transform(nullable))


def test_output_keeps_names_and_follows_set_output() -> None:
    transformer = OrderPreservingTransformer(domain=DOMAIN).fit(FRAME)
    names = ["age", "colour=red", "colour=green", "colour=(other)", "hours"]
    assert transformer.get_feature_names_out().tolist() == names
    pandas = transformer.set_output(transform="pandas").transform(FRAME)
    assert list(pandas.columns) == names and len(pandas) == 3
    assert transformer.set_output(transform="polars").transform(FRAME).columns == names


def test_it_pipes_into_learners_and_keeps_its_parameters() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    table = np.random.default_rng(0).uniform(size=(60, 2))
    transformer = OrderPreservingTransformer(epsilon=50.0, domain={0: (0, 1), 1: (0, 1)}, random_state=0)
    model = make_pipeline(transformer, GradientBoostingClassifier(n_estimators=5))
    model.fit(table, table[:, 0] > 0.5)
    assert (model.predict(table) == (table[:, 0] > 0.5)).mean() > 0.8
    assert clone(transformer).get_params() == transformer.get_params()


def test_nothing_of_the_table_is_kept() -> None:
    marker = 73.123456789
    table = np.full((50, 1), marker)
    transformer = OrderPreservingTransformer(domain={0: (0, 100)}).fit(table)
    transformer.transform(table)
    assert np.float64(marker).tobytes() not in pickle.dumps(transformer)
    assert "73.1" not in repr(vars(transformer))
