"""Temperatures of rounded probabilities against those of the numbers before they were rounded."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from tests.families.temperature_attack.fabricated import parameters
from workers.calibration.rounding import detect_digits, fit_rounded_temperature, middle_of_intervals
from workers.calibration.scaling import fit_temperature
from workers.families.contexts import TextExample
from workers.families.temperature_attack.arms import resolve_arms
from workers.families.temperature_attack.records import validation_records


def served(digits: int | None, *, classes: int = 2, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of a model four times too sure, as probabilities of so many digits give them, and labels."""
    rng = np.random.default_rng(3)
    raw = rng.normal(0, 2, (n, classes))
    labels = (softmax(raw, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    chances = softmax(4 * raw, axis=1)
    if digits is not None:
        chances = np.round(chances, digits)
    return np.log(np.maximum(chances, math.ulp(0.0))), labels


# Of several classes more probabilities are 0 at once, and their intervals say less.
@pytest.mark.parametrize(
    ("classes", "digits", "factor"), [(2, 6, 1.1), (2, 4, 1.15), (2, 3, 1.3), (2, 2, 1.6), (4, 4, 1.5), (4, 2, 2.0)]
)
def test_intervals_bring_back_what_the_floor_of_a_logarithm_hides(digits, factor, classes) -> None:
    exact = fit_temperature(*served(None, classes=classes)).temperature
    logits, labels = served(digits, classes=classes)
    assert detect_digits(logits) == digits
    found = fit_rounded_temperature(logits, labels, digits)
    assert found.degenerate is None
    assert exact / factor < found.temperature < exact * factor
    if digits <= 4:
        assert fit_temperature(logits, labels).temperature > 10 * exact


def test_numbers_that_were_hardly_rounded_have_the_temperature_they_had() -> None:
    rng = np.random.default_rng(0)
    chance = np.clip(rng.random(300), 0.05, 0.95).round(5)
    labels = (rng.random(300) < 0.5 + 0.7 * (chance - 0.5)).astype(int)
    logits = np.log(np.stack([1 - chance, chance], axis=1))
    assert detect_digits(logits) == 5
    plain = fit_temperature(logits, labels).temperature
    assert fit_rounded_temperature(logits, labels, 5).temperature == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("labels", ["all right", "none", "coins"])
def test_what_determines_no_temperature_is_told_as_ever(labels) -> None:
    logits, _ = served(3, n=40)
    truths = logits.argmax(axis=1) if labels == "all right" else np.arange(40) % 2
    if labels == "none":
        logits, truths = logits[:0], truths[:0]
    found = fit_rounded_temperature(logits, truths, 3)
    if labels == "coins":
        assert found.temperature > 3
    else:
        assert found == fit_temperature(logits, truths)


def test_only_few_digits_of_probabilities_are_digits() -> None:
    logits, _ = served(None)
    assert detect_digits(logits) is None
    assert detect_digits(np.log(np.full((3, 2), 0.5))) is None
    # Whole logits are no probabilities, however few digits their exponentials have.
    assert detect_digits(np.zeros((40, 2))) is None
    assert np.isfinite(middle_of_intervals(served(2)[0], 2)).all()


def test_the_calibrated_arm_takes_rounded_numbers_for_intervals() -> None:
    logits, labels = served(2)
    examples = [TextExample(row, "x", int(label)) for row, label in enumerate(labels)]
    table = validation_records(examples, list(torch.from_numpy(logits)))
    fitted = resolve_arms(parameters(arms=["calibrated"]), table, [])["calibrated"].temperature
    assert fitted == fit_rounded_temperature(logits, labels, 2).temperature
    # A model's own logits are what they are.
    narrow = validation_records(examples, list(torch.from_numpy(logits).float()))
    assert resolve_arms(parameters(arms=["calibrated"]), narrow, [])["calibrated"].temperature > 10 * fitted
