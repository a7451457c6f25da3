import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from torchmetrics.functional.classification import binary_calibration_error

from seatrial.statistics.calibration import calibrate, ece
from seatrial.statistics.clusters import BinnedErrors, correlations, drawn_sums, drawn_values, interval_of, ratio
from seatrial.statistics.intervals import counts


def test_row_0_is_the_sample_and_the_others_are_resamples_of_whole_examples() -> None:
    columns = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 1.0], [7.0, 0.5]])
    found = drawn_sums(columns, seed=3, resamples=50)
    weights = counts(np.random.default_rng(3), 50, 4)
    assert found[0].tolist() == columns.sum(axis=0).tolist()
    for row, weight in enumerate(weights):
        repeated = np.repeat(columns, weight.astype(int), axis=0)
        assert found[row + 1] == pytest.approx(repeated.sum(axis=0))


def test_sums_and_functions_with_one_seed_see_the_same_resamples() -> None:
    columns = np.random.default_rng(0).random((30, 2))
    sums = drawn_sums(columns, seed=[5, 6])
    values = drawn_values([lambda weights: weights @ columns[:, 1]], 30, seed=[5, 6])
    assert values[:, 0] == pytest.approx(sums[:, 1])
    other = drawn_values([lambda weights: weights @ columns[:, 1]], 30, seed=[5, 7])
    assert not np.allclose(other, values)


def test_a_ratio_of_sums_covers_the_truth_where_decisions_of_an_example_hang_together() -> None:
    rng = np.random.default_rng(1)
    covered = {"clusters": 0, "decisions": 0}
    for seed in range(120):
        # Eight decisions an example, nearly always alike: what eight times as many independent ones would say is wrong.
        rates = rng.beta(0.5, 0.5, 40)
        hits = rng.random((40, 8)) < rates[:, None]
        for name, columns in (
            ("clusters", np.stack([hits.sum(axis=1), np.full(40, 8)], axis=1)),
            ("decisions", np.stack([hits.ravel(), np.ones(320)], axis=1)),
        ):
            sums = drawn_sums(columns, seed=seed, resamples=200)
            low, high = interval_of(ratio(sums[:, 0], sums[:, 1]))
            covered[name] += low <= 0.5 <= high
    assert covered["clusters"] >= 105
    assert covered["decisions"] < 80


def test_nothing_to_divide_by_is_undefined_and_has_no_interval() -> None:
    drawn = ratio(np.zeros(5), np.zeros(5))
    assert np.isnan(drawn).all()
    assert interval_of(drawn) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=12))
def test_correlation_agrees_with_scipy(points) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*points, strict=True))
    (found,) = correlations(x[None], y[None])
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(pearsonr(x, y).statistic, abs=1e-9)


def test_two_points_or_an_undefined_one_have_no_correlation() -> None:
    assert np.isnan(correlations(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0]]))).all()
    assert np.isnan(correlations(np.array([[0.0, 1.0, np.nan]]), np.array([[0.0, 1.0, 2.0]]))).all()


def decisions(seed: int, examples: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(examples), rng.integers(0, each + 1, examples))
    confidence = rng.beta(5, 2, len(owner))
    return confidence, rng.random(len(owner)) < confidence, owner


def test_the_error_is_that_of_all_decisions_and_of_torchmetrics() -> None:
    confidence, hits, owner = decisions(0, 50, 9)
    errors = BinnedErrors.of(confidence, hits, owner, 50, 15)
    (found,) = errors.error(errors.columns.sum(axis=0, keepdims=True))
    assert found == pytest.approx(ece(confidence, hits, 15))
    theirs = binary_calibration_error(torch.from_numpy(confidence), torch.from_numpy(hits).long(), 15, "l1")
    assert found == pytest.approx(float(theirs), abs=1e-6)


def test_a_resample_has_the_error_of_its_repeated_decisions() -> None:
    confidence, hits, owner = decisions(2, 12, 5)
    errors = BinnedErrors.of(confidence, hits, owner, 12, 7)
    drawn = errors.error(drawn_sums(errors.columns, seed=4, resamples=20))
    for row, weight in enumerate(counts(np.random.default_rng(4), 20, 12)):
        times = weight.astype(int)[owner]
        assert drawn[row + 1] == pytest.approx(ece(np.repeat(confidence, times), np.repeat(hits, times), 7))


def test_single_decisions_have_about_the_interval_calibrate_gives() -> None:
    confidence, hits, _ = decisions(3, 400, 1)
    owner = np.arange(len(hits))
    errors = BinnedErrors.of(confidence, hits, owner, len(hits), 10)
    found = errors.interval(seed=2)
    assert found == pytest.approx(calibrate(confidence, hits, 10, seed=1).intervals["ece"], abs=0.02)


def test_of_a_calibrated_model_whose_decisions_hang_together_the_interval_reaches_0() -> None:
    rng = np.random.default_rng(8)
    reached = 0
    for seed in range(20):
        # All six decisions of an example are right or wrong together, as often as the model says.
        sure = np.repeat(rng.choice([0.6, 0.8, 0.95], 60), 6)
        hits = np.repeat(rng.random(60) < sure[::6], 6)
        errors = BinnedErrors.of(sure, hits, np.repeat(np.arange(60), 6), 60, 10)
        low, high = errors.interval(seed=seed, resamples=300)
        reached += low == 0 < high
    assert reached >= 18


def test_a_large_error_is_known_to_be_large() -> None:
    # Sure of 0.9 and never right: chance turns the errors about, and does not add their mean to them.
    errors = BinnedErrors.of(np.full(200, 0.9), np.zeros(200), np.arange(200) // 2, 100, 15)
    low, high = errors.interval(seed=1)
    assert 0.65 < low < 0.9 <= high


def test_one_example_or_no_decision_has_no_interval() -> None:
    one = BinnedErrors.of([0.9, 0.8], [True, False], [0, 0], 1, 5)
    assert one.interval(seed=0, resamples=10) is None
    none = BinnedErrors.of([], [], [], 3, 5)
    sums = drawn_sums(none.columns, seed=0, resamples=10)
    assert none.interval(seed=0, resamples=10) is None
    assert np.isnan(none.error(sums)).all()
