"""Doubts about the numbers: signs of masked gradients, each with what it means and what to do (spec A.7).

What attacks that need no gradient of the model reach beside those that do is evidence
(:mod:`workers.families.uncertainty_span.evidence`); the rest are symptoms, which robust models show as well. Where the
evidence is there and clears the model, a symptom is a note.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from seatrial.contracts.estimates import Flag
from seatrial.contracts.family import Severity
from seatrial.families.uncertainty_span.limits import FULL_STEPS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.reporting.numbers import format_aligned
from seatrial.reporting.words import enumerate_words
from seatrial.statistics.estimating import seed_of
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import paired_difference
from seatrial.statistics.samples import Sample
from workers.attacks.kept_slopes import HALF, LOST, are_gone
from workers.families.contexts import Records
from workers.families.uncertainty_span.dormant import UNFOLLOWED
from workers.families.uncertainty_span.estimates import classes_of, spans, widest
from workers.families.uncertainty_span.inner import AGREEMENTS, COMPANY, IDLE, SLOPES, SWINGING
from workers.families.uncertainty_span.records import first_of
from workers.models.repeating import company_flag

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
95% interval must lie below."""

GROWTH_LEAST = 20
"""Examples on which growth is judged at least."""

ENOUGH_STEPS = 20
"""Steps from which on an attack that does worse in a larger ball is suspect; below, it may only be short."""

SATURATED = 0.1
"""Share of clean outputs whose float32 softmax is exactly 1 at which the tempered attack is run."""

MORE = 0.05
"""Nats by which the tempered attack must widen the span for the others not to be relied on."""

MORE_SHARE = 0.1
MORE_LEAST = 1e-3
"""The same as a share of the mean span without it, which may itself be small, and the fewest nats that matter then."""

DISAGREES = 0.5
"""Agreement below which a network does not do what its gradient says: over twice as much, or less than half."""

DISAGREEING = 0.5
"""Share of the images that it is so on, lower end of the interval. Six networks, architectures from random weights,
inputs of 16 levels and half precision have .00, inputs of 8 levels .02, of four .40; lies .85 and more, and those that
are scaled until they agree along themselves .58 and .71."""

TIED = 0.5
"""Share of log 2 that the entropy reaches at least on the way across a decision boundary, where two classes tie."""

HIDDEN = {
    "have scores of exactly 0 and 1": SATURATED,
    "were moved by no query": NOT_IMPROVED,
    "changed their prediction without a doubt on the way": NOT_IMPROVED,
}
"""Shares of the examples from which on the scores of an endpoint hide what attacks do."""

CLEARED = " Attacks that need no gradient of the model reach no further, so that this is no sign of masking here."


def is_saturated(sample: Sample) -> bool:
    """Tell whether enough clean outputs are one-hot in float32 that entropy cannot be attacked directly."""
    return sample.valid > 0 and float(sample.floats("is_saturated").mean()) >= SATURATED


def quick_effort(params: UncertaintySpanParams) -> list[Flag]:
    """Flag a check that did without the attacks that the widest span rests on."""
    if params.effort != "quick":
        return []
    return [
        Flag(
            code="quick_effort",
            severity="warning",
            message="With effort quick, mus_worst rests on the paper's two attacks: these stop short of what entropy "
            "ascent reaches, and none of the attacks that were run works where a model's gradients mislead. Audit with "
            "effort standard before relying on it.",
        )
    ]


def few_steps(params: UncertaintySpanParams) -> list[Flag]:
    """Flag attacks that are too short to say what an attacker reaches, whatever effort they were asked with."""
    if params.steps >= FULL_STEPS:
        return []
    return [
        Flag(
            code="few_steps",
            severity="warning",
            message=f"The attacks have {params.steps} steps, and what effort {params.effort} adds is in proportion: "
            f"fewer than {FULL_STEPS} are too short to say what an attacker reaches.",
        )
    ]


def unfollowed(surrogate: Records | None) -> list[Flag]:
    """Flag a network behind parts of which no dormant unit could be looked for; by the records of that stage."""
    names = first_of(surrogate, UNFOLLOWED)
    if not names:
        return []
    told = enumerate_words(["few numbers that are of no one image" if name == "rows" else name for name in names])
    return [
        Flag(
            code="unfollowed_operations",
            severity="warning",
            message=f"The network could not be followed through {told}: a part that is let out behind was not looked "
            "for, and mus_worst may be too low.",
        )
    ]


def inside(surrogate: Records | None) -> list[Flag]:
    """Flag what the network computes that decides about nothing, that swings, or depends on the images beside it.

    Args:
        surrogate: Records of that stage; None where it was not run.
    """
    found = []
    if (difference := first_of(surrogate, COMPANY)) is not None:
        found.append(company_flag(difference, "changed image"))
    found += failed_gradient_check(first_of(surrogate, AGREEMENTS) or [], first_of(surrogate, SLOPES) or [])
    if idle := first_of(surrogate, IDLE):
        found.append(
            Flag(
                code="idle_computation",
                severity="warning",
                message=f"What the network computes by {enumerate_words(idle)} somewhere follows the image and decides "
                "about none of those looked at, as they are and changed at random, as if it waited for something that "
                "none of them has: what that lets out was not attacked, and mus_worst may be too low.",
            )
        )
    if swinging := first_of(surrogate, SWINGING):
        found.append(
            Flag(
                code="swinging_computation",
                severity="warning",
                message=f"What the network computes by {enumerate_words(swinging)} somewhere rises and falls many "
                "times on a straight way through the radius: attacks by gradients see the nearest slope alone, and "
                "mus_worst may be too low.",
            )
        )
    return found


def failed_gradient_check(agreements: Sequence[float], slopes: Sequence[float] = ()) -> list[Flag]:
    """Flag a network that does not do what its gradients say.

    Args:
        agreements: By how far it does at each image looked at, next to it.
        slopes: What share of its slope is left of each a small step away.
    """
    failing, gone = sum(one < DISAGREES for one in agreements), sum(one < HALF for one in slopes)
    told = ""
    if agreements and clopper_pearson(failing, len(agreements))[0] > DISAGREEING:
        told = (
            f"At {failing} of {len(agreements)} images, as they are, changed at random and mixed with others to where "
            "the prediction changes, the network does not do what its gradients say: of the change of its logits and "
            f"the one that they say, the smaller is {float(np.median(agreements)):.0%} of the larger (median), or the "
            "two go apart along random directions."
        )
    elif are_gone(gone, len(slopes)):
        told = (
            f"At {gone} of {len(slopes)} images {LOST}, and ten steps do not change the prediction. What attacks are "
            "led by is gone before their first step ends."
        )
    if not told:
        return []
    message = f"{told} Attacks by gradients were led astray, and mus_worst may be too low."
    return [Flag(code="failed_gradient_check", severity="error", message=message)]


def gradient_free(sample: Sample) -> list[Flag]:
    """Flag spans of a model that gives no gradients; an error where its scores do not show what attacks do to it.

    That is where many outputs are one-hot, or many examples were moved by no query though there was room, or their
    prediction was changed while their entropy is still nearly what it was.
    """
    clean, asked = sample.floats("entropy_clean"), int(sample.floats("queries").max())
    room = clean < math.log(classes_of(sample)) - ROOM
    moved = sample.floats("gain_under") > np.minimum(IMPROVEMENT, ADVANCE * clean)
    crossed = sample["crossed"].astype(bool)
    # At the decision boundary of a model whose scores are its own two classes tie.
    silent = crossed & (sample.floats("best_entropy_under") < math.log(2) * TIED)
    shares = {
        "have scores of exactly 0 and 1": float(sample.floats("is_saturated").mean()),
        "were moved by no query": float((room & ~moved).mean()),
        "changed their prediction without a doubt on the way": float(silent.mean()),
    }
    told = (
        f"The model is an endpoint and gives no gradients: it was attacked by scores and decisions alone, with at most "
        f"{asked:,} queries an example. An attacker who has the weights, or more queries, may reach further."
    )
    hidden = {what: share for what, share in shares.items() if share >= HIDDEN[what]}
    if not hidden:
        return [Flag(code="gradient_free", severity="warning", message=told)]
    seen = ", ".join(f"{share:.0%} of the examples {what}" for what, share in hidden.items())
    return [
        Flag(
            code="gradient_free",
            severity="error",
            message=f"{told} Here {seen}: its scores are rounded, are labels alone or are remembered, and the span "
            "does not measure its uncertainty. Let the endpoint answer with the model's own scores.",
        )
    ]


def zero_gradients(sample: Sample, *, is_cleared: bool = False) -> list[Flag]:
    """Flag gradients that are exactly zero where the loss could still fall."""
    shares = [float(sample.floats(f"zero_gradient_share_{arm}").mean()) for arm in ("over", "under")]
    if max(shares) < ZERO_GRADIENTS:
        return []
    severity: Severity = "error" if max(shares) >= 0.5 else "info" if is_cleared else "warning"
    seen = (
        f"{shares[0]:.0%} of the gradients of the over-confidence attack and {shares[1]:.0%} of the under-confidence "
        "attack were exactly zero although the loss could still fall"
    )
    if severity == "info":
        return [Flag(code="zero_gradients", severity=severity, message=f"{seen}.{CLEARED}")]
    return [
        Flag(
            code="zero_gradients",
            severity=severity,
            message=f"{seen}: the model hides its gradients (quantisation, thresholds, detached computation) and the "
            "span is a loose lower bound. Audit it without the non-differentiable part, or give a transfer_model.",
        )
    ]


def attack_not_improving(sample: Sample, *, is_cleared: bool = False) -> list[Flag]:
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
    if is_cleared:
        return [Flag(code="attack_not_improving", severity="info", message=f"{' '.join(failing)}{CLEARED}")]
    return [
        Flag(
            code="attack_not_improving",
            severity="warning",
            message=f"{' '.join(failing)} Gradients that do not point downhill are a sign of masking. Try more steps, "
            "a smaller step_size, a random_start with restarts, or a transfer_model.",
        )
    ]


def span_not_growing(
    params: UncertaintySpanParams, sample: Sample, doubled: Sample, seed: int, *, is_cleared: bool = False
) -> list[Flag]:
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
    if is_cleared:
        advice = CLEARED.strip()
    elif is_short:
        advice = (
            f"With {params.steps} steps this may be the attack's shortness: audit again with at least {ENOUGH_STEPS}."
        )
    else:
        advice = (
            "The attack is failing rather than the model resisting. Compare with a transfer_model, and look at the "
            "other flags."
        )
    return [
        Flag(
            code="span_not_growing",
            severity="info" if is_short or is_cleared else "warning",
            message=f"The mean span is {small:.3g} nat at epsilon {params.epsilon:.3g} and {large:.3g} nat at twice "
            f"that, on {int(both.sum())} examples: an unmasked span grows with epsilon until it nears log C. {advice}",
        )
    ]


def saturated_logits(sample: Sample, tempered: Sample, others: Mapping[str, Sample], *, is_quick: bool) -> list[Flag]:
    """Flag a softmax that is one-hot in float32, where entropy is flat for reasons other than robustness.

    An error where the attack on scaled logits reaches what all other attacks together do not, in nats or as a share.

    Args:
        sample: Records of the paper's attacks.
        tempered: Of the attack on scaled logits.
        others: Of all further attacks but that one.
        is_quick: Whether there were none to be run.
    """
    share = float(sample.floats("is_saturated").mean())
    plain, without = float(spans(sample).mean()), widest(sample, others)
    reached, widened = float(without.mean()), float(widest(sample, {**others, "tempered": tempered}).mean())
    hidden = widened - reached
    is_short = hidden > MORE or hidden > max(MORE_LEAST, MORE_SHARE * reached)
    by_paper, but_one, by_all = format_aligned([plain, reached, widened])
    message = (
        f"In float32 the softmax of {share:.0%} of the clean images gives one class a probability of exactly 1, where "
        f"the entropy has no gradient to follow. The mean span is {by_paper} nat by the paper's attacks, "
    )
    if is_short:
        message += "" if is_quick else f"{but_one} by all attacks but one, "
        message += (
            f"and {by_all} with one that follows temperature-scaled logits across the decision boundary: without "
            "it the model looks more robust than it is. Calibrate it, and audit it again."
        )
    else:
        message += (
            f"and {by_all} by all of them, to which the attack on temperature-scaled logits adds nothing to speak "
            "of. Entropies so near to 0 hardly tell right predictions from wrong ones: rely on mus_worst for what an "
            "attacker moves, and calibrate the model before using its uncertainty."
        )
    severity: Severity = "error" if is_short else "warning" if is_quick else "info"
    return [Flag(code="saturated_logits", severity=severity, message=message)]
