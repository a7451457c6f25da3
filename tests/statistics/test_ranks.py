import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from seatrial.statistics.ranks import rank_interval, ranks


def test_the_lowest_is_first_and_ties_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([[0.3, 0.1, 0.2], [0.5, 0.5, 0.1]])).tolist() == [[3.0, 1.0, 2.0], [2.5, 2.5, 1.0]]


def test_a_row_with_an_undefined_value_has_no_ranks() -> None:
    assert np.isnan(ranks(np.array([[0.3, np.nan, 0.2]]))).all()
    assert ranks(np.empty((4, 0))).shape == (4, 0)


VALUES = st.one_of(st.sampled_from([0.0, -0.0, 0.1, 0.5, math.inf, -math.inf, math.nan]), st.floats())


@given(st.integers(1, 5).flatmap(lambda k: st.lists(st.lists(VALUES, min_size=k, max_size=k), min_size=1, max_size=6)))
def test_ranks_are_those_scipy_finds(rows: list[list[float]]) -> None:
    expected = rankdata(np.array(rows), axis=1, nan_policy="propagate")
    np.testing.assert_array_equal(ranks(np.array(rows)), expected)


def test_the_interval_is_of_the_resamples_and_holds_the_rank() -> None:
    drawn = np.concatenate([[5.0], np.repeat([1.0, 2.0, 3.0], [10, 970, 20])])
    assert rank_interval(drawn) == (2.0, 5.0)
    assert rank_interval(np.concatenate([[2.0], np.repeat([1.0, 3.0], 500)])) == (1.0, 3.0)


def test_the_interval_leaves_out_a_fortieth_at_each_end() -> None:
    low, high = rank_interval(np.concatenate([[500.0], np.arange(1001.0)]))
    assert (low, high) == pytest.approx((25.0, 975.0))


def test_ends_are_ranks_that_occur() -> None:
    # Interpolated, the upper end would be 3.5125: between 3.5 and 4.
    drawn = np.concatenate([[1.0], np.repeat([1.0, 3.5, 4.0], [900, 75, 25])])
    assert rank_interval(drawn) == (1.0, 4.0)


@given(
    st.lists(st.integers(2, 22).map(lambda twice: twice / 2), min_size=2, max_size=300),
    st.sampled_from([0.05, 0.1, 0.5]),
)
def test_the_interval_agrees_with_one_by_sorting(drawn: list[float], alpha: float) -> None:
    value, *resamples = drawn
    ordered = sorted(resamples)
    last = len(ordered) - 1
    # Positions that are whole up to rounding are whole.
    low = ordered[math.floor(round(last * alpha / 2, 9))]
    high = ordered[math.ceil(round(last * (1 - alpha / 2), 9))]
    found = rank_interval(np.array(drawn), alpha=alpha)
    assert found == (min(low, value), max(high, value))
    assert set(found) <= set(drawn)
    assert sum(found[0] <= one <= found[1] for one in resamples) >= (1 - alpha) * len(resamples)


@pytest.mark.parametrize(
    "drawn", [[np.nan, 1.0, 2.0], [1.0, np.nan, np.nan, 2.0], [1.0]], ids=["sample", "resamples", "none"]
)
def test_an_undefined_rank_has_no_interval(drawn) -> None:
    assert rank_interval(np.array(drawn)) is None
