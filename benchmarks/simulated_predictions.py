"""The groups of ``benchmarks.coverage`` whose intervals the family ``calibration`` alone makes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.populations import MANY, Draw
from seatrial.statistics.binned import classwise_ece, equal_mass_bin, equal_mass_ece, ks_error
from seatrial.statistics.calibration import bin_of
from seatrial.statistics.groups import by_group, calibration_by_group, largest_interval, worst_interval
from seatrial.statistics.selective import aurc

BINS = 15


def of_confidence(sample: Any, seed: int) -> dict[str, Any]:
    """Return the intervals of numbers that confidence and correctness alone make."""
    return {
        "ece_equal_mass": equal_mass_ece(*sample, BINS, seed=[seed])[1],
        "ks": ks_error(*sample, seed=[seed])[1],
        "aurc": aurc(*sample, seed=[seed])[1],
    }


def confidence_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the same numbers of the population, whose own quantiles cut its bins."""
    confidence, correct = draw(rng, MANY)
    sums = np.bincount(equal_mass_bin(confidence, BINS), correct - confidence, BINS)
    order = np.argsort(confidence)
    running = np.cumsum((correct - confidence)[order])
    risks = np.cumsum(1 - correct[order[::-1]]) / np.arange(1, MANY + 1)
    return {
        "ece_equal_mass": np.abs(sums).sum() / MANY,
        "ks": np.abs(running).max() / MANY,
        "aurc": risks.mean(),
    }


def classes_of(excess: float, spread: float) -> Draw:
    """Return a draw of probabilities (n, 5) and labels that follow them at ``excess`` times their temperature."""

    def draw(rng: np.random.Generator, n: int) -> Any:
        logits = spread * rng.normal(size=(n, 5))
        given, true = (np.exp(logits / heat) / np.exp(logits / heat).sum(axis=1, keepdims=True) for heat in (1, excess))
        labels = (np.cumsum(true, axis=1) < rng.random((n, 1))).sum(axis=1)
        return given, np.minimum(labels, 4)

    return draw


CLASSES: dict[str, Draw] = {
    "calibrated": classes_of(1.0, 1.5),
    "over-confident": classes_of(2.0, 1.5),
    "slightly over-confident": classes_of(1.2, 2.0),
    "saturated": classes_of(3.0, 20.0),
}
"""Probabilities of five classes, and labels."""


def of_classes(sample: Any, seed: int) -> dict[str, Any]:
    """Return the interval of the class-wise ECE."""
    return {"": classwise_ece(*sample, BINS, seed=[seed])[1]}


def classes_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the class-wise ECE of the population."""
    given, labels = draw(rng, MANY // 2)
    total = 0.0
    for k in range(given.shape[1]):
        gap = (labels == k) - given[:, k]
        total += np.abs(np.bincount(bin_of(given[:, k], BINS), gap, BINS)).sum()
    return {"": total / len(labels) / given.shape[1]}


RATES = {
    "even": (0.9, 0.85, 0.8, 0.7),
    "alike": (0.8,) * 8,
    "rare errors": (0.99, 0.99, 0.98, 0.98),
}


def groups_of(rates: tuple[float, ...]) -> Draw:
    """Return a draw of groups of one size but for chance, and whether their members' answers are right."""

    def draw(rng: np.random.Generator, n: int) -> Any:
        members = rng.integers(0, len(rates), n)
        return members, rng.random(n) < np.asarray(rates)[members]

    return draw


GROUPED: dict[str, Draw] = {name: groups_of(rates) for name, rates in RATES.items()}


def of_groups(sample: Any, seed: int) -> dict[str, Any]:
    """Return the interval of the lowest accuracy of any group."""
    members, correct = sample
    return {"": worst_interval(by_group([str(one) for one in members], correct))}


def groups_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the lowest rate."""
    members, correct = draw(rng, MANY)
    return {"": (np.bincount(members, correct) / np.bincount(members)).min()}


EXCESSES = {
    "calibrated": (1.0,) * 4,
    "one over-confident": (1.0, 1.0, 1.0, 2.0),
    "opposite": (0.6, 1.0, 1.6),
}
"""What the log-odds of each group's true confidences are multiplied by."""


def grouped_confidence(excesses: tuple[float, ...]) -> Draw:
    """Return a draw of groups, of the confidences of their members, and of whether these are right."""

    def draw(rng: np.random.Generator, n: int) -> Any:
        members = rng.integers(0, len(excesses), n)
        odds = np.abs(rng.normal(1.5, 1.0, n))
        told = 1 / (1 + np.exp(-odds * np.asarray(excesses)[members]))
        return members, told, rng.random(n) < 1 / (1 + np.exp(-odds))

    return draw


GROUPED_CONFIDENCE: dict[str, Draw] = {name: grouped_confidence(excesses) for name, excesses in EXCESSES.items()}


def of_group_errors(sample: Any, seed: int) -> dict[str, Any]:
    """Return the interval of the largest calibration error of any group."""
    members, confidence, correct = sample
    names = [str(one) for one in members]
    return {"": largest_interval(calibration_by_group(names, confidence, correct, BINS, seed=[seed]))}


def group_errors_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the largest calibration error of the population's groups; that of a calibrated one is 0 but for MANY."""
    members, confidence, correct = draw(rng, MANY)
    errors = []
    for group in range(members.max() + 1):
        of = members == group
        gap = np.bincount(bin_of(confidence[of], BINS), correct[of] - confidence[of], BINS)
        errors.append(np.abs(gap).sum() / of.sum())
    return {"": max(errors)}
