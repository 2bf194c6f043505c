"""``audit``: look for a violation of a privacy claim, with a certificate.

The mechanism is a Python function, or a recipe of the learners: :class:`RecipeTraining` trains on a handful of rows and
shows the auditor every number that the model holds.

>>> import numpy as np
>>> training = RecipeTraining("tr", epsilon=1.0, delta=1e-3)
>>> training(training.pair[0], np.random.default_rng(1)).shape
(6,)
"""

from __future__ import annotations

import importlib
import json as json_module
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ledgerwood.app.cli.options import Json, Relation, examples, number, whole
from ledgerwood.app.output import CommandOutput, progress
from ledgerwood.errors import FormatError, LedgerwoodWarning, ParameterError, did_you_mean
from ledgerwood.verification.auditor.report import Subject

if TYPE_CHECKING:
    from ledgerwood.verification import AuditReport


VIOLATION, NOT_AUDITED = 1, 3

_OUTPUTS, _TRAININGS = 200_000, 2000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        short_help="Look for a violation of a claim.",
        epilog=examples(
            "ledgerwood audit ledgerwood.app.samples:noisy_count --claim 'PureDP epsilon=0.5' "
            "--pair '[[1, 1], [1]]' --samples 20000 --seed 1",
            "ledgerwood audit --zoo svt_4 laplace --json",
            "ledgerwood audit --recipe tr_cyc --epsilon 1 --samples 300",
        ),
    )(audit)


def audit(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...", show_default=False, help="module:callable; with --zoo, names of entries."
        ),
    ] = None,
    claim: Annotated[
        str | None, typer.Option("--claim", metavar="RELEASE", help="What it claims, such as 'PureDP epsilon=0.5'.")
    ] = None,
    pair: Annotated[str | None, typer.Option("--pair", metavar="JSON", help="Two neighbouring inputs.")] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="JSON", help="Public metadata from which a pair is searched.")
    ] = None,
    zoo: Annotated[bool, typer.Option("--zoo", help="Judge the built-in broken and correct mechanisms.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="With --zoo: also by sampling, as a black box.")] = False,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="NAME", help="Audit trainings of a recipe on a few made-up rows.")
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", parser=number, metavar="NUMBER", help="With --recipe: its budget.")
    ] = 1.0,
    samples: Annotated[
        int | None,
        typer.Option(
            parser=whole, metavar="INTEGER", help="Outputs per input; 200000 by default, 2000 trainings of a recipe."
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time budget.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all of the report holds.")] = 0.99,
    seed: Annotated[int | None, typer.Option(help="Makes the audit reproducible.")] = None,
    neighbours: Relation = "add_remove",
    json: Json = False,
) -> None:
    """Is the claim broken? Certify a lower bound on epsilon.

    The exit code is 1 if a violation is found, 3 if the target could not be audited.
    """
    if zoo:
        drawn = _OUTPUTS if samples is None else samples
        if drawn < 1:
            raise ParameterError("samples", "be at least 1", drawn)
        raise typer.Exit(_judge_zoo(targets or [], sample, drawn, confidence, seed or 0, json))
    options: dict[str, Any] = {"seconds": seconds, "confidence": confidence, "seed": seed}
    if recipe is not None:
        if targets or claim is not None or pair is not None:
            raise ParameterError("recipe", "be audited alone: its claim and its pair are known", recipe)
        options["samples"] = _TRAININGS if samples is None else samples
        raise typer.Exit(_audit_recipe(recipe, epsilon, options, json))
    if not targets or len(targets) != 1:
        raise FormatError("give one target such as mypackage.module:mechanism, or --zoo")
    _split(targets[0])
    if claim is None:
        raise ParameterError("claim", "be given", None, "For example --claim 'PureDP epsilon=0.5'")
    from ledgerwood.app.cli.release_specs import read_cost
    from ledgerwood.verification import audit as run

    mechanism = load(targets[0])
    inputs = None if pair is None else _json("pair", pair)
    declared = None if schema is None else _json("schema", schema)
    promise = read_cost(claim, neighbours)
    progress(f"auditing {targets[0]} ...")
    options["samples"] = _OUTPUTS if samples is None else samples
    report = run(mechanism, promise, pair=inputs, schema=declared, **options)
    raise typer.Exit(_print_report(report, json))


def _print_report(report: AuditReport, json: bool) -> int:
    CommandOutput(json_module.loads(report.to_json())).say(str(report)).print(as_json=json)
    return VIOLATION if report.flagged else NOT_AUDITED if report.problems else 0


def _audit_recipe(recipe: str, epsilon: float, options: dict[str, Any], json: bool) -> int:
    from ledgerwood.verification import audit as run

    training = RecipeTraining(recipe, epsilon=epsilon)
    claim = training.claim()
    progress(f"training {recipe} {2 * options['samples']} times ...")
    return _print_report(run(training, claim, pair=training.pair, subject=training.subject, **options), json)


def _split(target: str) -> tuple[str, str]:
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise FormatError(f"{target!r} must have the form module:callable")
    return module_name, name


def load(target: str) -> Any:
    """Return what ``module:name`` points at; modules of the working directory are found too."""
    module_name, name = _split(target)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise FormatError(f"cannot import {module_name!r}: {error}") from None
    except AttributeError:
        raise FormatError(f"module {module_name!r} has no {name!r}") from None
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError as error:
        raise FormatError(f"--{name} is not JSON: {error}") from None


def _judge_zoo(names: Sequence[str], sample: bool, samples: int, confidence: float, seed: int, json: bool) -> int:
    from ledgerwood.verification.zoo import ZOO
    from ledgerwood.verification.zoo.scoreboard import header, line, score, summary, to_json

    unknown = sorted(set(names) - set(ZOO))
    if unknown:
        near = did_you_mean(unknown[0], ZOO)
        raise FormatError(f"the zoo has no entry {', '.join(unknown)}. {near or 'It has ' + ', '.join(ZOO)}")
    entries = [ZOO[name] for name in names] or list(ZOO.values())
    found: list[Any] = []
    scores = score(entries, samples=samples if sample else None, seed=seed, confidence=confidence)
    for entry, each in zip(entries, scores, strict=True):
        if not json:
            print(*([] if found else [header(audited=sample)]), line(entry, each), sep="\n", flush=True)
        found.append(each)
    print(to_json(found) if json else summary(found))
    return 0 if all(each.right for each in found) else VIOLATION


Rows = list[list[float]]

#: Seven equal records, and one that is unlike them in every way: no other record moves the sums by more.
_COMMON, _ODD = [0.1, 0.1, 0.0], [0.9, 0.9, 1.0]


@dataclass(frozen=True)
class RecipeTraining:
    """Trainings of a recipe on two columns with values in [0, 1] and a label, from seeds that the auditor gives."""

    recipe: str
    epsilon: float = 1.0
    delta: float = 1e-3
    trees: int = 1
    depth: int = 1

    @property
    def pair(self) -> tuple[Rows, Rows]:
        """Two neighbouring tables: with and without the odd record."""
        return [*[_COMMON] * 7, _ODD], [_COMMON] * 7

    @cached_property
    def model(self) -> Any:
        """The estimator that is trained over and over."""
        from ledgerwood.learners import PrivateBoostingClassifier, Schema

        schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=8)
        return PrivateBoostingClassifier(
            recipe=self.recipe,
            n_trees=self.trees,
            max_depth=self.depth,
            epsilon=self.epsilon,
            delta=self.delta,
            schema=schema,
            n_threads=1,
        )

    @property
    def subject(self) -> Subject:
        """What such an audit is about."""
        return Subject.of(self.model)

    def claim(self) -> Any:
        """What the plan of such a training costs."""
        X, y = _table(self.pair[0])
        return self.model.plan(X, y).cost

    def __call__(self, data: Rows, rng: np.random.Generator) -> NDArray[np.float64]:
        """Train once; return the splits, the leaf weights and the released covers."""
        X, y = _table(data)
        self.model.set_params(random_state=int(rng.integers(2**31 - 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LedgerwoodWarning)  # seeded and untracked on purpose: the rows are made up
            forest = self.model.fit(X, y).forest_
        numbers = []
        for tree in forest.trees:
            numbers += [tree.structure.feature, tree.structure.left.sum(axis=1), tree.weights]
            numbers += [tree.cover] if tree.cover is not None else []
        return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in numbers])


def _table(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    table = np.array(rows)
    return table[:, :2], table[:, 2].astype(np.int64)
