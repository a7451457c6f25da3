"""Samples to estimates: what they hold, and when there is no interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from seatrial.statistics.estimating import calibration, mean, proportion, share

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=30)


@pytest.mark.parametrize("value", [0.1, 0.2, 0.3, 0.7])
def test_the_interval_of_a_constant_holds_it_however_it_is_summed(value) -> None:
    for n in range(2, 60):
        found = mean(np.full(n, value), (0.0, 1.0))
        assert 0 <= found.low < found.value < found.high <= 1
        alike = mean(np.full(n, value), (0.0, None))
        assert (alike.low, alike.high, alike.method) == (None, None, "gaffke-seen")


def test_a_mean_leaves_out_what_is_undefined() -> None:
    found = mean(np.array([0.25, math.nan, 0.75]), (0.0, 1.0))
    assert (found.value, found.n, found.method) == (0.5, 2, "gaffke")
    assert mean(np.array([math.nan]), (0.0, 1.0)).model_dump() == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "method": "none",
    }
    assert mean(np.array([0.3]), (0.0, 1.0)).low is None


@given(SHARES)
def test_a_mean_of_an_open_range_reaches_twice_as_far_again_as_the_sample(values: list[float]) -> None:
    seen = np.array(values)
    found, reach = mean(seen, (None, None)), float(np.ptp(seen))
    if found.low is None:
        assert reach < 1e-8
    else:
        known = mean(seen, (float(seen.min()) - 2 * reach, float(seen.max()) + 2 * reach))
        assert (found.low, found.high) == (known.low, known.high)
        assert (found.method, known.method) == ("gaffke-seen", "gaffke")
        assert mean(seen, (0.0, None)).high == mean(seen, (0.0, 3 * float(seen.max()))).high


@given(st.lists(st.integers(0, 8), min_size=2, max_size=20), st.data())
def test_a_share_of_decisions_is_within_its_range_and_surer_when_wider(sizes: list[int], data: st.DataObject) -> None:
    decisions = np.array(sizes, dtype=float)
    hits = np.array([data.draw(st.integers(0, size)) for size in sizes], dtype=float)
    found, surer = share(hits, decisions), share(hits, decisions, alpha=0.01)
    if not decisions.sum():
        assert found.value is None
        return
    assert found.value == hits.sum() / decisions.sum()
    assert 0 <= surer.low <= found.low + 1e-9
    assert found.low <= found.value <= found.high <= surer.high + 1e-9 <= 1 + 2e-9


def test_of_single_decisions_a_share_has_about_the_exact_interval() -> None:
    hits = np.arange(80) < 77
    exact, found = proportion(hits), share(hits.astype(float), np.ones(80))
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=3e-4)


def test_sentences_whose_tags_are_right_or_wrong_together_are_as_many_as_they_are() -> None:
    # A thousand tags in twenty sentences say what twenty sentences say.
    right = np.arange(20) < 18
    found, alone = share(50.0 * right, np.full(20, 50.0)), share(right.astype(float), np.ones(20))
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=1e-8)


def test_every_metric_of_calibration_lies_in_its_interval_which_is_wider_when_surer() -> None:
    rng = np.random.default_rng(0)
    confidence = 0.5 + 0.5 * rng.beta(4, 2, 200)
    correct = rng.random(200) < confidence - 0.05
    found, surer = (calibration(confidence, correct, 15, seed=[1], alpha=alpha) for alpha in (0.05, 0.01))
    for name, one in found.items():
        lowest = -1 if name == "s_ece" else 0
        assert lowest <= surer[name].low <= one.low <= one.value <= one.high <= surer[name].high <= 1, name
    assert {name: one.method for name, one in found.items()} == {
        "ece": "resampled",
        "ece_centre": "resampled",
        "s_ece": "gaffke",
        "mce": "gaffke",
        "brier": "gaffke",
    }
    assert calibration(np.array([0.7]), np.array([True]), 15, seed=[1])["ece"].low is None


def test_a_proportion_is_clopper_and_pearson_s_and_of_nothing_there_is_none() -> None:
    found = proportion(np.arange(20) < 7)
    assert (found.value, found.n, found.method) == (0.35, 20, "clopper-pearson")
    assert (found.low, found.high) == pytest.approx((beta.ppf(0.025, 7, 14), beta.ppf(0.975, 8, 13)), abs=1e-12)
    nothing = proportion(np.zeros(0, dtype=bool))
    assert (nothing.value, nothing.low, nothing.high, nothing.n) == (None, None, None, 0)
