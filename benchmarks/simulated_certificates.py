"""Intervals of certified calibration errors beyond equal-width bins, and of all classes, on samples of populations."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.populations import CONFIDENCES, MANY, Draw
from seatrial.contracts.estimates import Estimate
from seatrial.statistics.arrays import Floats, Ints
from workers.certification.any_binning import worst_over_binnings
from workers.certification.partial_sums import worst_ks, worst_kuiper
from workers.certification.scoring import worst_classwise
from workers.certification.worst_calibration import worst_calibration_error
from workers.families.certified_calibration.class_estimates import (
    classwise_estimate,
    clean_quantiles,
    top_label_estimates,
)
from workers.families.certified_calibration.sample import Certified

BINS = 15
WIDTH = 0.1
"""Intervals are as wide on either side at most."""
FEWER = MANY // 50
"""Examples a truth is taken from: the Kuiper error took as many squared when the published ones were."""


class Parts(NamedTuple):
    """What a group of :mod:`benchmarks.simulated` is made of."""

    populations: Mapping[str, Draw]
    ends: Callable[[Any, int], dict[str, Any]]
    truth: Callable[[Draw, np.random.Generator], Mapping[str, Any]]
    of_sample: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] = lambda sample, truth: truth


def _ends(found: Estimate) -> tuple[float, float] | None:
    return None if found.low is None or found.high is None else (found.low, found.high)


def _certified(draw: Draw) -> Draw:
    def certified(rng: np.random.Generator, n: int) -> Certified:
        confidence, correct = draw(rng, n)
        below, above = WIDTH * rng.random((2, n))
        ends = np.clip(confidence - below, 0, 1), np.clip(confidence + above, 0, 1)
        return Certified(np.ones(n, dtype=bool), *ends, confidence, correct.astype(bool))

    return certified


def of_top_label(sample: Certified, seed: int) -> dict[str, Any]:
    """Return the intervals of the errors of the predicted class."""
    return {name: _ends(one) for name, one in top_label_estimates(sample, BINS, [seed]).items()}


def top_label_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the population's errors, and the population: quantiles are those of a sample."""
    many = draw(rng, FEWER)
    given = many.lower, many.upper, many.correct
    return {
        "population": given,
        "certified_ks": worst_ks(*given).value,
        "certified_kuiper": worst_kuiper(*given).value,
        "cce_any_bins": worst_over_binnings(*given, BINS).value,
    }


def in_quantiles(sample: Certified, truth: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the truths, with the population's error in the bins of a sample's quantiles."""
    edges = clean_quantiles(sample.confidence, BINS)
    return {**truth, "cce_quantiles": worst_calibration_error(*truth["population"], edges).value}


class Scored(NamedTuple):
    """Certified scores of all classes, and labels."""

    lower: Floats
    upper: Floats
    scores: Floats
    labels: Ints


def _scored(sharpness: float, temperature: float) -> Draw:
    """Return a draw of scores of four classes, more or less sure of themselves, with labels at a temperature."""

    def scored(rng: np.random.Generator, n: int) -> Scored:
        logits = sharpness * rng.normal(size=(n, 4))
        scores, true = (np.exp(one) / np.exp(one).sum(1, keepdims=True) for one in (logits, logits / temperature))
        labels = (rng.random((n, 1)) > np.cumsum(true, axis=1)[:, :-1]).sum(1)
        below, above = WIDTH * rng.random((2, n, 4))
        return Scored(np.clip(scores - below, 0, 1), np.clip(scores + above, 0, 1), scores, labels)

    return scored


def of_all_classes(sample: Scored, seed: int) -> dict[str, Any]:
    """Return the interval of the classwise error."""
    return {"": _ends(classwise_estimate(*sample, BINS, seed))}


def all_classes_truth(draw: Draw, rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the population's classwise error."""
    many = draw(rng, MANY // 10)
    return {"": worst_classwise(many.lower, many.upper, many.labels, BINS).value}


CERTIFICATES: dict[str, Parts] = {
    "beyond": Parts(
        {name: _certified(draw) for name, draw in CONFIDENCES.items()}, of_top_label, top_label_truth, in_quantiles
    ),
    "certified classes": Parts(
        {"calibrated": _scored(2.0, 1.0), "over-confident": _scored(3.0, 2.0), "saturated": _scored(8.0, 1.0)},
        of_all_classes,
        all_classes_truth,
    ),
}
