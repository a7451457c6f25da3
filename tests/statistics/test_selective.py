"""Risk against coverage, conformal thresholds and groups, against loops and SciPy."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from seatrial.statistics.binned import ks_p
from seatrial.statistics.calibration import calibrate
from seatrial.statistics.exact import clopper_pearson, fisher
from seatrial.statistics.groups import by_group, calibration_by_group, holm, largest_interval, worst_interval
from seatrial.statistics.selective import aurc, conformal_threshold, risk_coverage


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_is_the_mean_risk_at_every_examples_confidence(ties: bool) -> None:
    rng = np.random.default_rng(1)
    confidence = rng.random(80).round(1) if ties else rng.random(80)
    correct = rng.random(80) < confidence
    risks = [
        sum(not hit for sure, hit in zip(confidence, correct, strict=True) if sure >= own) / np.sum(confidence >= own)
        for own in confidence
    ]
    value, interval = aurc(confidence, correct, seed=0)
    assert value == pytest.approx(np.mean(risks), rel=1e-12)
    assert interval is not None
    assert interval[0] < value < interval[1]
    if not ties:
        wrong = 1 - correct[np.argsort(-confidence)]
        assert value == pytest.approx(np.mean(np.cumsum(wrong) / np.arange(1, 81)), rel=1e-12)


def test_the_curve_ends_at_the_error_of_all() -> None:
    coverage, risk = risk_coverage([0.5, 0.9, 0.5], [False, True, True])
    assert coverage.tolist() == pytest.approx([1 / 3, 1])
    assert risk.tolist() == pytest.approx([0, 1 / 3])


def test_sets_hold_the_label_as_often_as_promised() -> None:
    rng = np.random.default_rng(2)
    held = []
    for _ in range(2000):
        scores = rng.random(20)
        held.append(scores[19] <= conformal_threshold(scores[:19], 0.1))
    # With 19 to calibrate on the promise is met exactly: the 18th of 20 equally likely places.
    assert np.mean(held) == pytest.approx(0.9, abs=0.02)
    assert conformal_threshold(np.arange(9.0), 0.1) == 8
    assert conformal_threshold(np.arange(8.0), 0.1) == np.inf


def test_fishers_p_is_scipys() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        n = int(rng.integers(2, 60))
        size, total = int(rng.integers(1, n + 1)), int(rng.integers(0, n + 1))
        hits = int(rng.hypergeometric(size, n - size, total)) if total else 0
        table = [[hits, size - hits], [total - hits, n - size - total + hits]]
        assert fisher(hits, size, total, n) == pytest.approx(fisher_exact(table)[1], rel=1e-6), table
    with pytest.raises(ValueError, match="not a group"):
        fisher(3, 2, 3, 9)


def test_groups_are_held_against_the_rest_and_corrected_for_their_number() -> None:
    groups = ["a"] * 100 + ["b"] * 100 + ["c"] * 100 + ["d"] * 5
    correct = np.array(
        [True] * 90 + [False] * 10 + [True] * 88 + [False] * 12 + [True] * 60 + [False] * 40 + [False] * 5
    )
    found = by_group(groups, correct, fewest=30)
    assert list(found) == ["a", "b", "c"]
    assert (found["c"].accuracy, found["c"].rest) == (0.6, pytest.approx(178 / 205))
    raw = [fisher_exact([[h, 100 - h], [238 - h, 205 - 238 + h]])[1] for h in (90, 88, 60)]
    assert [one.p for one in found.values()] == pytest.approx(holm(raw))
    assert worst_interval(found) == (clopper_pearson(60, 100)[0], clopper_pearson(60, 100, alpha=0.05 / 3)[1])
    (alone,) = by_group(["x"] * 9, np.ones(9, bool)).values()
    assert (alone.rest, alone.p) == (None, 1.0)


def test_the_error_of_the_worst_group_is_bounded_and_tested_for_all_of_them() -> None:
    sure = np.tile([0.6, 0.7, 0.8, 0.9], 100)
    right = np.r_[np.ones(200, bool), np.arange(200) % 2 == 0]
    groups = ["a"] * 200 + ["b"] * 200 + ["c"] * 9
    sure, right = np.r_[sure, [0.99] * 9], np.r_[right, [True] * 9]
    found = calibration_by_group(groups, sure, right, 10, seed=[3], fewest=30)
    assert list(found) == ["a", "b"]
    assert (found["a"].ece, found["b"].ece) == (pytest.approx(0.25), pytest.approx(0.55))
    raw = [ks_p(sure[part], right[part]) for part in (slice(0, 200), slice(200, 400))]
    assert [one.p for one in found.values()] == pytest.approx(holm([one or 0.0 for one in raw]))
    assert max(one.p for one in found.values()) < 1e-6
    own = calibrate(sure[:200], right[:200], 10, seed=[3, 0], alpha=0.025).intervals["ece"]
    assert found["a"].shared == own
    low, high = largest_interval(found) or (0.0, 0.0)
    assert (low, high) == (
        max(one.shared[0] for one in found.values() if one.shared),
        max(one.interval[1] for one in found.values() if one.interval),
    )
    assert 0.25 < low < 0.55 < high
    (sole,) = calibration_by_group(["x"], [0.5], [True], 10, seed=[1]).values()
    assert (sole.interval, largest_interval({"x": sole})) == (None, None)
