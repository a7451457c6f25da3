"""Attacks along the gradients of a smoothed copy of the model, and plain ascent from where they end.

What is put in front of a network to mislead gradients (sawteeth, stairs) averages out over noisy copies of the input,
and so do units that are flat around the image itself, as those of adversarially trained networks are. Noise that
narrows on the way finds what only large changes wake.
"""

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.losses import cross_entropy, margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import CERTAIN, FurtherAttack
from workers.models.memory import forward


def attack_smoothed(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch along the mean gradients of noisy copies.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies reached along these gradients by themselves.
    """
    attack = FurtherAttack.begin(params, context, batch)
    alone = attack.reach.copy()
    for repeat in range(attack.budget.repeats):
        ends = _attack(attack, alone, repeat)
        attack.reach.take_in(alone)
        for images in ends:
            attack.climb(attack.budget.refine, images)
    return attack.columns(alone)


def _attack(attack: FurtherAttack, alone: EntropyRange, repeat: int) -> list[Tensor]:
    """Return images (batch, ...) to go on from: where a way across the decision boundary ends, and two ascents.

    What is flat around the image is not there. The ascents go through noise that narrows, the second from where the
    first ended: of a PGD-trained MNIST model in l_2 2, one and 30 plain steps from its end reach 1.4 nat with half the
    passes of the way across, which comes to 0.9.
    """
    predictions, steps = attack.predictions, attack.budget.smooth

    def criterion(logits: Tensor, indices: Tensor) -> Tensor:
        alone.see(logits, indices)
        return margin(logits, predictions[indices])

    across = attack.descend(
        steps,
        lambda logits, indices, progress: margin(logits, predictions[indices]),
        criterion,
        goal=0.0,
        noise=f"smoothed across {repeat}",
    )
    everyone = torch.arange(len(predictions), device=predictions.device)
    far = attack.anneal(f"smoothed far {repeat}")
    near = attack.anneal(f"smoothed near {repeat}", far)
    for images in (far, near):
        alone.see(forward(attack.model, images), everyone)
    attack.descend(
        max(1, steps // 2),
        lambda logits, indices, progress: cross_entropy(logits, predictions[indices]),
        alone.lowering(),
        goal=CERTAIN,
        noise=f"smoothed over {repeat}",
    )
    return [across.final, far, near]
