"""Made the files beside it, once, on 2026-11-18, with the code of ledgerwood 0.1 before its packages were rearranged.

It is kept to show how they were made and is NOT TO BE RUN AGAIN: the files are the point, written by older code and
read by newer code (``tests/test_stored_files.py``). A new kind of file is added by new lines here that write new files;
it refuses to replace any. It uses private names of the code as it was then, and may stop working.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from ledgerwood.accounting.disjoint import worst
from sklearn.tree import DecisionTreeClassifier

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InParallel,
    InSequence,
    Laplace,
    Ledger,
    PermuteAndFlip,
    Plan,
    PoissonSubsampled,
    PrivacyLoss,
    PureDP,
    RandomizedResponse,
    Release,
    Skellam,
    SparseVector,
    parallel,
    sequence,
)
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    PrivateSearch,
    Schema,
    load,
    plan_boosting,
    plan_training,
    recipes,
)
from ledgerwood.learners.federated import Coordinator, FederatedTask, Node, Party
from ledgerwood.learners.vertical import (
    Authority,
    FeatureClient,
    FeatureParty,
    FeatureServer,
    OrderPreservingTransformer,
    VerticalModel,
    id_digest,
    train_vertical,
)
from ledgerwood.mechanisms import (
    DiscreteGaussianMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    SeededSource,
)
from ledgerwood.verification import Subject, audit
from ledgerwood.verification.zoo import ZOO

HERE = Path(__file__).parent
warnings.simplefilter("ignore")


# ---- tables


def mixed(n: int, seed: int) -> pd.DataFrame:
    """Two numbers and a category, some cells missing."""
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.uniform(size=n), 6), np.round(rng.normal(size=n), 6)
    a[::17] = np.nan
    return pd.DataFrame({"a": a, "b": b, "c": rng.choice(["x", "y", "z"], n)})


def numbers(n: int, seed: int, columns: int = 5) -> pd.DataFrame:
    """Columns with numbers as names."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(np.round(rng.uniform(size=(n, columns)), 6), columns=list(range(columns)))


def target(X: pd.DataFrame) -> Any:
    """A number that the first two columns tell."""
    return X.iloc[:, 0].fillna(0.5).to_numpy() + 0.3 * X.iloc[:, 1].to_numpy()


MIXED = Schema(bounds={"a": (0, 1), "b": (-3, 3)}, categories={"c": ["x", "y", "z"]}, classes=[0, 1])
MIXED_NUMBER = Schema(bounds={"a": (0, 1), "b": (-3, 3)}, categories={"c": ["x", "y", "z"]}, target_bounds=(-1, 2))
NUMBERS = Schema(bounds=dict.fromkeys(range(5), (0, 1)), classes=[0, 1])
NUMBERS_NUMBER = Schema(bounds=dict.fromkeys(range(5), (0, 1)), target_bounds=(0, 1.3))
TINY: dict[str, Any] = {"n_trees": 3, "max_depth": 2, "n_bins": 8, "epsilon": 4.0, "delta": 1e-5, "random_state": 7}


def stopped(model: Any, at: int, *given: Any) -> Any:
    """Fit, and interrupt at the at-th release."""

    def stop(progress: Any) -> None:
        if progress.done == at:
            raise KeyboardInterrupt

    try:
        model.set_params(callbacks=[stop]).fit(*given)
    except KeyboardInterrupt:
        return model
    raise AssertionError("the fit was not stopped")


def fitted_models() -> Iterator[tuple[str, Any, str]]:
    """Every kind of model with its name and the table it predicts for."""
    X = mixed(150, 0)
    t = target(X)
    y = (t > 0.5).astype(int)
    for row in recipes():
        options = TINY | ({"n_trees": 1} if row["recipe"] == "dp_ebm" else {})
        model = PrivateBoostingClassifier(recipe=row["recipe"], schema=MIXED, **options)
        yield f"recipe_{row['recipe']}", model.fit(X, y), "mixed"
    for recipe in ("xgb", "tr_cyc", "sarus"):
        model = PrivateBoostingRegressor(recipe=recipe, schema=MIXED_NUMBER, **TINY)
        yield f"regression_{recipe}", model.fit(X, t), "mixed"
    three = Schema(bounds=MIXED.bounds, categories=MIXED.categories, classes=["high", "low", "middle"])
    names = np.array(["low", "middle", "high"])[np.digitize(t, [0.3, 0.7])]
    for recipe in ("xgb", "tr_cyc", "dp_rf"):
        model = PrivateBoostingClassifier(recipe=recipe, schema=three, **TINY)
        yield f"three_classes_{recipe}", model.fit(X, names), "mixed"
    replaced = Schema(**{**_facts(MIXED), "neighbours": "replace_one"})
    model = PrivateBoostingClassifier(recipe="tr", schema=replaced, **TINY)
    yield "replace_one", model.fit(X, y), "mixed"
    units = Schema(**{**_facts(MIXED), "unit": "person", "max_rows_per_unit": 2, "rows": 150})
    model = PrivateBoostingClassifier(recipe="tr", schema=units, **TINY)
    yield "units_of_two_rows", model.fit(X.assign(person=np.arange(150) // 3), y), "mixed"
    model = PrivateBoostingClassifier(recipe="tr", n_trees=3, max_depth=2, epsilon=8.0, delta=1e-2, random_state=7)
    model.set_params(schema=Schema(classes=[0, 1]))
    yield "learned_schema", model.fit(X, y), "mixed"
    model = PrivateBoostingRegressor(recipe="tr", n_trees=3, max_depth=2, epsilon=8.0, delta=1e-2, random_state=7)
    yield "learned_schema_regression", model.fit(X, t), "mixed"
    leaking = PrivateBoostingClassifier(recipe="tr_cyc", allow_leak=True, schema="data", **TINY)
    yield "leaking", leaking.fit(X, y), "mixed"
    auto = PrivateBoostingClassifier(recipe="auto", schema=MIXED, n_trees=2, epsilon=2.0, delta=1e-5, random_state=7)
    yield "boosting_auto", auto.fit(X, y), "mixed"

    wide = numbers(200, 1)
    wide_t = target(wide)
    wide_y = (wide_t > 0.65).astype(int)
    common: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "random_state": 7}
    model = AdaSSPRegressor(schema=MIXED_NUMBER, **common)
    yield "adassp_regression", model.fit(X, t), "mixed"
    yield "boosted_linear", BoostedAdaSSPClassifier(schema=MIXED, **common).fit(X, y), "mixed"
    yield "boosted_linear_three_classes", BoostedAdaSSPClassifier(schema=three, **common).fit(X, names), "mixed"
    model = BoostedAdaSSPRegressor(schema=NUMBERS_NUMBER, **common)
    yield "boosted_linear_regression", model.fit(wide, wide_t), "numbers"

    yield "auto_linear", PrivateClassifier(schema=NUMBERS, **{**common, "epsilon": 0.2}).fit(wide, wide_y), "numbers"
    # The others are stopped early, to be small: an interrupt leaves a valid model of the trees so far.
    auto = PrivateClassifier(schema=MIXED, **{**common, "epsilon": 1.0})
    yield "auto_trees", stopped(auto, 2, X, y), "mixed"
    yield "auto_linear_start", stopped(PrivateClassifier(schema=NUMBERS, **common), 35, wide, wide_y), "numbers"
    regressor = PrivateRegressor(schema=NUMBERS_NUMBER, **common)
    yield "auto_regression", stopped(regressor, 18, wide, wide_t), "numbers"
    learning = PrivateClassifier(**{**common, "delta": 1e-2})
    yield "auto_learned_schema", stopped(learning, 40, wide, wide_y), "numbers"

    search = PrivateSearch(
        PrivateBoostingClassifier(recipe="tr", n_bins=8, max_depth=2, schema=MIXED),
        {"n_trees": [2, 4]}, epsilon=8.0, delta=1e-5, runs=2, random_state=7,
    )  # fmt: skip
    yield "best_of_a_search", search.fit(X, y).best_estimator_, "mixed"


def _facts(schema: Schema) -> dict[str, Any]:
    return {name: getattr(schema, name) for name in ("bounds", "categories", "classes")}


# ---- costs and plans

TREES = (0.02, 0.05)
COSTS: dict[str, Cost] = {
    "PureDP": PureDP(0.4),
    "PureDP replaced": PureDP(0.4, neighbours="replace_one"),
    "ApproxDP": ApproxDP(0.3, 1e-7),
    "BoundedRange": BoundedRange(0.25),
    "PermuteAndFlip": PermuteAndFlip(0.25),
    "Gaussian": Gaussian(sigma=4.0, sensitivity=1.5),
    "Gaussian by mu": Gaussian(mu=0.3),
    "Laplace": Laplace(scale=5.0, sensitivity=2.0),
    "ZCDP": ZCDP(0.02),
    "RDP": RDP({1.5: 0.01, 2.0: 0.02, 8.0: 0.1, 32.0: 0.6}),
    "DiscreteLaplace": DiscreteLaplace(scale=6.0, sensitivity=2),
    "DiscreteGaussian": DiscreteGaussian(sigma=5.0),
    "DiscreteGaussian of many": DiscreteGaussian(sigma=5.0, sensitivity=2.0, dimension=4),
    "Skellam": Skellam(variance=40.0, l1_sensitivity=2, l2_sensitivity=1.5),
    "RandomizedResponse": RandomizedResponse(0.8, k=3),
    "SparseVector": SparseVector(0.5, cutoff=2),
    "SparseVector with normal noise": SparseVector(sigma_threshold=8.0, sigma_query=16.0, max_queries=20)
    + PureDP(0.01),  # alone it cannot be in a plan
    "PrivacyLoss": PrivacyLoss([-0.5, 0.1, 0.4], [0.2, 0.4, 0.4]),
    "PoissonSubsampled": PoissonSubsampled(Gaussian(sigma=1.2), rate=0.02),
    "PoissonSubsampled, pure": PoissonSubsampled(Laplace(scale=1.0), rate=0.1),
    "sum": 20 * BoundedRange(0.05) + 10 * Gaussian(sigma=20.0) + Laplace(scale=20.0),
    "sequence": sequence([(Gaussian(sigma=20.0), 3), BoundedRange(0.05), (Gaussian(sigma=20.0), 2)]),
    "parallel": parallel(Gaussian(sigma=5.0), Laplace(scale=4.0), 3 * BoundedRange(0.1)),
    "parallel, replaced": parallel(Gaussian(sigma=5.0), Gaussian(sigma=6.0), neighbours="replace_one"),
    "worst": worst([Gaussian(sigma=5.0), Laplace(scale=4.0)]),
}


def plans() -> Iterator[tuple[str, Plan]]:
    """Plans of every recipe and of mixed costs."""
    for row in recipes():
        yield f"recipe_{row['recipe']}", plan_boosting(row["recipe"], n_features=6, epsilon=1.0, delta=1e-6)
    sizes: dict[str, Any] = {"n_rows": 5000, "n_features": 8, "epsilon": 1.0, "delta": 1e-6}
    yield "auto", plan_training(**sizes)
    yield "auto_regression", plan_training(**sizes, n_classes=None)
    yield "auto_learned", plan_training(**sizes, n_categories=2, n_learned=3)
    yield "auto_replace_one", plan_training(**sizes, neighbours="replace_one")
    yield "linear", plan_training("linear", **sizes)
    yield "mixed", mixed_plan()
    yield "reserve", Plan([Release("a", Gaussian, times=3, share=1.0)], reserve=0.5).calibrate(0.8, 1e-6)
    yield "uncalibrated", Plan([Release("a", Laplace, share=1.0, sensitivity=2.0), Release("b", PureDP(0.1))])
    replaced = [Release("a", Gaussian, times=4, share=1.0)]
    yield "replace_one", Plan(replaced, neighbours="replace_one").calibrate(1.0, 1e-5)


def mixed_plan() -> Plan:
    """Rounds, parallel parts, fixed noise and several kinds of cost."""
    split, leaf = Release("split", BoundedRange, times=4, share=0.5), Release("leaf", Gaussian, share=0.3)
    return Plan([
        Release("rows", Laplace(scale=40.0)),
        InSequence("tree", [split, leaf], times=5),
        InParallel("regions", [Release("region", Gaussian, times=2), Release("town", Laplace)], share=0.2),
    ]).calibrate(1.0, 1e-6)  # fmt: skip


# ---- ledgers


class Drawn:
    """A release of any cost that draws nothing."""

    def __init__(self, cost: Cost) -> None:
        self.cost = cost

    def release(self, value: Any, rng: Any = None) -> Any:
        """Return nothing of the value."""
        return 0


def ledgers(folder: Path) -> str:
    """Write journals; return the file of a sub-ledger that is not merged yet."""
    source = SeededSource(np.random.default_rng(3))
    with Ledger.open(folder / "rdp.jsonl", 2.0, 1e-6, reserved_delta=2e-7) as ledger:
        ledger.release(GaussianMechanism(sigma=30.0, grid=2.0**-20), 3.5, label="a sum")
        ledger.release(LaplaceMechanism(scale=40.0, grid=2.0**-20), 3.5, label="another sum", rng=source)
        ledger.release(DiscreteGaussianMechanism(sigma=30.0), 12, label="a count")
        ledger.release(ExponentialMechanism(0.02, 1.0), [0.0, 3.0, 1.0], label="a choice")
        for name in ("PoissonSubsampled", "SparseVector with normal noise", "Skellam", "RDP", "sequence", "parallel"):
            ledger.release(Drawn(PoissonSubsampled(Gaussian(sigma=6.0), rate=0.05) if "Poisson" in name else
                                 COSTS[name] if name in ("Skellam", "sequence") else Gaussian(sigma=50.0)),
                           None, label=name)  # fmt: skip
        ledger.release(Drawn(ApproxDP(0.01, 1e-7)), None, label="spends delta")
        with ledger.parallel("regions") as parts:
            for part, sigma in ((0, 40.0), (1, 30.0), ("north", 35.0), (0, 45.0)):
                parts[part].release(Drawn(Gaussian(sigma=sigma)), None, label="region")
        first, second = ledger.split([0.3, 0.2])
        first.release(Drawn(Gaussian(sigma=60.0)), None, label="in the first")
        with second.parallel("towns") as parts:
            parts["t"].release(Drawn(Laplace(scale=80.0)), None, label="town")
        ledger.merge(first)
        assert second.path is not None
        open_child = second.path.name
        second.close()
        ledger.release(Drawn(Gaussian(sigma=40.0)), None, label="after the merge")
    with Ledger.open(folder / "pure.jsonl", 1.0, 0.0) as ledger:
        for kind in ("PureDP", "RandomizedResponse"):
            with ledger.parallel(kind) as parts:
                parts[0].release(Drawn(PureDP(0.1)), None, label=kind)
        ledger.release(Drawn(DiscreteLaplace(scale=10.0)), None, label="a count")
    with Ledger.open(folder / "gdp.jsonl", 1.0, 1e-6, filter="gdp") as ledger:
        ledger.release(Drawn(Gaussian(sigma=10.0)), None, label="first")
        ledger.release(Drawn(Gaussian(mu=0.05)), None, label="second")
    with Ledger.open(folder / "zcdp.jsonl", 1.0, 1e-6, filter="zcdp", neighbours="replace_one") as ledger:
        ledger.release(Drawn(ZCDP(0.003, neighbours="replace_one")), None, label="first")
        with ledger.parallel("regions") as parts:
            for part in range(3):
                parts[part].release(Drawn(Gaussian(sigma=30.0 + part)), None, label="region")
    with Ledger.open(folder / "order.jsonl", 1.5, 1e-7, order=30.0) as ledger:
        ledger.release(Drawn(3 * BoundedRange(0.05)), None, label="three choices")
        ledger.release(Drawn(COSTS["worst"]), None, label="the worse of two")
    plan = mixed_plan()
    with Ledger.open(folder / "plan.jsonl", plan=plan) as ledger:
        ledger.release(Drawn(plan["rows"].priced()), None, label="rows")
        for _ in range(2):
            for _ in range(4):
                ledger.release(Drawn(plan["split"].priced()), None, label="split")
            ledger.release(Drawn(plan["leaf"].priced()), None, label="leaf")
        for _ in range(4):
            ledger.release(Drawn(plan["split"].priced()), None, label="split")
    with Ledger.open(folder / "torn.jsonl", 1.0, 1e-6) as ledger:
        ledger.release(Drawn(Gaussian(sigma=10.0)), None, label="whole")
    with open(folder / "torn.jsonl", "ab") as file:  # what a crash in the middle of a write leaves
        file.write(b'{"hash":"0123')
    with Ledger.open(folder / "mended.jsonl", 1.0, 1e-6) as ledger:
        ledger.release(Drawn(Gaussian(sigma=10.0)), None, label="whole")
    with open(folder / "mended.jsonl", "ab") as file:
        file.write(b'{"hash":"0123')
    with Ledger.open(folder / "mended.jsonl") as ledger:
        ledger.release(Drawn(Gaussian(sigma=12.0)), None, label="after the crash")
    return open_child


# ---- a fit that was killed


class Killed(Exception):
    """What ends the fit."""


def checkpoint(folder: Path) -> None:
    """Kill a fit in the middle, and keep what it left and the table it was begun with."""
    X = mixed(120, 4)
    y = (target(X) > 0.5).astype(int)
    parameters = {"recipe": "xgb", "n_trees": 4, "max_depth": 2, "n_bins": 8, "epsilon": 2.0, "delta": 1e-5}

    def kill(progress: Any) -> None:
        if progress.done == 7:
            raise Killed

    text = json.dumps({"parameters": parameters, "X": X.to_dict("list"), "y": y.tolist()})
    (folder / "table.json").write_text(text)
    (folder / "schema.json").write_text(MIXED.to_json())
    rows = json.loads(text)
    with Ledger.open(folder / "budget.jsonl", 4.0, 1e-4) as ledger:
        model = PrivateBoostingClassifier(schema=MIXED, callbacks=[kill], **rows["parameters"])
        try:
            model.fit(pd.DataFrame(rows["X"]), rows["y"], ledger=ledger, checkpoint=folder / "run")
        except Killed:
            pass
        else:
            raise AssertionError("the fit was not killed")


# ---- audits, federations, parties


def audits() -> Iterator[tuple[str, Any]]:
    """One report that flags, one that does not, one about a learner."""
    for name in ("svt_4", "discrete_laplace"):
        entry = ZOO[name]
        yield name, audit(entry, entry.claim, pair=entry.pair, samples=20_000, seed=1)
    entry = ZOO["discrete_laplace"]
    subject = Subject.of(PrivateBoostingClassifier(recipe="tr", n_trees=3, epsilon=1.0, delta=1e-6))
    yield "of_a_learner", audit(entry, entry.claim, pair=entry.pair, samples=5_000, seed=2, subject=subject)


def federations() -> Iterator[tuple[str, Any]]:
    """Finished trainings of three parties in memory."""
    keys = {node: Ed25519PrivateKey.generate() for node in (3, 5, 8)}
    identities = {node: key.public_key().public_bytes_raw().hex() for node, key in keys.items()}
    for recipe, noise in (("tr_cyc", "shares"), ("tr_ih_ebm_batched", "central"), ("boosted_adassp", "shares")):
        options = {} if recipe == "boosted_adassp" else {"n_trees": 4, "max_depth": 2, "batch": 2}
        task = FederatedTask(
            Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1]), (0, 1), identities, threshold=2, rows=5000,
            recipe=recipe, noise=noise, epsilon=8.0, delta=1e-5, options=options,
        )  # fmt: skip
        rng = np.random.default_rng(0)
        parties = {}
        for node in keys:
            X = rng.uniform(size=(200, 2))
            parties[node] = Party(task, X, (X[:, 0] > 0.5).astype(int))
        nodes = {n: Node(task, n, key, lambda n=n, parties=parties: parties[n]) for n, key in keys.items()}  # type: ignore[misc]
        state: dict[int, bytes] = {}

        def wire(kind: str, messages: Mapping[int, Any], nodes: Any = nodes, state: Any = state) -> dict[int, Any]:
            replies = {}
            for node, message in messages.items():
                replies[node], state[node] = nodes[node].handle(kind, message, state.get(node, b""))
            return replies

        yield f"{recipe}_{noise}", Coordinator(task, wire).train(keys)


def vertical(folder: Path) -> None:
    """Release a party's columns and train on them."""
    from test_stored_files import VERTICAL_IDS, VERTICAL_KEY

    rng = np.random.default_rng(9)
    theirs = pd.DataFrame({"age": np.round(rng.uniform(0, 100, 40), 2), "color": rng.choice(["red", "blue"], 40)})
    y = (theirs["age"] > 50).astype(int).to_numpy()
    transformer = OrderPreservingTransformer(
        epsilon=8.0, domain={"age": (0, 100), "color": ["red", "green", "blue"]}, levels=12
    ).declare(["age", "color"])
    authority, token = Authority("stored"), b"t" * 16
    ours, bank = authority.issue("lender"), authority.issue("bank", ["localhost"])
    place = folder / "party"
    with (
        tempfile.TemporaryDirectory() as other,
        FeatureParty("bank", transformer, lambda: (theirs, VERTICAL_IDS), place, key=VERTICAL_KEY) as party,
        FeatureServer(party, "grpc+tls://localhost:0", bank, token) as server,
    ):
        client = FeatureClient(
            f"grpc+tls://localhost:{server.port}", identity=ours, token=token, rows=40,
            ids=id_digest(VERTICAL_IDS, VERTICAL_KEY), state=Path(other, "columns"),
        )  # fmt: skip
        learner = DecisionTreeClassifier(max_depth=2, random_state=0)
        train_vertical(learner, y, [client], Path(other, "lender")).save(folder / "model.pkl")
        server.shutdown()


# ---- all of it


def write(folder: Path) -> None:
    """Write every file but expected.json, and an empty one of it."""
    tables = {"mixed": mixed(20, 11).assign(c=["x", "y", "z", "other"] * 5), "numbers": numbers(12, 12)}
    expected: dict[str, Any] = {"tables": {k: t.astype(object).where(t.notna(), None).to_dict("list")
                                           for k, t in tables.items()}, "models": {}}  # fmt: skip
    for name in ("models", "plans", "ledgers", "checkpoint", "audits", "schemas", "federations", "vertical"):
        (folder / name).mkdir()
    for name, model, where in fitted_models():
        model.save(folder / "models" / f"{name}.json")
        expected["models"][name] = {"table": where, "statement": str(model.privacy_statement())}
    for name, plan in plans():
        (folder / "plans" / f"{name}.json").write_text(plan.to_json())
    made = {k: json.loads(Plan([Release("it", c)], neighbours=str(c.neighbours)).to_json()) for k, c in COSTS.items()}
    (folder / "costs.json").write_text(json.dumps(made, indent=1))
    expected["continued"] = {"child": ledgers(folder / "ledgers")}
    checkpoint(folder / "checkpoint")
    for name, report in audits():
        (folder / "audits" / f"{name}.json").write_text(report.to_json())
    for name, schema in {"mixed": MIXED, "numbers": NUMBERS_NUMBER, "units": Schema(
        bounds={"age": (17, 90)}, categories={"sex": ["f", "m"], 3: [1, 2.5, -4]}, classes=["no", "yes"], rows=500,
        unit="person", max_rows_per_unit=4, sources={"age": "a law"}, kinds={"job": "category"},
    ), "replaced": Schema(bounds={0: (-1, 1)}, target_bounds=(0, 9), neighbours="replace_one")}.items():  # fmt: skip
        (folder / "schemas" / f"{name}.json").write_text(schema.to_json())
    (folder / "schemas" / "by_hand.toml").write_text(
        'classes = ["<=50K", ">50K"]\nrows = 32561\nunit = "person"\nmax_rows_per_unit = 2\n\n[bounds]\n'
        'age = [17, 90]\n\n[categories]\nsex = ["Female", "Male"]\n\n[kinds]\nhours = "number"\n'
    )
    for name, done in federations():
        done.save(folder / "federations" / f"{name}.json")
        (folder / "federations" / "task.json").write_text(done.task.to_json())
    for name in ("files", "plans", "costs", "ledgers", "checkpoint", "audits", "schemas", "federations"):
        expected[name] = {}
    (folder / "expected.json").write_text(json.dumps(expected))
    vertical(folder / "vertical")


def describe(folder: Path) -> None:
    """Fill expected.json with what the files give."""
    import test_stored_files as reading
    from ledgerwood.learners.federated import Federation
    from ledgerwood.verification import AuditReport

    expected = reading.EXPECTED
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    own = ("expected.json", "generate.py")
    expected["files"] = [p.relative_to(folder).as_posix() for p in files if p.name not in own]
    for name, model in expected["models"].items():
        found = load(folder / "models" / f"{name}.json")
        assert str(found.privacy_statement()) == model.pop("statement")
        model["gives"] = reading.of_model(found, reading.table(model["table"]))
    expected["plans"] = {p.stem: reading.of_plan(Plan.from_json(p.read_text())) for p in sorted(folder.glob("plans/*"))}
    costs = json.loads((folder / "costs.json").read_text())
    expected["costs"] = {
        k: reading.price(next(Plan.from_json(json.dumps(v)).releases()).cost) for k, v in costs.items()
    }
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "ledgers")
        shutil.copytree(folder / "ledgers", copy)
        expected["ledgers"] = {}
        for path in sorted(copy.glob("*.jsonl")):
            with Ledger.open(path) as ledger:
                expected["ledgers"][path.stem] = reading.of_ledger(ledger)
        with Ledger.open(copy / "rdp.jsonl") as ledger:
            ledger.merge(copy / expected["continued"]["child"])
            source = SeededSource(np.random.default_rng(5))
            ledger.release(GaussianMechanism(sigma=40.0, grid=2.0**-20), 7.0, label="later", rng=source)
            after = reading.of_ledger(ledger)
            expected["continued"]["rdp"] = {k: after[k] for k in ("spent", "remaining", "odometer", "entries")}
        with Ledger.open(copy / "plan.jsonl") as ledger:
            assert ledger.plan is not None
            ledger.release(Drawn(ledger.plan["leaf"].priced()), None, label="leaf", rng=SeededSource(source.generator))
            after = reading.of_ledger(ledger)
            expected["continued"]["plan"] = {k: after[k] for k in ("spent", "remaining", "odometer", "entries")}
        copy = Path(place, "checkpoint")
        shutil.copytree(folder / "checkpoint", copy)
        model, account = reading.resumed(copy)
        expected["checkpoint"] = {
            "versions": reading.versions(), "releases": len(model.receipt_),
            "gives": reading.of_model(model, reading.table("mixed")), "ledger": account,
        }  # fmt: skip
        shutil.copytree(folder / "vertical", Path(place, "vertical"))
        with reading.party_in(Path(place, "vertical", "party")) as party:
            of_party = reading.of_party(party)
    expected["audits"] = {
        p.stem: reading.of_audit(AuditReport.from_json(p.read_text())) for p in sorted(folder.glob("audits/*"))
    }
    expected["schemas"] = {}
    for path in sorted(folder.glob("schemas/*")):
        text = path.read_text()
        schema = Schema(**reading.tomllib.loads(text)) if path.suffix == ".toml" else Schema.from_json(text)
        expected["schemas"][path.name] = reading.of_schema(schema)
    expected["federations"] = {
        p.stem: reading.of_federation(Federation.load(p)) for p in sorted(folder.glob("federations/*_*.json"))
    }
    task = FederatedTask.from_json((folder / "federations" / "task.json").read_text())
    expected["task"] = reading.of_plan(task.plan)
    model = VerticalModel.load(folder / "vertical" / "model.pkl")
    expected["vertical"] = {
        "sklearn": sklearn.__version__, "party": of_party, "model": reading.of_vertical_model(model),
    }  # fmt: skip
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    if (HERE / "models").exists():
        sys.exit("the files are there, and they are the point: see the docstring")
    sys.path.insert(0, str(HERE.parent))
    write(HERE)
    describe(HERE)
