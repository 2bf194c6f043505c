"""Other auditors on the mechanisms of the zoo: StatDP, Delta-Siege, DP-Auditorium and DP-Sniper.

An optional script, like ``jax_privacy_audit``. None of the four is a package to install, so a reader checks their
sources out side by side in one directory,

    statdp/          repository cmla-psu/statdp, commit 747fad6
    dp-sniper/       repository eth-sri/dp-sniper, commit a4a2037 (its StatDP wrapper is used for StatDP, too)
    Delta-Siege/     repository eth-sri/Delta-Siege, commit 07e1f07
    dp_auditorium/   the directory python/dp_auditorium of repository google/differential-privacy, commit 190497c

and runs, in an environment of its own with what the chosen tools import (numba and tqdm for StatDP; scikit-learn,
torch and tensorboard for DP-Sniper; scikit-learn, tqdm, torch and optuna for Delta-Siege; tensorflow for
DP-Auditorium; scipy, numba and mpmath for the zoo),

    PYTHONPATH=src python -m benchmarks.peer_auditors --sources DIR --tools statdp dp_sniper

Every run appends one line to the results. The tools are given the pair that exposes the entry, both directions, and
draw at most two million outputs per input in all, by the entry's own sampler. What had to be chosen stands beside
each tool below.

The stored results were not made with full checkouts, on which this script is untested. They were made with copies of
the files that the detection needs, without comments and without parts that it does not call:

- StatDP: ``__init__`` empty, ``algorithms`` only the Hamming distance; choice of events and test complete.
- DP-Sniper: no pool of processes, no log files, no pickling of models; ``feature_transformer`` from commit 933a2b2.
- Delta-Siege: one ``Trial`` without the search over parameters around it, nothing stored on disk, of its mechanisms
  only the base and Laplace, ``logging/__init__`` written anew (it was not among the files read). A checkout imports
  every library that it wraps in ``mechanism/__init__``: take those out.
- DP-Auditorium: the tester from commit 190497c, its base, configuration and helpers from 70c8c7c, the others from
  4ca99c0; only the hockey-stick tester.

What is kept needed no change for Python 3.11, numpy 2.4.6, numba 0.68.1, scikit-learn 1.9.1, torch 2.15.0 and
tensorflow 2.21.0 (keras 3.15.1). The StatDP lines of seed 0 without counts are of this script before it wrote counts.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from ledgerwood.verification.zoo import ZOO

Array = NDArray[Any]
Result = dict[str, Any]

OUTPUTS = 2_000_000
ERROR = 0.01
SIX = ("laplace", "report_noisy_max_3", "svt_4", "noisy_hist_2", "prefix_sum_all_differ", "svt_5")
SEVEN = ("laplace", "noisy_hist_1", *SIX[1:])
BITS = "float64_laplace_lattice"
RESULTS = Path(__file__).parent / "results" / "peer_auditors.jsonl"
FOLDERS = ("statdp", "dp-sniper", "Delta-Siege", "dp_auditorium")
#: Share of two million outputs for StatDP's choice of an event: its default number.
SELECT = 100_000


def columns(name: str, outputs: Array) -> Array:
    """Outputs as rows of numbers, as DP-Sniper's authors do it for classifiers: a stopping time becomes ten answers
    0 or 1, and ten flags for the queries that were not answered.
    """
    if name != "svt_4":
        return np.asarray(outputs, dtype=float).reshape(len(outputs), -1)
    place, stop = np.arange(len(ZOO[name].pair[0])), outputs[:, None]
    return np.hstack([place == stop, place > stop]).astype(float)


class Replay:
    """An "algorithm" for StatDP: one call gives the next of the outputs that were drawn before.

    StatDP runs its algorithm again for every epsilon. Here every epsilon sees the same outputs, the first part of them
    for the choice of an event and the others for the test.
    """

    def __init__(self, outputs: dict[Any, list[float]]) -> None:
        self.outputs = outputs
        self.streams: dict[Any, Iterator[float]] = {}

    def rewind(self, start: int) -> None:
        """Begin again at ``start``; the first output is given twice, as StatDP looks at one before it begins."""
        self.streams = {
            data: itertools.chain(values[start : start + 1], itertools.islice(values, start, None))
            for data, values in self.outputs.items()
        }

    def __call__(self, prng: Any, data: Any) -> float:
        return next(self.streams[data])


class RememberingPool:
    """What StatDP needs of a pool of processes, in this process; counts of one event are made once."""

    _processes = 1

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.seen: dict[Any, Any] = {}

    def imap_unordered(self, task: functools.partial[Any], items: Iterable[Any]) -> Iterator[Any]:
        """Results of the task, in order; a task with arguments is StatDP's test, one without is its choice."""
        for item in items:
            test = bool(task.args)
            key = (task.args[1:3], task.args[4]) if test else item[:2]
            if key not in self.seen:
                self.replay.rewind(SELECT if test else 0)
                self.seen[key] = task(item)
            yield self.seen[key]


def statdp_rows(name: str, outputs: Array) -> list[list[Any]]:
    """Outputs as lists; a stopping time as its answers, which end with the first 1."""
    if name == "svt_4":
        width = len(ZOO[name].pair[0])
        rows = [[0] * stop + [1] * (stop < width) for stop in range(width + 1)]
        return [rows[stop] for stop in outputs.tolist()]
    return [[row] for row in outputs.tolist()] if outputs.ndim == 1 else outputs.tolist()


def statdp_views(name: str, drawn: dict[Any, Array]) -> list[tuple[str, Replay, list[Any]]]:
    """Post-processed outputs and input pairs: the post-processings are those of DP-Sniper's StatDP wrapper.

    Without them StatDP tries every combination of ten thresholds in all coordinates. Order matters only where
    outputs are compared with the first input's answer without noise.
    """
    wrapper = importlib.import_module("statdpwrapper.postprocessing")
    first, second = ZOO[name].pair
    rows = {data: statdp_rows(name, values) for data, values in drawn.items()}
    width, answers = max(map(len, rows[first])), name.startswith("svt")
    config = wrapper.PostprocessingConfig(not answers, answers, name == "svt_4", width, categories=[1, 0])
    found: list[tuple[str, Replay, list[Any]]] = []
    for view in wrapper.get_postprocessing_search_space(config):
        for pair in [(first, second), (second, first)][: 1 + view.requires_noisefree_reference]:
            noiseless = None
            if view.requires_noisefree_reference:
                (noiseless,) = statdp_rows(name, ZOO[name].sample(pair[0], 1, wrapper.the_zero_noise_prng))
            seen = {data: [view.process(row, noiseless) for row in rows[data]] for data in pair}
            found.append((str(view), Replay(seen), [(*pair, {})]))
    return found


def largest_rejected(p_value: Callable[[float], float], precision: float = 0.001) -> tuple[float, int]:
    """The largest epsilon with p below the error, by doubling and halving, and how many were tried."""
    low, high, tried = 0.0, 0.01, 1
    while p_value(high) < ERROR:
        low, high, tried = high, 2 * high, tried + 1
    while high - low > precision:
        middle, tried = (low + high) / 2, tried + 1
        low, high = (middle, high) if p_value(middle) < ERROR else (low, middle)
    return low, tried


def statdp(name: str, seed: int) -> Result:
    """StatDP's choice of an event and its test, for a search of the largest epsilon that is rejected at p < 0.01.

    The p-values are corrected neither for the epsilons nor for the post-processings tried.
    """
    choose = importlib.import_module("statdp.selectors").select_event
    test = importlib.import_module("statdp.hypotest").hypothesis_test
    rng = np.random.default_rng(seed)
    views = statdp_views(name, {data: ZOO[name].sample(data, OUTPUTS, rng) for data in ZOO[name].pair})
    pools = [RememberingPool(replay) for _, replay, _ in views]
    best: dict[float, tuple[float, str, Any, tuple[int, int]]] = {}

    def p_value(epsilon: float) -> float:
        tries = []
        for (label, replay, pairs), pool in zip(views, pools):
            *given, event = choose(replay, pairs, epsilon, SELECT, pool, quiet=True)
            p = test(replay, *given, event, epsilon, OUTPUTS - SELECT, pool, report_p2=False)
            ((counts,), _) = pool.seen[tuple(given[:2]), event]
            tries.append((float(p), label, event, counts))
        best[epsilon] = min(tries, key=lambda found: found[0])
        return best[epsilon][0]

    bound, tried = largest_rejected(p_value)
    p, label, event, counts = best.get(bound, (None, "", (), (0, 0)))
    return {
        "bound": bound,
        "p": p,
        "view": label,
        "event": str(event),
        "counts": [int(count) for count in counts],
        "event_bound": round(event_bound(*counts), 4),
        "epsilons_tried": tried,
        "views": len(views),
        "outputs": OUTPUTS,
    }


def event_bound(more: int, fewer: int, n: int = OUTPUTS - SELECT) -> float:
    """What two Clopper–Pearson intervals of together 99 % say about one event: as DP-Sniper's authors verify."""
    low, high = beta.ppf(ERROR / 2, more, n - more + 1), beta.ppf(1 - ERROR / 2, fewer + 1, n - fewer)
    return float(np.log(low / high)) if more > fewer else 0.0


def prepare_statdp(seed: int) -> None:
    """Compile StatDP's test before it is timed, and seed the generator inside the compiled code."""
    numba = importlib.import_module("numba")
    importlib.import_module("statdp.hypotest").test_statistics(10, 5, 0.1, 100)
    numba.njit(lambda value: np.random.seed(value))(seed)


class Nothing:
    """False, and false when called: Delta-Siege asks a mechanism both ways whether it stores its outputs."""

    def __bool__(self) -> bool:
        return False

    __call__ = __bool__


def delta_siege(name: str, seed: int) -> Result:
    """One trial of Delta-Siege with logistic regression, and its own measure of a violated pure claim.

    It trains once, then chooses a threshold and checks it in either direction, then makes the final estimate in the
    better one. Its features are bit patterns where the leak is in the bits, and plain columns elsewhere.
    """
    siege = importlib.import_module("deltasiege")
    laplace = importlib.import_module("deltasiege.mechanism").LaplaceMechanism  # the tool's measure for pure claims
    linear, pipeline, scaling = (
        importlib.import_module(f"sklearn.{module}") for module in ("linear_model", "pipeline", "preprocessing")
    )
    rng = np.random.default_rng(seed)
    drawn: dict[str, int] = {}
    claimed = ZOO[name].claim.pure_epsilon()

    class Mechanism(laplace):  # type: ignore[misc, valid-type]
        """An entry of the zoo."""

        store_data = Nothing()

        def __call__(self, data: Any, n: int) -> Array:
            drawn[str(data)] = drawn.get(str(data), 0) + n
            return columns(name, ZOO[name].sample(data, n, rng))

    features = siege.BitPatternFeatureTransformer() if name == BITS else scaling.StandardScaler()
    classifier = pipeline.Pipeline([("features", features), ("regression", linear.LogisticRegression())])
    trial = siege.Trial(
        config=siege.Config(
            n_train=300_000, n_init=150_000, n_check=100_000, n_final=1_200_000, batch_size=50_000, confidence=1 - ERROR
        ),
        input_pair=ZOO[name].pair,
        mechanism=Mechanism(epsilon=claimed, sensitivity=1.0),
        classifier_factories=siege.SklearnClassifier.get_factory(classifier=classifier),
        witnesses_factories=siege.WitnessOptimization.get_factory(estimator=siege.LinesearchEstimator()),
    )
    np.random.seed(seed)
    trial.run()
    chosen = trial.best_witness_idx
    bound = float(claimed / trial.witnesses[chosen].estimate_c)
    return {"bound": bound, "direction": chosen, "outputs": max(drawn.values())}


def dp_sniper(name: str, seed: int) -> Result:
    """DP-Sniper with c = 0.01: an attack for either direction, a check to choose one, and the final estimate.

    Logistic regression, and its small network where the leak is in the bits, with the settings of its authors'
    experiments. Batches are smaller than theirs, so that there are about as many steps as in their runs.
    """
    part = {
        module: importlib.import_module(f"dpsniper.{module}")
        for module in (
            "attack.dpsniper",
            "classifiers.classifier_factory",
            "classifiers.feature_transformer",
            "classifiers.torch_optimizer_factory",
            "mechanisms.abstract",
            "probability.estimators",
            "search.ddconfig",
            "utils.paths",
        )
    }
    factories, optimizers = part["classifiers.classifier_factory"], part["classifiers.torch_optimizer_factory"]
    estimators, rng = part["probability.estimators"], np.random.default_rng(seed)
    drawn: dict[Any, int] = {}

    class Mechanism(part["mechanisms.abstract"].Mechanism):  # type: ignore[misc]
        """An entry of the zoo."""

        def m(self, a: Any, n_samples: int = 1) -> Array:
            drawn[a] = drawn.get(a, 0) + n_samples
            return columns(name, ZOO[name].sample(a, n_samples, rng))

    if name == BITS:
        factory = factories.MultiLayerPerceptronFactory(
            in_dimensions=64,
            hidden_sizes=(10, 5),
            optimizer_factory=optimizers.AdamOptimizerFactory(learning_rate=0.1, step_size=500),
            feature_transform=part["classifiers.feature_transformer"].BitPatternFeatureTransformer(),
            regularization_weight=0.0001,
        )
    else:
        factory = factories.LogisticRegressionFactory(
            in_dimensions=columns(name, ZOO[name].sample(ZOO[name].pair[0], 1, rng)).shape[1],
            optimizer_factory=optimizers.SGDOptimizerFactory(learning_rate=0.3, momentum=0.3, step_size=500),
            regularization_weight=0.001,
        )
    config = part["search.ddconfig"].DDConfig(
        n_train=200_000,
        n=200_000,
        n_check=100_000,
        n_final=1_200_000,
        training_batch_size=2_000,
        n_processes=1,
        confidence=1 - ERROR,
    )
    mechanism = Mechanism()

    def estimate(n: int, pair: Any, attack: Any) -> tuple[float, float]:
        judge = estimators.EpsEstimator(estimators.PrEstimator(mechanism, n, config))
        return judge.compute_eps_estimate(*pair, attack)  # type: ignore[no-any-return]

    with tempfile.TemporaryDirectory() as folder:
        part["utils.paths"].set_output_directory(folder)
        sniper = part["attack.dpsniper"].DPSniper(mechanism, factory, config)
        found = []
        for direction, pair in enumerate((ZOO[name].pair, ZOO[name].pair[::-1])):
            attack = sniper.best_attack(*pair)
            found.append((estimate(config.n_check, pair, attack)[0], direction, pair, attack))
        _, direction, pair, attack = max(found, key=lambda one: one[0])
        _, bound = estimate(config.n_final, pair, attack)
    return {"bound": float(bound), "direction": direction, "outputs": max(drawn.values())}


def prepare_dp_sniper(seed: int) -> None:
    """Numbers of double precision, one thread and a seed, as DP-Sniper's own initialisation sets them."""
    torch = importlib.import_module("torch")
    importlib.import_module("dpsniper.utils.torch").torch_initialize(torch_threads=1)
    torch.manual_seed(seed)


def dp_auditorium(name: str, seed: int) -> Result:
    """DP-Auditorium's runner with the hockey-stick tester, default network and training, 20,000 outputs per input.

    One trial, failure probability 0.005 in either direction, no post-processing.
    """
    settings, runner, testers, properties, generators = (
        importlib.import_module(f"dp_auditorium.{module}")
        for module in (
            "configs.privacy_test_runner_config",
            "privacy_test_runner",
            "testers.hockey_stick_tester",
            "configs.privacy_property",
            "generators.constant_dataset_generator",
        )
    )
    tester_config = importlib.import_module("dp_auditorium.configs.property_tester_config")
    rng = np.random.default_rng(seed)
    tester = testers.HockeyStickPropertyTester(
        config=tester_config.HockeyStickPropertyTesterConfig(
            training_config=testers.make_default_hs_training_config(),
            approximate_dp=properties.ApproximateDp(epsilon=ZOO[name].claim.pure_epsilon(), delta=0.0),
        ),
        base_model=testers.make_default_hs_base_model(),
    )
    config = settings.PrivacyTestRunnerConfig(
        property_tester=settings.PropertyTester.HOCKEY_STICK_TESTER,
        max_num_trials=1,
        failure_probability=ERROR / 2,
        num_samples=20_000,
        post_processing=settings.PostProcessing.NONE,
    )
    pair = generators.ConstantDatasetGenerator(ZOO[name].pair)
    result = runner.PrivacyTestRunner(config, pair, tester).test_privacy(
        lambda data, n: columns(name, ZOO[name].sample(data, n, rng)), name
    )
    (divergence,) = result.lower_bound_divergence_estimates
    return {"rejected": result.found_privacy_violation is not None, "divergence": float(divergence), "outputs": 20_000}


def prepare_dp_auditorium(seed: int) -> None:
    """Load tensorflow before the clock starts, and seed it."""
    importlib.import_module("tensorflow").keras.utils.set_random_seed(seed)


PREPARE: dict[str, Callable[[int], None]] = {
    "statdp": prepare_statdp,
    "dp_sniper": prepare_dp_sniper,
    "dp_auditorium": prepare_dp_auditorium,
}
TOOLS: dict[str, tuple[Callable[[str, int], Result], tuple[str, ...]]] = {
    "statdp": (statdp, SIX),
    "delta_siege": (delta_siege, (*SIX, BITS)),
    "dp_auditorium": (dp_auditorium, SEVEN),
    "dp_sniper": (dp_sniper, (*SIX, BITS)),
}


def timed(tool: str, name: str, seed: int) -> Result:
    """One line of the results."""
    if tool in PREPARE:
        PREPARE[tool](seed)
    start = time.process_time()
    found = TOOLS[tool][0](name, seed)
    seconds = round(time.process_time() - start, 1)
    return {"tool": tool, "entry": name, "seed": seed, **found, "cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description="Run other auditors on the zoo.")
    parser.add_argument("--sources", type=Path, required=True, help="directory of the checked-out sources")
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS), default=list(TOOLS))
    parser.add_argument("--entries", nargs="+", help="entries of the zoo; without it, those of the comparison")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    sys.path[:0] = [str(options.sources / folder) for folder in FOLDERS]
    for tool, seed in itertools.product(options.tools, options.seeds):
        for name in options.entries or TOOLS[tool][1]:
            line = json.dumps(timed(tool, name, seed))
            print(line, flush=True)
            with options.results.open("a") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
