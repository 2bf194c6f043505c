from __future__ import annotations

import os
import threading
import warnings

import numpy as np
import pytest

from ledgerwood.errors import NotPrivate, ParameterError
from ledgerwood.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, SeededSource, Sensitivity
from ledgerwood.mechanisms.randomness import RandomSource, SystemSource, source_of

VECTOR = DiscreteGaussianMechanism(sigma=1e6, sensitivity=Sensitivity(l2=1, dimension=64))


def _in_child(work) -> bytes:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads: the very case
        pid = os.fork()
    if pid == 0:
        os.write(write, work())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def test_forked_children_and_their_parent_draw_different_noise() -> None:
    zeros = np.zeros(64, dtype=int)
    VECTOR.release(zeros)  # whatever state there may be exists before the fork
    answers = [_in_child(lambda: VECTOR.release(zeros).tobytes()) for _ in range(3)]
    answers.append(VECTOR.release(zeros).tobytes())
    assert all(len(answer) == 512 for answer in answers)
    assert len(set(answers)) == len(answers)


def test_threads_draw_different_noise() -> None:
    zeros = np.zeros(64, dtype=int)
    answers: list[bytes] = []

    def work() -> None:
        for _ in range(50):
            answers.append(VECTOR.release(zeros).tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(set(answers)) == 200


def test_words_of_the_system_never_repeat() -> None:
    words = np.concatenate([SystemSource().words(n) for n in (1, 5, 1000, 20000)])
    assert len(np.unique(words)) == len(words) == 21006


def test_a_seeded_generator_is_reproducible_and_warned_about() -> None:
    mechanism = DiscreteLaplaceMechanism(scale=1000.0)
    with pytest.warns(NotPrivate, match="NOT private"):
        first = mechanism.release(0, rng=np.random.default_rng(5))
    second = mechanism.release(0, rng=SeededSource(np.random.default_rng(5)))
    assert first == second
    assert not source_of(SeededSource(np.random.default_rng(5))).private
    assert source_of(None).private


@pytest.mark.parametrize("bad", [0, "seed", np.random.RandomState(0)])
def test_other_generators_are_refused(bad: object) -> None:
    with pytest.raises(ParameterError, match="rng must be"):
        source_of(bad)  # type: ignore[arg-type]


def test_every_source_keeps_the_protocol() -> None:
    assert isinstance(SystemSource(), RandomSource)
    assert isinstance(SeededSource(np.random.default_rng(1)), RandomSource)
