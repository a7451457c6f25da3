import numpy as np
import pytest

from seatrial.statistics.calibration import brier, ece
from tests.certification.instances import random_instance
from workers.certification.brier import brier_confidences, certified_brier, clean_confidences
from workers.certification.worst_calibration import Intervals, worst_calibration_error

LOWER, UPPER = [0.1, 0.5], [0.6, 0.9]


@pytest.mark.parametrize(
    ("correct", "worst"),
    [((1, 0), 0.81), ((1, 1), 0.53), ((0, 0), 0.585), ((0, 1), 0.305)],
    ids=["10", "11", "00", "01"],
)
def test_the_papers_example(correct, worst) -> None:
    assert certified_brier(LOWER, UPPER, correct).mean() == pytest.approx(worst)


@pytest.mark.parametrize("seed", range(5))
def test_no_confidence_within_its_interval_has_a_larger_squared_error(seed) -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(seed), 40, 15)
    tried = lower + np.linspace(0, 1, 101)[:, None] * (upper - lower)
    worst = ((correct - tried) ** 2).max(axis=0)
    assert certified_brier(lower, upper, correct) == pytest.approx(worst)


@pytest.mark.parametrize("seed", range(5))
def test_the_brier_confidences_have_that_score_and_lie_within(seed) -> None:
    lower, upper, _, correct = random_instance(np.random.default_rng(seed), 40, 15)
    confidences = brier_confidences(lower, upper, correct)
    assert np.all((lower <= confidences) & (confidences <= upper))
    assert brier(confidences, correct) == pytest.approx(certified_brier(lower, upper, correct).mean())


@pytest.mark.parametrize("bins", [1, 2, 15])
def test_their_ece_is_never_above_the_exact_worst_case(bins) -> None:
    rng = np.random.default_rng(bins)
    for _ in range(30):
        lower, upper, _, correct = random_instance(rng, 20, bins)
        exact = worst_calibration_error(lower, upper, correct, bins).value
        assert ece(brier_confidences(lower, upper, correct), correct, bins) <= exact + 1e-12


def test_their_ece_can_lie_below_the_exact_worst_case() -> None:
    # At the Brier confidences the two errors cancel within the bin; at one confidence for both they differ by 0.1.
    lower, upper, correct = [0.45, 0.45], [0.55, 0.55], [True, False]
    within = brier_confidences(lower, upper, correct)
    assert within.tolist() == [0.45, 0.55]
    assert ece(within, correct, 1) == pytest.approx(0)
    assert worst_calibration_error(lower, upper, correct, 1).value == pytest.approx(0.05)


def test_no_examples_have_no_confidences() -> None:
    assert brier_confidences([], [], []).shape == certified_brier([], [], []).shape == (0,)


@pytest.mark.parametrize(
    ("lower", "upper", "correct"),
    [([0.5], [0.4], [1]), ([-0.1], [0.4], [1]), ([0.5], [1.1], [1]), ([0.5], [np.nan], [1]), ([0.5], [0.6], [1, 0])],
    ids=["empty", "below 0", "above 1", "not a number", "two outcomes"],
)
def test_what_is_no_sample_of_intervals_is_refused(lower, upper, correct) -> None:
    with pytest.raises(ValueError, match="must"):
        certified_brier(lower, upper, correct)


def test_a_clean_confidence_just_outside_counts_as_the_nearer_end() -> None:
    sample = Intervals.read([0.2, 0.2, 0.2], [0.3, 0.3, 0.3], [1, 1, 1], 15)
    assert clean_confidences(sample, [0.2 - 1e-9, 0.25, 0.3 + 1e-9]).tolist() == [0.2, 0.25, 0.3]


@pytest.mark.parametrize("clean", [[], [0.2, 0.2], [np.nan], [1.2]], ids=["none", "two", "not a number", "above 1"])
def test_clean_confidences_that_do_not_fit_are_refused(clean) -> None:
    with pytest.raises(ValueError, match="need 1 clean confidences"):
        clean_confidences(Intervals.read([0.2], [0.3], [1], 15), clean)
