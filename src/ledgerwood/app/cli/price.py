"""``account``, ``calibrate`` and ``compare``: what a list of releases costs, and the noise for a target."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli import dp_sgd
from ledgerwood.app.cli.options import Delta, Epsilon, Features, Json, Relation, Rows, examples, number_option
from ledgerwood.app.output import CommandOutput, price, why_not
from ledgerwood.errors import CalibrationError, FormatError, MethodUnavailable, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Account, Cost, Plan
    from ledgerwood.app.cli.release_specs import Releases

Listed = Annotated[
    list[str],
    typer.Argument(
        metavar="RELEASE...",
        show_default=False,
        help="A line such as '50 Gaussian sigma=45', or a .toml or .json file with a list of them.",
    ),
]
Method = Annotated[str | None, typer.Option("--method", help="Accounting method; the tightest one by default.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        short_help="What epsilon for this noise?",
        epilog=examples(
            "ledgerwood account '200 BoundedRange epsilon=0.0339' '50 Gaussian sigma=45' --delta 1/32561",
            "ledgerwood account '1000 Gaussian sigma=1.1 rate=0.01' --delta 1e-5 --json",
            "ledgerwood account '3 Laplace scale=10' --delta 0",
            "ledgerwood account dp-sgd --rate 256/60000 --noise-multiplier 1.1 --steps 14062 --delta 1e-5",
        ),
    )(account)
    app.command(
        short_help="What noise for this epsilon?",
        epilog=examples(
            "ledgerwood calibrate '1000 Gaussian' --epsilon 1 --delta 1e-6",
            "ledgerwood calibrate '200 BoundedRange share=0.7' '50 Gaussian share=0.3' -e 1 -d 1/32561",
            "ledgerwood calibrate dp-sgd --batch-size 256 --dataset-size 60000 --epochs 60 -e 1 -d 1e-5",
            "ledgerwood calibrate dp-sgd --rate 0.002 --steps 10000 --advantage 0.1",
        ),
    )(calibrate)
    app.command(
        short_help="Which accountant is tightest?",
        epilog=examples(
            "ledgerwood compare '200 BoundedRange epsilon=0.034' '50 Gaussian sigma=45' --delta 3e-5",
            "ledgerwood compare '200 BoundedRange share=0.7' '50 Gaussian share=0.3' -e 1 -d 3e-5",
            "ledgerwood compare --recipes xgb,tr_cyc,feverless --rows 32561 --features 14 --epsilon 1",
        ),
    )(compare)


def account(
    releases: Listed,
    delta: Delta = None,
    epsilon: Annotated[float | None, number_option("Also the delta at this epsilon.", "--at")] = None,
    risk: Annotated[bool, typer.Option("--risk", help="Also what an attacker can do.")] = False,
    neighbours: Relation = "add_remove",
    rate: dp_sgd.Rate = None,
    batch_size: dp_sgd.BatchSize = None,
    dataset_size: dp_sgd.DatasetSize = None,
    noise_multiplier: dp_sgd.NoiseMultiplier = None,
    steps: dp_sgd.Steps = None,
    epochs: dp_sgd.Epochs = None,
    sampler: dp_sgd.Sampler = None,
    limit: dp_sgd.Limit = None,
    json: Json = False,
) -> None:
    """What epsilon for this noise? Price releases by every accounting method.

    A RELEASE is '[times] Mechanism name=value ...', or a .toml or .json file of them; or the word dp-sgd, with the
    options that describe the training.
    """
    run = dp_sgd.TrainingRun(
        rate, batch_size, dataset_size, noise_multiplier, steps, epochs, sampler, limit, neighbours
    )
    if run.asked(releases):
        answer_dp_sgd(run.cost(), delta, epsilon, risk).print(as_json=json)
        return
    listed, delta, neighbours = _read(releases, delta, neighbours)
    cost = listed.cost(neighbours)
    found = cost.account(delta)
    data: dict[str, Any] = {"cost": repr(cost), "neighbours": neighbours, **found.to_dict()}
    answer = CommandOutput(data)
    answer.table(["release", "times", "cost of one"], listed.rows(neighbours))
    _say_price(answer, data, cost, found, epsilon, risk).print(as_json=json)


def answer_dp_sgd(cost: Cost, delta: float | None, epsilon: float | None, risk: bool = False) -> CommandOutput:
    """Return the price of a training by DP-SGD."""
    from ledgerwood import _checks

    if delta is None:
        raise ParameterError("delta", "be given", None, "For example --delta 1e-6")
    found = cost.account(_checks.delta_value(delta))
    data: dict[str, Any] = {"cost": repr(cost), "neighbours": str(cost.neighbours), **found.to_dict()}
    answer = CommandOutput(data)
    answer.table(["step", "times"], [[repr(part), times] for part, times in cost.terms])
    return _say_price(answer, data, cost, found, epsilon, risk)


def _say_price(
    answer: CommandOutput, data: dict[str, Any], cost: Cost, found: Account, epsilon: float | None, risk: bool
) -> CommandOutput:
    answer.say(account_sentence(found, str(cost.neighbours)))
    if found.lower > 0:
        answer.say(f"Certified: no accountant can report less than {found.lower:.5g} for such releases.")
    answer.table(["method", "epsilon", "note"], method_rows(found))
    if epsilon is not None:
        data["at"] = {"epsilon": epsilon, "delta": cost.delta(epsilon)}
        answer.say(f"At epsilon = {epsilon:g}: delta = {price(data['at']['delta'])}.")
    if risk:
        from ledgerwood.app.curves import risks

        data["risk"] = risks(cost)
        answer.say(risk_sentences(data["risk"], str(cost.neighbours)))
    return answer


def risk_sentences(found: dict[str, Any], neighbours: str) -> str:
    """Return what an attacker can do, in sentences; numbers are rounded to the attacker's side."""
    from ledgerwood.app.curves import attack_sentence

    worst = math.floor(1e4 * found["bayes_risk"]) / 1e4
    return (
        f"{attack_sentence(found['tpr'][-1]['tpr'], neighbours)} Advantage: at most "
        f"{price(found['advantage'])}. If both cases are as likely, at least {worst:.4f} of all guesses are wrong."
    )


def calibrate(
    releases: Listed,
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = None,
    advantage: dp_sgd.Advantage = None,
    tpr: dp_sgd.Tpr = None,
    mu: dp_sgd.Mu = None,
    neighbours: Relation = "add_remove",
    save: Annotated[str | None, typer.Option("--save", metavar="FILE", help="Write the plan as JSON.")] = None,
    rate: dp_sgd.Rate = None,
    batch_size: dp_sgd.BatchSize = None,
    dataset_size: dp_sgd.DatasetSize = None,
    noise_multiplier: dp_sgd.NoiseMultiplier = None,
    steps: dp_sgd.Steps = None,
    epochs: dp_sgd.Epochs = None,
    sampler: dp_sgd.Sampler = None,
    limit: dp_sgd.Limit = None,
    json: Json = False,
) -> None:
    """What noise for this epsilon? Leave out the noise, give a share of the budget to each kind of release.

    For the word dp-sgd instead of releases: the noise multiplier, for an epsilon or for a risk; or, if it is given,
    how many steps it affords.
    """
    run = dp_sgd.TrainingRun(
        rate, batch_size, dataset_size, noise_multiplier, steps, epochs, sampler, limit, neighbours
    )
    if run.asked(releases):
        risk = {"advantage": advantage, "tpr": tpr, "mu": mu}
        dp_sgd.calibrated(run, epsilon, delta, method, save, risk).print(as_json=json)
        return
    for name, target in (("--advantage", advantage), ("--tpr", tpr), ("--mu", mu)):
        if target is not None:
            raise ParameterError(
                name, "be given with 'dp-sgd' only; in Python calibrate() takes it for any cost", target
            )
    listed, delta, neighbours = _read(releases, delta, neighbours)
    epsilon = _target(listed, epsilon)
    plan = listed.plan(neighbours).calibrate(epsilon=epsilon, delta=delta, method=method)
    if save is not None:
        write_plan(plan, save)
    noises = {spec.label: spec.noise for spec in listed.specs}
    table = [{**row, "noise": row["noise"] or noises.get(row["label"])} for row in plan.table()]
    data = {"epsilon": epsilon, "delta": delta, "method": method or "tightest", "releases": table}
    answer = CommandOutput({**data, "statement": plan.statement()})
    answer.releases(table)
    answer.say(plan.statement())
    answer.print(as_json=json)


def compare(
    releases: Annotated[
        list[str] | None, typer.Argument(metavar="RELEASE...", show_default=False, help="As for account.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    recipes: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Compare recipes instead: 'all', or some, such as xgb,tr_cyc.")
    ] = None,
    rows: Rows = 32561,
    features: Features = 14,
    neighbours: Relation = "add_remove",
    json: Json = False,
) -> None:
    """Which accountant is tightest, and what does it save? Epsilons for given noise, or noise for a given epsilon."""
    if recipes is not None:
        if releases:
            raise ParameterError("recipes", "be compared without releases", releases)
        size = {"rows": rows, "features": features, "epsilon": 1.0 if epsilon is None else epsilon, "delta": delta}
        _by_recipe(recipes, {**size, "neighbours": neighbours}).print(as_json=json)
        return
    if not releases:
        raise FormatError("give releases such as '50 Gaussian sigma=45', or --recipes all")
    listed, delta, neighbours = _read(releases, delta, neighbours)
    if epsilon is None and listed.planned is None and any(s.noise and s.noise not in s.arguments for s in listed.specs):
        raise ParameterError("epsilon", "be given (--epsilon 1), or the noise of every release", None)
    if epsilon is None:
        answer = _by_price(listed, delta, neighbours)
    else:
        answer = _by_noise(listed, epsilon, delta, neighbours)
    answer.print(as_json=json)


def _by_recipe(names: str, given: dict[str, Any]) -> CommandOutput:
    from ledgerwood.app.leaf_noise import LeafNoise
    from ledgerwood.app.plan_request import PlanRequest, recipe_table

    known = {row["name"]: row for row in recipe_table()}
    found: list[dict[str, Any]] = []
    for name in known if names == "all" else [name.strip() for name in names.split(",")]:
        request = PlanRequest(recipe=name, **given)
        plan = request.plan()
        leaf = LeafNoise.of(request, plan)
        noise = {r["label"]: {"times": r["times"], "noise": r["noise"], "scale": r["scale"]} for r in plan.table()}
        size = {name: request.to_dict()[name] for name in ("trees", "depth")}
        error = {str(n): None if leaf is None else leaf.error(n) for n in (50, 500)}
        found.append({"recipe": name, **size, "releases": noise, "leaf_error": error, "what": known[name]["summary"]})
    answer = CommandOutput({**given, "recipes": found})
    cells = []
    for row in found:
        listed = ", ".join(f"{r['times']} {label} ({r['scale']:.4g})" for label, r in row["releases"].items())
        errors = ["" if error is None else f"{error:.4g}" for error in row["leaf_error"].values()]
        cells.append([row["recipe"], row["trees"], row["depth"], listed, *errors, row["what"]])
    names_of = ["recipe", "trees", "depth", "releases (noise)", "error, 50 rows", "error, 500 rows", "what"]
    return answer.table(names_of, cells)


def _by_price(listed: Releases, delta: float, neighbours: str) -> CommandOutput:
    found = listed.cost(neighbours).account(delta)
    rows: list[dict[str, Any]] = []
    for name, value in found.table.items():
        known = isinstance(value, float)
        more = value / found.epsilon - 1 if isinstance(value, float) and found.epsilon else None
        note = "" if isinstance(value, float) else why_not(value)
        rows.append({"method": name, "epsilon": value if known else None, "more": more, "note": note})
    answer = CommandOutput({"delta": delta, "tightest": found.method, "lower": found.lower, "methods": rows})
    shown = [[r["method"], _price(r["epsilon"]), _percent(r["more"]), r["note"]] for r in rows]
    answer.table(["method", "epsilon", "more than the tightest", "note"], shown)
    saved = _saved(rows)
    return answer.say(
        f"The tightest is {found.method!r} with epsilon = {price(found.epsilon)} at delta = {delta:.5g}"
        f"{': ' if saved else ''}{saved}."
    )


def _by_noise(listed: Releases, epsilon: float, delta: float, neighbours: str) -> CommandOutput:
    from ledgerwood.accounting.accountant.methods import METHODS

    open_plan = listed.plan(neighbours)
    best = open_plan.calibrate(epsilon=epsilon, delta=delta)
    rows: list[dict[str, Any]] = []
    for name in METHODS:
        try:
            plan = open_plan.calibrate(epsilon=epsilon, delta=delta, method=name)
        except (MethodUnavailable, CalibrationError) as error:
            note = why_not(getattr(error, "reason", str(error)))
            rows.append({"method": name, "scales": None, "more": None, "note": note})
            continue
        scales = {release.label: release.scale for release in plan.releases()}
        more = more_noise(plan, best)
        note = "tightest" if more is not None and more < 5e-4 else ""
        rows.append({"method": name, "scales": scales, "more": more, "note": note})
    labels = [release.label for release in best.releases()]
    answer = CommandOutput({"epsilon": epsilon, "delta": delta, "methods": rows})
    shown = [
        [r["method"], *((r["scales"] or {}).get(label) for label in labels), _percent(r["more"]), r["note"]]
        for r in rows
    ]
    answer.table(["method", *labels, "more noise", "note"], shown)
    saved = _saved(rows)
    return answer.say(f"The tightest accountant needs less noise: {saved}.") if saved else answer


def _saved(rows: list[dict[str, Any]]) -> str:
    """Return what the tightest method saves against each other one."""
    more = {row["method"]: row["more"] for row in rows if row["more"] is not None and row["more"] >= 5e-4}
    return ", ".join(f"{100 * much / (1 + much):.1f} % less than by {name!r}" for name, much in more.items())


def more_noise(plan: Plan, best: Plan) -> float | None:
    """Return by what fraction the noise of a plan exceeds that of the best one, at its first calibrated release."""
    for mine, other in zip(plan.releases(), best.releases()):
        if mine.share is not None and mine.scale and other.scale:
            ratio = mine.scale / other.scale
            less = mine.kind is not None and mine.kind.noise_direction < 0
            return (1 / ratio if less else ratio) - 1
    return None


def method_rows(found: Account) -> list[list[Any]]:
    """Return the table of an account: method, epsilon, note."""
    rows: list[list[Any]] = []
    for name, value in found.table.items():
        if isinstance(value, str):
            rows.append([name, "", why_not(value)])
            continue
        notes = ["tightest"] if name == found.method else []
        if name == "rdp" and found.order is not None and found.order < 1e12:
            notes.append(f"order {found.order:.4g}")
        rows.append([name, price(value), ", ".join(notes)])
    return rows


def account_sentence(found: Account, neighbours: str) -> str:
    """Return the price as a sentence."""
    from ledgerwood.accounting.adjacency import as_neighbours

    return (
        f"All of it together is (epsilon={price(found.epsilon)}, delta={price(found.delta)})-differentially private "
        f"for {as_neighbours(neighbours).sentence}, by the method {found.method!r}, if the sensitivities are as stated."
    )


def write_plan(plan: Plan, path: str) -> None:
    """Write a plan as JSON."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(plan.to_json() + "\n")


def _read(texts: list[str], delta: float | None, neighbours: str) -> tuple[Releases, float, str]:
    from ledgerwood import _checks
    from ledgerwood.accounting.adjacency import as_neighbours
    from ledgerwood.app.cli.release_specs import read_releases

    listed = read_releases(texts)
    delta = listed.target.get("delta") if delta is None else delta
    if delta is None:
        raise ParameterError("delta", "be given", None, "For example --delta 1e-6, or --delta 0 for pure privacy")
    relation = listed.target.get("neighbours", neighbours) if neighbours == "add_remove" else neighbours
    if listed.planned is not None:
        relation = listed.planned.neighbours
    return listed, _checks.delta_value(delta), str(as_neighbours(relation))


def _target(listed: Releases, epsilon: float | None) -> float:
    epsilon = listed.target.get("epsilon") if epsilon is None else epsilon
    if epsilon is None:
        raise ParameterError("epsilon", "be given", None, "For example --epsilon 1")
    return epsilon


def _price(value: float | None) -> str:
    return "" if value is None else price(value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{abs(100 * value):.1f} %"
