"""How a model's lead behaves on the way out of its decisions: whether its confidence means anything there.

The way is along the signs of the surrogate's gradient, so that no gradient of the model under audit is asked for, and
goes as far as it must: also that of a model which no attack within the radius changes.
"""

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.crossings import leads_before_crossing
from workers.attacks.losses import margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.distilled import fitted_surrogate
from workers.models import box_of
from workers.models.memory import forward

LEAD_LEFT = "lead_left"
"""Column of the records: share of the clean lead that is left shortly before the prediction changes, NaN if it does
not."""

LEAD_AT_END = "lead_at_end"
"""Column: the same as near to the change as was looked. Records from before it was measured have none."""


def look_at_crossings(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Measure one batch.

    Returns:
        ``lead_left`` and ``lead_at_end`` (:func:`workers.attacks.crossings.leads_before_crossing`), NaN too where no
        surrogate was fitted; and which examples had an output that is not finite (batch,).
    """
    clean = forward(context.classifier.logits, batch.images)
    surrogate = fitted_surrogate(context, batch.images, clean.shape[1])
    left = at_end = torch.full((len(clean),), torch.nan, dtype=torch.float64, device=clean.device)
    if surrogate is not None:
        images = batch.images.detach().requires_grad_(True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(margin(surrogate(images), clean.argmax(1)).sum(), images)
        left, at_end = leads_before_crossing(
            context.classifier.logits,
            batch.images,
            -gradient,
            clean,
            box=box_of(context.classifier),
            check_cancelled=context.check_cancelled,
        )
    return {LEAD_LEFT: left, LEAD_AT_END: at_end}, ~clean.isfinite().all(1)
