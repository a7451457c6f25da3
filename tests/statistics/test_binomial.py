from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr

from seatrial.statistics.binomial import binomial_cdf
from seatrial.statistics.exact import mcnemar


@given(st.integers(1, 60), st.data())
def test_it_is_the_sum_of_the_chances(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    rate = Fraction(data.draw(st.integers(0, 64)), 64)
    chances = (comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes + 1))
    assert binomial_cdf(successes, trials, float(rate)) == pytest.approx(float(sum(chances)), rel=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 1_000_000), (499_000, 1_000_000), (3, 100_000), (70, 2_000)])
@pytest.mark.parametrize("rate", [0.5, 1e-4, 0.03])
def test_it_agrees_with_scipy_for_many(successes: int, trials: int, rate: float) -> None:
    assert binomial_cdf(successes, trials, rate) == pytest.approx(bdtr(successes, trials, rate), rel=1e-6, abs=1e-300)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_the_api_s_and_the_workers_make_one_exact_test(b: int, c: int) -> None:
    assert mcnemar(b, c) == pytest.approx(min(1.0, 2 * binomial_cdf(min(b, c), b + c, 0.5)), rel=1e-10, abs=1e-300)


def test_a_sure_thing_never_fails_and_an_impossible_one_always_does() -> None:
    assert [binomial_cdf(successes, 3, 1.0) for successes in range(4)] == [0, 0, 0, 1]
    assert [binomial_cdf(successes, 3, 0.0) for successes in range(4)] == [1, 1, 1, 1]
