"""Train, predict and report: from a table on disk to a page about the model."""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables import adult, an_audit
from terminal import ask, here, run

from ledgerwood.accounting import Gaussian, Ledger, PureDP
from ledgerwood.app import report
from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.errors import FormatError, NotPrivate, ParameterError
from ledgerwood.learners import (
    AdaSSPRegressor,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateSearch,
    Schema,
    load,
)
from ledgerwood.verification import AuditReport, Subject

TRAIN = ["train", "adult.csv", "--target", "income", "--schema", "schema.json", "--model", "m.json", "--trees", "4"]


def test_train_writes_model_report_and_journal_and_predict_reads_them(tmp_path: Path) -> None:
    table = adult(tmp_path)
    words = [*TRAIN, "--epsilon", "4", "--report", "r.html", "--rows", "1e3", "--journal", "j.jsonl"]
    found = ask(*words, cwd=tmp_path)
    model = load(tmp_path / "m.json")
    assert found["statement"]["epsilon"] == 4.0 == model.plan_.epsilon
    assert found["statement"]["text"] == str(model.privacy_statement())
    assert "What may be published" in (tmp_path / "r.html").read_text()
    with Ledger.open(tmp_path / "j.jsonl") as ledger:
        assert len(ledger.journal()) == len(model.receipt_) and ledger.plan is not None
    again = run(*words, cwd=tmp_path, code=2)
    assert "new file" in again

    run("predict", "m.json", "adult.parquet", "-o", "p.csv", cwd=tmp_path)
    written = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert written.tolist() == model.predict(table.drop(columns="income")).tolist()
    shares = ask("predict", "m.json", "adult.csv", "--probabilities", cwd=tmp_path)
    assert np.allclose(np.sum(list(shares.values()), axis=0), 1)


def test_train_takes_a_public_number_of_rows_or_releases_a_noisy_one(tmp_path: Path) -> None:
    rows = len(adult(tmp_path))
    schema = json.loads((tmp_path / "schema.json").read_text())
    (tmp_path / "schema.json").write_text(json.dumps({**schema, "rows": None}))
    words = [*TRAIN, "--epsilon", "4"]
    told = {more: ask(*words, *more, cwd=tmp_path) for more in ((), ("--rows", "1e3"), ("--rows", "public"))}
    found = [(answer["statement"]["details"]["row_count"], answer["releases"][0]["label"]) for answer in told.values()]
    assert [source for source, _ in found] == ["released", "declared", "public"]
    assert [label == "row count" for _, label in found] == [True, False, False]
    assert told["--rows", "1e3"]["statement"]["details"]["rows"] == 1000
    assert told["--rows", "public"]["statement"]["details"]["rows"] == rows
    refused = run(*words, "--journal", "j.jsonl", cwd=tmp_path, code=2)
    assert "--rows 20000 on the command line" in " ".join(refused.split())
    assert "whole number" in run(*words, "--rows", "many", cwd=tmp_path, code=2)


def test_a_budget_on_disk_pays_for_a_training_or_refuses_it(tmp_path: Path) -> None:
    adult(tmp_path)
    with Ledger.open(tmp_path / "b.jsonl", epsilon=1.2, delta=0.01):
        pass
    run(*TRAIN, "--epsilon", "1", "--delta", "0.001", "--budget", "b.jsonl", cwd=tmp_path)
    with Ledger.open(tmp_path / "b.jsonl") as ledger:
        spent = ledger.spent().fraction
        assert 0.3 < spent <= 1
    refused = run(*TRAIN, "--epsilon", "3", "--delta", "0.001", "--budget", "b.jsonl", cwd=tmp_path, code=2)
    assert "over the budget" in refused or "cannot pay" in refused
    with Ledger.open(tmp_path / "b.jsonl") as ledger:
        assert ledger.spent().fraction == spent


def test_clear_words_about_bad_tables(tmp_path: Path) -> None:
    adult(tmp_path)
    assert "target must be a column" in run(*TRAIN[:3], "wages", *TRAIN[4:], cwd=tmp_path, code=2)
    (tmp_path / "broken.parquet").write_text("not parquet: SECRET")
    words = ["train", "broken.parquet", "--target", "y", "--model", "m.json"]
    shown = run(*words, cwd=tmp_path, code=2)
    assert "could not be read" in shown and "SECRET" not in shown


def test_train_uses_the_auto_estimator_a_linear_model_or_a_recipe(tmp_path: Path) -> None:
    adult(tmp_path)
    base = ["train", "adult.csv", "--target", "income", "--schema", "schema.toml", "--model", "m.json"]
    for extra, learner in (
        ([], "PrivateClassifier"),
        (["--recipe", "linear"], "BoostedAdaSSPClassifier"),
        (["--recipe", "tr", "--depth", "2"], "PrivateBoostingClassifier"),
        (["--trees", "3"], "PrivateBoostingClassifier"),
    ):
        found = json.loads(here(*base, *extra, "--json", cwd=tmp_path))
        assert found["learner"] == learner == type(load(tmp_path / "m.json")).__name__
        assert (found["choice"] is not None) == ("--recipe" not in extra)
    assert "linear model has none" in here(*base, "--recipe", "linear", "--trees", "3", cwd=tmp_path, code=2)


def test_a_number_is_predicted_only_as_told(tmp_path: Path) -> None:
    adult(tmp_path)
    words = ["train", "adult.csv", "--target", "hours", "--model", "m.json"]
    assert "declare the classes or the target_bounds" in here(*words, cwd=tmp_path, code=2)
    shown = here(*words, "--task", "regression", cwd=tmp_path, code=2)
    assert "say what every column of a CSV file holds" in shown and "nothing about ['age'" in shown
    draft = json.loads(
        here("schema", "draft", "adult.csv", "--target", "hours", "-o", "d.toml", "--json", cwd=tmp_path)
    )
    kinds = {name: kind for name, kind in draft["columns"].items() if name != "hours"}
    assert tomllib.loads((tmp_path / "d.toml").read_text()) == {"bounds": {}, "categories": {}, "kinds": kinds}
    by_draft = here(*words, "--schema", "d.toml", "--task", "regression", "--json", cwd=tmp_path)
    assert json.loads(by_draft)["learner"] == "PrivateRegressor"
    shown = here(*words, "--schema", "d.toml", "--task", "classification", cwd=tmp_path, code=2)
    assert "declare the classes" in shown and "got schema='d.toml'" in shown
    (tmp_path / "s.json").write_text(json.dumps({"kinds": kinds, "target_bounds": [1, 99]}))
    trained = json.loads(here(*words, "--schema", "s.json", "--recipe", "linear", "--json", cwd=tmp_path))
    assert trained["learner"] == "BoostedAdaSSPRegressor"


def test_a_draft_of_a_public_table_is_a_schema_and_overwrites_nothing(tmp_path: Path) -> None:
    adult(tmp_path)
    words = ["schema", "draft", "adult.csv", "--target", "income", "--public", "-o", "p.toml"]
    shown = here(*words, cwd=tmp_path)
    assert "outside any privacy guarantee" in shown
    train = ["train", "adult.csv", "--target", "income", "--schema", "p.toml", "--recipe", "tr", "--trees", "2"]
    assert "label values" in here(*train, "--model", "m.json", cwd=tmp_path)
    assert "exists" in here(*words, cwd=tmp_path, code=2)
    assert "be a column" in here(
        "schema", "draft", "adult.csv", "--target", "incom", "-o", "q.toml", cwd=tmp_path, code=2
    )


def test_nothing_is_spent_on_what_cannot_be_written(tmp_path: Path) -> None:
    adult(tmp_path)
    here("budget", "open", "b.jsonl", "-e", "1", "-d", "0.01", cwd=tmp_path)
    before = (tmp_path / "b.jsonl").read_bytes()
    words = ["train", "adult.csv", "--target", "income", "--schema", "schema.json", "--budget", "b.jsonl"]
    for extra in (["--model", "nowhere/m.json"], ["--model", "."], ["--model", "m.json", "--report", "nowhere/r.html"]):
        assert "existing folder" in here(*words, *extra, cwd=tmp_path, code=2)
    assert (tmp_path / "b.jsonl").read_bytes() == before


def test_clear_words_about_files_of_another_kind(tmp_path: Path) -> None:
    adult(tmp_path)
    (tmp_path / "bin.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "head.csv").write_text("a,b\n")
    (tmp_path / "one.csv").write_text("a\n1\n2\n")
    assert "schema.json is not a model" in here("predict", "schema.json", "adult.csv", cwd=tmp_path, code=2)
    assert "bin.json is not a model" in here("report", "bin.json", cwd=tmp_path, code=2)
    train = ["--target", "income", "--model", "m.json"]
    assert "bin.json" in here("train", "adult.csv", *train, "--schema", "bin.json", cwd=tmp_path, code=2)
    (tmp_path / "facts.json").write_text('{"age": [17, 90]}')
    assert "unknown field 'age'" in here("train", "adult.csv", *train, "--schema", "facts.json", cwd=tmp_path, code=2)
    (tmp_path / "ab.json").write_text('{"bounds": {"b": [0, 1]}, "target_bounds": [0, 1]}')
    known = ["--target", "a", "--model", "m.json", "--schema", "ab.json"]
    assert "no rows" in here("train", "head.csv", *known, cwd=tmp_path, code=2)
    assert "besides the target" in here("train", "one.csv", *known, cwd=tmp_path, code=2)


def test_train_says_that_a_guarantee_says_little(tmp_path: Path) -> None:
    adult(tmp_path)
    shown = " ".join(here(*TRAIN, "--epsilon", "100", "--delta", "0.4", cwd=tmp_path).split())
    assert "CAUTION: epsilon=100 is so large" in shown and "CAUTION: delta=0.4 is not small" in shown
    assert "CAUTION" not in here(*TRAIN, cwd=tmp_path)


def test_an_audit_is_read_back_and_shown_in_the_report(tmp_path: Path) -> None:
    adult(tmp_path)
    assert AuditReport.from_json(an_audit().to_json()) == an_audit()
    changed = an_audit().to_json().replace('"recipe": "xgb"', '"recipe": "auto"')
    with pytest.raises(FormatError, match="digest"):
        AuditReport.from_json(changed)
    for text in (
        "{",
        "[]",
        '{"format": "ledgerwood-audit-1"}',
        an_audit().to_json().replace('"samples": 200', '"samples": []'),
    ):
        with pytest.raises(FormatError):
            AuditReport.from_json(text)
    here(*TRAIN, "--recipe", "xgb", cwd=tmp_path)
    here("report", "m.json", "--audit", "audit.json", "-o", "r.html", cwd=tmp_path)
    assert "no violation found: PureDP(epsilon=1.0)" in (tmp_path / "r.html").read_text()
    assert "format" in here("report", "m.json", "--audit", "schema.json", cwd=tmp_path, code=2)
    here(*TRAIN, "--recipe", "tr", cwd=tmp_path)
    refused = here("report", "m.json", "--audit", "audit.json", cwd=tmp_path, code=2)
    assert "audit must be of trainings of this kind" in refused


def test_the_report_of_a_linear_model_shows_its_coefficients(tmp_path: Path) -> None:
    adult(tmp_path)
    words = ["train", "adult.csv", "--target", "income", "--schema", "schema.toml", "--model", "m.json"]
    here(*words, "--recipe", "linear", "--report", "r.html", cwd=tmp_path)
    text = (tmp_path / "r.html").read_text()
    assert Reader(text).open == []
    assert "The largest coefficients" in text and "no pictures" not in text


class Reader(HTMLParser):
    """Collects tags and attributes, and fails on anything left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def model() -> PrivateBoostingClassifier:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"<b>age</b>": rng.uniform(size=400), "hours": rng.uniform(size=400)})
    schema = Schema(bounds={"<b>age</b>": (0, 1), "hours": (0, 1)}, classes=[0, 1], rows=400)
    found = PrivateBoostingClassifier(recipe="xgb", n_trees=3, max_depth=2, epsilon=3.0, delta=1e-4, schema=schema)
    return found.fit(X, (X["hours"] > 0.5).astype(int))


def test_a_report_is_one_page_that_loads_nothing(model: PrivateBoostingClassifier, tmp_path: Path) -> None:
    path = report(model, tmp_path / "out.html")
    text = path.read_text()
    reader = Reader(text)
    assert reader.open == []
    assert not {"script", "link", "iframe"} & {tag for tag, _ in reader.seen}
    for tag, attributes in reader.seen:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
        if tag == "img":
            assert attributes["alt"]
    assert "<b>age" not in text and "&lt;b&gt;age" in text
    words = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    assert "This PrivateBoostingClassifier is (epsilon=3" in words
    for label, count in model.receipt_.counts().items():
        assert f"{label}" in words and f" {count} {count} yes" in words
    assert "Optimal adaptive composition" in words
    assert "will recognise at most" in words and "random_state" not in words
    assert "recipe=&#x27;xgb&#x27;" in words and "max_depth=2" in words


def test_an_audit_is_shown_only_with_the_kind_of_training_that_was_audited(
    model: PrivateBoostingClassifier, tmp_path: Path
) -> None:
    same = report(model, tmp_path / "r.html", audit=an_audit(Subject.of(model))).read_text()
    assert "with these settings and this claim" in same and "What differs" not in same
    other = report(model, tmp_path / "r.html", audit=an_audit()).read_text()
    assert "NOT with the settings and the claim of this model" in other
    for cells in ("<td>n_trees</td><td>1</td><td>3</td>", "<td>epsilon</td><td>1.0</td><td>3.0</td>"):
        assert cells in other
    tr = Subject.of(PrivateBoostingClassifier(recipe="tr", delta=1e-6))
    regressor = Subject.of(PrivateBoostingRegressor(recipe="xgb", delta=1e-6))
    for wrong in (an_audit(tr), an_audit(regressor), replace(an_audit(), subject=None)):
        with pytest.raises(
            ParameterError, match="be of trainings of this kind: PrivateBoostingClassifier, recipe 'xgb'"
        ):
            report(model, tmp_path / "never.html", audit=wrong)
    assert not (tmp_path / "never.html").exists()


def test_an_audit_of_one_run_is_not_that_of_a_search(searched: PrivateSearch, tmp_path: Path) -> None:
    best = searched.best_estimator_
    alone = Subject.of(best.__class__(**best.get_params()).set_params(epsilon=4.0))
    text = report(best, tmp_path / "r.html", audit=an_audit(alone)).read_text()
    assert "<td>chosen by</td><td></td><td>PrivateSearch</td>" in text


def test_an_audit_from_before_it_named_its_subject_still_loads() -> None:
    content = json.loads(an_audit().to_json())
    old = {name: value for name, value in content.items() if name not in ("subject", "digest")}
    assert AuditReport.from_json(json.dumps(old)) == replace(an_audit(), subject=None)


def test_a_report_tells_of_an_audit_and_of_seeds(tmp_path: Path) -> None:
    from ledgerwood.app.samples import noisy_count
    from ledgerwood.verification import audit

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 1))
    found = PrivateBoostingRegressor(n_trees=3, epsilon=3.0, delta=1e-4, schema=schema, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivate)
        found.fit(X, X[:, 0])
    about = Subject.of(found)  # its caller's word: the auditor sees a function
    result = audit(noisy_count, PureDP(0.5), pair=([1, 1], [1]), samples=2000, seed=1, subject=about)
    assert result.subject == about
    text = report(found, tmp_path / "r.html", audit=result).read_text()
    assert "NOT PRIVATE" in text and 'class="warn"' in text
    assert result.verdict in text


@pytest.mark.parametrize(
    ("kind", "target", "options", "expected"),
    [
        ("PrivateClassifier", "two", {"epsilon": 2.0}, ["boosted AdaSSP, then boosted random grids", "linear_share"]),
        ("PrivateClassifier", "two", {"epsilon": 0.05}, ["boosted AdaSSP, a linear model", "Coefficient"]),
        ("PrivateClassifier", "four", {"epsilon": 2.0}, ["boosted random grids", "Importance"]),
        ("PrivateRegressor", "number", {"epsilon": 2.0}, ["boosted AdaSSP, then boosted random grids", "Coefficient"]),
        ("BoostedAdaSSPClassifier", "four", {"epsilon": 2.0}, ["for 3", "(intercept)"]),
        ("AdaSSPRegressor", "number", {"epsilon": 2.0}, ["cross products"]),
        ("PrivateBoostingRegressor", "number", {"recipe": "tr", "n_trees": 3, "max_depth": 2}, ["The first tree"]),
        ("PrivateClassifier", "words", {"epsilon": 2.0, "schema": None}, ["categories", "bounds"]),
    ],
)
def test_every_kind_of_model_has_a_report(
    kind: str, target: str, options: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    from ledgerwood import learners

    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(size=(800, 5)), columns=list("abcde"))
    score = X["a"] + X["b"]
    X["colour"] = rng.choice(["red", "green"], 800)
    targets = {
        "two": (score > 1).astype(int), "four": (score * 2).astype(int).clip(0, 3), "number": score,
        "words": np.where(score > 1, "yes", "no"),
    }  # fmt: skip
    public = {"two": {"classes": [0, 1]}, "four": {"classes": [0, 1, 2, 3]}, "number": {"target_bounds": (0, 2)}}
    if target in public:
        X = X.drop(columns="colour")
        options = {"schema": Schema(bounds=dict.fromkeys("abcde", (0, 1)), **public[target]), **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivate)
        model = getattr(learners, kind)(random_state=0, **options).fit(X, targets[target])
    text = report(model, tmp_path / "r.html").read_text()
    for words in expected:
        assert words in text
    for release in model.plan_.releases():
        assert release.label in text


@pytest.fixture(scope="module")
def searched() -> PrivateSearch:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 2))
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=400)
    learner = PrivateBoostingClassifier(recipe="tr", n_trees=2, max_depth=1, schema=schema)
    return PrivateSearch(learner, {"n_trees": [1, 2]}, epsilon=4.0, delta=1e-6, runs=2).fit(
        X, (X[:, 0] > 0.5).astype(int)
    )


def test_the_report_of_a_searched_model_is_about_the_whole_search(searched: PrivateSearch, tmp_path: Path) -> None:
    """Not about its best run, which cost less: the statement says 4, and so does every number of the page."""
    best = searched.best_estimator_
    best.save(tmp_path / "m.json")
    whole = best.plan_.account().epsilon
    assert 3.5 < whole <= 4.0 and best.epsilon < 0.95 * whole
    for found in (searched, load(tmp_path / "m.json")):
        words = " ".join(re.sub(r"<[^>]+>", " ", report(found, tmp_path / "r.html").read_text()).split())
        listed = words.partition("by every accountant that can price it")[2].partition("recognise")[0]
        shown = [float(number) for number in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", listed)]
        assert shown and min(shown) >= whole
        assert "search" in words and "1 1 yes" in words and "0 no" not in words
        assert "one more model of that kind" in words


def test_an_older_file_of_a_searched_model_gets_the_plan_of_the_search(searched: PrivateSearch, tmp_path: Path) -> None:
    best = copy(searched.best_estimator_)
    best.plan_ = best.plan(np.ones((400, 2)), np.zeros(400))  # what such files held: the plan of the best run
    best.save(tmp_path / "old.json")
    assert load(tmp_path / "old.json").plan_ == searched.best_estimator_.plan_


def test_a_model_whose_schema_was_read_from_the_data_has_a_report(tmp_path: Path) -> None:
    X = np.random.default_rng(1).uniform(size=(300, 2))
    options: dict[str, Any] = {"recipe": "tr", "n_trees": 1, "schema": "data", "allow_leak": True, "delta": 1e-6}
    found = PrivateBoostingClassifier(**options).fit(X, [0, 1] * 150)
    text = report(found, tmp_path / "r.html").read_text()
    assert "NOT PRIVATE" in text and "schema=&#x27;data&#x27;" in text and "allow_leak=True" in text


def test_coefficients_stand_beside_the_columns_they_belong_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(4000, 3)), columns=["first", "second", "third"])
    schema = Schema(bounds=dict.fromkeys(X, (-1, 1)), target_bounds=(-3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivate)
        fitted = AdaSSPRegressor(epsilon=20.0, schema=schema, random_state=0).fit(X, 2 * X["third"] - X["first"])
    text = report(fitted, tmp_path / "r.html").read_text().partition("Column of the design")[2]
    cells = re.findall(r'<td>([^<]+)</td><td class="number">(-?[\d.e-]+)</td>', text)
    found = {name: float(value) for name, value in cells}
    assert [name for name, _ in cells] == ["(intercept)", "third", "first", "second"]
    assert abs(found["third"] - 2) < 0.1 and abs(found["first"] + 1) < 0.1 and abs(found["second"]) < 0.1
    assert abs(found["(intercept)"]) < 0.1


def test_dollars_in_names_are_no_formulas(tmp_path: Path) -> None:
    names = ["over $50_$", "$50_ to $60_"]  # an index that is missing: no formula
    X = pd.DataFrame(np.random.default_rng(0).uniform(size=(300, 2)), columns=names)
    bounds: dict[Any, tuple[float, float]] = dict.fromkeys(names, (0.0, 1.0))
    classes = Schema(bounds=bounds, classes=["$a_$", "b"])
    trees = PrivateBoostingClassifier(epsilon=1.0, schema=classes, recipe="tr_cyc", n_trees=4, max_depth=2)
    line = AdaSSPRegressor(epsilon=1.0, schema=Schema(bounds=bounds, target_bounds=(0, 1)))
    for fitted in (trees.fit(X, ["$a_$", "b"] * 150), line.fit(X, X[names[0]])):
        assert "$50_ to $60_" in report(fitted, tmp_path / "r.html").read_text()


def test_a_report_needs_a_fitted_model(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="fitted"):
        report(PrivateBoostingClassifier(), tmp_path / "r.html")


def test_the_plan_shown_is_the_plan_spent(model: PrivateBoostingClassifier) -> None:
    facts = PlanRequest(recipe="xgb", rows=400, features=2, trees=3, depth=2, epsilon=3.0, delta=1e-4)
    assert json.loads(facts.plan().to_json()) == json.loads(model.plan_.to_json())


@pytest.mark.parametrize("size", [{}, {"trees": 7}])
@pytest.mark.parametrize("recipe", ["auto", "linear", "xgb_ada", "dp_ebm"])
def test_plans_of_recipes_are_the_plans_of_their_models(recipe: str, size: dict[str, int]) -> None:
    if recipe == "linear" and size:
        return
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(500, 6)), columns=list("abcdef"))
    y = (X["a"] > 0.5).astype(int)
    schema = Schema(bounds=dict.fromkeys(X, (0, 1)), classes=[0, 1], rows=500)
    facts = PlanRequest(recipe=recipe, rows=500, features=6, epsilon=2.0, **size)
    namespace: dict[str, Any] = {}
    exec(facts.python().replace("print(plan.table())", ""), namespace)
    assert namespace["plan"] == facts.plan()
    namespace["model"].set_params(schema=schema)
    assert json.loads(namespace["model"].plan(X, y).to_json()) == json.loads(facts.plan().to_json())


def test_pictures_say_what_they_show() -> None:
    from ledgerwood.accounting import BoundedRange, Plan, Release
    from ledgerwood.app.reports import plots

    tree = 4 * BoundedRange(0.2) + Gaussian(sigma=8.0)
    axes = plots.plot_composition(tree, delta=1e-5, times=[1, 4, 8])
    by_name = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert all(
        best <= other
        for best, other in zip(by_name["Optimal adaptive composition"], by_name["Rényi DP (Theorem 1)"], strict=True)
    )
    with pytest.raises(ParameterError, match="can price"):
        plots.plot_composition(tree, delta=1e-5, times=[1], methods=["pure"])
    profile = plots.plot_profile(10 * Gaussian(sigma=20.0), delta=1e-5).get_lines()[0].get_ydata()
    assert list(profile) == sorted(profile, reverse=True)
    missed = plots.plot_tradeoff(10 * Gaussian(sigma=20.0)).get_lines()[1].get_ydata()
    assert list(missed) == sorted(missed, reverse=True) and missed[0] > 0.99
    plan = Plan([Release("leaf", Gaussian, times=5, share=1.0)]).calibrate(1.0, 1e-5)
    drawn = plots.plot_plan(plan)
    assert any("5 × sigma" in text.get_text() for text in drawn.texts)
    assert plots.plot_plan(plan, axes=drawn) is drawn
