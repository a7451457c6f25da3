"""What the network under audit computes inside, and in which company: looked at once for a check."""

from typing import Any

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import TOGETHER
from seatrial.families.uncertainty_span.inside import (
    CONFINED_EXAMPLES,
    CONFINED_STEPS,
    FOLLOWED_EXAMPLES,
    GRADIENT_EXAMPLES,
    IDLE_EXAMPLES,
    MEETING_EXAMPLES,
    TRIED_EXAMPLES,
)
from seatrial.families.uncertainty_span.levelled import INNER_SCORES, PATIENCE, TRIED_SCORES
from seatrial.families.uncertainty_span.limits import looked_examples, looked_share
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.closed_gates import ClosedGate
from workers.attacks.confined import confining
from workers.attacks.distortion import DRAWN, opening_distortion, places_of
from workers.attacks.evened_scores import worth_attacking
from workers.attacks.gate_search import closed_gate
from workers.attacks.gradient_check import boundary_images, gradient_agreements
from workers.attacks.gradients import input_gradient
from workers.attacks.idle import idle_functions
from workers.attacks.idle_parts import idle_columns
from workers.attacks.inner_scores import inner_scores
from workers.attacks.kept_slopes import kept_slopes
from workers.attacks.leaky_gradients import leaking_slope
from workers.attacks.losses import margin
from workers.attacks.meeting_search import opening_meeting, whole_meeting
from workers.attacks.meeting_thresholds import Meeting
from workers.attacks.openings import Openings
from workers.attacks.regions import make_region
from workers.attacks.swings import WAYS, swinging_functions
from workers.attacks.tried import Trial
from workers.families.contexts import ImageContext
from workers.families.uncertainty_span.levelled import DISTORTED, GATE, LEAKING, MEETING, distorted_row
from workers.models import box_of
from workers.models.memory import forward
from workers.models.repeating import company_difference

IDLE, SWINGING = "idle", "swinging"
"""Columns of the surrogate's records, in its first row: functions of the network whose results decide about no image,
and those whose results swing many times within the radius. Records from before they were kept have none."""

COMPANY = "company_difference"
"""Column beside them: by how much a log probability of images within the radius differs by the images beside them, null
where it does not."""

AGREEMENTS = "gradient_agreements"
"""Column beside them: of each image whose gradient says something, how far the network does that, from 0 to 1."""

SLOPES = "kept_slopes"
"""Column beside it: of each image that has one what share of its slope is left a small step away. Records from before
it was kept have none."""

OPENED = (MEETING, LEAKING, DISTORTED)
"""Columns of what is looked for beside a gate."""

IN_COMPANY = 6
"""Images of either kind that are asked about by themselves."""


def look_inside(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> dict[str, list[str]]:
    """Return both columns by name.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), the first of which is the middle of the radius.
    """
    model, cancelled = context.classifier.logits, context.check_cancelled
    box, some = box_of(context.classifier), _first(IDLE_EXAMPLES, params, images).detach()
    drawn = make_region(params.norm, some, params.epsilon, box).draw(context.generators("idle", list(range(len(some)))))
    idle = [
        name
        for look in (idle_functions, idle_columns)
        for name in look(model, some, drawn, batch_size=TOGETHER, check_cancelled=cancelled)
    ]
    swinging = swinging_functions(
        model,
        images[0],
        params.norm,
        params.epsilon,
        box,
        ways=max(1, int(looked_share(len(images), params.steps) * WAYS)),
        batch_size=TOGETHER,
        check_cancelled=cancelled,
    )
    return {IDLE: list(dict.fromkeys(idle)), SWINGING: swinging}


def find_inner_scores(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> list[list[int]]:
    """Return the scores inside the network that are attacked by themselves, as they are recorded.

    Every other image is changed at random, where copies of a network differ more than at images as they are. Where it
    has more of them than are attacked, they are those for whose evenness its answer waits.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are looked at.
    """
    model, trial = context.classifier.logits, _trial(params, context)
    mixed = _half_drawn(params, context, _first(IDLE_EXAMPLES, params, images), "inner scores")
    scores = inner_scores(model, mixed, TRIED_SCORES, batch_size=TOGETHER, check_cancelled=trial.check_cancelled)
    some = _first(TRIED_EXAMPLES, params, images).detach()
    found = worth_attacking(model, some, scores, INNER_SCORES, trial)
    return [[of for place in group for of in (int(place.number[0]), place.number[1], place.view)] for group in found]


def find_opening(params: UncertaintySpanParams, context: ImageContext, images: Tensor, steps: int) -> dict[str, Any]:
    """Return what opens the network's answer, by the column it is recorded in; None: nothing of that kind.

    A gate, or units whose thresholds meet, whichever opens more; the share of the gradients of units that are off by
    which an attack leads farther; and the place whose numbers, led far from what they were, do.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are looked at.
        steps: Of an attack that follows any of them.
    """
    model, trial = context.classifier.logits, _trial(params, context)
    # Of several ways that lead far of some images one leads far of most.
    mixed = _half_drawn(params, context, _first(FOLLOWED_EXAMPLES, params, images), "gates")
    gate = closed_gate(model, mixed, _tried(TRIED_EXAMPLES, params, context, images), steps, trial)
    found: dict[str, Any] = {GATE: None if gate is None else _gate_row(gate), **dict.fromkeys(OPENED)}
    if not (few := min(MEETING_EXAMPLES, len(images) // 8)):
        return found
    mixed = _half_drawn(params, context, _first(TOGETHER, params, images), "meetings")
    whole = whole_meeting(model, mixed, trial)
    openings = Openings(model, _tried(few, params, context, images), steps, trial)
    # A gate that opens little may stand beside units whose thresholds meet.
    if (meeting := opening_meeting(openings, whole, patience=PATIENCE, gate=gate)) is not None:
        found |= {GATE: None, MEETING: _meeting_row(meeting)}
    found[LEAKING] = leaking_slope(openings)
    spreads = places_of(model, mixed, [kink.number for kink in whole.spreads], trial)
    starts, *drawn = (
        _drawn(params, context, openings.images, f"{DISTORTED}{at}" if at else DISTORTED) for at in range(1 + DRAWN)
    )
    if (measures := opening_distortion(openings, starts, drawn, spreads)) is not None:
        found[DISTORTED] = distorted_row(measures)
    return found


def find_confinement(params: UncertaintySpanParams, context: ImageContext, images: Tensor, steps: int) -> str | None:
    """Return what perturbations are confined to that move the answer farther than others; None: nothing.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are looked at.
        steps: Of an attack that is confined so.
    """
    few = min(CONFINED_EXAMPLES, len(images) // 8)
    some = _tried(few, params, context, images) if few else images[:0]
    return confining(context.classifier.logits, some, min(CONFINED_STEPS, steps), steps, _trial(params, context))


def _gate_row(gate: ClosedGate) -> dict[str, Any]:
    cut = [
        {"is_part": is_part, "number": number, "silent": None if silent is None else silent.double().tolist()}
        for (is_part, number), silent in gate.cut.items()
    ]
    places = [
        {"is_part": of.number[0], "number": of.number[1], "given": of.given, "units": of.units} for of in gate.places
    ]
    return {"places": places, "cut": cut}


def _meeting_row(meeting: Meeting) -> dict[str, Any]:
    kinks = [
        {
            "is_part": kink.number[0],
            "number": kink.number[1],
            "which": kink.which,
            "spreads": spreads.tolist(),
            "thresholds": meeting.thresholds[kink].tolist() if kink in meeting.thresholds else None,
        }
        for kink, spreads in meeting.spreads.items()
    ]
    return {"kinks": kinks, "patience": meeting.patience}


def differs_by_company(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> float | None:
    """Return by how much a log probability differs that an image has by itself and in a batch, in nats.

    None where it does not. A model may answer images as they are alike in any company, and others not: asked are some
    that are drawn from the ball, and some a step along the gradient of the prediction's lead away.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are changed.
    """
    model, some = context.classifier.logits, images[:IN_COMPANY].detach()
    region = make_region(params.norm, some, params.epsilon, box_of(context.classifier))
    drawn = region.draw(context.generators("company", list(range(len(some)))))
    with torch.enable_grad():
        followed = some.clone().requires_grad_(True)
        logits = model(followed)
        gradient = input_gradient(margin(logits, logits.argmax(1)), followed).nan_to_num(nan=0.0)
    stepped = region.step(some.clone(), gradient, params.epsilon)
    found = [
        company_difference(forward(model, moved), lambda asked: forward(model, asked), moved)
        for moved in (drawn, stepped)
    ]
    return max((one for one in found if one is not None), default=None)


def checked_gradients(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> list[float]:
    """Return how far the network does what its gradients say, of each image of which these say something.

    Every other image is drawn from the ball. A network that is sure of its images may not move at any, so that each is
    also looked at where the prediction changes on the way to the next.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are looked at.
    """
    model, box = context.classifier.logits, box_of(context.classifier)
    mixed = _half_drawn(params, context, _first(GRADIENT_EXAMPLES, params, images), "gradient check")
    between = boundary_images(model, mixed, batch_size=TOGETHER, check_cancelled=context.check_cancelled)
    found = gradient_agreements(
        model, torch.cat([mixed, between]), box, batch_size=TOGETHER, check_cancelled=context.check_cancelled
    )
    agreements: list[float] = found[~found.isnan()].tolist()
    return agreements


def left_of_slopes(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> list[float]:
    """Return what share of its slope is left a small step away, of each image that has one.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), of which the first are looked at.
    """
    found = kept_slopes(
        context.classifier.logits,
        _first(GRADIENT_EXAMPLES, params, images),
        params.norm,
        params.epsilon,
        box_of(context.classifier),
        batch_size=TOGETHER,
        check_cancelled=context.check_cancelled,
    )
    kept: list[float] = found[~found.isnan()].tolist()
    return kept


def _trial(params: UncertaintySpanParams, context: ImageContext) -> Trial:
    return Trial(params.norm, params.epsilon, box_of(context.classifier), context.check_cancelled)


def _first(most: int, params: UncertaintySpanParams, images: Tensor) -> Tensor:
    """Return those of the images that are looked at, ``most`` of them at most."""
    return images[: looked_examples(most, len(images), params.steps)]


def _tried(most: int, params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> Tensor:
    """Return the few images with which it is seen what an answer waits for, ``most`` of them at most."""
    some = _of_other_classes(context, _first(TOGETHER, params, images).detach())
    return some[: looked_examples(most, len(images), params.steps)]


def _of_other_classes(context: ImageContext, images: Tensor) -> Tensor:
    """Return images in an order in which as many classes as there are come first: of one class any number may do."""
    context.check_cancelled()
    predicted = forward(context.classifier.logits, images).argmax(1).tolist()
    turns = [predicted[:at].count(of) for at, of in enumerate(predicted)]
    return images[sorted(range(len(images)), key=turns.__getitem__)]


def _half_drawn(params: UncertaintySpanParams, context: ImageContext, images: Tensor, purpose: str) -> Tensor:
    """Return images, every other one of them drawn from the ball around it."""
    mixed = _drawn(params, context, images, purpose)
    mixed[::2] = images.detach()[::2]
    return mixed


def _drawn(params: UncertaintySpanParams, context: ImageContext, images: Tensor, purpose: str) -> Tensor:
    """Return an image drawn from the ball around each."""
    region = make_region(params.norm, images.detach(), params.epsilon, box_of(context.classifier))
    return region.draw(context.generators(purpose, list(range(len(images)))))
