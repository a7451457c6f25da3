"""A range of seconds holds what it says it does, by draws of what checks take of their estimates."""

import numpy as np
import pytest

from seatrial.families.timing import UNTIMED, spread_of


@pytest.mark.parametrize("n", [9, 19, 50])
def test_four_in_five_end_inside_whatever_the_ratios_are_like(n: int) -> None:
    rng = np.random.default_rng(n)
    for drawn in (rng.lognormal(-1.0, 1.2, (4000, n + 1)), rng.pareto(1.0, (4000, n + 1)) + 0.1):
        inside = [spread.low <= row[-1] <= spread.high for row in drawn if (spread := spread_of(row[:-1].tolist()))]
        assert 0.78 < float(np.mean(inside)) < 0.88


def test_few_that_ended_only_widen_what_was_seen_elsewhere() -> None:
    assert spread_of([1.0] * 8) == UNTIMED
    assert spread_of([20.0, 0.01]) == (0.01, 20.0)
