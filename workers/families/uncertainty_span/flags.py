"""Doubts about the numbers: five signs of masked gradients, each with what it means and what to do (spec A.7)."""

import math

import numpy as np

from seatrial.contracts.estimates import Flag
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.statistics.estimating import seed_of
from seatrial.statistics.intervals import paired_difference
from seatrial.statistics.samples import Sample
from workers.families.uncertainty_span.estimates import best_spans, classes_of, spans

ZERO_GRADIENTS = 0.1
"""Share of iterates with an all-zero gradient away from the loss's optimum; an unmasked network has none."""

NOT_IMPROVED = 0.2
"""Share of examples with room to move that no iterate moved."""

IMPROVEMENT = 1e-6
ROOM = 1e-3
"""Nats: the least move that counts, and the least distance from the end of the scale at which one can be asked for."""

ADVANCE = 1e-4
"""Share of its clean entropy, or of its clean margin, by which an example has to move where that is less than
``IMPROVEMENT``: a robust model with margins of 17 nats has entropies of 1e-7, and moves them by 1 % and more."""

GROWTH = 0.01
"""Relative growth of the mean span at twice epsilon below which it counts as not growing: the upper end of the paired
95 % interval must lie below."""

GROWTH_LEAST = 20
"""Examples on which growth is judged at least."""

ENOUGH_STEPS = 20
"""Steps from which on an attack that does worse in a larger ball is suspect; below, it may only be short."""

SATURATED = 0.1
"""Share of clean outputs whose float32 softmax is exactly 1 at which the tempered attack is run."""

MORE = 0.05
"""Nats by which another attack's span must exceed the white-box one before the latter is not to be relied on."""

MORE_SHARE = 0.1
MORE_LEAST = 1e-3
"""The same as a share of the white-box mean span, which may itself be small, and the fewest nats that matter then."""

EXCESS, EXCESS_SHARE = 0.01, 0.01
"""Nats, and share of the white-box mean span, by which a transferred attack must do better on average: less is chance,
or rounding where it is the same attack."""


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
    """Flag attacks that in all their steps moved neither the entropy nor the margin of many examples their way."""
    clean, margin = sample.floats("entropy_clean"), sample.floats("margin_clean")
    room = {"over": clean > ROOM, "under": clean < math.log(classes_of(sample)) - ROOM}
    shares = {}
    for arm, can in room.items():
        gained = sample.floats(f"gain_{arm}") > np.minimum(IMPROVEMENT, ADVANCE * clean)
        advanced = sample.floats(f"advance_{arm}") > ADVANCE * margin
        shares[arm] = float(np.mean(~(gained | advanced)[can])) if can.any() else 0.0
    said = {
        "over": "No step of the over-confidence attack lowered the entropy or widened the margin of "
        f"{shares['over']:.0%} of the examples that had room for it.",
        "under": "No step of the under-confidence attack raised the entropy or narrowed the margin of "
        f"{shares['under']:.0%} of the examples that had room for it.",
    }
    failing = [said[arm] for arm, share in shares.items() if share >= NOT_IMPROVED]
    if not failing:
        return []
    return [
        Flag(
            code="attack_not_improving",
            severity="warning",
            message=f"{' '.join(failing)} Gradients that do not point downhill are a sign of masking. Try more steps, "
            "a smaller step_size, a random_start with restarts, or a transfer_model.",
        )
    ]


def span_not_growing(params: UncertaintySpanParams, sample: Sample, doubled: Sample, seed: int) -> list[Flag]:
    """Flag a span that twice the radius surely does not widen although there is room.

    An attack of few steps may do worse in a larger ball on any model, so with fewer than ``ENOUGH_STEPS`` it is a note.
    """
    before, after = doubled.align(sample, "entropy_under") - doubled.align(sample, "entropy_over"), spans(doubled)
    both = np.isfinite(before)
    covers_box = params.norm == "linf" and params.epsilon > 0.5
    if int(both.sum()) < GROWTH_LEAST or covers_box:
        return []
    small, large = float(before[both].mean()), float(after[both].mean())
    interval = paired_difference(after[both], before[both], seed=seed_of(seed, "growth flag"))
    most = large - small if interval is None else interval[1]
    if small > math.log(classes_of(sample)) / 2 or most > small * GROWTH + IMPROVEMENT:
        return []
    is_short = params.steps < ENOUGH_STEPS
    advice = (
        f"With {params.steps} steps this may be the attack's shortness: audit again with at least {ENOUGH_STEPS}."
        if is_short
        else "The attack is failing rather than the model resisting. Compare with a transfer_model, and look at the "
        "other flags."
    )
    return [
        Flag(
            code="span_not_growing",
            severity="info" if is_short else "warning",
            message=f"The mean span is {small:.3g} nat at epsilon {params.epsilon:.3g} and {large:.3g} nat at twice "
            f"that, on {int(both.sum())} examples: an unmasked span grows with epsilon until it nears log C. {advice}",
        )
    ]


def transfer_beats_white_box(sample: Sample, transferred: Sample, seed: int) -> list[Flag]:
    """Flag images made on another model that move the entropy more than those made on this one.

    Best iterate against best iterate, whatever the selection.
    """
    other = sample.align(transferred, "entropy_under") - sample.align(transferred, "entropy_over")
    both = np.isfinite(other)
    if not both.any():
        return []
    white_box = best_spans(sample)[both]
    excess = other[both] - white_box
    interval = paired_difference(other[both], white_box, seed=seed_of(seed, "transfer excess"))
    wins = float(np.mean(excess > MORE))
    least = max(EXCESS, EXCESS_SHARE * float(white_box.mean()))
    beats_on_average = float(excess.mean()) >= least and (interval is None or interval[0] > 0)
    if not beats_on_average and wins < 0.1:
        return []
    return [
        Flag(
            code="transfer_beats_white_box",
            severity="error" if beats_on_average else "warning",
            message=f"Attacks made on the transfer model span {float(other[both].mean()):.3g} nat on average, the "
            f"white-box ones {float(white_box.mean()):.3g} at their best iterates, and do better by more than "
            f"{MORE:g} nat on {wins:.0%} of the examples. An attack that sees the model should never lose to one that "
            "does not: its gradients are masked. Rely on mus_worst, not on mus.",
        )
    ]


def saturated_logits(sample: Sample, tempered: Sample) -> list[Flag]:
    """Flag a softmax that is one-hot in float32, where entropy is flat for reasons other than robustness.

    An error where the tempered attack shows the white-box one to be short, in nats or as a share.
    """
    share = float(sample.floats("is_saturated").mean())
    plain, other = float(spans(sample).mean()), float(spans(tempered).mean()) if tempered.valid else 0.0
    hidden = other - plain
    is_short = hidden > MORE or hidden > max(MORE_LEAST, MORE_SHARE * plain)
    message = (
        f"The float32 softmax of {share:.0%} of the clean images is exactly one-hot, so its entropy hardly moves "
        "whatever the attack does. Attacked through temperature-scaled logits and across the decision boundary, the "
        f"mean span is {other:.3g} nat; mus says {plain:.3g}. "
    )
    if is_short:
        message += "mus makes the model look robust and must not be relied on; use mus_worst, and calibrate the model."
    else:
        message += (
            "That is no more to speak of, but this model's entropy says little; calibrate it before using its "
            "uncertainty."
        )
    return [Flag(code="saturated_logits", severity="error" if is_short else "warning", message=message)]
