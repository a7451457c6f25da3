"""Cohen's kappa beside scikit-learn's, and its interval beside what it is to hold."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from seatrial.statistics.agreement import cohens_kappa


@pytest.mark.parametrize("seed", range(20))
def test_it_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 6))
    first = rng.integers(0, classes, 50)
    second = np.where(rng.random(50) < 0.6, first, rng.integers(0, classes, 50))
    found = cohens_kappa(first, second)
    assert found is not None
    assert found.value == pytest.approx(cohen_kappa_score(first, second))
    assert found.low < found.value < found.high


def test_chance_is_zero_and_its_interval_holds_it() -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        found = cohens_kappa(rng.integers(0, 2, 64), rng.integers(0, 2, 64))
        assert found is not None
        missed += not found.low <= 0 <= found.high
    # 5 % of 400, with three standard errors of room.
    assert missed <= 33


@pytest.mark.parametrize(("first", "second"), [([1, 1, 1, 1], [1, 1, 1, 1]), ([0, 1], [0, 1]), ([], [])])
def test_where_it_is_not_defined_there_is_none(first: list[int], second: list[int]) -> None:
    assert cohens_kappa(np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)) is None


def test_one_class_for_everything_agrees_as_chance_has_it() -> None:
    found = cohens_kappa(np.array([0, 1] * 20), np.zeros(40, dtype=np.int64))
    assert found is not None
    assert found.value == found.low == found.high == 0
