"""Where a straight way out of each image first leaves its decision, and how much of the lead is left just before.

A lead of logits that means something shrinks to nothing where two classes tie: of a network that is linear along the
way it is used up in proportion. One that keeps its lead up to the very boundary answers by rote, and its confidence
says nothing of how near the boundary is, however alike all attacks find it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.losses import margin
from workers.attacks.regions import bisect, box_width, per_example
from workers.models import VALID_PIXELS, Box
from workers.models.memory import forward

DOUBLINGS = 9
"""Lengths of a way looked at, each half of the next, the last one as long as the box is wide."""

HALVINGS = 12
"""Points looked at between the longest way that keeps the decision and the next, which does not."""

BEFORE = 0.95
"""Share of the way to the boundary at which the lead is measured: nearer than what attacks take for the boundary, and
far from it by what the halvings leave open."""

PASSES = DOUBLINGS + HALVINGS + 2
"""Forward passes that each image costs, the clean one left out."""


def leads_before_crossing(
    model: Model,
    images: Tensor,
    directions: Tensor,
    logits: Tensor,
    *,
    box: Box = VALID_PIXELS,
    check_cancelled: Callable[[], None] = lambda: None,
) -> tuple[Tensor, Tensor]:
    """Return what share of the clean lead is left on the way to where the prediction first changes.

    Args:
        model: Images to logits.
        images: (n, ...) clean images in the box; not changed.
        directions: (n, ...) of which the way goes along the signs, every pixel as far as the box lets it.
        logits: (n, classes) of the clean images.
        box: Least and greatest valid pixel.
        check_cancelled: Called before every forward pass; may raise to stop.

    Returns:
        (n,) float64 shares at ``BEFORE`` of the way, and as near to its end as the halvings come, within 1 / 2,048 of
        it where it is 1 / 256 of the box's width or longer: 0 where the lead is used up, 1 where it is whole; NaN where
        the prediction does not change as far as the box goes, where the image has no lead, and where an output is not
        finite.
    """
    predictions, steps = logits.argmax(1), directions.sign()
    whole = margin(logits.double(), predictions)

    def lead(lengths: Tensor) -> Tensor:
        check_cancelled()
        asked = (images + per_example(lengths, images).to(images) * steps).clamp(*box)
        return margin(forward(model, asked).double(), predictions)

    inside = torch.zeros_like(whole)
    outside = torch.full_like(whole, torch.nan)
    for number in range(DOUBLINGS):
        length = torch.full_like(whole, box_width(box) / 2 ** (DOUBLINGS - 1 - number))
        has_crossed, is_open = lead(length) < 0, outside.isnan()
        outside = torch.where(is_open & has_crossed, length, outside)
        inside = torch.where(is_open & ~has_crossed, length, inside)
    crossed = ~outside.isnan()
    inside, _ = bisect(inside, outside.nan_to_num(), HALVINGS, lambda lengths: lead(lengths) < 0)
    before, at_end = lead(BEFORE * inside) / whole, lead(inside) / whole
    is_known = crossed & (whole > 0) & before.isfinite() & at_end.isfinite()
    return torch.where(is_known, before, torch.nan), torch.where(is_known, at_end, torch.nan)
