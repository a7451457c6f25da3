"""Dormant units of the model under audit: found once for a check, and switched among the plain changes of an image."""

from collections.abc import Iterator

from torch import Tensor

from seatrial.families.uncertainty_span.effort import (
    DORMANT_KEPT,
    DORMANT_REFERENCES,
    DORMANT_STEPS,
)
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.dormant import Switching, Unit, dormant_units, groups_of
from workers.families.contexts import ImageContext
from workers.models import box_of

DORMANT = "dormant_units"
"""Column of the surrogate's records, in its first row: of each group of units that are switched together, place,
channel and sign of each, one after the other. Records from before it was kept have none."""

TOGETHER = 8
"""Images looked at together: what goes through the network is kept for their gradients."""


def find_dormant(params: UncertaintySpanParams, context: ImageContext, images: Tensor, most: int) -> list[list[int]]:
    """Return the groups of dormant units whose switching moves the model's answer most, as they are recorded.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...) that switch no dormant unit; groups of units are tried on the first of them.
        most: Groups tried.
    """
    model = context.classifier.logits
    units = dormant_units(model, images, most, batch_size=TOGETHER, check_cancelled=context.check_cancelled)
    decisive = switching(params, context).most_decisive(
        model, images[:DORMANT_REFERENCES], groups_of(units, most), DORMANT_KEPT, batch_size=TOGETHER
    )
    return [[number for unit in group for number in (unit.place, unit.channel, unit.sign)] for group in decisive]


def switching(params: UncertaintySpanParams, context: ImageContext) -> Switching:
    """Return how a check switches units."""
    return Switching(params.norm, params.epsilon, DORMANT_STEPS, box_of(context.classifier), context.check_cancelled)


def with_units_switched(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> Iterator[Tensor]:
    """Yield images (n, ...) changed towards where one of the check's groups of dormant units after the other switches.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...).
    """
    fitted = context.records("surrogate")
    kept = fitted[DORMANT][0].as_py() if DORMANT in fitted.column_names else []
    for numbers in map(iter, kept):
        group = tuple(Unit(*fields) for fields in zip(numbers, numbers, numbers, strict=True))
        yield switching(params, context).run(context.classifier.logits, images, [group] * len(images))
