"""Records to numbers: every estimate of the family, its interval, and the curves behind the figures."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from seatrial.families.uncertainty_span.records import CHANGE, SCALED_SPAN, SPAN, widest_span
from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import calibrate
from seatrial.statistics.estimating import diagram, estimate, mean, proportion, seed_of
from seatrial.statistics.intervals import bootstrap
from seatrial.statistics.ranking import rank
from seatrial.statistics.samples import Sample
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
    span = spans(sample)
    names = ("mus", "msus", "mus_std", "msus_std")

    def statistic(weights: Floats) -> Floats:
        n = len(span)
        first, second, fourth = (weights @ span**power / n for power in (1, 2, 4))
        unbiased = n / (n - 1) if n > 1 else math.nan
        deviations = [np.sqrt(np.maximum(square, 0) * unbiased) for square in (second - first**2, fourth - second**2)]
        return np.stack([first, second, *deviations], axis=1)

    if sample.valid == 0:
        found = {name: estimate(None, None, 0) for name in names}
    else:
        point = statistic(np.ones((1, len(span))))[0]
        intervals = bootstrap(statistic, [len(span)], seed=seed_of(seed, "span"))
        found = {
            name: estimate(float(value), interval, len(span))
            for name, value, interval in zip(names, point, intervals, strict=True)
        }
    for arm in ("over", "under"):
        found[metric_name("nud", arm=arm)] = mean(_normalised_difference(sample, arm), seed_of(seed, f"nud {arm}"))
    found["nud"] = found[metric_name("nud", arm="under")]
    return found


def arm_estimates(sample: Sample, bins: int, seed: int) -> Estimates:
    """Return entropy, confidence, accuracy and calibration of the clean, over and under arms."""
    found = {"clean_accuracy": proportion(hits(sample, "clean"))}
    for arm in ARMS:
        for name in ("entropy", "confidence"):
            found[metric_name(name, arm=arm)] = mean(sample.floats(f"{name}_{arm}"), seed_of(seed, f"{name} {arm}"))
        found[metric_name("accuracy", arm=arm)] = proportion(hits(sample, arm))
        correct = hits(sample, arm)
        measured = calibrate(sample.floats(f"confidence_{arm}"), correct, bins, seed=seed_of(seed, f"ece {arm}"))
        for name, value in measured.values.items():
            found[metric_name(name, arm=arm)] = estimate(value, measured.intervals[name], sample.valid)
    return found


def attack_estimates(attacks: Mapping[str, Sample], bins: int, seed: int) -> Estimates:
    """Return ECE, signed ECE, confidence and accuracy under each label-preserving attack."""
    found: Estimates = {}
    for attack, sample in attacks.items():
        correct, confidence = hits(sample, "attacked"), sample.floats("confidence_attacked")
        measured = calibrate(confidence, correct, bins, seed=seed_of(seed, f"ece {attack}"))
        for name in ("ece", "s_ece"):
            found[metric_name(name, attack=attack)] = estimate(
                measured.values[name], measured.intervals[name], sample.valid
            )
        found[metric_name("confidence", attack=attack)] = mean(confidence, seed_of(seed, f"confidence {attack}"))
        found[metric_name("accuracy", attack=attack)] = proportion(correct)
    return found


def further_spans(sample: Sample, others: Mapping[str, Sample], mus: Estimate, seed: int) -> Estimates:
    """Return the spans of the tempered and the transferred attack, and per example the worst of all attacks.

    Where nothing beats the white-box attack the worst is ``mus`` itself, interval included.
    """
    found: Estimates = {}
    for attack, other in others.items():
        found[metric_name("mus", attack=attack)] = mean(spans(other), seed_of(seed, f"mus {attack}"))
    aligned = [(sample.align(one, "entropy_over"), sample.align(one, "entropy_under")) for one in others.values()]
    worst = widest_span(sample.floats("best_entropy_over"), sample.floats("best_entropy_under"), aligned)
    is_mus = np.array_equal(worst, spans(sample))
    found["mus_worst"] = mus if is_mus else mean(worst, seed_of(seed, "mus worst"))
    if "tempered" in others:
        found["mus_scaled"] = mean(SCALED_SPAN.on(others["tempered"]), seed_of(seed, "mus scaled"))
    return found


def outlier_estimates(params: UncertaintySpanParams, inliers: Sample, outliers: Sample, seed: int) -> Estimates:
    """Return AUROC, both AUPRs, FPR95 and the outliers' mean entropy at every radius."""
    found: Estimates = {}
    clean = inliers.floats("entropy_clean")
    for epsilon in epsilons_of(params.outliers) if params.outliers else []:
        scores = outliers.floats(column_of(epsilon))
        ranking = rank(clean, scores, seed=seed_of(seed, f"ranking {epsilon:g}"))
        for name, value in ranking.values.items():
            found[metric_name(name, epsilon=epsilon)] = estimate(
                value, ranking.intervals[name], len(clean) + len(scores)
            )
        found[metric_name("outlier_entropy", epsilon=epsilon)] = mean(scores, seed_of(seed, f"outlier {epsilon:g}"))
    return found


def growth_points(params: UncertaintySpanParams, sample: Sample, doubled: Sample) -> list[dict[str, float]]:
    """Return the mean span at 0, epsilon and twice epsilon, on the examples attacked at both radii."""
    before, after = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over"), spans(doubled)
    both = np.isfinite(before)
    if not both.any():
        return []
    points = ((0.0, 0.0), (params.epsilon, before[both].mean()), (2 * params.epsilon, after[both].mean()))
    return [{"epsilon": epsilon, "mus": float(mus), "n": int(both.sum())} for epsilon, mus in points]


def span_growth(sample: Sample, doubled: Sample, seed: int) -> Estimate:
    """Return the mean paired difference of the span at twice epsilon and at epsilon."""
    before = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over")
    return mean(spans(doubled) - before, seed_of(seed, "growth"))


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


def classes_of(sample: Sample) -> int:
    """Return the number of classes of the model; the sample must not be empty."""
    return int(sample.floats("classes")[0])


def _normalised_difference(sample: Sample, arm: str) -> Floats:
    """Return |H_arm - H_clean| / (log C - H_clean) (valid,), NaN where the clean output is uniform already."""
    found: Floats = CHANGE.on(sample, arm=arm)
    return found
