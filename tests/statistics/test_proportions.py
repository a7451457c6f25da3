import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binomtest

from seatrial.statistics.proportions import corrected_interval, score_interval


def excess(b: float, c: float, n: int, side: int, critical: float, difference: float) -> float:
    first = (2 * n - b + c) * difference - b - c
    second = -c * difference * (1 - difference)
    rate = (math.sqrt(max(first**2 - 8 * n * second, 0.0)) - first) / (4 * n)
    spread = math.sqrt(max(n * (2 * rate + difference * (1 - difference)), 0.0))
    return side * (n * difference - (b - c)) - 1 - critical * spread


def end_by_scipy(b: int, c: int, n: int, side: int, alpha: float) -> float:
    """As workers stored it before the two implementations became one."""
    critical, start = -float(ndtri(alpha / 2)), (b - c) / n + side * 1e-12
    if side * start >= 1 or excess(b, c, n, side, critical, float(side)) <= 0:
        return float(side)
    return float(brentq(lambda at: excess(b, c, n, side, critical, at), start, float(side), xtol=1e-12))


def end_by_halves(b: float, c: float, n: int, side: int) -> float:
    """As the API judged by before."""
    inside, outside = (b - c) / n, float(side)
    if excess(b, c, n, side, 1.9599639845400536, outside) <= 0:
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        is_beyond = excess(b, c, n, side, 1.9599639845400536, middle) > 0
        inside, outside = (inside, middle) if is_beyond else (middle, outside)
    return outside


@given(st.integers(1, 400), st.data(), st.sampled_from([0.05, 0.01, 0.05 / 7]))
def test_stored_intervals_come_out_again_to_the_last_bit(n: int, data: st.DataObject, alpha: float) -> None:
    b = data.draw(st.integers(0, n))
    c = data.draw(st.integers(0, n - b))
    assert score_interval(b, c, n, alpha=alpha) == tuple(end_by_scipy(b, c, n, side, alpha) for side in (-1, 1))


@given(st.integers(1, 400), st.data())
def test_what_verdicts_rested_on_stays_within_a_billionth(n: int, data: st.DataObject) -> None:
    b = data.draw(st.floats(0, n))
    c = data.draw(st.floats(0, n - b))
    assert score_interval(b, c, n) == pytest.approx(
        tuple(end_by_halves(b, c, n, side) for side in (-1, 1)), rel=0, abs=1e-9
    )


def test_parts_of_examples_that_nearly_fill_the_scale_reach_its_end() -> None:
    assert score_interval(4.9, 0.0, 5)[1] == 1
    assert score_interval(0.0, 4.9, 5)[0] == -1


@given(st.integers(1, 2000), st.data(), st.sampled_from([0.05, 0.01, 0.05 / 7]))
def test_the_corrected_interval_is_scipys(n: int, data: st.DataObject, alpha: float) -> None:
    hits = data.draw(st.integers(0, n))
    low, high = corrected_interval(hits / n, n, alpha=alpha)
    expected = binomtest(hits, n).proportion_ci(1 - alpha, method="wilsoncc")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
