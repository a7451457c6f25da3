import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import binary_calibration_error

from seatrial.statistics import calibration
from seatrial.statistics.calibration import (
    bin_edges,
    bin_of,
    brier,
    calibrate,
    ece,
    ece_centre,
    mce,
    reliability,
    signed_ece,
)

DRILL = pytest.mark.drill
RNG = np.random.default_rng(0)
CONFIDENCE = RNG.uniform(0, 1, 500)
CORRECT = RNG.uniform(0, 1, 500) < CONFIDENCE**2

samples = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 1.0])), st.booleans()),
    min_size=1,
    max_size=40,
)


def by_hand(confidence, correct, bins) -> tuple[float, float, float]:
    """ECE, bin-centre ECE and MCE with a loop over bins, each written as its definition."""
    total = centre_total = largest = 0.0
    for s in range(bins):
        low, high = s / bins, (s + 1) / bins
        inside = [i for i, c in enumerate(confidence) if low <= c < high or (s == bins - 1 and c == 1)]
        if not inside:
            continue
        accuracy = sum(correct[i] for i in inside) / len(inside)
        mean = sum(confidence[i] for i in inside) / len(inside)
        total += len(inside) / len(confidence) * abs(accuracy - mean)
        centre_total += len(inside) / len(confidence) * abs(accuracy - (2 * s + 1) / (2 * bins))
        largest = max(largest, abs(accuracy - mean))
    return total, centre_total, largest


@given(samples, st.integers(1, 20))
def test_agrees_with_the_definitions(sample, bins) -> None:
    confidence, correct = zip(*sample, strict=True)
    expected = by_hand(confidence, correct, bins)
    assert (ece(confidence, correct, bins), ece_centre(confidence, correct, bins), mce(confidence, correct, bins)) == (
        pytest.approx(expected, abs=1e-9)
    )


@pytest.mark.parametrize(("norm", "metric"), [("l1", ece), ("max", mce)])
def test_agrees_with_torchmetrics(norm, metric) -> None:
    # Its binary form takes the positive class's probability as confidence; strictly inside (0, 1) bins are the same.
    expected = binary_calibration_error(torch.tensor(CONFIDENCE), torch.tensor(CORRECT).int(), n_bins=15, norm=norm)
    assert metric(CONFIDENCE, CORRECT, 15) == pytest.approx(expected.item(), abs=1e-6)


@given(samples)
def test_signed_ece_is_accuracy_minus_mean_confidence(sample) -> None:
    confidence, correct = zip(*sample, strict=True)
    assert signed_ece(confidence, correct) == pytest.approx(np.mean(correct) - np.mean(confidence), abs=1e-12)
    diagram = reliability(confidence, correct, 7)
    filled = diagram.count > 0
    binned = (diagram.count * (diagram.accuracy - diagram.confidence))[filled].sum() / len(sample)
    assert signed_ece(confidence, correct) == pytest.approx(binned, abs=1e-12)


@pytest.mark.parametrize(
    ("correct", "error", "signed"), [(True, 0.0, 0.0), (False, 1.0, -1.0)], ids=["all right", "all wrong"]
)
def test_a_saturated_softmax_is_counted(correct, error, signed) -> None:
    confidence, hits = [1.0] * 5, [correct] * 5
    assert ece(confidence, hits) == mce(confidence, hits) == brier(confidence, hits) == error
    assert signed_ece(confidence, hits) == signed
    assert reliability(confidence, hits).count.sum() == 5


def test_one_example() -> None:
    assert ece([0.7], [True]) == pytest.approx(0.3)
    assert ece_centre([0.7], [True], 2) == pytest.approx(0.25)
    assert signed_ece([0.7], [True]) == pytest.approx(0.3)
    assert calibrate([0.7], [True], seed=0).intervals["ece"] is None


def test_no_example_is_undefined() -> None:
    assert [metric([], []) for metric in (ece, ece_centre, signed_ece, mce, brier)] == [None] * 5
    assert set(calibrate([], [], seed=0).values.values()) == {None}
    assert reliability([], [], 3).count.tolist() == [0, 0, 0]


@pytest.mark.parametrize("bins", range(1, 101))
def test_a_confidence_that_is_an_edge_falls_above_it(bins) -> None:
    """Exact rationals say where: a confidence of two decimals, or of k / bins, is the double nearest to it."""
    exact = [Fraction(k, 100) for k in range(101)] + [Fraction(k, bins) for k in range(bins + 1)]
    expected = [min(math.floor(one * bins), bins - 1) for one in exact]
    assert bin_of([float(one) for one in exact], bins).tolist() == expected
    inner = bin_edges(bins)[1:-1]
    assert bin_of(np.nextafter(inner, 0), bins).tolist() == list(range(bins - 1))


@pytest.mark.parametrize(("confidence", "bins"), [([1.1], 5), ([-0.1], 5), ([float("nan")], 5), ([0.5], 0)])
def test_refuses_what_is_no_confidence(confidence, bins) -> None:
    with pytest.raises(ValueError, match="confidences"):
        bin_of(confidence, bins)


def test_refuses_vectors_of_two_lengths() -> None:
    with pytest.raises(ValueError, match="one length"):
        ece([0.5, 0.5], [True])


@pytest.mark.parametrize("bins", [1, 15, 1000])
def test_all_metrics_at_once_lie_in_their_intervals(bins) -> None:
    found = calibrate(CONFIDENCE, CORRECT, bins, seed=1)
    assert [found.values[name] for name in ("ece", "ece_centre", "mce")] == (
        pytest.approx(by_hand(CONFIDENCE, CORRECT, bins), abs=1e-12)
    )
    assert found.values["brier"] == pytest.approx(np.mean((CONFIDENCE - CORRECT) ** 2))
    for name in calibration.METRICS:
        low, high = found.intervals[name]
        assert 0 <= low <= found.values[name] <= high <= 1 or name == "s_ece"
        assert low < high
    assert found == calibrate(CONFIDENCE, CORRECT, bins, seed=1)


def test_resampled_metrics_agree_with_resampled_examples() -> None:
    """The weighted form the bootstrap uses against literally repeating examples."""
    drawn = np.random.default_rng(5).integers(0, 500, 500)
    weights = np.bincount(drawn, minlength=500)[None].astype(float)
    found = calibration._weighted(CONFIDENCE, CORRECT.astype(float), 15)(weights)[0]
    alone = [
        ece(CONFIDENCE[drawn], CORRECT[drawn]),
        ece_centre(CONFIDENCE[drawn], CORRECT[drawn]),
        signed_ece(CONFIDENCE[drawn], CORRECT[drawn]),
        mce(CONFIDENCE[drawn], CORRECT[drawn]),
        brier(CONFIDENCE[drawn], CORRECT[drawn]),
    ]
    assert found.tolist() == pytest.approx(alone, abs=1e-12)


def draw(error: float, rng: np.random.Generator, size: int):
    """A model whose confidence is ``error`` above its accuracy, mostly sure of itself, as classifiers are."""
    confidence = 0.1 + 0.9 * rng.beta(5, 1.2, size)
    return confidence, rng.uniform(0, 1, size) < confidence - error


@pytest.mark.parametrize("size", [pytest.param(100, marks=DRILL), 500, pytest.param(2000, marks=DRILL)])
@pytest.mark.parametrize("bins", [15, pytest.param(100, marks=pytest.mark.drill)])
@pytest.mark.parametrize("error", [0.0, pytest.param(0.02, marks=DRILL), pytest.param(0.1, marks=DRILL)])
def test_intervals_of_ece_cover_the_truth(error, bins, size) -> None:
    # The expected error is the same everywhere, so the truth is it at any binning, and in the largest bin too.
    audits, covered, above = 30, dict.fromkeys(["ece", "mce"], 0), 0
    for audit in range(audits):
        found = calibrate(*draw(error, np.random.default_rng([audit, size]), size), bins, seed=audit, resamples=200)
        for name in covered:
            low, high = found.intervals[name]
            # Flipped signs repeat the estimate only up to rounding where a bin holds one example.
            covered[name] += low <= error + 1e-9 <= high + 2e-9
        above += found.intervals["ece"][0] > 0
    assert covered["ece"] >= 0.9 * audits
    assert covered["mce"] >= 0.9 * audits
    assert error > 0 or above <= 0.1 * audits


@pytest.mark.slow
def test_a_large_sample_says_where_the_error_is() -> None:
    found = calibrate(*draw(0.1, np.random.default_rng(0), 100_000), seed=0)
    low, high = found.intervals["ece"]
    assert 0.09 < low < 0.1 < high < 0.106
