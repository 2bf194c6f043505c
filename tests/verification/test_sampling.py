"""Drawing outputs: the same by one process or many, exceptions as outputs, a bar only on a terminal."""

import io
import sys

import numpy as np
import pytest

from ledgerwood.accounting import PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.encoding import Raised
from ledgerwood.verification.auditor.sampling import Draws, ProgressBar, draw_outputs


def noisy(data, rng):
    return float(data + rng.laplace())


def test_many_processes_draw_the_same_outputs_as_one():
    with Draws(noisy, [0.0, 1.0], 7, ProgressBar(1000)) as draws:
        alone = draws.draw(1, 300, 5)
        draws.use_all_cores(0.0)
        assert draws._pool is None  # not worth it
        draws.use_all_cores(1e6)
        assert draws.draw(1, 300, 5) == alone
        draws.inputs.append(2.0)  # an input that the workers did not inherit
        assert np.median(draws.draw(2, 400, 5)) == pytest.approx(2.0, abs=0.5)
    assert draws._pool is None


def test_streams_inputs_and_seeds_are_independent():
    with Draws(noisy, [0.0, 0.0], 7, ProgressBar(1000)) as draws, Draws(noisy, [0.0], 8, ProgressBar(1000)) as other:
        runs = [draws.draw(0, 5, 1), draws.draw(1, 5, 1), draws.draw(0, 5, 2), other.draw(0, 5, 1)]
    assert len({tuple(run) for run in runs}) == 4


def test_exceptions_are_counted_by_type():
    def moody(data, rng):
        if rng.random() < 0.5:
            raise KeyError("secret")
        return 1.0

    with Draws(moody, [0.0], 1, ProgressBar(1000)) as draws:
        outputs = draws.draw(0, 200, 1)
    assert draws.raised["KeyError"] == sum(isinstance(output, Raised) for output in outputs) > 50


def test_a_vectorised_mechanism_must_return_as_many_outputs_as_asked():
    class Short:
        def sample(self, data, n, rng):
            return np.zeros(n - 1)

    with pytest.raises(ParameterError, match="sample"):
        draw_outputs(Short(), 0.0, 10, np.random.default_rng(0))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_on_a_terminal_after_three_seconds_and_nowhere_else(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = ProgressBar(100)
    bar.advance(10)
    assert terminal.getvalue() == ""
    bar.start -= 4.0
    bar.advance(40)
    bar.close()
    assert "50 of 100 outputs" in terminal.getvalue()
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    silent = ProgressBar(100)
    silent.start -= 4.0
    silent.advance(50)
    silent.close()
    assert pipe.getvalue() == ""


def test_an_iterator_is_read_when_it_is_made():
    def stream(data, rng):
        yield from (data, int(rng.integers(10**9)))

    class Many:
        def sample(self, data, n, rng):
            return (stream(data, rng) for _ in range(n))

    for mechanism in (stream, Many()):
        first, second = (draw_outputs(mechanism, 3, 4, np.random.default_rng(1)) for _ in range(2))
        assert first == second and first[0][0] == 3 and len({output[1] for output in first}) == 4


def test_a_mechanism_that_exits_has_raised():
    def leave(data, rng):
        raise SystemExit(3)

    assert draw_outputs(leave, 0.0, 2, np.random.default_rng(1)) == [Raised("SystemExit")] * 2


def test_outputs_that_cannot_travel_are_drawn_by_one_process():
    class Local:
        def __init__(self, value):
            self.value = value

    with Draws(lambda data, rng: Local(rng.random()), [0.0, 1.0], 7, ProgressBar(1000)) as draws:
        draws.use_all_cores(1e6)
        assert draws._pool is None
        assert len(draws.draw(1, 300, 5)) == 300


class _Reused:
    """Fills one buffer again and again, and shows it in some form."""

    def __init__(self, show):
        self.buffer, self.show = np.zeros(1), show

    def __call__(self, data, rng):
        self.buffer[0] = rng.random()
        return self.show(self)

    def __deepcopy__(self, memo):
        same = _Reused(self.show)
        same.buffer[:] = self.buffer
        return same


class _ReusedBatch:
    def __init__(self, show):
        self.buffer, self.show = np.zeros(100_000), show

    def sample(self, data, n, rng):
        self.buffer[:n] = rng.random(n)
        return self.show(self.buffer[:n])


@pytest.mark.parametrize(
    "show", [lambda f: f.buffer, lambda f: f.buffer[:], lambda f: [f.buffer], lambda f: {"a": (f.buffer, 1)}]
)
def test_outputs_stay_when_a_mechanism_fills_its_buffer_again(show):
    with Draws(_Reused(show), [0.0, 1.0], 7, ProgressBar(1000)) as draws:
        outputs = draws.draw(0, 300, 5)
    assert len({str(output) for output in outputs}) == 300


@pytest.mark.parametrize("show", [lambda rows: rows, lambda rows: list(rows[:, None])])
def test_batches_stay_when_a_mechanism_fills_its_buffer_again(show):
    with Draws(_ReusedBatch(show), [0.0, 1.0], 7, ProgressBar(1000)) as draws:
        first, second = draws.draw(0, 150_000, 5), draws.draw(1, 1000, 5)
    assert np.unique(np.ravel(first)).size == 150_000
    assert not np.isin(np.ravel(second), np.ravel(first)).any()


def test_an_object_that_a_mechanism_returns_again_and_again_is_copied():
    report = audit(_Reused(lambda f: f), PureDP(1.0), pair=(0, 1), samples=2000, seed=1)
    assert report.passed
