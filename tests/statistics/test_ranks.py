import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.statistics.ranks import place_interval, places


def test_the_lowest_is_first_and_ties_share_the_mean_of_their_places() -> None:
    assert places(np.array([[0.3, 0.1, 0.2], [0.5, 0.5, 0.1]])).tolist() == [[3.0, 1.0, 2.0], [2.5, 2.5, 1.0]]


def test_a_row_with_an_undefined_value_has_no_places() -> None:
    assert np.isnan(places(np.array([[0.3, np.nan, 0.2]]))).all()
    assert places(np.empty((4, 0))).shape == (4, 0)


def test_the_interval_is_of_the_resamples_and_holds_the_place() -> None:
    drawn = np.concatenate([[5.0], np.repeat([1.0, 2.0, 3.0], [10, 970, 20])])
    assert place_interval(drawn) == (2.0, 5.0)
    assert place_interval(np.concatenate([[2.0], np.repeat([1.0, 3.0], 500)])) == (1.0, 3.0)


def test_the_interval_leaves_out_a_fortieth_at_each_end() -> None:
    low, high = place_interval(np.concatenate([[500.0], np.arange(1001.0)]))
    assert (low, high) == pytest.approx((25.0, 975.0))


def test_ends_are_places_that_occur() -> None:
    # Interpolated, the upper end would be 3.5125: between 3.5 and 4.
    drawn = np.concatenate([[1.0], np.repeat([1.0, 3.5, 4.0], [900, 75, 25])])
    assert place_interval(drawn) == (1.0, 4.0)


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
    found = place_interval(np.array(drawn), alpha=alpha)
    assert found == (min(low, value), max(high, value))
    assert set(found) <= set(drawn)
    assert sum(found[0] <= one <= found[1] for one in resamples) >= (1 - alpha) * len(resamples)


@pytest.mark.parametrize(
    "drawn", [[np.nan, 1.0, 2.0], [1.0, np.nan, np.nan, 2.0], [1.0]], ids=["sample", "resamples", "none"]
)
def test_an_undefined_place_has_no_interval(drawn) -> None:
    assert place_interval(np.array(drawn)) is None
