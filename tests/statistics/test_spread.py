import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from seatrial.statistics.spread import deviation, deviation_interval


def test_of_normal_values_it_is_about_the_interval_of_their_variance() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.05, 400)
    low, high = deviation_interval(values, 0.3, 0.7, seed=1)
    spread = deviation(values)
    theirs = [spread * math.sqrt(399 / chi2.ppf(tail, 399)) for tail in (0.975, 0.025)]
    assert (low, high) == pytest.approx(theirs, rel=0.05)
    assert deviation_interval(values, 0.3, 0.7, seed=1) == (low, high)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.sampled_from([0.2, 0.05]))
def test_it_holds_the_spread_within_what_values_of_the_range_can_have(values: list[float], alpha: float) -> None:
    n, found = len(values), deviation(values)
    low, high = deviation_interval(values, 0, 1, seed=0, alpha=alpha)
    surer = deviation_interval(values, 0, 1, seed=0, alpha=alpha / 4)
    assert 0 <= surer[0] <= low <= found <= high <= surer[1]
    assert high <= max(found, 0.5 * math.sqrt(n / (n - 1)) + 1e-12)


def test_of_values_all_alike_the_rest_may_be_at_the_far_end() -> None:
    low, high = deviation_interval(np.full(50, 0.1), 0, 1, seed=0)
    share = 1 - 0.025 ** (1 / 50)
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(0.9 * math.sqrt(share * (1 - share)), rel=0.1)


def test_one_value_has_no_spread() -> None:
    assert deviation_interval([0.5], 0, 1, seed=0) is None
