"""Doubts about the numbers: five signs of masked gradients, each with what it means and what to do (spec A.7)."""

import math

import numpy as np

from app.contracts.estimates import Estimate, Flag
from app.contracts.families.uncertainty_span import UncertaintySpanParams
from workers.families.uncertainty_span.estimates import classes_of, seed_of, spans
from workers.families.uncertainty_span.records import Sample
from workers.stats.intervals import paired_difference

ZERO_GRADIENTS = 0.1
"""Share of iterates with an all-zero gradient away from the loss's optimum; an unmasked network has none."""

NOT_IMPROVED = 0.2
"""Share of examples with room to move whose entropy no iterate moved."""

IMPROVEMENT = 1e-6
ROOM = 1e-3
"""Nats: the least move that counts, and the least distance from the end of the scale at which one can be asked for."""

GROWTH = 0.01
"""Relative growth of the mean span at twice epsilon below which it counts as not growing."""

SATURATED = 0.1
"""Share of clean outputs whose float32 softmax is exactly 1 at which the tempered attack is run."""

MORE = 0.05
"""Nats by which another attack's mean span must exceed the white-box one before the latter is not to be relied on."""


def is_saturated(sample: Sample) -> bool:
    """Tell whether enough clean outputs are one-hot in float32 that entropy cannot be attacked directly."""
    return sample.valid > 0 and float(sample.floats("is_saturated").mean()) >= SATURATED


def zero_gradients(sample: Sample) -> list[Flag]:
    """Flag gradients that are exactly zero where the loss could still fall."""
    shares = [float(sample.floats(f"zero_gradient_share_{arm}").mean()) for arm in ("over", "under")]
    if max(shares) < ZERO_GRADIENTS:
        return []
    return [
        Flag(
            code="zero_gradients",
            severity="error" if max(shares) >= 0.5 else "warning",
            message=f"{shares[0]:.0%} of the gradients of the over-confidence attack and {shares[1]:.0%} of the "
            "under-confidence attack were exactly zero although the loss could still fall: the model hides its "
            "gradients (quantisation, thresholds, detached computation) and the span is a loose lower bound. Audit "
            "it without the non-differentiable part, or give a transfer_model.",
        )
    ]


def attack_not_improving(sample: Sample) -> list[Flag]:
    """Flag attacks that moved the entropy of many examples nowhere in all their steps."""
    clean = sample.floats("entropy_clean")
    room = {"over": clean > ROOM, "under": clean < math.log(classes_of(sample)) - ROOM}
    shares = {
        arm: float(np.mean(sample.floats(f"gain_{arm}")[can] <= IMPROVEMENT)) if can.any() else 0.0
        for arm, can in room.items()
    }
    if max(shares.values()) < NOT_IMPROVED:
        return []
    return [
        Flag(
            code="attack_not_improving",
            severity="warning",
            message=f"No step of the over-confidence attack lowered the entropy of {shares['over']:.0%} of the "
            f"examples, and none of the under-confidence attack raised that of {shares['under']:.0%}, where there "
            "was room to: gradients that do not point downhill are a sign of masking. Try more steps, a smaller "
            "step_size, a random_start with restarts, or a transfer_model.",
        )
    ]


def span_not_growing(params: UncertaintySpanParams, sample: Sample, doubled: Sample) -> list[Flag]:
    """Flag a span that twice the radius does not widen although there is room."""
    before, after = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over"), spans(doubled)
    both = np.isfinite(before)
    covers_box = params.norm == "linf" and params.epsilon > 0.5
    if not both.any() or covers_box:
        return []
    small, large = float(before[both].mean()), float(after[both].mean())
    if small > math.log(classes_of(sample)) / 2 or large > small * (1 + GROWTH) + IMPROVEMENT:
        return []
    return [
        Flag(
            code="span_not_growing",
            severity="warning",
            message=f"The mean span is {small:.3g} nat at epsilon {params.epsilon:.3g} and {large:.3g} nat at twice "
            f"that, on {int(both.sum())} examples: an unmasked span grows with epsilon until it nears log C. The "
            "attack is failing rather than the model resisting. Compare with a transfer_model, and look at the "
            "other flags.",
        )
    ]


def transfer_beats_white_box(sample: Sample, transferred: Sample, seed: int) -> list[Flag]:
    """Flag images made on another model that move the entropy more than those made on this one."""
    other = sample.align(transferred, "entropy_under") - sample.align(transferred, "entropy_over")
    both = np.isfinite(other)
    if not both.any():
        return []
    white_box = spans(sample)[both]
    excess = other[both] - white_box
    interval = paired_difference(other[both], white_box, seed=seed_of(seed, "transfer excess"))
    wins = float(np.mean(excess > MORE))
    beats_on_average = float(excess.mean()) > 0 and (interval is None or interval[0] > 0)
    if not beats_on_average and wins < 0.1:
        return []
    return [
        Flag(
            code="transfer_beats_white_box",
            severity="error" if beats_on_average else "warning",
            message=f"Attacks made on the transfer model span {float(other[both].mean()):.3g} nat on average, the "
            f"white-box ones {float(white_box.mean()):.3g}, and do better by more than {MORE:g} nat on {wins:.0%} of "
            "the examples. An attack that sees the model should never lose to one that does not: its gradients are "
            "masked. Rely on mus_worst, not on mus.",
        )
    ]


def saturated_logits(sample: Sample, mus: Estimate, worst: Estimate) -> list[Flag]:
    """Flag a softmax that is one-hot in float32, where entropy is flat for reasons other than robustness."""
    share = float(sample.floats("is_saturated").mean())
    hidden = (worst.value or 0.0) - (mus.value or 0.0)
    message = (
        f"The float32 softmax of {share:.0%} of the clean images is exactly one-hot, so its entropy hardly moves "
        "whatever the attack does. Attacked on temperature-scaled logits as well, the mean span is "
        f"{worst.value or 0:.3g} nat instead of {mus.value or 0:.3g}: "
    )
    if hidden > MORE:
        message += "mus makes the model look robust and must not be relied on; use mus_worst, and calibrate the model."
    else:
        message += (
            "a small difference, but this model's entropy says little; calibrate it before using its uncertainty."
        )
    return [Flag(code="saturated_logits", severity="error" if hidden > MORE else "warning", message=message)]
