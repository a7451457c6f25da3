"""Records to numbers of all classes' scores, and to calibration errors beyond equal-width bins."""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import LOG_LOSS, Uncertainty
from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.calibration import norm_interval
from seatrial.statistics.estimating import estimate, mean, seed_of
from seatrial.statistics.intervals import CELLS, counts, resample
from seatrial.statistics.samples import Sample
from workers.certification.any_binning import worst_over_binnings
from workers.certification.failures import failing, price
from workers.certification.partial_sums import ks_deviations, resampled_ks, worst_ks, worst_kuiper
from workers.certification.scoring import resampled_classwise, worst_classwise
from workers.certification.worst_calibration import (
    Intervals,
    largest_deviations,
    resampled_worst,
    worst_calibration_error,
)
from workers.families.certified_calibration.certify import certificate_alpha
from workers.families.certified_calibration.class_sets import set_estimates
from workers.families.certified_calibration.records import class_column, stages_of, uncertainty_column, worst_column
from workers.families.certified_calibration.sample import Certified, certified_at, classes_of, largest_of
from workers.families.certified_calibration.worst_intervals import FEW, worst_interval

Estimates = dict[str, Estimate]

TOP_LABEL = ("certified_ks", "certified_kuiper", "cce_quantiles", "cce_any_bins")

SCORES: tuple[tuple[Literal["log_loss", "brier"], float], ...] = (("log_loss", LOG_LOSS), ("brier", 2.0))
"""Scores of all classes, and what one example has at most."""

MANY_CLASSES = 20
"""Classes above which half as many resamples are solved for the classwise error."""


def class_estimates(
    params: CertifiedCalibrationParams,
    certify: Sample,
    seed: int,
    *,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Estimates:
    """Return every estimate of the block ``uncertainty``; nothing where it was not asked for, or nobody is left."""
    if params.uncertainty is None or certify.valid == 0:
        return {}
    found = {
        metric_name("uncertainty", uncertainty=one): mean(
            certify.floats(metric_name("uncertainty", uncertainty=one)), (0.0, largest_of(certify, one))
        )
        for one in params.uncertainty.asked
    }
    for radius in params.radii:
        check_cancelled()
        for uncertainty in params.uncertainty.asked:
            found |= span_estimates(params, certify, uncertainty, radius)
        certified = certified_at(params, certify, radius)
        # An interval of the confidence, and whether the class is right: two certificates.
        of_top = top_label_estimates(certified, params.bins, seed_of(seed, f"any bins {radius:g}"))
        numbers = {name: with_price(params, certify, one, 1.0, 2) for name, one in of_top.items()}
        if classes_of(certify) == len(certify["class_mean"][0]):
            ends = stacked(certify, class_column("lower", radius)), stacked(certify, class_column("upper", radius))
            labels, scores = certify["label"].astype(np.int64), stacked(certify, "class_mean")
            told = classwise_estimate(*ends, scores, labels, params.bins, seed)
            numbers["cce_classwise"] = with_price(params, certify, told, 1.0, 1)
        for score, most in SCORES:
            told = mean(certify.floats(worst_column(score, radius)), (0.0, most))
            numbers[f"certified_{score}"] = with_price(params, certify, told, most, 1)
        found |= {metric_name(name, radius=radius): value for name, value in numbers.items()}
    return found | set_estimates(params, certify, seed)


def attacked_spans(certify: Sample, spans: Mapping[str, Sample], uncertainty: str, radius: float) -> Floats:
    """Return how far the attack moved an uncertainty (valid,).

    From where it lowered entropy to where it raised it; of a part of it, from where it lowered that to where it raised
    that. NaN where either errored. A span is never below 0: at both ends the image itself is at hand.
    """
    name = metric_name("uncertainty", uncertainty=uncertainty, radius=float(radius))
    raised, lowered = (certify.align(spans[one], name) for one in stages_of(uncertainty))
    return np.where(np.isfinite(raised - lowered), np.maximum(raised - lowered, 0), np.nan)


def attacked_span_estimates(
    params: CertifiedCalibrationParams, certify: Sample, spans: Mapping[str, Sample]
) -> Estimates:
    """Return the mean spans that the attack reached, by the radii it was run at; nothing where it was not."""
    if params.uncertainty is None or certify.valid == 0:
        return {}
    return {
        metric_name("attacked_span", uncertainty=one, radius=radius): mean(
            attacked_spans(certify, spans, one, radius), (0.0, largest_of(certify, one))
        )
        for radius in params.radii
        if radius > 0
        for one in params.uncertainty.asked
        if spans.keys() >= {*stages_of(one)}
    }


def stacked(certify: Sample, name: str) -> Floats:
    """Return a column of lists of one length as a matrix (valid, k)."""
    found = certify[name]
    if found.ndim == 1:
        found = np.stack(list(found))
    matrix: Floats = found.astype(np.float64, copy=False)
    return matrix


def span_estimates(
    params: CertifiedCalibrationParams, certify: Sample, uncertainty: Uncertainty, radius: float
) -> Estimates:
    """Return the mean certified span and its two ends at a radius.

    An example's certificate is wrong with probability at most alpha, and then by no more than the largest uncertainty
    B. So E[true span] <= E[certified span] + alpha B, without a union bound over examples and also where these share
    their noise: the ends of the intervals allow for it.
    """
    low, high = (certify.floats(uncertainty_column(side, uncertainty, radius)) for side in ("low", "high"))
    most = largest_of(certify, uncertainty)
    missed = certificate_alpha(params, certify.size) * most
    found = {}
    for name, values, is_low in (
        ("certified_span", high - low, False),
        ("uncertainty_high", high, False),
        ("uncertainty_low", low, True),
    ):
        told = mean(np.clip(values, 0, most), (0.0, most))
        if told.low is not None and told.high is not None:
            change = {"low": max(0.0, told.low - missed)} if is_low else {"high": min(most, told.high + missed)}
            told = told.model_copy(update=change)
        found[metric_name(name, uncertainty=uncertainty, radius=float(radius))] = told
    return found


def top_label_estimates(certified: Certified, bins: int, seed: list[int]) -> Estimates:
    """Return the errors of the predicted class beyond equal-width bins, each with its interval.

    Each is the largest mean of functions of an example, as the certified calibration error is, and has its interval in
    the same way (:func:`~workers.families.certified_calibration.worst_intervals.worst_interval`). The lower ends of two
    of them are those of numbers they are never below: of the KS error for the Kuiper error, of the error in equal-width
    bins for that in any bins.
    """
    if len(certified) == 0:
        return {name: estimate(None, None, 0) for name in TOP_LABEL}
    given = certified.lower, certified.upper, certified.correct
    edges = clean_quantiles(certified.confidence, bins)

    def told(terms: Floats, errors: Callable[[Floats], Floats], largest: Callable[[Floats], Floats]) -> Estimate:
        n = len(certified)
        by_chance = certified.confidence, seed
        interval = worst_interval(terms, errors, lambda gaps: largest(gaps) / n, *by_chance, resamples=FEW)
        return estimate(float(terms.mean()), interval, n)

    def binned(cut: int | Floats) -> Estimate:
        sample = Intervals.read(*given, cut)
        terms = worst_calibration_error(*given, cut).terms
        return told(
            terms, lambda weights: resampled_worst(sample, weights), lambda gaps: largest_deviations(sample, gaps)
        )

    ks = told(
        worst_ks(*given).terms,
        lambda weights: resampled_ks(*given, weights),
        lambda gaps: ks_deviations(certified.lower, certified.upper, gaps),
    )
    equal = binned(bins)
    return {
        "certified_ks": ks,
        "certified_kuiper": _no_lower_than(ks, worst_kuiper(*given).terms),
        "cce_quantiles": binned(edges),
        "cce_any_bins": _no_lower_than(equal, worst_over_binnings(*given, bins).terms),
    }


def clean_quantiles(confidence: Floats, bins: int) -> Floats:
    """Return edges (bins + 1,) of bins that hold equally many of some confidences (n,), from 0 to 1."""
    inner = np.quantile(confidence, np.arange(1, bins) / bins)
    return np.concatenate([[0.0], inner, [1.0]])


def _no_lower_than(least: Estimate, terms: Floats) -> Estimate:
    """Return the estimate of a mean of ``terms`` (n,), the largest of many, which is never below another number."""
    if least.low is None:
        return estimate(float(terms.mean()), None, len(terms))
    # Of a mean alone the lower end would not allow for having chosen the largest.
    high = norm_interval(terms, np.ones(len(terms)), np.zeros(1))[1]
    return estimate(float(terms.mean()), (least.low, high), len(terms))


def classwise_estimate(lower: Floats, upper: Floats, scores: Floats, labels: Ints, bins: int, seed: int) -> Estimate:
    """Return the certified classwise calibration error with its interval.

    Made as that of the predicted class: the largest deviation of any mean is resampled, and simulated with labels drawn
    at the scores without an attack.

    Args:
        lower: (n, classes) lower ends.
        upper: (n, classes) upper ends.
        scores: (n, classes) without an attack.
        labels: (n,).
        bins: Equal-width bins.
        seed: The same seed gives the same interval.
    """
    n, classes = scores.shape
    worst = worst_classwise(lower, upper, labels, bins)
    if n < 2 or worst.value is None:
        return estimate(worst.value, None, n)
    resamples, purpose = FEW if classes <= MANY_CLASSES else FEW // 2, seed_of(seed, "classwise")
    drawn = resample(
        lambda weights: resampled_classwise(lower, upper, labels, weights, bins)[:, None],
        [n],
        seed=purpose,
        resamples=resamples,
        draw=lambda rng, rows, size: counts(rng, rows, size) - 1,
        cells=CELLS // 4,
    )[:, 0]
    rng = np.random.default_rng(purpose)
    below = np.cumsum(scores, axis=1)
    # A byte a class: of 100,000 examples and all resamples 20 MB.
    outcomes = np.stack(
        [(rng.random((n, 1)) * below[:, -1:] >= below).sum(1, dtype=np.uint8) for _ in range(resamples)]
    )
    chance = np.mean(
        [_by_chance(lower[:, k], upper[:, k], outcomes == k, scores[:, k], bins) for k in range(classes)], 0
    )
    return estimate(worst.value, norm_interval(worst.terms, np.ones(n), drawn, chance), n)


def _by_chance(lower: Floats, upper: Floats, outcomes: Mask, scores: Floats, bins: int) -> Floats:
    """Return the largest deviations of a class's error (resamples,) that outcomes (resamples, n) cause."""
    n = len(scores)
    sample = Intervals.read(lower, upper, np.ones(n), bins)
    found = np.empty(len(outcomes))
    step = max(1, CELLS // 4 // n)
    for start in range(0, len(outcomes), step):
        part = slice(start, start + step)
        found[part] = largest_deviations(sample, outcomes[part] - scores) / n
    return found


def with_price(
    params: CertifiedCalibrationParams, certify: Sample, told: Estimate, most: float, wrong: float
) -> Estimate:
    """Return an estimate with what failing certificates cost, where they are paid for.

    Args:
        params: Of the check.
        certify: The sample.
        told: Over examples of it.
        most: What the number is at most. An example that fails moves a mean by no more than it over n, and a
            calibration error by 2 / n.
        wrong: Certificates of an example that the number rests on, each of them wrong with probability at most alpha.
    """
    if params.uncertainty is None or not params.uncertainty.price_failures or told.value is None:
        return told
    paid = price(failing(certify.valid, min(wrong * params.alpha, 0.5)), told.n) * max(1.0, most / 2)
    high = None if told.high is None else min(most, told.high + paid)
    return told.model_copy(update={"value": min(most, told.value + paid), "high": high})
