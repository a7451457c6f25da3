"""Whether predictions have anything to do with the labels."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.checks import IMAGE_WORDS
from workers.models.guessing import agreement_by_chance, one_class, unrelated_flags
from workers.models.validating import ERRORED

CLASSES = st.integers(0, 2)


@given(st.lists(st.tuples(CLASSES, CLASSES), min_size=2, max_size=6))
def test_mean_and_deviation_are_those_over_all_orders(pairs: list[tuple[int, int]]) -> None:
    predictions, labels = (np.array(one) for one in zip(*pairs, strict=True))
    agreed = [(predictions == np.array(order)).sum() for order in permutations(labels)]
    assert agreement_by_chance(predictions, labels) == pytest.approx((np.mean(agreed), np.std(agreed)), abs=1e-7)


def told(predictions: np.ndarray, labels: np.ndarray) -> list[str]:
    return [flag.code for flag in unrelated_flags(predictions, labels, IMAGE_WORDS)]


def test_hardly_ever_another_class_than_the_frequent_one_is_guessing() -> None:
    labels = np.repeat([0, 1], [180, 20])
    blind = np.zeros(200, dtype=np.int64)
    blind[[3, 70, 110]] = 1
    assert told(blind, labels) == ["accuracy_near_chance"]
    # As accurate, and it looks: three of the rare ones are found, with as many false alarms.
    looking = np.zeros(200, dtype=np.int64)
    looking[[3, 70, 110, 185, 190, 195]] = 1
    assert told(looking, labels) == []


def test_a_good_model_of_a_rare_class_on_few_examples_is_not_doubted() -> None:
    labels = np.repeat([0, 1], [56, 4])
    predictions = labels.copy()
    predictions[[2, 57, 58]] = [1, 0, 0]
    assert told(predictions, labels) == []


def test_one_that_guesses_is_found_out_as_often_as_it_should_be() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 200, p=[0.7, 0.2, 0.1])
    doubted = [bool(told(rng.choice(3, 200, p=[0.8, 0.1, 0.1]), labels)) for _ in range(400)]
    assert np.mean(doubted) == pytest.approx(0.95, abs=0.03)


def test_examples_without_an_answer_are_left_out_and_few_are_no_evidence() -> None:
    labels = np.tile([0, 1], 20)
    assert told(np.where(np.arange(40) < 20, labels, ERRORED), labels) == []
    assert told(1 - labels[:8], labels[:8]) == []
    with pytest.raises(ValueError, match="one order"):
        agreement_by_chance(labels[:1], labels[:1])


@pytest.mark.parametrize(
    ("labels", "classes", "told"),
    [
        ([3] * 20, 10, "Of 20 images none has another label"),
        ([3] * 19, 10, None),
        ([1] * 96 + [0] * 4, 2, "Of 100 images 4 have another label"),
        # A rare class of two is what the model is for; of ten one in ten has to be another.
        ([1] * 95 + [0] * 5, 2, None),
        ([3] * 91 + [1] * 9, 10, "Of 100 images 9 have another label"),
        ([3] * 90 + [1] * 10, 10, None),
        # Of many, enough of the others say something by themselves.
        ([3] * 950 + [1] * 50, 10, None),
        ([3] * 951 + [1] * 49, 10, "Of 1,000 images 49 have another label"),
        ([0, 1] * 50, 2, None),
    ],
)
def test_a_sample_of_next_to_one_class_is_doubted(labels: list[int], classes: int, told: str | None) -> None:
    found = one_class(np.array(labels), classes, "image")
    assert [flag.severity for flag in found] == ["warning"] * (told is not None)
    assert told is None or found[0].message.startswith(told)
