"""The main job on real data, start to end: ``make demo``, or ``python examples/bank_marketing.py``.

Bank Marketing (UCI, CC BY 4.0, embedded): will a client subscribe a term deposit? The demo plans from public metadata,
trains private boosted trees at ε = 1, compares them with non-private XGBoost, prints the privacy statement and the
spend, audits the recipe by one more training, and writes the model and a one-page report. It says which of its numbers
are not private.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.datasets import load_bank
from ledgerwood.errors import MissingDependency

__all__ = ["Result", "main", "run"]

EPSILON, TEST_PART = 1.0, 0.3
SCORE_EPSILON = 0.5
CANARIES = 200
NOT_PRIVATE = "NOT PRIVATE"
Say = Callable[[str], None]


@dataclass
class Result:
    """What the demo found, for its report and for tests."""

    model: Any = None
    exact_auc: float = 0.0
    xgboost_auc: float | None = None
    private_auc: Any = None
    audit: Any = None
    seconds: dict[str, float] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)


def run(output: Path, *, rows: int | None = None, say: Say = print) -> Result:
    """Run the demo; ``rows`` takes a sample of the data, for a quick look."""
    import narwhals.stable.v2 as nw
    from sklearn.metrics import roc_auc_score

    from ledgerwood.learners import PrivateClassifier, private_score

    result = Result()
    X, y, schema = load_bank()
    order = np.random.default_rng(0).permutation(len(y))[:rows]  # public coins
    cut = int(len(order) * (1 - TEST_PART))
    train, test = order[:cut], order[cut:]
    inside, outside = (nw.from_native(X, eager_only=True)[part.tolist()].to_native() for part in (train, test))
    labels, truth = y[train], y[test]
    say(_title("The data: Bank Marketing, without the length of the call"))
    say(f"  {cut} clients to learn from, {len(test)} held out, {X.shape[1]} features;")
    say("  bounds, categories and label values are declared in a schema, so nothing is spent on learning them.")

    say(_title("The plan, before any data is touched"))
    with _Clock(result, "plan"):
        model = PrivateClassifier(epsilon=EPSILON, schema=schema)  # nothing is tuned: tuning costs privacy
        plan = model.plan(inside, labels)
    say(_indented(str(model.explain_choice(inside, labels))))
    say("")
    say(_indented(str(plan.table())))

    say(_title(f"Training at epsilon = {EPSILON:g}"))
    with _Clock(result, "train"):
        model.fit(inside, labels)
    result.model = model
    say(f"  {len(model.forest_.trees)} trees in {result.seconds['train']:.1f} s (compiling included).")

    say(_title("How good is it? Area under the ROC curve on the held-out clients"))
    result.exact_auc = float(roc_auc_score(truth, model.predict_proba(outside)[:, 1]))
    with _Clock(result, "score"):
        result.private_auc = private_score(model, outside, truth, metric="auc", epsilon=SCORE_EPSILON)
    say(f"  private model, released privately:  {result.private_auc.value:.3f} ± {result.private_auc.error:.3f}")
    say(f"    (costs epsilon={SCORE_EPSILON:g}, about the held-out clients, who are not in the training rows)")
    say(f"  private model, exact:               {result.exact_auc:.3f}    {NOT_PRIVATE}: computed on private rows")
    with _Clock(result, "xgboost"):
        result.xgboost_auc = _xgboost_auc(model, inside, labels, outside, truth)
    if result.xgboost_auc is None:
        say("  non-private XGBoost:                not installed (pip install xgboost)")
    else:
        say(f"  non-private XGBoost, exact:         {result.xgboost_auc:.3f}    {NOT_PRIVATE}: no noise at all")

    say(_title("What you may publish with the model"))
    say(_indented(str(model.privacy_statement())))

    say(_title("The spend, release by release"))
    say(_indented(_spend(model)))

    say(_title(f"An audit: one more training with {CANARIES} made-up clients, each in or out by a coin"))
    with _Clock(result, "audit"):
        result.audit = _audit(model, inside, labels)
    say(_indented(str(result.audit)))
    say(f"  ({NOT_PRIVATE}: an audit looks at exact scores. It can find a leak; it cannot prove that there is none.)")

    say(_title("Files"))
    output.mkdir(parents=True, exist_ok=True)
    model.to_xgboost(output / "model.xgboost.json")
    model.save(output / "model.json")
    result.files += [output / "model.xgboost.json", output / "model.json"]
    try:
        from ledgerwood.app import report

        result.files.append(report(model, output / "report.html"))
    except MissingDependency as error:
        say(f"  no report: {error}")
    for path in result.files:
        say(f"  {path} ({path.stat().st_size / 1024:.0f} KB)")
    return result


def _xgboost_auc(model: Any, X: Any, y: NDArray[Any], outside: Any, truth: NDArray[Any]) -> float | None:
    from sklearn.metrics import roc_auc_score

    try:
        import xgboost
    except ImportError:
        return None
    kinds = ["c" if column.kind == "category" else "float" for column in model.columns_]
    data, held = (
        xgboost.DMatrix(model.encode(frame), label=labels, feature_types=kinds, enable_categorical=True)
        for frame, labels in ((X, y), (outside, truth))
    )
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 5, "eta": 0.1, "subsample": 0.8, "nthread": 2, "seed": 0},
        data,
        num_boost_round=150,
    )
    return float(roc_auc_score(truth, booster.predict(held)))


def _spend(model: Any) -> str:
    """One line for each label: how often, its noise, and what it would cost alone."""
    plan = model.plan_
    lines = [f"{'release':<12}{'times':>6}{'noise':>12}{'part of the spend':>20}{'epsilon alone':>16}"]
    alone = {row["part"]: row["epsilon"] for row in plan.explain() if row["part"] != "whole plan"}
    for row in plan.table():
        scale = f"{row['noise']}={row['scale']:.4g}"
        lines.append(
            f"{row['label']:<12}{row['times']:>6}{scale:>12}{100 * row['spend']:>19.1f}%{alone[row['label']]:>16.3f}"
        )
    lines.append(f"together epsilon={model.privacy_statement().epsilon:g} at delta={plan.delta:g}")
    return "\n".join(lines)


def _audit(model: Any, X: Any, y: NDArray[Any]) -> Any:
    """Canaries are random clients with the rare label; a model that remembers them scores them higher."""
    import narwhals.stable.v2 as nw
    from sklearn.base import clone

    from ledgerwood.accounting import ApproxDP
    from ledgerwood.verification import audit_one_run

    rng = np.random.default_rng(1)
    frame = nw.from_native(X, eager_only=True)
    chosen = rng.integers(len(y), size=(frame.shape[1], CANARIES))
    columns = {
        name: [frame[name][int(i)] for i in rows] for name, rows in zip(frame.columns, chosen, strict=True)
    }  # every cell from another client: unlike anybody
    made = nw.from_dict(columns, schema=frame.schema, backend=frame.implementation)

    def train(included: Sequence[int], _: np.random.Generator) -> Any:
        rows = nw.concat([frame, made[list(included)]]).to_native()
        return clone(model).fit(rows, np.r_[y, np.ones(len(included), dtype=y.dtype)])

    def score(fitted: Any, canaries: Sequence[int]) -> NDArray[np.float64]:
        known = fitted.predict_proba(made[list(canaries)].to_native())[:, 1]
        plain = model.predict_proba(made[list(canaries)].to_native())[:, 1]
        return np.asarray(np.log(known) - np.log(plain))

    statement = model.privacy_statement()
    claim = ApproxDP(statement.epsilon, statement.delta)
    return audit_one_run(train, list(range(CANARIES)), score, claim, delta=statement.delta, seed=2)


class _Clock:
    """Measures a step."""

    def __init__(self, result: Result, name: str) -> None:
        self.result, self.name = result, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.result.seconds[self.name] = time.perf_counter() - self.began


def _title(text: str) -> str:
    return f"\n{text}\n{'-' * len(text)}"


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(prog="bank_marketing.py", description="Private boosted trees on bank data.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR", help="where files go")
    parser.add_argument("--rows", type=int, help="this many rows only, for a quick look")
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()
    run(chosen.output, rows=chosen.rows)
    print(f"\nDone in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
