"""Dormant units of the model under audit: found once for a check, and switched among the plain changes of an image."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import (
    DORMANT_KEPT,
    DORMANT_REFERENCES,
    DORMANT_STEPS,
    REACHED_IMAGES,
    REACHED_POINTS,
    REACHED_STEPS,
    TOGETHER,
    Budget,
    budget,
)
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.dormant import Group, Switching, Unit, dormant_units, groups_of, reached_units
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.gradients import input_gradient
from workers.attacks.losses import entropy
from workers.attacks.regions import make_region
from workers.families.contexts import ImageContext
from workers.families.uncertainty_span.further import SURROGATE, FurtherAttack, pixel_radius
from workers.families.uncertainty_span.records import first_of
from workers.models import box_of

DORMANT = "dormant_units"
"""Column of the surrogate's records, in its first row: of each group of units that are switched together, place,
channel and sign of each, one after the other. Records from before it was kept have none."""

FIRST = 0.25
"""Length of the first half of the steps of an attack behind units that are switched, as a share of the radius; the
others are half as long."""

UNFOLLOWED = "unfollowed"
"""Column beside it: functions of the network behind which none could be looked for."""


def find_dormant(
    params: UncertaintySpanParams, context: ImageContext, images: Tensor, steps: Budget
) -> tuple[list[list[int]], list[str]]:
    """Return the groups of dormant units whose switching moves the model's answer most, as they are recorded.

    Beside them the functions behind which none could be looked for.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...) that switch no dormant unit; groups of units are tried on the first of them.
        steps: Groups tried, and channels looked at.
    """
    model, most, check = context.classifier.logits, steps.dormant, context.check_cancelled
    units, cut = dormant_units(model, images, most, batch_size=TOGETHER, check_cancelled=check)
    drawn = [torch.Generator().manual_seed(number) for number in range(min(REACHED_IMAGES, len(images)))]
    region = make_region(params.norm, images[: len(drawn)], params.epsilon, box_of(context.classifier))
    reached = reached_units(
        model,
        images[:TOGETHER],
        steps.reached,
        params.norm,
        steps.channels,
        region.draw(drawn),
        check_cancelled=check,
    )
    alone: list[Group] = [(unit,) for unit in reached]
    groups = groups_of(units, most)[: most - len(reached)], alone
    # The last place is for what no image need leave dormant: it moves the answers of any network.
    decisive = list[Group]()
    for some, places in zip(groups, (DORMANT_KEPT - 1, DORMANT_KEPT), strict=True):
        decisive += switching(params, context, images).most_decisive(
            model, images[:DORMANT_REFERENCES], some, places - len(decisive), batch_size=TOGETHER
        )
    kept = [[number for unit in group for number in (unit.place, unit.channel, unit.sign)] for group in decisive]
    return kept, sorted(cut)


def switching(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> Switching:
    """Return how a check switches units of images (n, ...)."""
    steps = budget(params.effort, params.steps)
    return Switching(
        params.norm,
        params.epsilon,
        DORMANT_STEPS,
        box_of(context.classifier),
        context.check_cancelled,
        min(params.epsilon, pixel_radius(params, images)),
        REACHED_POINTS,
        REACHED_STEPS,
        [] if steps is None else steps.along_lengths,
    )


def kept_groups(context: ImageContext) -> list[Group]:
    """Return the groups of units that the check found, the most decisive first."""
    kept = first_of(context.records(SURROGATE), DORMANT) or []
    return [
        tuple(Unit(*fields) for fields in zip(numbers, numbers, numbers, strict=True)) for numbers in map(iter, kept)
    ]


def attack_switched(
    attack: FurtherAttack, alone: EntropyRange, steps: int, groups: Sequence[Group], starts: Tensor
) -> None:
    """Raise and lower the entropy where a group of units is switched: after every step they are switched again.

    Args:
        attack: On a batch.
        alone: Sees every image.
        steps: Up, and as many down.
        groups: One for each image.
        starts: (batch, ...) where they are switched.
    """
    images, everyone = attack.batch.images, torch.arange(len(groups), device=starts.device)
    again, region = switching(attack.params, attack.context, images), attack.region()
    for sign in (-1.0, 1.0):
        found = starts
        for number in range(steps + 1):
            found = found.detach().requires_grad_(True)
            with torch.enable_grad():
                logits = attack.model(found)
                value = sign * entropy(logits)
            alone.see(logits.detach(), everyone)
            if number == steps:
                break
            gradient = input_gradient(value, found).nan_to_num(nan=0.0)
            length = FIRST if number < steps / 2 else FIRST / 2
            moved = region.step(found.detach(), gradient, length * attack.params.epsilon)
            found = again.run(attack.model, images, groups, moved)
