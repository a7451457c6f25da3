"""The attack on images that are changed as a whole first, in case the model is another one there."""

import math
from itertools import chain

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.dormant import Group
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.transformations import STRIDES, to_stride, transformations
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.dormant import attack_switched, kept_groups, switching
from workers.families.uncertainty_span.further import CERTAIN, FurtherAttack
from workers.models import GREY_LEVELS, VALID_PIXELS
from workers.models.memory import forward

BEST = 4
"""Changed images of each example that are attacked further: the two least sure, and the two where the model's answer
moved most for how little the image did."""


Behind = tuple[list[Group], Tensor]
"""A group of units for each image of a batch, and the images (batch, ...) in which they are switched."""


def attack_transformed(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch after plain changes of the whole image, and after changes that switch a dormant unit.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies reached by the changes and few steps from there.
    """
    attack = FurtherAttack.begin(params, context, batch)
    alone, few = attack.reach.copy(), max(1, attack.budget.refine // 2)
    least_sure, surest, moved, behind = _change(attack, alone)
    ends = [attack.climb(few, starts, reach=alone).best for starts in (*least_sure, *moved)]
    attack.descend(
        few, lambda logits, indices, progress: entropy(logits), alone.lowering(), step=0.25, goal=CERTAIN, starts=surest
    )
    if behind is not None:
        attack_switched(attack, alone, few, *behind)
    if attack.box is VALID_PIXELS:
        for stride in STRIDES:
            _attack_on_stride(attack, alone, few, stride)
    attack.reach.take_in(alone)
    for images in ends[::2]:
        attack.climb(attack.budget.refine, images)
    return attack.columns(alone)


def _change(attack: FurtherAttack, alone: EntropyRange) -> tuple[Tensor, Tensor, Tensor, Behind | None]:
    """Return changed images: the least sure (2, batch, ...), the surest (batch, ...), and where the logits moved most.

    The last (2, batch, ...) are those of the largest change of the logits for the length of the image's. After them
    comes the group of units of each image that, switched, did that most, and where; None where there is none.
    """
    images, everyone = attack.batch.images, torch.arange(len(attack.clean), device=attack.clean.device)
    changed, entropies, ratios = [], [], []
    kept, again = kept_groups(attack.context), switching(attack.params, attack.context, images)
    switched = (again.run(attack.model, images, [group] * len(images)) for group in kept)
    for moved in chain(transformations(images, attack.region(), attack.params.epsilon), switched):
        logits = forward(attack.model, moved)
        entropies.append(alone.see(logits, everyone)[0])
        length = (moved - images).flatten(1).norm(dim=1).double()
        ratios.append((logits - attack.clean).double().norm(dim=1) / length.clamp_min(1e-9))
        changed.append(moved)
    stacked = torch.stack(changed)
    unsure = torch.stack(entropies).nan_to_num(nan=0.0)
    jumps = torch.stack(ratios).nan_to_num(nan=0.0, posinf=0.0)
    behind = None
    if kept:
        most = jumps[-len(kept) :].argmax(0)
        behind = [kept[at] for at in most.tolist()], stacked[-len(kept) :][most, everyone]
    return (
        stacked[unsure.argsort(dim=0, descending=True, stable=True)[: BEST // 2], everyone],
        stacked[unsure.argmin(dim=0), everyone],
        stacked[jumps.argsort(dim=0, descending=True, stable=True)[: BEST // 2], everyone],
        behind,
    )


def _attack_on_stride(attack: FurtherAttack, alone: EntropyRange, steps: int, stride: int) -> None:
    """Raise and lower the entropy among images whose grey levels skip; nothing where the radius has no room for it."""
    images, norm = attack.batch.images, attack.params.norm
    farthest = stride / 2 / GREY_LEVELS * (1.0 if norm == "linf" else math.sqrt(images[0].numel()))
    radius = attack.params.epsilon - farthest
    if radius < attack.params.epsilon / 2:
        return
    search = MomentumPGD(norm, radius, steps, box=attack.box)
    for loss, criterion, goal in (
        (lambda logits, indices, progress: -entropy(logits), alone.raising(), attack.highest),
        (lambda logits, indices, progress: entropy(logits), alone.lowering(), CERTAIN),
    ):
        search.run(
            lambda asked: attack.model(to_stride(asked, stride)),
            images,
            loss,
            criterion,
            goal=goal,
            check_cancelled=attack.context.check_cancelled,
        )
