"""Attacks along the gradients of a smoothed copy of the model, and a random search from where they end.

What is put in front of a network to mislead gradients (sawteeth, stairs) averages out over noisy copies of the input,
and so do units that are flat around the image itself, as those of adversarially trained networks are.
"""

from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.losses import cross_entropy, entropy, margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import CERTAIN, FurtherAttack


def attack_smoothed(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch along the mean gradients of noisy copies.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies reached along these gradients by themselves.
    """
    attack = FurtherAttack.begin(params, context, batch)
    alone = attack.reach.copy()
    for repeat in range(attack.budget.repeats):
        images = _attack(attack, alone, repeat)
        attack.reach.take_in(alone)
        images = attack.climb(attack.budget.refine, images)
        images = attack.ask_squares(
            max(1, attack.budget.queries // 2),
            attack.reach.raising(),
            f"smoothed squares {repeat}",
            goal=attack.highest,
            starts=images,
        )
        attack.climb(attack.budget.refine, images)
    return attack.columns(alone)


def _attack(attack: FurtherAttack, alone: EntropyRange, repeat: int) -> Tensor:
    """Return the least sure images (batch, ...): across the decision boundary, then towards the highest entropy."""
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
    under = attack.descend(
        steps,
        lambda logits, indices, progress: -entropy(logits),
        alone.raising(),
        goal=attack.highest,
        starts=across.best,
        noise=f"smoothed under {repeat}",
    )
    attack.descend(
        max(1, steps // 2),
        lambda logits, indices, progress: cross_entropy(logits, predictions[indices]),
        alone.lowering(),
        goal=CERTAIN,
        noise=f"smoothed over {repeat}",
    )
    return under.best
