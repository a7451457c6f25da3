import numpy as np
import pytest

from workers.stats.places import place_interval, places


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


@pytest.mark.parametrize(
    "drawn", [[np.nan, 1.0, 2.0], [1.0, np.nan, np.nan, 2.0], [1.0]], ids=["sample", "resamples", "none"]
)
def test_an_undefined_place_has_no_interval(drawn) -> None:
    assert place_interval(np.array(drawn)) is None
