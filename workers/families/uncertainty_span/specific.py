"""Attacks on confidence that keep the prediction: ACE, (eta, omega)-ACE, maximum miscalibration, random confidence.

All keep the argmax of the clean image, so accuracy is unchanged by design and calibration alone suffers.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import SpecificAttack, UncertaintySpanParams
from workers.attacks.ace import ETA_OMEGA, eta_omega, keeps
from workers.attacks.gradients import input_gradient
from workers.attacks.losses import confidence, cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.regions import per_example
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.records import measure
from workers.families.uncertainty_span.span import attack_with, make_search
from workers.models import box_of
from workers.models.memory import forward, run_with_oom_split

ACE_EPSILON = 0.005
ACE_TRIES = 15
"""The published attack: first radius 0.005 in l_inf, halved until the prediction is kept, at most 15 times."""

AT_TARGET = 1e-3
"""The random-confidence attack is done with an example this near to its target."""


def attack_specific(
    name: SpecificAttack, params: UncertaintySpanParams, context: ImageContext, batch: Batch
) -> tuple[Columns, Tensor]:
    """Run one attack on one batch.

    Returns:
        Entropy, confidence, prediction and margin after the attack, ``moved`` (the image changed) and for the random
        attack ``target_confidence``; and which examples had an output that is not finite (batch,).
    """
    clean = forward(context.classifier.logits, batch.images)
    extra: Columns = {}
    if name == "ace":
        images, logits = ace(context, batch.images, batch.labels, clean)
        non_finite = ~logits.isfinite().all(1)
    else:
        if name in ETA_OMEGA:
            eta, omega = ETA_OMEGA[name]
            objective = eta_omega(eta, batch.labels if omega == "true" else clean.argmax(1), clean.argmax(1))
        elif name == "max_miscalibration":
            objective = maximum_miscalibration(batch.labels, clean.argmax(1))
        else:
            target = draw_targets(context, batch, context.classifier.classes)
            extra = {"target_confidence": target}
            objective = random_confidence(target, clean.argmax(1))
        outcome = attack_with(make_search(params, context), context, batch, name)(objective)
        images, logits, non_finite = outcome.best, outcome.best_logits[:, 0], outcome.non_finite
    moved = (images != batch.images).flatten(1).any(1)
    return measure(logits, "attacked") | {"moved": moved} | extra, ~clean.isfinite().all(1) | non_finite


def ace(context: ImageContext, images: Tensor, labels: Tensor, clean: Tensor) -> tuple[Tensor, Tensor]:
    """Attack confidence with one gradient and a shrinking step (ACE; Galil and El-Yaniv 2021, algorithm 1).

    Correct examples are made less confident, wrong ones more. The radius is the attack's own, not the check's.

    Args:
        context: Gives the classifier.
        images: (n, ...) clean images.
        labels: (n,) true labels.
        clean: (n, classes) clean logits.

    Returns:
        The first perturbed image that keeps the prediction, or the clean one, and its logits.
    """
    model = context.classifier.logits
    predictions = clean.argmax(1)

    def gradient_of(start: int, stop: int) -> Tensor:
        inputs = images[start:stop].detach().requires_grad_()
        # The cross-entropy has the softmax's gradient turned round and scaled: the same signs, without its underflow.
        loss = cross_entropy(model(inputs), predictions[start:stop])
        return -input_gradient(loss, inputs)

    raises = torch.cat(run_with_oom_split(gradient_of, 0, len(images))).sign()
    direction = raises * per_example(torch.where(predictions == labels, -1.0, 1.0), images)
    found, found_logits = images.clone(), clean.clone()
    waiting = torch.arange(len(images), device=images.device)
    epsilon, box = ACE_EPSILON, box_of(context.classifier)
    for _ in range(ACE_TRIES):
        context.check_cancelled()
        tried = (images[waiting] + epsilon * direction[waiting]).clamp(*box)
        logits = forward(model, tried)
        kept = logits.argmax(1) == predictions[waiting]
        found[waiting[kept]], found_logits[waiting[kept]] = tried[kept], logits[kept]
        waiting = waiting[~kept]
        if len(waiting) == 0:
            break
        epsilon *= 0.5
    return found, found_logits


def maximum_miscalibration(labels: Tensor, predictions: Tensor) -> Objective:
    """Return the objective that makes correct examples least confident and wrong ones most (Obadinma et al.).

    Deviates from the published code where that is at fault: the confidence attacked is always the predicted class's,
    and the perturbation is projected instead of dropped out and rescaled.

    Args:
        labels: (n,) true labels.
        predictions: (n,) clean predictions.
    """
    lowers = labels == predictions
    return Objective(
        loss=_toward(predictions, lambda logits, indices: ~lowers[indices]),
        criterion=lambda logits, indices: (
            confidence(logits[:, 0], predictions[indices]) * torch.where(lowers[indices], 1.0, -1.0)
        ),
        feasible=keeps(predictions),
    )


def random_confidence(target: Tensor, predictions: Tensor) -> Objective:
    """Return the objective that brings the confidence in the prediction to a drawn target (Obadinma et al.).

    Unlike the published code it heads for the target and stops there.

    Args:
        target: (n,) confidences.
        predictions: (n,) clean predictions.
    """

    def distance(logits: Tensor, rows: Tensor) -> Tensor:
        return (confidence(logits[:, 0], predictions[rows]) - target[rows]).abs()

    keep = keeps(predictions)
    return Objective(
        loss=_toward(predictions, lambda logits, indices: confidence(logits, predictions[indices]) <= target[indices]),
        criterion=distance,
        feasible=keep,
        until=lambda logits, indices: (distance(logits, indices) <= AT_TARGET) & keep(logits, indices),
    )


def draw_targets(context: ImageContext, batch: Batch, classes: int) -> Tensor:
    """Draw each example's target confidence from U(1/classes + 0.05, 0.99), float64 (n,)."""
    generators = context.generators("random_confidence_target", batch.example_ids)
    unit = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
    low = 1 / classes + 0.05
    return (low + unit * (0.99 - low)).to(batch.images.device)


def _toward(predictions: Tensor, raises: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss that raises the confidence in ``predictions`` where ``raises`` says so, and lowers it elsewhere.

    Past the decision boundary it always raises: the search turns round there and closes in on it from both sides.
    """

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        with torch.no_grad():
            up = raises(logits, rows) | (logits.argmax(1) != predictions[rows])
        value = cross_entropy(logits, predictions[rows])
        return torch.where(up, value, -value)

    return loss
