"""Records to numbers: every estimate of the family, its interval, and the curves behind the figures."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.contracts.family import SHARE, Limits
from seatrial.families.uncertainty_span.effort import STAGES
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from seatrial.families.uncertainty_span.records import (
    CALIBRATED,
    CHANGE,
    CHANGED,
    SCALED_SPAN,
    SPAN,
    decisions_kept,
    widest_span,
)
from seatrial.statistics.arrays import Floats
from seatrial.statistics.binned import equal_mass_ece
from seatrial.statistics.estimating import calibration, diagram, estimate, mean, proportion, seed_of
from seatrial.statistics.ranking import rank
from seatrial.statistics.samples import Sample
from seatrial.statistics.spread import deviation_interval
from workers.families.uncertainty_span.outliers import column_of, epsilons_of

Estimates = dict[str, Estimate]

HISTOGRAM_BINS = 30


def spans(sample: Sample) -> Floats:
    """Return H_under - H_over (valid,) in nats."""
    found: Floats = SPAN.on(sample)
    return found


def best_spans(sample: Sample) -> Floats:
    """Return the span between the best iterates (valid,) in nats; the same as :func:`spans` unless selected by rule."""
    return sample.floats("best_entropy_under") - sample.floats("best_entropy_over")


def span_estimates(sample: Sample, seed: int) -> Estimates:
    """Return MUS, MSUS, their standard deviations over examples (n - 1), and NUD."""
    span, found = spans(sample), {}
    n, once = len(span), np.ones((1, len(span)))
    moments = {power: float((once @ span**power)[0]) / n if n else math.nan for power in (1, 2, 4)}
    for name, power in (("mus", 1), ("msus", 2)):
        told, limits = mean(span**power, nats(sample, power)), nats(sample, power)
        found[name] = told if told.value is None else told.model_copy(update={"value": moments[power]})
        variance = (moments[2 * power] - moments[power] ** 2) * (n / (n - 1) if n > 1 else math.nan)
        interval = None
        if limits[1] is not None:
            interval = deviation_interval(span**power, 0.0, limits[1], seed=seed_of(seed, f"{name}_std"))
        found[f"{name}_std"] = estimate(math.sqrt(max(variance, 0.0)) if n > 1 else None, interval, n)
    for arm in ("over", "under"):
        # Entropy that falls may do so by more than there is room above it.
        most = 1.0 if arm == "under" else None
        found[metric_name("nud", arm=arm)] = mean(_normalised_difference(sample, arm), (0.0, most))
    found["nud"] = found[metric_name("nud", arm="under")]
    return found


def arm_estimates(sample: Sample, bins: int, seed: int) -> Estimates:
    """Return entropy, confidence, accuracy and calibration of the clean, over and under arms."""
    found = {"clean_accuracy": proportion(hits(sample, "clean"))}
    for arm in ARMS:
        confidence, correct = sample.floats(f"confidence_{arm}"), hits(sample, arm)
        found[metric_name("entropy", arm=arm)] = mean(sample.floats(f"entropy_{arm}"), nats(sample))
        found[metric_name("confidence", arm=arm)] = mean(confidence, SHARE)
        found[metric_name("accuracy", arm=arm)] = proportion(correct)
        for name, value in calibration(confidence, correct, bins, seed=seed_of(seed, f"ece {arm}")).items():
            found[metric_name(name, arm=arm)] = value
        found[metric_name("ece_equal_mass", arm=arm)] = _equal_mass(confidence, correct, bins, seed, arm)
    return found


def attack_estimates(attacks: Mapping[str, Sample], bins: int, seed: int) -> Estimates:
    """Return ECE, in bins of either kind, signed ECE, confidence and accuracy under each label-preserving attack."""
    found: Estimates = {}
    for attack, sample in attacks.items():
        correct, confidence = hits(sample, "attacked"), sample.floats("confidence_attacked")
        measured = calibration(confidence, correct, bins, seed=seed_of(seed, f"ece {attack}"))
        found |= {metric_name(name, attack=attack): measured[name] for name in ("ece", "s_ece")}
        found[metric_name("ece_equal_mass", attack=attack)] = _equal_mass(confidence, correct, bins, seed, attack)
        found[metric_name("confidence", attack=attack)] = mean(confidence, SHARE)
        found[metric_name("accuracy", attack=attack)] = proportion(correct)
    return found


def _equal_mass(confidence: Floats, correct: NDArray[np.bool_], bins: int, seed: int, of: str) -> Estimate:
    if not len(confidence):
        return estimate(None, None, 0)
    value, interval = equal_mass_ece(confidence, correct, bins, seed=seed_of(seed, f"equal mass {of}"))
    return estimate(value, interval, len(confidence))


def attack_diagrams(attacks: Mapping[str, Sample], bins: int) -> dict[str, Any]:
    """Return the reliability diagram under each label-preserving attack as JSON values; empty bins are null."""
    return {
        attack: diagram(sample.floats("confidence_attacked"), hits(sample, "attacked"), bins)
        for attack, sample in attacks.items()
        if sample.valid
    }


def further_spans(sample: Sample, others: Mapping[str, Sample]) -> Estimates:
    """Return the span of each further attack, and per example the widest of all, as served and calibrated."""
    found: Estimates = {}
    for attack, other in others.items():
        found[metric_name("mus", attack=attack)] = mean(spans(other), nats(sample))
    found["mus_worst"] = mean(widest(sample, others), nats(sample))
    if "tempered" in others:
        found["mus_scaled"] = mean(SCALED_SPAN.on(others["tempered"]), nats(sample))
    # Without gradients there is one stage; by transfer or tempering alone nobody has looked for decisions.
    deciding = [one for one in (*others.values(), sample) if one.has(CHANGED)]
    if sample.has(CHANGED) or (STAGES[0] in others and others[STAGES[0]].has(CHANGED)):
        found["adversarial_accuracy"] = proportion(_kept(sample, deciding))
    if STAGES[0] in others:
        found["mus_calibrated"] = mean(calibrated_spans(others), nats(sample))
    return found


def _kept(sample: Sample, further: Sequence[Sample]) -> NDArray[np.bool_]:
    """Return (valid,) whether a prediction is right and no attack changed it."""
    label, clean, *attacked = (sample.floats(name) for name in ("label", *(f"prediction_{arm}" for arm in ARMS)))
    return decisions_kept(label, clean, attacked, [sample.align(one, CHANGED) for one in further]) > 0


def widest(sample: Sample, others: Mapping[str, Sample]) -> Floats:
    """Return the widest span (valid,) of the paper's two attacks and some others, on the examples of the former."""
    aligned = [(sample.align(one, "entropy_over"), sample.align(one, "entropy_under")) for one in others.values()]
    return widest_span(sample.floats("best_entropy_over"), sample.floats("best_entropy_under"), aligned)


def calibrated_spans(others: Mapping[str, Sample]) -> Floats:
    """Return the widest span (valid,) of the further attacks at the calibrated temperature; empty without one."""
    first, over, under = others[STAGES[0]], CALIBRATED.format("over"), CALIBRATED.format("under")
    if not first.has(over):
        return np.empty(0)
    known = [one for one in others.values() if one.has(over)]
    aligned = [(first.align(one, over), first.align(one, under)) for one in known]
    return widest_span(first.floats(over), first.floats(under), aligned)


def outlier_estimates(params: UncertaintySpanParams, inliers: Sample, outliers: Sample, seed: int) -> Estimates:
    """Return AUROC, both AUPRs, FPR95 and the outliers' mean entropy at every radius."""
    found: Estimates = {}
    clean, limits = inliers.floats("entropy_clean"), nats(inliers)
    highest = math.inf if limits[1] is None else limits[1]
    for epsilon in epsilons_of(params.outliers) if params.outliers else []:
        scores = outliers.floats(column_of(epsilon))
        ranking = rank(clean, scores, seed=seed_of(seed, f"ranking {epsilon:g}"), lowest=0.0, highest=highest)
        for name, value in ranking.values.items():
            found[metric_name(name, epsilon=epsilon)] = estimate(
                value, ranking.intervals[name], len(clean) + len(scores)
            )
        found[metric_name("outlier_entropy", epsilon=epsilon)] = mean(scores, limits)
    return found


def growth_points(params: UncertaintySpanParams, sample: Sample, doubled: Sample) -> list[dict[str, float]]:
    """Return the mean span at 0, epsilon and twice epsilon, on the examples attacked at both radii."""
    before, after = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over"), spans(doubled)
    both = np.isfinite(before)
    if not both.any():
        return []
    points = ((0.0, 0.0), (params.epsilon, before[both].mean()), (2 * params.epsilon, after[both].mean()))
    return [{"epsilon": epsilon, "mus": float(mus), "n": int(both.sum())} for epsilon, mus in points]


def span_growth(sample: Sample, doubled: Sample) -> Estimate:
    """Return the mean paired difference of the span at twice epsilon and at epsilon."""
    before = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over")
    most = nats(sample)[1]
    return mean(spans(doubled) - before, (None if most is None else -most, most))


def make_series(sample: Sample, bins: int) -> dict[str, Any]:
    """Return entropy histograms and reliability diagrams of the three arms as JSON values; empty bins are null."""
    top = math.log(classes_of(sample)) if sample.valid else 1.0
    edges = np.linspace(0, top, HISTOGRAM_BINS + 1)
    histogram: dict[str, Any] = {"edges": edges.tolist()}
    diagrams: dict[str, Any] = {}
    for arm in ARMS:
        # Rounding may put a uniform output a hair above log C.
        histogram[arm] = np.histogram(sample.floats(f"entropy_{arm}").clip(0, top), edges)[0].tolist()
        diagrams[arm] = diagram(sample.floats(f"confidence_{arm}"), hits(sample, arm), bins)
    return {"entropy_histogram": histogram, "reliability": diagrams}


def hits(sample: Sample, arm: str) -> NDArray[np.bool_]:
    """Return (valid,) whether the arm's prediction is the label."""
    right: NDArray[np.bool_] = sample[f"prediction_{arm}"].astype(np.int64) == sample["label"].astype(np.int64)
    return right


def nats(sample: Sample, power: int = 1) -> Limits:
    """Return the least and the largest entropy there can be, or span of two, to a power; of no examples it is open."""
    return 0.0, math.log(classes_of(sample)) ** power if sample.valid else None


def classes_of(sample: Sample) -> int:
    """Return the number of classes of the model; the sample must not be empty."""
    return int(sample.floats("classes")[0])


def _normalised_difference(sample: Sample, arm: str) -> Floats:
    """Return |H_arm - H_clean| / (log C - H_clean) (valid,), NaN where the clean output is uniform already."""
    found: Floats = CHANGE.on(sample, arm=arm)
    return found
