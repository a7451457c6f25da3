"""Records to numbers: every estimate of the family and its interval."""

from collections.abc import Callable, Mapping

import numpy as np

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.contracts.family import SHARE
from seatrial.families.certified_calibration.metrics import largest_radius
from seatrial.families.certified_calibration.params import BOUNDS, CertifiedCalibrationParams
from seatrial.families.certified_calibration.records import RADIUS
from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import ece
from seatrial.statistics.estimating import calibration, estimate, mean, proportion, seed_of
from seatrial.statistics.samples import Sample
from workers.certification.admm import AdmmOutcome, admm_calibration_error
from workers.certification.brier import brier_confidences, certified_brier
from workers.certification.dece import dece_calibration_error
from workers.certification.system_calibration import resampled_system_errors, system_calibration_error
from workers.certification.worst_calibration import Intervals, largest_deviations, resampled_worst
from workers.families.certified_calibration.class_estimates import class_estimates
from workers.families.certified_calibration.records import column_of
from workers.families.certified_calibration.sample import (
    Certified,
    attacked_at,
    certified_at,
    classes_of,
    confidences,
    is_answered,
    is_certified,
    is_correct,
    worst_case,
)
from workers.families.certified_calibration.worst_intervals import FEW, worst_interval

Estimates = dict[str, Estimate]

MANY_BINS = 30
"""Bins above which a worst case is solved for ``FEW`` resamples only: its cost grows with their square."""


def estimate_all(
    params: CertifiedCalibrationParams,
    certify: Sample,
    attacks: Mapping[str, Sample],
    seed: int,
    *,
    check_cancelled: Callable[[], None] = lambda: None,
    admm: dict[float, AdmmOutcome] | None = None,
) -> Estimates:
    """Return every estimate of the family.

    Intervals are about the population the examples are drawn from, given their certificates; that a certificate may be
    wrong is in none of them. An estimate over no example has the value None.

    Args:
        params: Of the check.
        certify: The certificates.
        attacks: What each attack reached, by its name.
        seed: The same seed gives the same intervals.
        check_cancelled: Called before whatever may take a second; may raise to stop.
        admm: Is given what ADMM found at each radius, where it was asked for.
    """
    found = overall_estimates(params, certify, seed)
    for radius in params.radii:
        check_cancelled()
        found |= radius_estimates(params, certify, radius, seed)
        found |= compared_estimates(params, certify, radius, seed, check_cancelled=check_cancelled, admm=admm)
    found |= class_estimates(params, certify, seed, check_cancelled=check_cancelled)
    for name, attack in attacks.items():
        found |= attack_estimates(params, certify, name, attack, seed)
    return found


def overall_estimates(params: CertifiedCalibrationParams, certify: Sample, seed: int) -> Estimates:
    """Return what holds without an attack, and the mean radius.

    ECE and Brier score are over the examples CERTIFY does not abstain on, whose confidence is of the class it returns.
    """
    answered = is_answered(certify)
    correct = is_correct(certify)
    radii = RADIUS.on(certify)
    found = {
        "accuracy": proportion(certify["predicted_class"].astype(np.int64) == certify["label"].astype(np.int64)),
        "abstention_rate": proportion(~answered),
        "average_certified_radius": mean(radii, (0.0, largest_radius(params.sigma, params.n, params.alpha))),
    }
    confidence, purpose = confidences(certify)[answered], seed_of(seed, "clean calibration")
    measured = calibration(confidence, correct[answered], params.bins, seed=purpose)
    return found | {name: measured[name] for name in ("ece", "brier")}


def radius_estimates(params: CertifiedCalibrationParams, certify: Sample, radius: float, seed: int) -> Estimates:
    """Return what is certified at a radius: accuracy, calibration error, Brier score, widths of the intervals."""
    reached = is_certified(certify, radius)
    certified = certified_at(params, certify, radius)
    squares = certified_brier(certified.lower, certified.upper, certified.correct)
    found = {
        "certified_accuracy": proportion(reached & is_correct(certify)),
        "certified_share": proportion(reached),
        "cce": worst_estimate(params, certified, seed_of(seed, f"cce {radius:g}")),
        "cce_system": system_estimate(params, certify, certified, seed_of(seed, f"cce_system {radius:g}")),
        "cbs": mean(squares, SHARE),
    }
    named = {metric_name(name, radius=radius): value for name, value in found.items()}
    answered = is_answered(certify)
    for bound in BOUNDS:
        lower, upper = (certify.floats(column_of(side, bound, radius))[answered] for side in ("lower", "upper"))
        named[metric_name("interval_width", bound=bound, radius=radius)] = mean(upper - lower, SHARE)
    return named


def compared_estimates(
    params: CertifiedCalibrationParams,
    certify: Sample,
    radius: float,
    seed: int,
    *,
    check_cancelled: Callable[[], None] = lambda: None,
    admm: dict[float, AdmmOutcome] | None = None,
) -> Estimates:
    """Return the ECE cce starts from, and what the other solvers asked for find of cce.

    These have no interval: they certify nothing, and are to be compared with the value of cce.
    """
    certified = certified_at(params, certify, radius)
    n = len(certified)
    given = certified.lower, certified.upper, certified.correct
    purpose = seed_of(seed, f"ece {radius:g}")
    found = {"ece": calibration(certified.confidence, certified.correct, params.bins, seed=purpose)["ece"]}
    if "admm" in params.solvers:
        outcome = admm_calibration_error(*given, certified.confidence, params.bins, check_cancelled=check_cancelled)
        found["acce"] = estimate(outcome.value, None, n)
        if admm is not None:
            admm[radius] = outcome
    if "dece" in params.solvers:
        start = np.random.SeedSequence(seed_of(seed, f"dece {radius:g}")).generate_state(1)
        ascent = dece_calibration_error(
            *given, certified.confidence, params.bins, seed=int(start[0]), check_cancelled=check_cancelled
        )
        found["dece"] = estimate(ascent, None, n)
    if "brier" in params.solvers:
        found["brier_ece"] = estimate(ece(brier_confidences(*given), certified.correct, params.bins), None, n)
    return {metric_name(name, radius=radius): value for name, value in found.items()}


def attack_estimates(
    params: CertifiedCalibrationParams, certify: Sample, name: str, attack: Sample, seed: int
) -> Estimates:
    """Return ECE and Brier score an attack reached; it is over the examples that did not error under it either."""
    attacked = attacked_at(params, certify, attack)
    purpose = seed_of(seed, f"attack {name}")
    measured = calibration(attacked.confidence, attacked.certified.correct, params.bins, seed=purpose)
    return {
        metric_name(metric, attack=name, radius=params.attack_radius): measured[metric] for metric in ("ece", "brier")
    }


def worst_estimate(params: CertifiedCalibrationParams, certified: Certified, seed: list[int]) -> Estimate:
    """Return the certified calibration error of some examples, with its interval (:func:`worst_interval`)."""
    worst, n = worst_case(certified, params.bins), len(certified)
    if worst is None:
        return estimate(None, None, 0)

    sample = Intervals.read(certified.lower, certified.upper, certified.correct, params.bins)

    def errors(weights: Floats) -> Floats:
        return resampled_worst(sample, weights)

    def by_chance(gaps: Floats) -> Floats:
        return largest_deviations(sample, gaps) / n

    interval = worst_interval(worst.terms, errors, by_chance, certified.confidence, seed, resamples=_resamples(params))
    return estimate(worst.value, interval, n)


def system_estimate(
    params: CertifiedCalibrationParams, certify: Sample, certified: Certified, seed: list[int]
) -> Estimate:
    """Return the calibration error over all examples, those not certified being free, with its interval.

    A free example may come out right or wrong, with any confidence of at least 1 / classes^2: its class has the most
    hard votes, so at least 1 / classes of them, and in each a score of at least 1 / classes. That of an argmax of the
    mean scores would be at least 1 / classes, but the certified class is not chosen that way.
    """
    n: int = len(certified)
    free: int = certify.valid - n
    if n + free == 0:
        return estimate(None, None, 0)
    given = certified.lower, certified.upper, certified.correct
    least = 1 / classes_of(certify) ** 2
    worst = system_calibration_error(*given, free=free, least=least, bins=params.bins)
    sample = Intervals.read(*given, params.bins)

    def errors(weights: Floats) -> Floats:
        return resampled_system_errors(*given, weights, free=free, least=least, bins=params.bins)

    def by_chance(gaps: Floats) -> Floats:
        # Nothing about free examples is left to chance.
        return largest_deviations(sample, gaps[:, :n]) / (n + free)

    sure = np.append(certified.confidence, np.ones(free))
    return estimate(
        worst.value, worst_interval(worst.terms, errors, by_chance, sure, seed, resamples=_resamples(params)), n + free
    )


def _resamples(params: CertifiedCalibrationParams) -> int | None:
    return FEW if params.bins > MANY_BINS else None
