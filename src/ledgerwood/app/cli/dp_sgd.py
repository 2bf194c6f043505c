"""``dp-sgd`` instead of releases: the options that describe a training, its noise, how many steps it affords."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli.options import number_option, whole_option
from ledgerwood.app.output import CommandOutput, price
from ledgerwood.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Cost

WORD = "dp-sgd"


def _option(name: str, help: str, *, integer: bool = False) -> Any:
    return (whole_option if integer else number_option)(f"dp-sgd: {help}", name)


Rate = Annotated[float | None, _option("--rate", "the chance of a record to be in a batch, such as 256/60000.")]
BatchSize = Annotated[float | None, _option("--batch-size", "records in a batch, instead of the rate.")]
DatasetSize = Annotated[int | None, _option("--dataset-size", "the public number of records.", integer=True)]
NoiseMultiplier = Annotated[
    float | None, _option("--noise-multiplier", "standard deviation of the noise over the clipping norm.")
]
Steps = Annotated[int | None, _option("--steps", "noisy steps of the training.", integer=True)]
Epochs = Annotated[float | None, _option("--epochs", "passes over the data, instead of steps.")]
Limit = Annotated[int | None, _option("--limit", "most records of a Poisson batch; more are cut.", integer=True)]
Advantage = Annotated[float | None, _option("--advantage", "the most that an attacker may gain over guessing.")]
Tpr = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--tpr", metavar="FPR VALUE", help="dp-sgd: a false-positive rate, and the most that is recognized at it."
    ),
]
Mu = Annotated[float | None, _option("--mu", "the most that the dominating mu of Gaussian DP may be.")]
Sampler = Annotated[
    str | None,
    typer.Option("--sampler", help="dp-sgd: poisson (the default), without_replacement or balls_in_bins."),
]


@dataclass(frozen=True)
class TrainingRun:
    """A training as it was described on the command line."""

    rate: float | None
    batch_size: float | None
    dataset_size: int | None
    noise_multiplier: float | None
    steps: int | None
    epochs: float | None
    sampler: str | None
    limit: int | None
    neighbours: str

    def asked(self, releases: list[str]) -> bool:
        """Whether the question is about a training; options of one without it are an error."""
        words = [text.lower().replace("_", "-") for text in releases]
        if words == [WORD]:
            return True
        if WORD in words:
            raise ParameterError("releases", f"be {WORD!r} alone, without other releases", releases)
        for name in ("rate", "batch_size", "dataset_size", "noise_multiplier", "steps", "epochs", "sampler", "limit"):
            if getattr(self, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise ParameterError(option, f"be given with {WORD!r} only", getattr(self, name))
        return False

    def cost(self) -> Cost:
        """Return the cost of the training."""
        from ledgerwood.accounting import dp_sgd

        if self.noise_multiplier is None:
            raise ParameterError("noise_multiplier", "be given", None, "For example --noise-multiplier 1.1")
        return dp_sgd(
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            epochs=self.epochs,
            rate=self.rate,
            batch_size=self.batch_size,
            dataset_size=self.dataset_size,
            limit=self.limit,
            sampler=self.sampler or "poisson",
            # The command's own default: the sampler's relation, unless one was named.
            neighbours=None if self.neighbours == "add_remove" and (self.sampler or self.limit) else self.neighbours,
        )


def calibrated(
    run: TrainingRun,
    epsilon: float | None,
    delta: float | None,
    method: str | None,
    save: str | None,
    risk: dict[str, Any],
) -> CommandOutput:
    """Return the least noise multiplier for a target, or the most steps that a given one affords."""
    wanted = {name: target for name, target in risk.items() if target is not None}
    if wanted:
        return _for_risk(run, wanted, (epsilon, delta, method, save))
    if epsilon is None:
        raise ParameterError("epsilon", "be given", None, "For example --epsilon 1")
    if delta is None:
        raise ParameterError("delta", "be given", None, "For example --delta 1e-6")
    if save is not None:
        raise ParameterError("save", f"not be given with {WORD!r}: it makes no plan", save)
    found = _noise(run, epsilon, delta, method) if run.noise_multiplier is None else _steps(run, epsilon, delta, method)
    cost = found.cost()
    reached = cost.epsilon(delta, method) if found.steps != 0 else 0.0
    data = {
        "noise_multiplier": found.noise_multiplier,
        "steps": sum(times for _, times in cost.terms),
        "epsilon": epsilon,
        "delta": delta,
        "reached": reached,
        "cost": repr(cost),
        "neighbours": str(cost.neighbours),
    }
    answer = CommandOutput(data)
    answer.table(
        ["noise multiplier", "releases", "epsilon", "delta"],
        [[found.noise_multiplier, data["steps"], f"{reached:.6g}", f"{delta:.6g}"]],
    )
    return answer.say(f"{cost!r}: at most epsilon = {epsilon:g} at delta = {delta:g} for {cost.neighbours.sentence}.")


def _for_risk(run: TrainingRun, wanted: dict[str, Any], others: tuple[Any, ...]) -> CommandOutput:
    from ledgerwood.accounting import calibrate
    from ledgerwood.app import curves

    if len(wanted) > 1 or any(other is not None for other in others):
        raise ParameterError(f"--{next(iter(wanted))}", "be the only target", wanted)
    if run.noise_multiplier is not None:
        raise ParameterError(
            "noise_multiplier", "be left out: it is what a risk is answered with", run.noise_multiplier
        )

    def cost(sigma: float) -> Cost:
        return replace(run, noise_multiplier=sigma).cost()

    cost(1.0)  # what is wrong with the other options is said of them
    sigma = calibrate(cost, **wanted)
    found = cost(sigma)
    advantage, caught = found.advantage(), found.tpr(curves.FALSE_ALARM)
    data = {"noise_multiplier": sigma, **wanted, "reached": {"advantage": advantage, "tpr": caught}}
    answer = CommandOutput({**data, "cost": repr(found), "neighbours": str(found.neighbours)})
    answer.table(["noise multiplier", "advantage, at most"], [[sigma, price(advantage)]])
    return answer.say(curves.attack_sentence(caught, str(found.neighbours)))


def _noise(run: TrainingRun, epsilon: float, delta: float, method: str | None) -> TrainingRun:
    from ledgerwood.accounting import calibrate

    def cost(sigma: float) -> Cost:
        return replace(run, noise_multiplier=sigma).cost()

    cost(1.0)  # what is wrong with the other options is said of them
    return replace(run, noise_multiplier=calibrate(cost, epsilon=epsilon, delta=delta, method=method))


def _steps(run: TrainingRun, epsilon: float, delta: float, method: str | None) -> TrainingRun:
    """The most steps (epochs, with balls in bins): every count that is accepted was itself priced."""
    from ledgerwood.accounting import affordable

    if run.steps is not None or run.epochs is not None:
        raise ParameterError("noise_multiplier", "be left out, or else steps and epochs", run.noise_multiplier)

    def at(count: int) -> TrainingRun:
        epochs = run.sampler == "balls_in_bins"
        return replace(run, epochs=count) if epochs else replace(run, steps=count)

    found = affordable(lambda n: at(n).cost(), epsilon=epsilon, delta=delta, method=method)
    if not found:
        raise CalibrationError(f"not even one step is within epsilon = {epsilon:g} at delta = {delta:g}")
    return at(found)
