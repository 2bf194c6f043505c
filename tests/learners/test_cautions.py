"""A guarantee that says little is warned about, in the fit and in its statement; an ordinary one is not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.kit.toy_learners import ToyClassifier

from ledgerwood.errors import WeakGuarantee
from ledgerwood.learners import PrivateSearch, Schema, search
from ledgerwood.learners.training.public_metadata import delta_of
from ledgerwood.learners.training.statement import cautions
from ledgerwood.mechanisms.sampling.exact import Reader

RNG = np.random.default_rng(4)
X = RNG.uniform(size=(400, 2))
Y = (X[:, 0] > 0.5).astype(int)
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1])


def test_the_default_delta_is_well_below_one_over_n() -> None:
    assert delta_of(1) == delta_of(32_561) == delta_of(100_000) == 1e-6
    assert delta_of(110_000) == 9e-7 and delta_of(10**9) == 1e-10
    for rows in (1, 10, 12_345, 10**5, 10**6, 3 * 10**8):
        assert delta_of(rows) * rows <= 0.1 and not cautions(1.0, delta_of(rows), rows)
    assert ToyClassifier(schema=SCHEMA).fit(X, Y).privacy_statement().delta == 1e-6
    assert ToyClassifier(schema=SCHEMA).fit(X[:1], Y[:1]).privacy_statement().delta == 1e-6


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "words"),
    [
        (100.0, 1e-6, 400, ["epsilon=100 is so large", "10^43 times"]),
        (1.0, 0.1, 400, ["delta=0.1 is not small", "about 40 of 400 people", "such as 1e-06"]),
        (1.0, 1 / 400, 400, ["delta=0.0025", "about 1 of 400 people"]),
        (1.0, 0.4, 2, ["delta=0.4"]),
        (1.0, 0.4, None, ["delta=0.4", "fail altogether"]),
        (50.0, 0.4, 400, ["epsilon=50", "delta=0.4"]),
        (20.0, 1 / 401, 400, []),
        (0.1, 0.0, 10**9, []),
    ],
)
def test_cautions_are_in_words_and_have_thresholds(
    epsilon: float, delta: float, rows: int | None, words: list[str]
) -> None:
    told = " ".join(cautions(epsilon, delta, rows))
    assert bool(told) == bool(words) and all(word in told for word in words)


@pytest.mark.parametrize("budget", [{"epsilon": 100.0}, {"delta": 0.1}, {"delta": 1 / 400}])
def test_a_fit_warns_once_and_its_statement_says_it(budget: dict[str, float]) -> None:
    with pytest.warns(WeakGuarantee, match="CAUTION") as caught:
        model = ToyClassifier(schema=SCHEMA, **budget).fit(X, Y)
    assert len(caught) == 1 and caught[0].filename == __file__
    statement = model.privacy_statement()
    assert statement.cautions and statement.to_dict()["cautions"] == list(statement.cautions)
    assert statement.private, "the guarantee holds; it says little"
    assert all(caution in str(statement).replace("\n", " ") for caution in statement.cautions)
    assert not ToyClassifier(schema=SCHEMA).fit(X, Y).privacy_statement().cautions


def test_declared_rows_count_and_not_those_given() -> None:
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=10_000)
    with pytest.warns(WeakGuarantee, match="of 10000 people"):
        ToyClassifier(schema=schema, delta=1e-3).fit(X, Y)


def test_a_search_warns_once_however_many_runs_it_makes() -> None:
    """A warning of each run would tell their number, which is secret."""
    for runs in (2, 6):
        made = PrivateSearch(ToyClassifier(schema=SCHEMA), {"rounds": [1]}, epsilon=3.0, delta=0.1, runs=runs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made.fit(X, Y)
        assert [warning.category for warning in caught] == [WeakGuarantee]
        assert "delta=0.1" in " ".join(made.privacy_statement().cautions)


def test_the_number_of_runs_is_drawn_by_the_exact_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price rests on the distribution of that number, and the statement says "exactly sampled"."""
    drawn: list[int] = []

    class Counted(Reader):
        def below(self, n: int) -> int:
            value = super().below(n)
            if n == 7:
                drawn.append(value)
            return value

    fits: list[Any] = []
    fit = ToyClassifier._fit
    monkeypatch.setattr(search, "Reader", Counted)
    monkeypatch.setattr(ToyClassifier, "_fit", lambda self, *data, **rows: fits.append(1) or fit(self, *data, **rows))
    PrivateSearch(ToyClassifier(schema=SCHEMA), {"rounds": [1]}, epsilon=3.0, delta=1e-6, runs=7).fit(X, Y)
    assert len(drawn) == len(fits) >= 1
    assert drawn[-1] == 0 and 0 not in drawn[:-1]
