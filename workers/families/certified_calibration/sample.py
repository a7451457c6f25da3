"""Which examples a number at a radius is over, and what the solvers are given of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from seatrial.families.certified_calibration.params import CertifiedCalibrationParams, ConfidenceBound
from seatrial.families.certified_calibration.records import answers, reaches
from seatrial.families.certified_calibration.uncertainty import largest
from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.samples import Sample
from workers.certification.worst_calibration import WorstCase, worst_calibration_error
from workers.families.certified_calibration.records import PASSES, column_of


@dataclass(frozen=True)
class Certified:
    """Examples with a certified interval of their confidence at one radius.

    Attributes:
        rows: (valid,) which examples of the sample they are.
        lower: (n,) lower ends.
        upper: (n,) upper ends.
        confidence: (n,) confidences without an attack.
        correct: (n,) whether the certified class is the label.
    """

    rows: Mask
    lower: Floats
    upper: Floats
    confidence: Floats
    correct: Mask

    def __len__(self) -> int:
        return len(self.correct)


@dataclass(frozen=True)
class Attacked:
    """What an attack within ``attack_radius`` reached, on the examples certified there and attacked without an error.

    Attributes:
        certified: What is certified of them.
        confidence: (n,) smoothed confidences under attack, from draws of their own.
        standard_error: (n,) standard errors of these.
    """

    certified: Certified
    confidence: Floats
    standard_error: Floats


def is_correct(certify: Sample) -> Mask:
    """Return (valid,) whether the candidate is the label, certified or not."""
    right: Mask = certify["candidate"].astype(np.int64) == certify["label"].astype(np.int64)
    return right


def is_answered(certify: Sample) -> Mask:
    """Return (valid,) whether CERTIFY does not abstain."""
    return answers(certify["certified_class"])


def is_certified(certify: Sample, radius: float) -> Mask:
    """Return (valid,) whether the class, right or wrong, is certified not to change within the radius."""
    return reaches(certify["certified_class"], certify["radius"], radius)


def classes_of(certify: Sample) -> int:
    """Return the number of classes of the model; the sample must not be empty."""
    return int(certify.floats("classes")[0])


def passes_known(certify: Sample) -> int:
    """Return the forward passes of the model, 0 where it was not asked; the sample must not be empty."""
    return int(certify.floats(PASSES)[0]) if certify.has(PASSES) else 0


def largest_of(certify: Sample, uncertainty: str) -> float:
    """Return the largest an uncertainty of the model can be; the sample must not be empty."""
    return largest(uncertainty, classes_of(certify), passes_known(certify))


def confidences(certify: Sample, name: str = "confidence") -> Floats:
    """Return (valid,) a column of confidences, within [0, 1]: a mean of ones may round to a hair above 1."""
    return certify.floats(name).clip(0, 1)


def certified_at(
    params: CertifiedCalibrationParams,
    certify: Sample,
    radius: float,
    *,
    rows: Mask | None = None,
    bound: ConfidenceBound | None = None,
) -> Certified:
    """Return the examples certified at a radius with their intervals there.

    Args:
        params: Of the check; the radius must be one of theirs.
        certify: The sample.
        radius: l_2.
        rows: (valid,) other examples instead, which must be certified at the radius too.
        bound: Other intervals than those of ``confidence_bound``.
    """
    chosen = is_certified(certify, radius) if rows is None else rows
    lower, upper = (
        confidences(certify, column_of(side, bound or params.confidence_bound, radius))[chosen]
        for side in ("lower", "upper")
    )
    return Certified(chosen, lower, upper, confidences(certify)[chosen], is_correct(certify)[chosen])


def attacked_at(
    params: CertifiedCalibrationParams,
    certify: Sample,
    attack: Sample,
    *,
    bound: ConfidenceBound | None = None,
) -> Attacked:
    """Return what an attack reached; the check must have an ``attack_radius``."""
    radius = params.attack_radius or 0.0
    confidence = certify.align(attack, "confidence")
    reached = is_certified(certify, radius) & np.isfinite(confidence)
    certified = certified_at(params, certify, radius, rows=reached, bound=bound)
    error = certify.align(attack, "standard_error")[reached]
    return Attacked(certified, confidence[reached].clip(0, 1), error)


def worst_case(certified: Certified, bins: int) -> WorstCase | None:
    """Return the worst calibration within the intervals, or None without examples."""
    if len(certified) == 0:
        return None
    return worst_calibration_error(certified.lower, certified.upper, certified.correct, bins)


def worst_value(certified: Certified, bins: int) -> float | None:
    """Return the certified calibration error, or None without examples."""
    worst = worst_case(certified, bins)
    return None if worst is None else worst.value


def shown_radius(
    params: CertifiedCalibrationParams, certify: Sample, attacks: Mapping[str, Sample]
) -> tuple[float, str] | None:
    """Return the radius whose worst case is shown, and why that one; None where nobody is certified at any.

    The reasons: ``attack_radius`` (attacks ran there), ``half_certified`` (the largest with at least half of the
    examples certified), ``any_certified`` (the largest with any).
    """
    fractions = {
        radius: float(is_certified(certify, radius).mean()) if certify.valid else 0.0 for radius in params.radii
    }
    if attacks and params.attack_radius is not None and fractions[params.attack_radius] > 0:
        return params.attack_radius, "attack_radius"
    for reason, least in (("half_certified", 0.5), ("any_certified", math.ulp(0.0))):
        reached = [radius for radius, fraction in fractions.items() if fraction >= least]
        if reached:
            return max(reached), reason
    return None
