"""The passes of the model under audit, and the parts of its entropy in the arms of the paper's two attacks."""

from collections.abc import Callable
from typing import cast

from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.parts import PARTS
from workers.families.contexts import Columns, ImageContext
from workers.models.image_classifier import ImageClassifier
from workers.models.memory import forward


def logits_of_passes(context: ImageContext) -> Callable[[Tensor], Tensor]:
    """Return what gives logits (batch, passes, classes), differentiable; preflight has seen that there are several."""
    return cast(ImageClassifier, context.classifier).logits_of_passes


def arm_columns(params: UncertaintySpanParams, context: ImageContext, images: Tensor, arm: str) -> Columns:
    """Return the parts asked for at images (batch, ...) of an arm; nothing where none is."""
    if not params.parts:
        return {}
    logits = forward(logits_of_passes(context), images)
    return {f"{part}_{arm}": PARTS[part](logits) for part in params.parts}
