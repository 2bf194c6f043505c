"""The recursion in numpy: the bits of the compiled kernels, and no kernel loaded for a plan."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from ledgerwood.accounting.accountant.bounded_range import _kernels as compiled
from ledgerwood.accounting.accountant.bounded_range import recursion, vectorized


def _cases() -> list[tuple[list[tuple[float, int]], dict[str, Any]]]:
    draw = random.Random(7)
    cases: list[tuple[list[tuple[float, int]], dict[str, Any]]] = [
        ([(0.034, 40)], {"ordered": True, "gamma_max": 0.6, "cells": 64}),
        ([(0.034, 300)], {"ordered": True, "gamma_max": 2.5, "cells": 32, "lower": False}),  # more than one block
        ([(0.1, 5), (0.07, 6)], {"ordered": False, "gamma_max": 1.0, "cells": 16}),
    ]
    for _ in range(40):
        sizes = [draw.choice([1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 8.0, 20.0]) for _ in range(draw.randint(1, 3))]
        steps = [(size * draw.random() + 1e-9, draw.randint(1, 9)) for size in sizes]
        far = draw.choice([0.05, 0.5, 1.0, 4.0]) * sum(size * count for size, count in steps)
        how = {"ordered": draw.random() < 0.6, "gamma_max": far, "cells": draw.choice([1, 2, 4, 8, 16])}
        cases.append((steps, how))
    return cases


@pytest.mark.parametrize(("steps", "how"), _cases())
def test_numpy_gives_the_bits_of_the_compiled_kernels(
    steps: list[tuple[float, int]], how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for kernels in (compiled, vectorized):
        monkeypatch.setattr(recursion, "_kernels", lambda work, kernels=kernels: kernels)
        found.append(recursion.bounded_range_profile(steps, **how))
    for field in fields(found[0]):
        assert np.array_equal(*(getattr(profile, field.name) for profile in found)), field.name


@pytest.mark.parametrize("ordered", [True, False])
def test_a_lower_end_added_later_is_that_of_the_whole(ordered: bool) -> None:
    steps = [(0.2, 4), (0.1, 6)]
    how: dict[str, Any] = {"ordered": ordered, "gamma_max": 1.2, "cells": 8}
    whole = recursion.bounded_range_profile(steps, **how)
    upper = recursion.bounded_range_profile(steps, **how, lower=False)
    later = recursion.bounded_range_profile(steps, **how, upper=upper)
    for field in fields(whole):
        assert np.array_equal(getattr(whole, field.name), getattr(later, field.name)), field.name


def test_a_plan_of_greedy_trees_loads_no_compiler() -> None:
    program = (
        "import sys\n"
        "from ledgerwood.learners import plan_training\n"
        "plan = plan_training('xgb', n_rows=32561, n_features=14, epsilon=1.0, delta=3e-5, n_trees=50, max_depth=4)\n"
        "assert plan.account().method == 'optimal'\n"
        "assert 'numba' not in sys.modules, 'numba was loaded'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_compiled_kernels_take_over_when_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion, "_done_by_numpy", 0.0)
    monkeypatch.setattr(recursion, "_compiler_is_loaded", lambda: False)
    assert recursion._kernels(1e6) is vectorized
    assert recursion._kernels(1e9) is not vectorized
    monkeypatch.undo()
    assert recursion._kernels(1e6) is not vectorized  # numba is loaded now


def test_coarse_grids_before_a_price_by_compiled_kernels_use_these_too(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []
    monkeypatch.setattr(recursion, "load_kernels", lambda: loaded.append(True))
    recursion.prepare(1e6)
    assert not loaded
    recursion.prepare(1e9)
    assert loaded
