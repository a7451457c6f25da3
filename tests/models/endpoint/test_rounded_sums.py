"""How far rounded probabilities may miss a sum of 1: by half a unit of their last digit for each class."""

import pytest

from workers.models.endpoint_scores import MisfitError, text_logits

TASK = "text-classification"


def is_taken(*row: float) -> bool:
    try:
        text_logits(list(row), [str(number) for number in range(len(row))], "probabilities", TASK)
    except MisfitError:
        return False
    return True


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((0.334, 0.334, 0.334, 0.0), True),
        ((0.335, 0.334, 0.334, 0.0), False),
        ((0.25, 0.25, 0.25, 0.26), True),
        ((0.25, 0.25, 0.25, 0.28), False),
        ((0.5004, 0.5004), True),
        ((0.50051, 0.50052), False),
        ((0.6, 0.5), False),
        ((0.3, 0.3, 0.3), True),
        ((0.3, 0.3, 0.2), False),
        ((1.0, 0.5, *[0.0] * 8), False),
        ((0.6, *[0.0] * 9), True),
        ((0.5, *[0.0] * 9), False),
        ((0.0, 0.0), False),
        ((2.0, -1.0), False),
        ((0.01,) * 70, True),
        ((0.01,) * 60, False),
    ],
)
def test_a_sum_is_judged_by_classes_and_digits(row, expected) -> None:
    assert is_taken(*row) == expected
