"""The over-confidence and under-confidence attacks and the span between them (Ledda et al., sec. III)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.losses import cross_entropy, entropy, margin, uniform_cross_entropy
from workers.attacks.objectives import Objective, Outcome
from workers.attacks.pgd import PGD
from workers.attacks.regions import per_example
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.passes import arm_columns
from workers.families.uncertainty_span.prediction_sets import set_columns
from workers.families.uncertainty_span.records import measure
from workers.models import box_of
from workers.models.memory import forward


def over_confidence(predictions: Tensor) -> Objective:
    """Return the objective of STAB: least cross-entropy to the clean prediction (eq. 10), ranked by least entropy.

    Args:
        predictions: (batch,) argmax of the clean output, fixed for the whole attack.
    """
    return Objective(
        loss=lambda logits, indices: cross_entropy(logits, predictions[indices]),
        criterion=lambda logits, indices: entropy(logits[:, 0]),
        floor=0.0,
    )


def under_confidence(classes: int) -> Objective:
    """Return the objective of the under-confidence attack: uniform cross-entropy (eq. 11), ranked by greatest entropy.

    It is not the gradient of the entropy; the optimum is the same. It may change the prediction.
    """
    return Objective(
        loss=lambda logits, indices: uniform_cross_entropy(logits),
        criterion=lambda logits, indices: -entropy(logits[:, 0]),
        floor=math.log(classes),
    )


def make_search(params: UncertaintySpanParams, context: ImageContext, epsilon: float | None = None) -> PGD:
    """Return the check's search of the model under audit; at another radius the step shrinks or grows with it."""
    radius = params.epsilon if epsilon is None else epsilon
    return PGD(
        norm=params.norm,
        epsilon=radius,
        step_size=params.resolved_step_size * radius / params.epsilon,
        steps=params.steps,
        random_start=params.random_start,
        restarts=params.restarts,
        box=box_of(context.classifier),
    )


def attack_with(search: PGD, context: ImageContext, batch: Batch, purpose: str) -> Callable[..., Outcome]:
    """Return ``search.run`` on the batch's images, with its random starts for ``purpose``, stopping when cancelled."""
    generators = context.generators(purpose, batch.example_ids) if search.random_start else None

    def run(objective: Objective, model: Callable[[Tensor], Tensor] = context.classifier.logits) -> Outcome:
        return search.run(
            [model], batch.images, objective, generators=generators, check_cancelled=context.check_cancelled
        )

    return run


def attack_spans(
    params: UncertaintySpanParams, search: PGD, context: ImageContext, batch: Batch
) -> tuple[Columns, Tensor]:
    """Attack one batch both ways.

    Returns:
        What is recorded of the arms ``clean``, ``over`` and ``under``; ``best_entropy_`` of the best iterate, whatever
        the selection; ``advance_``, how far the lead of the clean prediction moved the attack's way, in logits, at the
        last or the best iterate; and which examples had an output that is not finite (batch,).
    """
    clean = forward(context.classifier.logits, batch.images)
    predictions = clean.argmax(1)
    over = attack_with(search, context, batch, "over")(over_confidence(predictions))
    under = attack_with(search, context, batch, "under")(under_confidence(context.classifier.classes))
    columns = _measure(params, clean, "clean") | arm_columns(params, context, batch.images, "clean")
    for arm, outcome in (("over", over), ("under", under)):
        images, logits = select(params, batch.images, outcome, lowers=arm == "over")
        columns |= _measure(params, logits, arm) | arm_columns(params, context, images, arm)
    columns |= {
        "is_saturated": clean.float().softmax(1).amax(1) == 1,
        "classes": torch.full_like(batch.labels, context.classifier.classes),
    }
    for arm, outcome, sign in (("over", over, 1), ("under", under, -1)):
        reached = [margin(logits[:, 0].double(), predictions) for logits in (outcome.final_logits, outcome.best_logits)]
        columns[f"advance_{arm}"] = (sign * (torch.stack(reached) - margin(clean.double(), predictions))).amax(0)
        columns[f"best_entropy_{arm}"] = entropy(outcome.best_logits[:, 0])
        columns[f"zero_gradient_share_{arm}"] = outcome.zero_gradient_steps.double() / outcome.steps.clamp_min(1)
        columns[f"gain_{arm}"] = outcome.start_value - outcome.best_value
    return columns, ~clean.isfinite().all(1) | over.non_finite | under.non_finite


def _measure(params: UncertaintySpanParams, logits: Tensor, arm: str) -> Columns:
    return measure(logits, arm) | set_columns(params, logits, arm)


def select(params: UncertaintySpanParams, clean: Tensor, outcome: Outcome, *, lowers: bool) -> tuple[Tensor, Tensor]:
    """Return the images (batch, ...) and their logits (batch, classes) that an attack is judged by.

    ``best_entropy``: those of the best iterate. ``final_or_clean``: of the last iterate, or of the clean image where
    the attack did not move the entropy its way (the authors' ``fix_values``, in their code and not in their text).
    """
    if params.selection == "best_entropy":
        return outcome.best, outcome.best_logits[:, 0]
    start, final = outcome.start_logits[:, 0], outcome.final_logits[:, 0]
    moved = entropy(final) - entropy(start)
    has_moved = moved < 0 if lowers else moved > 0
    images = torch.where(per_example(has_moved, clean), outcome.final, clean)
    return images, torch.where(has_moved.unsqueeze(1), final, start)
