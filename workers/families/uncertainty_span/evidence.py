"""Evidence of masked gradients: what attacks that need none of the model's reach, on the same examples (spec A.7)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag
from seatrial.families.uncertainty_span.effort import INTEGRATED, TRANSFORMED
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.families.uncertainty_span.records import CHANGED
from seatrial.reporting.words import enumerate_words
from seatrial.statistics.arrays import Floats
from seatrial.statistics.bounded import mean_interval
from seatrial.statistics.estimating import proportion, seed_of
from seatrial.statistics.intervals import Interval, paired_difference
from seatrial.statistics.samples import Sample
from workers.attacks.crossings import BEFORE
from workers.families.uncertainty_span.crossing import LEAD_AT_END, LEAD_LEFT
from workers.families.uncertainty_span.distilled import CONFIDENCE, CORRECT
from workers.families.uncertainty_span.estimates import classes_of, widest

NOTABLE_SHARE = 0.05
"""Share of log C by which such an attack must do better on average."""

NOTABLE_DECISIONS = 0.1
"""Share of the examples of which such an attack must change more predictions."""

BY_GRADIENTS = ("ascent", "tempered")
"""Stages that follow the model's own gradients, beside the paper's attacks."""

WITHOUT = {
    "smoothed": "the gradients of a smoothed copy",
    "score": "a search by scores alone",
    "distilled": "images made on a surrogate",
    "transfer": "images made on the transfer model",
    TRANSFORMED: "images after a plain change (of light, contrast, sharpness, grey levels), or after one that switches "
    "a dormant unit of the network, and a few steps from there",
    INTEGRATED: "images whose pixels lie where gradients from all over the ball add up to least",
    LEVELLED: "images at which scores that the network computes beside its answer are level or turned round, or to "
    "which the answer leads where what opens a gate says less, or at which the thresholds of many units meet, or to "
    "which gradients lead that go through units that are off, or where what goes into a layer is far from what it "
    "was, or where all but some of the pixels are left as they are",
}
"""Stages whose attacks, by themselves, need no gradient of the model's answer at the image, in words."""

HALF = 0.5
"""Share of the clean lead that may be left at :data:`workers.attacks.crossings.BEFORE` of the way to where the
prediction changes: a network that is linear along the way has .05 left. Of 16 honest networks (digits, MNIST, CIFAR-10;
standard, noise- and PGD-trained) the median is .05 to .11, and at most 8 % of the images keep half."""

NO_LEAD = 0.1
"""Share of it that may be left at that very point. Of scores that are cut off at a least lead, .2 to .5; of honest
networks 0 (MNIST: standard, Gaussian- and PGD-trained), which at BEFORE may keep as much."""

ABRUPT = 0.25
"""Share of the examples that the lower end of the interval has to exceed."""


UNFIT = 0.15
"""By how much the mean confidence at the calibrated temperature surely differs from the accuracy, at least: of honest
networks the likeliest temperature brings the two together whatever the scale."""


@dataclass(frozen=True)
class Comparison:
    """One such attack beside those by gradients, on the examples both were run on.

    Attributes:
        stage: Which.
        by_gradients: Mean of the widest span that attacks by gradients reached, in nats.
        without: Mean span of the other.
        interval: Of the paired difference, the other less those by gradients; None of fewer than two examples.
        examples: How many.
        is_masked: Whether the interval lies above 0 and the difference above ``NOTABLE_SHARE`` of log C.
    """

    stage: str
    by_gradients: float
    without: float
    interval: Interval | None
    examples: int
    is_masked: bool


def compare(sample: Sample, stages: Mapping[str, Sample], seed: int) -> list[Comparison]:
    """Compare every attack without gradients that ran with all by gradients together.

    Args:
        sample: Records of the paper's attacks.
        stages: Of the further ones, by stage.
        seed: Of the intervals.
    """
    if sample.valid == 0:
        return []
    by_gradients = widest(sample, {name: stages[name] for name in BY_GRADIENTS if name in stages})
    least = NOTABLE_SHARE * math.log(classes_of(sample))
    found = []
    for stage in (stage for stage in WITHOUT if stage in stages):
        span = _span_alone(sample, stages[stage])
        both = np.isfinite(span)
        if not both.any():
            continue
        interval = paired_difference(span[both], by_gradients[both], seed=seed_of(seed, f"without {stage}"))
        means = float(by_gradients[both].mean()), float(span[both].mean())
        is_masked = interval is not None and interval[0] > 0 and means[1] - means[0] > least
        found.append(Comparison(stage, *means, interval, int(both.sum()), is_masked))
    return found


def is_cleared(comparisons: list[Comparison]) -> bool:
    """Tell whether the attacks of the effort ``standard`` ran and none of those that did shows masked gradients."""
    ran = {one.stage for one in comparisons}
    return {"smoothed", "score", "distilled"} <= ran and not any(one.is_masked for one in comparisons)


def masked_gradients(comparisons: list[Comparison]) -> list[Flag]:
    """Flag gradients that hide what the model does, with both numbers of every attack that shows it."""
    showing = [one for one in comparisons if one.is_masked and one.interval is not None]
    if not showing:
        return []
    told = [
        f"{WITHOUT[one.stage]} {one.without:.3g} (difference {one.without - one.by_gradients:.3g}, 95% interval "
        f"{one.interval[0]:.3g} to {one.interval[1]:.3g}, {one.examples} examples)"
        for one in showing
        if one.interval is not None
    ]
    return [
        Flag(
            code="masked_gradients",
            severity="error",
            message=f"Attacks that follow the model's gradients span {showing[0].by_gradients:.3g} nat on average; "
            f"{enumerate_words(told)}. An attack that does not see the gradients should never do better: the gradients "
            "are masked. mus_worst counts all of these attacks, and the true span may be larger still. Audit the "
            "model without what hides its gradients.",
        )
    ]


def hidden_decisions(sample: Sample, stages: Mapping[str, Sample], seed: int) -> list[Flag]:
    """Flag gradients that hide changes of the decision which gradients from elsewhere, or none, lead to.

    Args:
        sample: Records of the paper's attacks.
        stages: Of the further ones, by stage.
        seed: Of the intervals.
    """
    clean = sample.floats("prediction_clean")
    by_gradients = np.zeros(sample.valid, dtype=bool)
    for arm in ("over", "under"):
        by_gradients |= sample.floats(f"prediction_{arm}") != clean
    looking = [stages[name] for name in BY_GRADIENTS if name in stages and stages[name].has(CHANGED)]
    # Of the paper's attacks it is known where they ended, of a transferred one every image it has tried.
    if not looking:
        return []
    for stage in looking:
        by_gradients |= np.nan_to_num(sample.align(stage, CHANGED)) > 0
    told = []
    for name in (name for name in WITHOUT if name in stages and stages[name].has(CHANGED)):
        changed = sample.align(stages[name], CHANGED)
        both = np.isfinite(changed)
        if not both.any():
            continue
        shares = float(changed[both].mean()), float(by_gradients[both].mean())
        interval = paired_difference(changed[both], by_gradients[both] * 1.0, seed=seed_of(seed, f"decisions {name}"))
        if interval is not None and interval[0] > 0 and shares[0] - shares[1] > NOTABLE_DECISIONS:
            told.append(f"{WITHOUT[name]} {shares[0]:.0%} where those change {shares[1]:.0%} ({both.sum()} examples)")
    if not told:
        return []
    return [
        Flag(
            code="masked_gradients",
            severity="error",
            message="Attacks that follow the model's gradients at the image change fewer predictions than "
            f"{enumerate_words(told)}. An attack that does not see those gradients should never do better: they are "
            "masked. adversarial_accuracy counts all of these attacks, and the true one may be smaller still. Audit "
            "the model without what hides its gradients.",
        )
    ]


def abrupt_decisions(crossing: Sample) -> list[Flag]:
    """Flag predictions that change while their lead is nearly whole, so that no score tells how near the change is.

    Args:
        crossing: Records of :func:`workers.families.uncertainty_span.crossing.look_at_crossings`.
    """
    if (shortly := _keeping(crossing.floats(LEAD_LEFT), HALF)) is not None:
        before, kept = f"at {BEFORE:.0%} of the way", f"over half of their lead in logits at {BEFORE:.0%} of the way"
    elif crossing.has(LEAD_AT_END) and (shortly := _keeping(crossing.floats(LEAD_AT_END), NO_LEAD)) is not None:
        before, kept = "there", f"over {NO_LEAD:.0%} of their lead in logits at the very point"
    else:
        return []
    left, share = shortly
    return [
        Flag(
            code="abrupt_decisions",
            severity="error",
            message=f"Of {len(left)} images followed to where their prediction changes, {share.value:.0%} (95% "
            f"interval {share.low:.0%} to {share.high:.0%}) still have {kept}. The median {before} is "
            f"{float(np.median(left)):.0%}; of a network that computes its scores it is about "
            f"{1 - BEFORE if before != 'there' else 0:.0%}. The scores seem to be made up from the decision and say "
            "nothing about how near another decision is, so that attacks on them do not measure the model's "
            "uncertainty. Audit the model without what replaces its scores.",
        )
    ]


def unfit_temperature(surrogate: Sample) -> list[Flag]:
    """Flag a calibrated temperature at which the model is not calibrated: a few answers decided it for all.

    Args:
        surrogate: Records of :func:`workers.families.uncertainty_span.distilled.fit_surrogate`.
    """
    if not surrogate.has(CONFIDENCE) or surrogate.valid == 0 or np.isnan(surrogate.floats("temperature")[0]):
        return []
    confidence, correct = surrogate.floats(CONFIDENCE), surrogate.floats(CORRECT)
    low, high = mean_interval(confidence - correct, -1.0, 1.0)
    if low <= UNFIT and high >= -UNFIT:
        return []
    return [
        Flag(
            code="unfit_temperature",
            severity="error",
            message=f"At the temperature of greatest likelihood, {float(surrogate.floats('temperature')[0]):.3g}, the "
            f"mean confidence of {surrogate.valid} examples is {confidence.mean():.3g} and their accuracy "
            f"{correct.mean():.3g}: no scale of the logits calibrates this model. Some wrong answers are far more "
            "confident than all others, and mus_calibrated is measured on their scale. Look at the wrong answers with "
            "the largest lead in logits; audit the model without whatever produces them.",
        )
    ]


def _keeping(left: Floats, most: float) -> tuple[Floats, Estimate] | None:
    """Return the shares of leads that are known, and how many lie over ``most``, where those are too many."""
    known = left[np.isfinite(left)]
    share = proportion(known > most)
    return (known, share) if share.low is not None and share.low > ABRUPT else None


def _span_alone(sample: Sample, other: Sample) -> Floats:
    """Return the span (valid,) that an attack reached by itself, NaN where the example errored in it."""
    prefix = "alone_" if other.has("alone_entropy_over") else ""
    return sample.align(other, f"{prefix}entropy_under") - sample.align(other, f"{prefix}entropy_over")
