"""Models travel: XGBoost, SHAP and treelite read them; our own files round-trip, and hostile ones are refused."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.kit.toy_learners import ToyClassifier
from tests.kit.tree_definitions import encode, leaf_numbers

from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners import (
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    Schema,
    load,
)
from ledgerwood.learners.auto.estimators import probability
from ledgerwood.learners.trees.xgboost_json import LEAST_COVER, xgboost_document

RNG = np.random.default_rng(5)
N = 3000
FRAME = pd.DataFrame(
    {
        "age": np.where(RNG.random(N) < 0.05, np.nan, RNG.uniform(10, 95, N)),  # 5 % missing, some out of bounds
        "job": RNG.choice(["a", "b", "c", "strange"], N),
        "size": RNG.normal(0, 2, N).astype(np.float32),
    }
)
Y = ((FRAME["age"].fillna(50) > 50) ^ (FRAME["job"] == "a")).astype(int).to_numpy()
FACTS: dict[str, Any] = {"bounds": {"age": (18, 90), "size": (-4, 4)}, "categories": {"job": ["a", "b", "c"]}}
TWO, THREE = Schema(**FACTS, classes=[0, 1]), Schema(**FACTS, classes=["x", "y", "z"])
NUMBER = Schema(**FACTS, target_bounds=(-3, 9))
RECIPES = ["xgb", "tr_cyc", "dp_ebm", "dp_rf", "feverless", "tr_ih_ebm_batched", "sarus"]


def booster_of(model: Any, path: Path) -> tuple[Any, Any]:
    xgboost = pytest.importorskip("xgboost")
    model.to_xgboost(path)
    booster = xgboost.Booster(model_file=str(path))
    names, kinds = booster.feature_names, booster.feature_types
    data = xgboost.DMatrix(model.encode(FRAME), feature_names=names, feature_types=kinds, enable_categorical=True)
    return booster, data


@pytest.fixture(scope="module")
def model() -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(recipe="tr_cyc", n_trees=12, max_depth=3, schema=TWO, delta=1e-5).fit(FRAME, Y)


@pytest.fixture(scope="module")
def shaped() -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(recipe="dp_ebm", n_trees=9, schema=TWO, delta=1e-5).fit(FRAME, Y)


@pytest.mark.parametrize("recipe", RECIPES)
def test_xgboost_predicts_alike(recipe: str, tmp_path: Path) -> None:
    model = PrivateBoostingClassifier(recipe=recipe, n_trees=8, max_depth=3, schema=TWO, delta=1e-5).fit(FRAME, Y)
    booster, data = booster_of(model, tmp_path / "model.json")
    found = np.clip(booster.predict(data), 0, 1)
    np.testing.assert_allclose(found, model.predict_proba(FRAME)[:, 1], atol=1e-6, rtol=0)
    assert booster.attributes()["privacy_statement"] == str(model.privacy_statement())


LABELS = np.array(["x", "y", "z"])[Y + (FRAME["size"] > 1).to_numpy()]
KINDS = ["two classes", "three classes", "a number"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any, Any, Path]]:
    """Models of categories, missing values and numbers for every task: model, booster, data and file."""
    common: dict[str, Any] = {"recipe": "xgb", "n_trees": 8, "max_depth": 3, "epsilon": 4.0, "random_state": 0}
    models = [
        PrivateBoostingClassifier(**common, schema=TWO).fit(FRAME, Y),
        PrivateBoostingClassifier(**common, schema=THREE).fit(FRAME, LABELS),
        PrivateBoostingRegressor(**common, schema=NUMBER).fit(FRAME, 3.0 * Y),
    ]
    found = {}
    for kind, fitted in zip(KINDS, models, strict=True):
        path = tmp_path_factory.mktemp("models") / "model.json"
        found[kind] = (fitted, *booster_of(fitted, path), path)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_predicts_every_task_alike(exported: dict[str, Any], kind: str) -> None:
    model, booster, data, _ = exported[kind]
    if kind == "a number":  # float32 inside, so to 1e-6 of the target's range
        found = np.clip(booster.predict(data), -3, 9)
        np.testing.assert_allclose(found, model.predict(FRAME), atol=12e-6, rtol=0)
        return
    expected = model.predict_proba(FRAME)
    found = booster.predict(data)
    found = found if kind == "three classes" else np.c_[1 - found, found]
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
    margin = booster.predict(data, output_margin=True)
    np.testing.assert_allclose(margin, model.decision_function(FRAME), atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_shap_explains_categories_missing_values_and_every_task(exported: dict[str, Any], kind: str) -> None:
    shap = pytest.importorskip("shap")
    model, booster, data, _ = exported[kind]
    assert "c" in booster.feature_types and np.isnan(model.encode(FRAME)).any()
    explainer = shap.TreeExplainer(booster)
    values = np.asarray(explainer.shap_values(model.encode(FRAME)[:200]))
    total = values.sum(axis=1) + np.asarray(explainer.expected_value)
    np.testing.assert_allclose(total, booster.predict(data, output_margin=True)[:200], atol=1e-4)
    assert np.abs(values[:, 1]).max() > 0, "the column of categories has its part"
    with pytest.raises(NotImplementedError, match="Categorical split"):  # as the how-to says
        shap.TreeExplainer(booster, data=model.encode(FRAME)[:10]).shap_values(model.encode(FRAME)[:10])


@pytest.mark.parametrize("kind", KINDS)
def test_treelite_serves_categories_missing_values_and_every_task(exported: dict[str, Any], kind: str) -> None:
    treelite = pytest.importorskip("treelite")
    model, booster, data, path = exported[kind]
    served = np.asarray(
        treelite.gtil.predict(
            treelite.frontend.load_xgboost_model(str(path), format_choice="use_suffix"), model.encode(FRAME)
        )
    )
    np.testing.assert_allclose(served.reshape(N, -1), booster.predict(data).reshape(N, -1), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_draws_the_trees(exported: dict[str, Any], kind: str) -> None:
    pytest.importorskip("graphviz")
    import xgboost

    _, booster, _, _ = exported[kind]
    assert len(booster.get_dump(with_stats=True)) == (24 if kind == "three classes" else 8)
    assert "cover=" in booster.get_dump(with_stats=True)[0]
    sources = [xgboost.to_graphviz(booster, tree_idx=tree).source for tree in range(8)]
    assert all(source.count("leaf=") == 8 for source in sources)
    assert any("job:{" in source for source in sources), "a split by a set of categories is drawn as one"


@pytest.mark.skipif(shutil.which("dot") is None, reason="xgboost.plot_tree needs the program dot, of graphviz")
def test_xgboost_plots_a_tree(exported: dict[str, Any]) -> None:
    pytest.importorskip("graphviz")
    pytest.importorskip("matplotlib").use("agg")
    import xgboost

    axes = xgboost.plot_tree(exported["two classes"][1], tree_idx=1)
    assert axes.get_images()[0].get_array().size > 1000


def test_an_auto_estimators_export_carries_the_link_of_its_probabilities(tmp_path: Path) -> None:
    model = PrivateClassifier(epsilon=4.0, delta=1e-5, schema=TWO).fit(FRAME, Y)
    booster, data = booster_of(model, tmp_path / "model.json")
    np.testing.assert_allclose(booster.predict(data, output_margin=True), model.decision_function(FRAME), atol=2e-6)
    link = json.loads(booster.attributes()["probability_link"])
    found = probability(booster.predict(data).astype(np.float64), **link)
    np.testing.assert_allclose(found, model.predict_proba(FRAME)[:, 1], atol=1e-6, rtol=0)


def test_a_threshold_separates_exactly_where_our_predict_does(model: Any, tmp_path: Path) -> None:
    """Rows at every edge and at its float32 neighbours: none may take another way."""
    booster, _ = booster_of(model, tmp_path / "model.json")
    import xgboost

    bin_edges = np.concatenate([e.thresholds[0] for e in model.forest_.bin_edges])
    values = np.concatenate(
        [bin_edges, np.nextafter(bin_edges, -np.inf, dtype=np.float32), np.nextafter(bin_edges, np.float32(1e9))]
    )
    rows = pd.DataFrame({"age": values.astype(np.float64), "job": "b", "size": np.float32(0.25)})
    data = xgboost.DMatrix(
        model.encode(rows), feature_names=booster.feature_names, feature_types=booster.feature_types,
        enable_categorical=True,
    )  # fmt: skip
    np.testing.assert_allclose(booster.predict(data), model.predict_proba(rows)[:, 1], atol=1e-6, rtol=0)


def test_the_file_holds_released_numbers_only(model: Any, shaped: Any) -> None:
    for fitted in (model, shaped):
        for tree in xgboost_document(fitted)["learner"]["gradient_booster"]["model"]["trees"]:
            assert set(tree["loss_changes"]) == {0.0}
            covers, inner = tree["sum_hessian"], len(tree["sum_hessian"]) // 2
            assert min(covers) >= LEAST_COVER
            for node in range(inner):
                assert covers[node] == pytest.approx(covers[2 * node + 1] + covers[2 * node + 2])
    released = model.forest_.trees[0].cover[0]
    first = xgboost_document(model)["learner"]["gradient_booster"]["model"]["trees"][0]
    np.testing.assert_allclose(first["sum_hessian"][-len(released) :], np.maximum(released, LEAST_COVER), rtol=1e-6)


def test_only_trees_can_be_exported() -> None:
    from ledgerwood.learners.trees.xgboost_json import to_xgboost

    with pytest.raises(ParameterError, match="be a fitted model of trees"):
        to_xgboost(ToyClassifier(), "nowhere.json")


# ---- explanations


def test_rules_and_importances(model: Any) -> None:
    text = model.rules(trees=2)
    assert text.count("tree ") >= 2 and text.endswith("and 10 more trees") and "  if " in text
    assert model.feature_importances_.shape == (3,) and model.feature_importances_.sum() == pytest.approx(1)
    assert not hasattr(PrivateBoostingClassifier(), "feature_importances_")


@pytest.mark.parametrize("recipe", ["tr_cyc", "tr"])
def test_importances_find_the_feature_that_matters(recipe: str) -> None:
    X = RNG.uniform(0, 1, size=(20_000, 4))
    schema = Schema(bounds=dict.fromkeys(range(4), (0, 1)), classes=[0, 1])
    strong = PrivateBoostingClassifier(recipe=recipe, n_trees=40, epsilon=4.0, schema=schema).fit(X, X[:, 2] > 0.4)
    assert strong.feature_importances_.argmax() == 2 and strong.feature_importances_[2] > 0.7


def selected(test: str, table: Any) -> NDArray[np.bool_]:
    """The rows that pass a test of :func:`rules`."""
    missing = test.endswith(" or missing")
    test = test.removesuffix(" or missing")
    name = next(name for name in ("age", "job", "size") if name in test)
    cells = table.values[table.names.index(name)]
    empty = cells == 3 if name == "job" else np.isnan(cells)
    if " in " in test:
        kept = [code for code, job in enumerate("abc") if job in test.partition(" in ")[2].strip("{}").split(", ")]
        found = np.isin(cells, kept)
    elif test.endswith("is any number"):
        found = ~empty
    elif test.endswith("is missing"):
        found = empty
    elif " <= " in test:
        low, _, rest = test.partition(" <= ")
        found = (cells >= np.float32(low)) & (cells < np.float32(rest.partition(" < ")[2]))
    elif " < " in test:
        found = cells < np.float32(test.partition(" < ")[2])
    else:
        found = cells >= np.float32(test.partition(" >= ")[2])
    return np.asarray(found | empty if missing else found)


@pytest.mark.parametrize("recipe", ["xgb", "tr_cyc", "auto"])
def test_the_rules_of_a_tree_are_the_way_its_rows_go(recipe: str) -> None:
    """Each line, read as a test, selects the rows of its leaf; a leaf without a line has none."""
    from ledgerwood.learners.trees.explain import leaf_tests

    model = PrivateBoostingClassifier(recipe=recipe, n_trees=6, max_depth=3, schema=TWO, delta=1e-5).fit(FRAME, Y)
    forest, table = model.forest_, model._table(FRAME)
    for tree, phase in zip(forest.trees, forest.phase, strict=True):
        bin_edges = forest.bin_edges[phase]
        leaves = leaf_numbers(encode(table.values, bin_edges), tree.structure)
        for leaf in range(1 << tree.structure.depth):
            tests = leaf_tests(tree, bin_edges, model.columns_, leaf, digits=9)
            mine = np.full(N, tests is not None)
            for test in tests or ():
                mine &= selected(test, table)
            np.testing.assert_array_equal(mine, leaves == leaf)
        lines = [line for line in model.rules(trees=1).splitlines() if line.startswith("  ")]
        assert len(lines) <= 1 << forest.trees[0].structure.depth
        assert "{}" not in model.rules()


def test_shapes_add_up_to_the_score_and_have_bands(shaped: Any) -> None:
    from ledgerwood.learners.trees.explain import shapes

    found = {shape.name: shape for shape in shapes(shaped)}
    table = shaped._table(FRAME)
    total = np.zeros(N)
    for name, cells in zip(table.names, table.values, strict=True):
        shape = found[name]
        if shape.bin_edges is None:
            total += np.r_[shape.scores[0], shape.missing[0]][cells]
        else:
            place = np.searchsorted(shape.bin_edges.astype(np.float32)[1:-1], cells, side="right")
            total += np.where(np.isnan(cells), shape.missing[0], shape.scores[0][place])
    np.testing.assert_allclose(total, shaped.decision_function(FRAME), atol=1e-9)
    assert all((shape.noise > 0).all() for shape in found.values())
    mixed = PrivateBoostingClassifier(recipe="tr", n_trees=2, schema=TWO, delta=1e-5).fit(FRAME, Y)
    with pytest.raises(ParameterError, match="use one feature in each tree"):
        shapes(mixed)
    assert len(shapes(mixed, interactions="leave_out")) == 3


def test_noise_bands_are_as_wide_as_the_noise() -> None:
    """Two hundred fits of one tree with the same structure: the spread of its weights is the stated one."""
    from ledgerwood.learners.trees.aggregator import SCORE_BITS

    X = np.linspace(0, 1, 400)[:, None]
    y = (np.arange(400) % 2).astype(int)  # no signal: weights are noise
    schema = Schema(bounds={0: (0, 1)}, classes=[0, 1])
    weights, stated = [], []
    for _ in range(200):
        fitted = PrivateBoostingClassifier(recipe="tr", n_trees=1, max_depth=1, schema=schema, delta=1e-5).fit(X, y)
        tree = fitted.forest_.trees[0]
        weights.append(tree.weights[0] / 2**SCORE_BITS)
        stated.append(tree.noise[0])
    ratio = np.abs(np.array(weights)).mean() / (np.sqrt(2 / np.pi) * np.array(stated).mean())
    assert 0.6 < ratio < 1.4


def test_drawings(model: Any, shaped: Any) -> None:
    pytest.importorskip("matplotlib")
    assert len(model.plot_tree(0).axes) == 1
    assert len(shaped.plot_shapes().axes) == 3
    with pytest.raises(ParameterError, match="at least 0 and at most 11"):
        model.plot_tree(12)


# ---- our own files


@pytest.mark.parametrize("kind", ["trees", "numbers", "linear", "auto"])
def test_a_saved_model_is_the_same_model(kind: str, model: Any, tmp_path: Path) -> None:
    if kind == "numbers":
        fitted: Any = PrivateBoostingRegressor(n_trees=3, schema=NUMBER, delta=1e-5).fit(FRAME, 3.0 * Y)
    elif kind == "auto":
        fitted = PrivateClassifier(schema=TWO, delta=1e-5, epsilon=4.0).fit(FRAME, Y)
    elif kind == "linear":
        fitted = BoostedAdaSSPClassifier(schema=TWO, delta=1e-5).fit(FRAME, Y)
    else:
        fitted = model
    fitted.save(tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert type(back) is type(fitted)
    np.testing.assert_array_equal(back.predict(FRAME), fitted.predict(FRAME))
    assert back.privacy_statement() == fitted.privacy_statement() and back.plan_ == fitted.plan_
    assert back.receipt_ == fitted.receipt_ and list(back.feature_names_in_) == list(fitted.feature_names_in_)
    assert back.get_params()["schema"] == fitted.schema


@pytest.fixture(scope="module")
def document(model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("saved") / "model.json"
    model.save(path)
    return json.loads(path.read_text())


def changed(document: dict[str, Any], change: Any) -> bytes:
    copy = json.loads(json.dumps(document))
    change(copy)
    return json.dumps(copy).encode()


def array(values: Any, dtype: str) -> dict[str, Any]:
    import base64

    data = np.array(values, dtype=dtype)
    return {"$array": base64.b64encode(data.tobytes()).decode(), "dtype": data.dtype.str, "shape": list(data.shape)}


def of(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document["fitted"][name]["$value"][1]


def tree_of(document: dict[str, Any]) -> dict[str, Any]:
    return of(document, "forest_")["trees"]["$tuple"][0]["$value"][1]


def splits_of(document: dict[str, Any]) -> dict[str, Any]:
    return tree_of(document)["structure"]["$value"][1]


ATTACKS: dict[str, Any] = {
    "another format": lambda d: d.update(format="pickle"),
    "a version from the future": lambda d: d.update(version=2),
    "an unknown learner": lambda d: d.update(learner="os.system"),
    "an unknown parameter": lambda d: d["parameters"].update(evil=1),
    "a method replaced": lambda d: d["fitted"].update(predict=1),
    "a property replaced": lambda d: d["fitted"].update(feature_importances_=[1]),
    "a private attribute": lambda d: d["fitted"].update(_train_=1),
    "an unknown type": lambda d: d["fitted"].update(forest_={"$value": ["Popen", {}]}),
    "an unknown form": lambda d: d["fitted"].update(forest_={"$pickle": "gASV"}),
    "a field too few": lambda d: of(d, "forest_").pop("phase"),
    "a text for a number": lambda d: of(d, "forest_").update(n_outputs="1"),
    "other outputs": lambda d: of(d, "forest_").update(n_outputs=7),
    "edges of no tree": lambda d: of(d, "forest_").update(phase={"$tuple": [99] * 12}),
    "a feature out of range": lambda d: splits_of(d).update(feature=array([0, 1, 2, 900, 0, 0, 0], "<i4")),
    "a feature below zero": lambda d: splits_of(d).update(feature=array([-5] * 7, "<i4")),
    "a tree too deep": lambda d: splits_of(d).update(depth=40),
    "sides of other length": lambda d: splits_of(d).update(left=array(np.zeros((7, 3)), "|u1")),
    "sides beyond one": lambda d: splits_of(d).update(left=array(np.full((7, 256), 9), "|u1")),
    "weights of other length": lambda d: tree_of(d).update(weights=array([[1]], "<i4")),
    "weights of objects": lambda d: tree_of(d)["weights"].update(dtype="|O"),
    "a shape that does not fit": lambda d: tree_of(d)["weights"].update(shape=[1, 999]),
    "a negative shape": lambda d: tree_of(d)["weights"].update(shape=[-1, -8]),
    "no base64": lambda d: tree_of(d)["weights"].update({"$array": "!!!"}),
    "a mass of nan": lambda d: tree_of(d).update(mass=array(np.full((1, 8), np.nan), "<f4")),
    "other columns": lambda d: d["fitted"]["columns_"]["$tuple"].pop(),
    "too few features": lambda d: d["fitted"].update(n_features_in_=2),
    "no classes": lambda d: d["fitted"].pop("classes_"),
    "no statement": lambda d: d["fitted"].pop("statement_"),
    "a smaller epsilon stated": lambda d: of(d, "statement_").update(epsilon=0.01),
    "a smaller epsilon planned": lambda d: d["fitted"]["plan_"]["$plan"].update(epsilon=0.01),
    "less noise than stated": lambda d: d["fitted"]["plan_"]["$plan"]["items"][0].update(scale=0.001),
    "releases left out": lambda d: of(d, "receipt_")["lines"]["$tuple"].clear(),
    "bounds of text": lambda d: d["fitted"]["columns_"]["$tuple"][0]["$value"][1].update(bounds={"$tuple": ["a", "b"]}),
    "bounds upside down": lambda d: d["fitted"]["columns_"]["$tuple"][0]["$value"][1].update(
        bounds={"$tuple": [9.0, 1.0]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_file_is_refused(name: str, document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(changed(document, ATTACKS[name]))
    with pytest.raises(FormatError):
        load(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"[]", b"null", b"[" * 200_000, b'{"format": "ledgerwood.model"}', pickle.dumps({"a": 1})],
)
def test_what_is_no_model_at_all_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        load(path)


def test_every_truncation_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    data = json.dumps(document).encode()
    path = tmp_path / "cut.json"
    for length in range(0, len(data), len(data) // 23):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            load(path)


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="be fitted before it is saved"):
        PrivateBoostingClassifier().save(tmp_path / "x.json")
    X = RNG.uniform(size=(50, 1))
    toy = ToyClassifier(schema=Schema(bounds={0: (0, 1)}, classes=[0, 1])).fit(X, np.arange(50) % 2)
    with pytest.raises(ParameterError, match=r"entry points 'ledgerwood\.learners'"):
        toy.save(tmp_path / "x.json")
