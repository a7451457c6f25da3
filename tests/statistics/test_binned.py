"""Calibration errors with equal-mass bins, without bins and class by class, against loops that follow the papers."""

import math

import numpy as np
import pytest

from seatrial.statistics.binned import (
    classwise_ece,
    equal_mass_bin,
    equal_mass_ece,
    ks_error,
    ks_p,
    sup_brownian_p,
)


def answers(seed: int, n: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = 0.3 + 0.7 * rng.random(n)
    if ties:
        confidence = confidence.round(1)
    return confidence, rng.random(n) < confidence - 0.1


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [2, 7, 100, 331])
def test_equal_mass_bins_follow_ranks_and_keep_ties_together(n: int, ties: bool) -> None:
    confidence, correct = answers(n, n, ties=ties)
    bins = 5
    total, members = 0.0, [sum(other < one for other in confidence) * bins // n for one in confidence]
    for which in set(members):
        inside = [at for at in range(n) if members[at] == which]
        total += abs(sum(float(correct[at]) - confidence[at] for at in inside)) / n
    value, interval = equal_mass_ece(confidence, correct, bins, seed=0)
    assert value == pytest.approx(total, rel=1e-12)
    assert interval is not None
    assert interval[0] <= value + 1e-12
    assert interval[1] >= value - 1e-12
    if not ties:
        sizes = np.bincount(equal_mass_bin(confidence, bins), minlength=bins)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("ties", [False, True])
def test_the_ks_error_is_the_largest_running_mean(ties: bool) -> None:
    confidence, correct = answers(3, 200, ties=ties)
    wanted = max(
        abs(sum(float(hit) - sure for sure, hit in zip(confidence, correct, strict=True) if sure <= threshold))
        for threshold in confidence
    )
    assert ks_error(confidence, correct, seed=0)[0] == pytest.approx(wanted / 200, rel=1e-12)


def test_the_order_of_examples_changes_nothing() -> None:
    confidence, correct = answers(4, 150, ties=True)
    turned = np.random.default_rng(0).permutation(150)
    for measure in (lambda *sample: equal_mass_ece(*sample, 6, seed=0), lambda *sample: ks_error(*sample, seed=0)):
        assert measure(confidence, correct)[0] == pytest.approx(measure(confidence[turned], correct[turned])[0])


def test_the_null_law_is_that_of_a_brownian_motion_and_holds_for_calibrated_answers() -> None:
    # Billingsley (1999), eq. 9.14: the probability of staying inside, in its other form, by reflection.
    for distance in (0.7, 1.0, 1.5, 2.5):
        cdf = [0.5 * math.erfc(-(2 * k + 1) * distance / math.sqrt(2)) for k in range(-30, 31)]
        inside = sum((-1) ** k * (cdf[k + 30] - cdf[k + 29]) for k in range(-29, 31))
        assert sup_brownian_p(distance) == pytest.approx(1 - inside, abs=1e-9)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        confidence = 0.3 + 0.7 * rng.random(300)
        found.append(ks_p(confidence, rng.random(300) < confidence))
    # Of a discrete walk the largest value is a little smaller than that of the motion: p is conservative.
    assert np.mean(np.array(found) < 0.05) < 0.075
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.1)
    assert ks_p(confidence, rng.random(300) < confidence - 0.2) < 0.01  # type: ignore[operator]


def test_the_classwise_error_is_the_mean_of_the_classes_own() -> None:
    rng = np.random.default_rng(5)
    given = rng.dirichlet(np.ones(4), 120)
    labels = rng.integers(0, 4, 120)
    total = 0.0
    for k in range(4):
        for lower in range(10):
            inside = [
                at
                for at in range(120)
                if lower / 10 <= given[at, k] and (given[at, k] < (lower + 1) / 10 or lower == 9)
            ]
            total += abs(sum((labels[at] == k) - given[at, k] for at in inside)) / 120
    value, interval = classwise_ece(given, labels, 10, seed=0)
    assert value == pytest.approx(total / 4, rel=1e-12)
    assert interval is not None
    assert 0 <= interval[0] <= value <= interval[1] <= 0.5


def test_of_one_example_there_is_no_interval() -> None:
    assert equal_mass_ece([0.8], [True], 15, seed=0) == (pytest.approx(0.2), None)
    assert ks_error([0.8], [False], seed=0) == (pytest.approx(0.8), None)
    assert classwise_ece([[0.8, 0.2]], [0], 15, seed=0) == (pytest.approx(0.2), None)
    with pytest.raises(ValueError, match="one length"):
        ks_error([], [], seed=0)
