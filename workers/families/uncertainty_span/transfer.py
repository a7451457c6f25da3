"""Attacks made on another model: where they do better than the white-box ones, gradients are masked (spec A.7)."""

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import EntropyRange
from workers.errors import PreflightError
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import reached_columns, temperatures_of
from workers.families.uncertainty_span.span import attack_with, make_search, over_confidence, under_confidence
from workers.models.memory import forward


def attack_transferred(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack the model ``transfer_model`` names and measure what its images do to the model under audit.

    The label the over-confidence attack holds on to is the audited model's prediction. The last and the best iterate on
    the other model are both tried, and the clean image.

    Returns:
        ``entropy_over`` and ``entropy_under`` of the audited model, the same at its calibrated temperature where there
        is one, and which predictions were changed; and which examples had an output that is not finite.

    Raises:
        PreflightError: The two models have different numbers of classes.
    """
    source = context.model("transfer_model")
    if source.classes != context.classifier.classes:
        raise PreflightError(
            "transfer-model-mismatch",
            "The transfer model does not fit",
            f"it has {source.classes} classes, the audited model {context.classifier.classes}; both need the same",
            field="transfer_model",
        )
    model = context.classifier.logits
    clean = forward(model, batch.images)
    reach = EntropyRange(clean, temperatures_of(params, context))
    everyone = torch.arange(len(clean), device=clean.device)
    search = make_search(params, context)
    for arm, objective in (
        ("over", over_confidence(clean.argmax(1))),
        ("under", under_confidence(source.classes)),
    ):
        outcome = attack_with(search, context, batch, f"transfer_{arm}")(objective, source.logits)
        for images in (outcome.best, outcome.final):
            reach.see(forward(model, images), everyone)
    return reached_columns(reach), reach.non_finite
