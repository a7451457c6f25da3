"""Bootstrap intervals of earlier versions and of other families, widened for what a sample cannot show."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.contracts.estimates import Estimate
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.widening import unseen_share, widen


def mean(value: float, low: float | None, high: float | None, n: int = 500) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, method="none" if low is None else "bootstrap")


def test_what_no_example_showed_may_still_be_of_so_many() -> None:
    for n in (1, 10, 500):
        assert unseen_share(n) == pytest.approx(clopper_pearson(0, n)[1])


def test_examples_that_are_all_alike_are_no_proof() -> None:
    alike = mean(0.0, 0.0, 0.0, n=10)
    widened = widen(alike, (0.0, 1.0))
    assert (widened.low, widened.high) == (0, pytest.approx(clopper_pearson(0, 10)[1]))
    assert widen(alike, None).high is None
    assert widen(mean(1.0, 1.0, 1.0, n=10), (0.0, 1.0)).low == pytest.approx(clopper_pearson(10, 10)[0])


def test_only_bootstrap_intervals_are_widened() -> None:
    for method in ("clopper-pearson", "paired", "mover", "exact"):
        found = Estimate(value=0.2, low=0.1, high=0.3, n=9, method=method)
        assert widen(found, (0.0, 1.0)) is found
    nothing = mean(0.2, None, None)
    assert widen(nothing, (0.0, 1.0)) is nothing


def test_an_interval_as_wide_as_rounding_is_no_evidence() -> None:
    # A constant's mean and its resampled means are summed in different orders.
    assert widen(mean(0.1, math.nextafter(0.1, 0), math.nextafter(0.1, 1)), None).low is None
    assert widen(mean(0.1, 0.1 - 1e-6, 0.1), None).low is not None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(2, 10_000))
def test_an_interval_never_leaves_the_range_nor_gets_narrower(value, low, high, n) -> None:
    low, value, high = sorted((low, value, high))
    found = widen(mean(value, low, high, n=n), (0.0, 1.0))
    assert -1e-12 <= found.low <= low + 1e-12
    assert high - 1e-12 <= found.high <= 1 + 1e-12
