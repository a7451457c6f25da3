"""Shares in two phases: their interval against a second implementation, its edges, and how often it misses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from seatrial.statistics.nested import nested_proportion
from seatrial.statistics.products import product_interval


@given(st.data())
def test_it_is_donner_and_zou_s_product_of_exact_intervals(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 5000))
    standing = data.draw(st.integers(2, n))
    attacked = data.draw(st.integers(1, standing - 1))
    held = data.draw(st.integers(0, attacked))
    found = nested_proportion(standing, n, held, attacked)
    (p, q), ends = (standing / n, held / attacked), []
    for k, of in ((standing, n), (held, attacked)):
        exact = binomtest(k, of).proportion_ci(method="exact")
        ends.append((exact.low, exact.high))
    (a, b), (c, d) = ends
    low = p * q - math.sqrt(max(0, (p * (q - c)) ** 2 + (q * (p - a)) ** 2 - ((p - a) * (q - c)) ** 2))
    high = p * q + math.sqrt((p * (d - q)) ** 2 + (q * (b - p)) ** 2 + ((b - p) * (d - q)) ** 2)
    assert found.value == p * q
    assert (found.low, found.high) == pytest.approx((max(0, low), min(1, high)), abs=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert (found.n, found.method) == (n, "mover")


def test_where_all_that_stand_were_attacked_it_is_one_exact_share() -> None:
    found, exact = nested_proportion(40, 100, 30, 40), binomtest(30, 100).proportion_ci(method="exact")
    assert (found.value, found.method) == (0.3, "clopper-pearson")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    nothing = nested_proportion(0, 100, 0, 0)
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert nested_proportion(0, 0, 0, 0).value is None


@pytest.mark.parametrize(
    "numbers", [(5, 4, 1, 1), (5, 10, 3, 2), (5, 10, 0, 0), (5, 10, 1, 6), (0, 10, 0, 1), (5, 10, -1, 2)]
)
def test_what_is_no_nested_sample_is_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="not two nested samples"):
        nested_proportion(*numbers)


@pytest.mark.parametrize(
    ("n", "survivors", "p", "q"), [(1000, 100, 0.5, 0.9), (200, 20, 0.9, 0.97), (300, 60, 0.1, 0.5)]
)
def test_neither_end_is_wrong_more_often_than_it_says(n: int, survivors: int, p: float, q: float) -> None:
    rng, wrong = np.random.default_rng(1), np.zeros(2)
    for standing in rng.binomial(n, p, 1500):
        attacked = min(survivors, int(standing))
        found = nested_proportion(int(standing), n, int(rng.binomial(attacked, q)), attacked)
        wrong += (found.low > p * q, found.high < p * q)
    # Three standard errors above what a simulation of 40,000 found at worst, .033.
    assert (wrong / 1500 <= 0.033 + 3 * math.sqrt(0.033 / 1500)).all()


def test_two_certain_shares_have_a_certain_product() -> None:
    assert product_interval(0.5, (0.5, 0.5), 0.4, (0.4, 0.4)) == pytest.approx((0.2, 0.2))
