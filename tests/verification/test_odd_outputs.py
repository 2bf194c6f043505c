"""The auditor reads outputs of any type: labels, models, texts, and what else Python offers."""

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
from tests.kit.samplers import geometric

from ledgerwood.accounting import PureDP
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.events import OutputEvent
from ledgerwood.verification.auditor.scores import ColumnScore
from ledgerwood.verification.auditor.selection import picture_of


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Model:
    leaves: list
    rows_seen: int


def test_labels_and_strings_are_audited_by_their_frequencies():
    def respond(data, rng):
        return data if rng.random() < 0.75 else ("no" if data == "yes" else "yes")

    report = audit(respond, PureDP(math.log(3)), pair=("yes", "no"), samples=20_000, seed=1)
    assert report.passed and 1.0 < report.epsilon_lower <= math.log(3)
    assert audit(respond, PureDP(0.5), pair=("yes", "no"), samples=20_000, seed=1).flagged


def test_an_exact_count_in_a_model_is_found():
    def train(data, rng):
        return Model(leaves=[round(float(sum(data) + rng.laplace(0, 50)), 3)], rows_seen=len(data))

    report = audit(train, PureDP(1.0), pair=([1, 1, 0], [1, 1]), samples=3_000, seed=1)
    assert report.flagged
    assert "rows_seen" in report.event


def test_outputs_of_varying_length_are_audited():
    def above_threshold(data, rng):
        out = []
        noise = rng.laplace(0, 0.1)
        for value in data:
            out.append(value + rng.laplace(0, 0.1) > 0.5 + noise)
            if out[-1]:
                break
        return tuple(out)

    report = audit(above_threshold, PureDP(0.5), pair=([0, 1], [1, 0]), samples=10_000, seed=1)
    assert report.flagged


ODD = {
    "set": lambda v: {v, v + 1},
    "decimal": Decimal,
    "fraction": lambda v: Fraction(v, 3),
    "huge integer": lambda v: v * 10**400,
    "enum": lambda v: Colour.RED if v > 0 else Colour.BLUE,
    "date": lambda v: date(2020, 1, 15) + timedelta(days=v),
    "time span": lambda v: timedelta(seconds=v),
    "complex": lambda v: complex(v, 1),
    "ragged": lambda v: [v] * (abs(v) + 1),
    "none or text": lambda v: None if v < 0 else str(v),
    "bytes": lambda v: bytes([v % 256]),
    "half float": np.float16,
    "half floats": lambda v: np.full(2, v, np.float16),
    "span or not a time": lambda v: np.timedelta64(v, "s") if v else np.timedelta64("NaT"),
    "nested": lambda v: [[v, (v,)], {"k": {v}}],
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_outputs_are_audited(kind):
    noisy = geometric(0.5)
    report = audit(lambda d, rng: ODD[kind](noisy(d, rng)), PureDP(0.1), pair=(1, 0), samples=12_000, seed=5)
    assert report.flagged and not report.problems


@pytest.mark.parametrize(
    ("one", "other"),
    [(int, float), (int, bool), (lambda x: (x,), lambda x: [x]), (lambda x: {"n": x}, lambda x: {"n": float(x)})],
)
def test_the_type_of_an_output_may_tell_the_input(one, other):
    """3 and 3.0, 1 and True, a tuple and a list look different to whoever reads them."""

    def typed(data, rng):
        return (one if data else other)(int(rng.integers(2)))

    assert audit(typed, PureDP(1.0), pair=(0, 1), samples=2_000, seed=1).flagged


class Ring:
    """Refers to itself, and shows its address."""

    def __init__(self, value):
        self.value, self.self = value, self


@pytest.mark.parametrize(
    "show",
    [
        lambda data, coin: np.ma.array([coin, 5], mask=[False, bool(data)]),
        lambda data, coin: memoryview(bytes([coin + 2 * data])),
        lambda data, coin: bytearray([coin + 2 * data]),
        lambda data, coin: Ring(coin + 2 * data),
    ],
)
def test_masks_buffers_and_objects_that_hold_themselves_are_read(show):
    report = audit(lambda data, rng: show(data, int(rng.integers(2))), PureDP(1.0), pair=(0, 1), samples=500, seed=1)
    assert report.flagged and not report.problems


def test_a_number_of_two_types_is_still_a_number():
    """max(0, ...) returns an integer or a float."""

    def clipped(data, rng):
        return max(0, round(data + rng.laplace(), 3))

    report = audit(clipped, PureDP(1.0), pair=(0.0, 1.0), samples=20_000, seed=1)
    assert report.passed and report.epsilon_lower > 0.8


@pytest.mark.parametrize("wrap", [str, lambda text: {"answer": [text]}])
def test_a_few_letters_of_a_long_text_may_tell_the_input(wrap):
    """No text occurs twice, so its hash says nothing."""

    def text(data, rng):
        letters = "".join(rng.choice(list("abc"), 30))
        place = int(rng.integers(20))
        return wrap(letters[:place] + ("SECRET" if data else "SECRTE") + letters[place:])

    report = audit(text, PureDP(1.0), pair=(0, 1), samples=2_000, seed=1)
    assert report.flagged and " in y" in report.event


def test_letters_at_one_place_may_tell_the_input_and_equal_distributions_of_texts_pass():
    def text(leak):
        def mechanism(data, rng):
            letters = list(rng.choice(list("abc"), 20))
            if leak and data and rng.random() < 0.5:
                letters[7] = "a"
            return "".join(letters)

        return mechanism

    assert audit(text(True), PureDP(0.1), pair=(0, 1), samples=6_000, seed=1).flagged
    assert audit(text(False), PureDP(0.1), pair=(0, 1), samples=6_000, seed=1).passed


@pytest.mark.parametrize(
    "values",
    [
        lambda n, rng: (rng.random(n) * 2 - 1) * 1.7e308,  # further apart than the largest float
        lambda n, rng: 1.6e308 + rng.random(n) * 1e307,
        lambda n, rng: rng.integers(-25, 11, n) * 5e-324,  # too close for sixty bins between them
    ],
)
def test_the_largest_and_the_smallest_floats_have_a_picture(values):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [Encoded(values(600, np.random.default_rng(seed))[:, None], ("y",)) for seed in (1, 2)]
    picture = picture_of(OutputEvent(ColumnScore(0, "y"), 0.0, True, False), *rows)
    assert sum(picture.counts1) == sum(picture.counts2) == 600
    assert np.isfinite(picture.edges).all() and np.all(np.diff(picture.edges) >= 0)
    report = audit(lambda data, rng: 0 if rng.random() < 0.5 else 1, PureDP(1.0), pair=(0, 1), samples=200, seed=1)
    replace(report, picture=picture).plot()[0].figure.canvas.draw()
    plt.close("all")
