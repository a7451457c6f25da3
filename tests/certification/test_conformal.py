import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from seatrial.statistics.selective import conformal_threshold
from tests.certification.boxes import random_box
from workers.certification.conformal import largest_sets, robust_sets, threshold
from workers.certification.simplex_box import SimplexBox


def by_every_subset(lower, upper, least):
    """Return the most classes that can be at or above the threshold: one linear programme for each subset."""
    k = len(lower)
    for size in range(k, 0, -1):
        for chosen in itertools.combinations(range(k), size):
            floor = lower.copy()
            floor[list(chosen)] = np.maximum(floor[list(chosen)], least)
            if np.any(floor > upper):
                continue
            bounds = list(zip(floor, upper, strict=True))
            if linprog(np.zeros(k), A_eq=np.ones((1, k)), b_eq=[1], bounds=bounds).status == 0:
                return size
    return 0


def test_the_largest_set_is_that_of_every_subset_tried() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        lower, upper = random_box(rng, int(rng.integers(2, 5)))
        least = float(rng.choice([0.1, 0.3, round(rng.random(), 3)]))
        box = SimplexBox.read([lower], [upper])
        if np.abs(np.concatenate([box.lower[0], box.upper[0]]) - least).min() < 1e-6:
            continue
        assert largest_sets(box, least)[0] == by_every_subset(lower, upper, least)


def test_sets_within_a_radius_are_no_larger_than_robust_ones() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        lower, upper = random_box(rng, 6)
        box = SimplexBox.read([lower], [upper])
        assert largest_sets(box, 0.2)[0] <= robust_sets(box.upper, 0.2)[0]


@pytest.mark.parametrize("n", [9, 10, 49, 200])
def test_a_new_label_is_in_its_set_as_often_as_said(n) -> None:
    rng = np.random.default_rng(3)
    held = [rng.random() ** 2 >= threshold(rng.random(n) ** 2, 0.9) for _ in range(20_000)]
    assert np.mean(held) >= 0.9 - 0.007
    # Exact but for the steps of 1 / (n + 1).
    assert np.mean(held) <= 0.9 + 1 / (n + 1) + 0.007


def test_it_is_the_threshold_of_predictions_read_from_the_other_side() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        scores, level = rng.random(int(rng.integers(1, 60))).round(3), float(rng.choice([0.5, 0.8, 0.9, 0.95]))
        other = 1 - conformal_threshold(1 - scores, 1 - level)
        assert threshold(scores, level) == pytest.approx(max(other, 0))


def test_too_few_examples_leave_every_class_in() -> None:
    assert threshold([0.5] * 8, 0.9) == 0
    assert threshold([0.5] * 9, 0.9) == 0.5
    with pytest.raises(ValueError, match="level"):
        threshold([0.5], 1.0)


def test_sums_of_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="every column is a class"):
        largest_sets(SimplexBox.read([[0.5, 0.0]], [[1.0, 0.5]], 3), 0.1)
