import itertools
import math

import numpy as np
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


@given(st.integers(1, 6), st.data())
def test_the_interval_holds_every_rank_the_comparisons_allow(k: int, data: st.DataObject) -> None:
    """By trying: orders in which whoever is surely below another stands before it."""
    order = data.draw(st.permutations(range(k)))
    pairs = [(one, other) for at, one in enumerate(order) for other in order[at + 1 :]]
    is_below = np.zeros((k, k), dtype=bool)
    for one, other in data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []:
        is_below[one, other] = True
    allowed = [
        found
        for found in itertools.permutations(range(k))
        if all(found.index(one) < found.index(other) for one, other in np.argwhere(is_below).tolist())
    ]
    for place in range(k):
        stands = [found.index(place) + 1 for found in allowed]
        low, high = rank_interval(place, is_below)
        assert low <= min(stands) <= max(stands) <= high
        assert 1 <= low <= high <= k


def test_nothing_sure_leaves_every_rank_open() -> None:
    assert rank_interval(2, np.zeros((5, 5), dtype=bool)) == (1.0, 5.0)
