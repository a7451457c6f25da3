"""To the last bit what SciPy gives, in which stored intervals were made."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from seatrial.statistics.normal import normal_cdf, normal_quantile

TAILS = np.concatenate([np.linspace(0, 1, 4001), np.logspace(-300, 0, 2000), 1 - np.logspace(-16, 0, 2000)])


@given(st.floats(0, 1))
def test_quantiles_are_scipy_s(p: float) -> None:
    assert normal_quantile(p) == ndtri(p)


@given(st.floats(-45, 45))
def test_probabilities_are_scipy_s(x: float) -> None:
    assert normal_cdf(x) == ndtr(x)


def test_so_are_those_of_every_share_of_resamples() -> None:
    """Bias-corrected intervals ask for the quantile of k of 2000, and for the probability that far from it."""
    assert [normal_quantile(float(p)) for p in TAILS] == ndtri(TAILS).tolist()
    shifts = 2 * ndtri(np.arange(1, 2000) / 2000)
    for tail in (0.025, 0.975):
        asked = shifts + ndtri(tail)
        assert [normal_cdf(float(x)) for x in asked] == ndtr(asked).tolist()


@pytest.mark.parametrize("x", [-math.inf, math.inf, -40.0, 40.0, 0.0, -1.5, 1.4142135623730951, 11.4])
def test_probabilities_agree_with_the_standard_library(x: float) -> None:
    assert normal_cdf(x) == pytest.approx(0.5 * math.erfc(-x / math.sqrt(2)), rel=1e-12, abs=1e-307)


@given(st.floats(1e-300, 1, exclude_max=True))
def test_quantiles_agree_with_the_standard_library(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(NormalDist().inv_cdf(p), rel=1e-12, abs=1e-15)


def test_ends_are_infinite_and_nothing_lies_beyond() -> None:
    assert [normal_quantile(0), normal_quantile(1)] == [-math.inf, math.inf]
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="from 0 to 1"):
            normal_quantile(p)
