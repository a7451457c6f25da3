import numpy as np
import pytest
from scipy import stats

from seatrial.statistics import intervals
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import (
    bias_corrected,
    bootstrap,
    bootstrap_means,
    exponentials,
    paired_difference,
    resample,
    unseen_interval,
)


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (499, 500)])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_proportions_agree_with_scipy(successes, trials, alpha) -> None:
    test = stats.binomtest(successes, trials)
    exact = test.proportion_ci(1 - alpha, "exact")
    assert clopper_pearson(successes, trials, alpha=alpha) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize("sample", [(2, 1), (-1, 5), (0, 0)])
def test_refuses_what_is_no_sample(sample) -> None:
    with pytest.raises(ValueError, match="not a valid sample"):
        clopper_pearson(*sample)


def test_bootstrap_of_a_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).exponential(size=300)
    theirs = stats.bootstrap((values,), np.mean, method="BCa", rng=np.random.default_rng(2)).confidence_interval
    (ours,) = bootstrap_means(values[:, None], seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for trial in range(200):
        (interval,) = bootstrap_means(rng.normal(1.0, 2.0, (60, 1)), seed=trial)
        covered += interval[0] <= 1.0 <= interval[1]
    assert 0.9 <= covered / 200 <= 0.98


def test_bootstrap_is_seeded_and_does_not_depend_on_the_memory_it_is_given(monkeypatch) -> None:
    values = np.random.default_rng(5).normal(size=(50, 2))
    first = bootstrap_means(values, seed=6)
    assert bootstrap_means(values, seed=6) == first
    assert bootstrap_means(values, seed=7) != first
    monkeypatch.setattr(intervals, "CELLS", 200)
    assert bootstrap_means(values, seed=6) == [pytest.approx(interval) for interval in first]


@pytest.mark.parametrize("drawn", [1, 30, 10_000])
def test_examples_are_counted_the_same_however_many_are_drawn_at_a_time(drawn, monkeypatch) -> None:
    cells = np.random.default_rng(8).integers(0, 13, (5, 13))
    monkeypatch.setattr(intervals, "DRAWN", drawn)
    found = intervals.counts(np.random.default_rng(8), 5, 13)
    assert found.tolist() == [np.bincount(row, minlength=13).tolist() for row in cells]


def test_resampling_draws_as_many_examples_as_there_are() -> None:
    sums = []
    bootstrap(lambda weights: sums.append(weights.sum(1)) or weights[:, :1], [17], seed=0)
    assert set(np.concatenate(sums)) == {17.0}


def test_undefined_statistics_have_no_interval() -> None:
    assert bootstrap_means([[1.0]], seed=0) == [None]
    assert bootstrap(lambda weights: np.full((len(weights), 1), np.nan), [9], seed=0) == [None]


def test_a_constant_has_an_interval_of_no_width() -> None:
    assert bootstrap_means([[2.0]] * 9, seed=0) == [(2.0, 2.0)]


def test_exponential_weights_are_uniform_on_the_simplex() -> None:
    weights = exponentials(np.random.default_rng(0), 20_000, 4)
    shares = weights / weights.sum(axis=1, keepdims=True)
    # Each share is Beta(1, 3).
    assert stats.kstest(shares[:, 0], stats.beta(1, 3).cdf).pvalue > 0.01
    assert weights.min() > 0


def test_the_interval_with_one_not_seen_holds_the_value_and_takes_an_end_from_each() -> None:
    drawn = np.linspace(0, 1, 1001)
    assert unseen_interval(0.5, drawn - 1, drawn + 1) == (pytest.approx(-0.975), pytest.approx(1.975))
    assert unseen_interval(0.5, drawn, drawn, alpha=0.5) == (pytest.approx(0.25), pytest.approx(0.75))
    assert unseen_interval(0.5, drawn + 9, drawn - 9) == (0.5, 0.5)


@pytest.mark.parametrize("n", [10, 31, 100])
def test_rounding_does_not_decide_which_resamples_are_ties(n) -> None:
    values = np.random.default_rng(n).integers(1, 4, n) / 10
    drawn = resample(lambda weights: weights @ values[:, None] / n, [n], seed=0)[:, 0]
    expected = bias_corrected(values.mean(), drawn)
    for factor in (1 - 3e-16, 1 + 3e-16):
        assert bias_corrected(values.mean(), drawn * factor) == pytest.approx(expected, abs=1e-12)


def test_an_interval_needs_half_the_resamples_defined() -> None:
    drawn = np.concatenate([np.linspace(0, 1, 50), np.full(50, np.nan)])
    assert bias_corrected(0.5, drawn) == bias_corrected(0.5, drawn[:50])
    assert bias_corrected(0.5, drawn[1:]) is None
    assert bias_corrected(np.nan, drawn[:50]) is None


def test_pairing_removes_what_the_arms_share() -> None:
    rng = np.random.default_rng(8)
    shared = rng.normal(0, 10, 100)
    low, high = paired_difference(shared + 1 + rng.normal(0, 0.1, 100), shared, seed=0)
    assert 0.9 < low < 1 < high < 1.1
    with pytest.raises(ValueError, match="one length"):
        paired_difference([1.0], [1.0, 2.0], seed=0)
