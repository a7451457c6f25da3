"""What the network under audit computes inside: looked at once for a check, beside its dormant units."""

from torch import Tensor

from seatrial.families.uncertainty_span.effort import IDLE_EXAMPLES
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.idle import idle_functions
from workers.attacks.swings import swinging_functions
from workers.families.contexts import ImageContext
from workers.families.uncertainty_span.dormant import TOGETHER
from workers.models import box_of

IDLE, SWINGING = "idle", "swinging"
"""Columns of the surrogate's records, in its first row: functions of the network whose results decide about no image,
and those whose results swing many times within the radius. Records from before they were kept have none."""


def look_inside(params: UncertaintySpanParams, context: ImageContext, images: Tensor) -> dict[str, list[str]]:
    """Return both columns by name.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...), the first of which is the middle of the radius.
    """
    model, cancelled = context.classifier.logits, context.check_cancelled
    idle = idle_functions(model, images[:IDLE_EXAMPLES], batch_size=TOGETHER, check_cancelled=cancelled)
    box = box_of(context.classifier)
    swinging = swinging_functions(
        model, images[0], params.norm, params.epsilon, box, batch_size=TOGETHER, check_cancelled=cancelled
    )
    return {IDLE: list(dict.fromkeys(idle)), SWINGING: swinging}
