import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seatrial.statistics.calibration import ece
from tests.certification.instances import random_instance
from workers.certification.brier import brier_confidences
from workers.certification.dece import dece_calibration_error, soft_bins, soft_ece
from workers.certification.worst_calibration import worst_calibration_error


def soft_ece_as_written(confidence: torch.Tensor, correct: torch.Tensor, bins: int, temperature: float) -> torch.Tensor:
    """The paper's formula: slopes 1..M, offsets minus the sums of the edges below."""
    edges = torch.arange(1, bins, dtype=torch.float64) / bins
    offsets = -torch.cat([torch.zeros(1, dtype=torch.float64), edges.cumsum(0)])
    slopes = torch.arange(1, bins + 1, dtype=torch.float64)
    shares = torch.softmax((confidence[:, None] * slopes + offsets) / temperature, dim=1)
    return (shares.T @ (correct - confidence)).abs().sum() / len(confidence)


@pytest.mark.parametrize("bins", [1, 2, 15])
@pytest.mark.parametrize("temperature", [0.1, 0.01, 1e-3])
def test_value_and_gradient_agree_with_autograd(bins, temperature) -> None:
    rng = np.random.default_rng(bins)
    confidence, correct = rng.random(60), (rng.random(60) < 0.6).astype(float)
    given_ = torch.tensor(confidence, requires_grad=True)
    expected = soft_ece_as_written(given_, torch.tensor(correct), bins, temperature)
    (slope,) = torch.autograd.grad(expected, given_)
    value, gradient = soft_ece(confidence, correct, bins, temperature)
    assert value == pytest.approx(expected.item())
    assert gradient / 60 == pytest.approx(slope.numpy(), rel=1e-8, abs=1e-12)


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_at_the_last_temperature_it_is_the_ece_away_from_edges(bins, seed) -> None:
    rng = np.random.default_rng(seed)
    confidence = (rng.integers(0, bins, 50) + rng.uniform(0.01, 0.99, 50)) / bins
    correct = (rng.random(50) < 0.5).astype(float)
    assert soft_ece(confidence, correct, bins, 1e-6)[0] == pytest.approx(ece(confidence, correct, bins), abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.01, 1e-6])
def test_soft_bins_share_an_example_out(temperature) -> None:
    shares = soft_bins(np.linspace(0, 1, 61), 15, temperature)
    assert shares.sum(axis=0) == pytest.approx(np.ones(61))
    assert shares[:, 2] == pytest.approx(shares[::-1, -3])


@pytest.mark.parametrize("bins", [1, 2, 15])
@pytest.mark.parametrize("steps", [0, 30])
def test_it_lies_between_its_starts_and_the_exact_worst_case(bins, steps) -> None:
    rng = np.random.default_rng(bins)
    for seed in range(10):
        lower, upper, clean, correct = random_instance(rng, 25, bins)
        found = dece_calibration_error(lower, upper, correct, clean, bins, seed=seed, steps=steps)
        assert found >= max(ece(clean, correct, bins), ece(brier_confidences(lower, upper, correct), correct, bins))
        assert found <= worst_calibration_error(lower, upper, correct, bins).value + 1e-12


def test_the_ascent_finds_more_than_its_starts_and_most_of_the_worst_case() -> None:
    rng = np.random.default_rng(0)
    clean = rng.beta(4, 1.2, 300)
    correct = rng.random(300) < clean
    lower, upper = np.clip(clean - 0.1, 0, 1), np.clip(clean + 0.1, 0, 1)
    start = dece_calibration_error(lower, upper, correct, clean, seed=0, steps=0)
    found = dece_calibration_error(lower, upper, correct, clean, seed=0)
    exact = worst_calibration_error(lower, upper, correct).value
    assert start * 1.1 < found
    assert 0.5 < found / exact <= 1


def test_the_same_seed_gives_the_same_value() -> None:
    lower, upper, clean, correct = random_instance(np.random.default_rng(3), 50, 15, snapped=0)
    values = [dece_calibration_error(lower, upper, correct, clean, seed=seed, steps=20) for seed in (1, 1)]
    assert values[0] == values[1]


def test_the_random_start_is_tried() -> None:
    # In one bin the two answers' errors cancel, without an attack and at the Brier confidences, but not at random.
    lower, upper, correct, clean = [0.1, 0.1], [0.9, 0.9], [True, False], [0.5, 0.5]
    values = [dece_calibration_error(lower, upper, correct, clean, 1, seed=seed, steps=0) for seed in range(5)]
    assert min(values) > 1e-3
    assert len(set(values)) == 5


def test_no_examples_have_no_error() -> None:
    assert dece_calibration_error([], [], [], [], seed=0) is None


def test_samples_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        dece_calibration_error([0.5], [0.4], [1], [0.5], seed=0)
    with pytest.raises(ValueError, match="clean confidences"):
        dece_calibration_error([0.5], [0.6], [1], [0.5, 0.5], seed=0)
