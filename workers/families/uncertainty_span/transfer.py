"""Attacks made on another model: where they do better than the white-box ones, gradients are masked (spec A.7)."""

import torch
from torch import Tensor

from workers.attacks.losses import entropy
from workers.attacks.pgd import PGD
from workers.errors import PreflightError
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.span import attack_with, over_confidence, under_confidence
from workers.models.memory import forward


def attack_transferred(search: PGD, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack the model ``transfer_model`` names and measure what its images do to the model under audit.

    The label the over-confidence attack holds on to is the audited model's prediction. The last and the best iterate on
    the other model are both tried, and the clean image.

    Returns:
        ``entropy_over`` and ``entropy_under`` of the audited model, and which examples had an output not finite.

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
    non_finite = ~clean.isfinite().all(1)
    columns = {}
    for arm, objective in (
        ("over", over_confidence(clean.argmax(1))),
        ("under", under_confidence(source.classes)),
    ):
        outcome = attack_with(search, context, batch, f"transfer_{arm}")(objective, source.logits)
        tried = [clean, forward(model, outcome.best), forward(model, outcome.final)]
        entropies = torch.stack([entropy(logits) for logits in tried])
        columns[f"entropy_{arm}"] = entropies.amin(0) if arm == "over" else entropies.amax(0)
        non_finite |= torch.stack([~logits.isfinite().all(1) for logits in tried]).any(0)
    return columns, non_finite
