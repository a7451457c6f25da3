"""The strongest attacks on entropy by plain gradients: what ``mus_worst`` adds to the paper's two.

The paper's under-confidence attack descends the cross-entropy from the uniform distribution, which has the optimum of
the entropy and another way there: on ordinary networks it stops at 0.75 to 0.82 of the span that ascent of the entropy
itself reaches.
"""

import math
from functools import partial

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import annealed_entropy, margin_temperature
from workers.attacks.losses import cross_entropy, entropy, margin
from workers.attacks.regions import bisect
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import CERTAIN, FurtherAttack
from workers.models.memory import forward

NEAR_ONE = 1.2
"""Factor either side of 1 within which the calibrated temperature is no other: attacks on one do for both."""


def attack_by_ascent(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch: entropy ascent from several starts, walks to the boundary, and towards sure classes.

    Returns:
        ``entropy_over`` and ``entropy_under`` of the unmodified model and, with ``calibrated_`` before them, of its
        calibrated logits, and ``changed``, whether any image asked about was predicted otherwise than the clean one;
        and which examples had an output that is not finite (batch,).
    """
    attack = FurtherAttack.begin(params, context, batch)
    _raise(attack)
    for rank in range(1, min(1 + attack.budget.walks, attack.classes)):
        walk(attack, rank)
    _lower(attack)
    if len(attack.temperatures) > 1 and abs(math.log(attack.temperatures[1])) > math.log(NEAR_ONE):
        _attack_calibrated(attack, attack.temperatures[1])
    return attack.columns()


def _raise(attack: FurtherAttack) -> None:
    """Raise the entropy from the clean image and from random points, through temperatures that fall to 1."""
    loss = annealed_entropy(margin_temperature(attack.clean), 1.0)
    steps, criterion = attack.budget.climb, attack.reach.raising()
    attack.descend(steps, loss, criterion, step=1.0, goal=attack.highest)
    for start in range(attack.budget.starts):
        drawn = attack.region().draw(attack.generators(f"ascent {start}"))
        attack.descend(steps, loss, criterion, goal=attack.highest, starts=drawn)


def walk(attack: FurtherAttack, rank: int) -> None:
    """Cross the decision boundary, bisect the way back for it, and raise the entropy from there.

    Args:
        attack: On a batch.
        rank: 1 crosses to whatever class is nearest, which is the runner-up or soon found; others, to the class at
            that rank of the clean logits.
    """
    predictions = attack.predictions
    towards = None if rank == 1 else attack.likeliest(rank)

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        if towards is None:
            return margin(logits, predictions[indices])
        ends = torch.stack([predictions[indices], towards[indices]], 1)
        own, other = logits.gather(1, ends).unbind(1)
        return own - other

    def criterion(logits: Tensor, indices: Tensor) -> Tensor:
        attack.reach.see(logits, indices)
        return lead(logits, indices)

    found = attack.descend(
        attack.budget.cross, lambda logits, indices, progress: lead(logits, indices), criterion, goal=0.0
    )
    everyone = torch.arange(len(predictions), device=predictions.device)

    def has_crossed(points: Tensor) -> Tensor:
        attack.context.check_cancelled()
        logits = forward(attack.model, points)
        attack.reach.see(logits, everyone)
        return lead(logits, everyone) < 0

    _, outside = bisect(attack.batch.images, found.best, attack.budget.bisections, has_crossed)
    attack.climb(attack.budget.refine, outside)


def _lower(attack: FurtherAttack) -> None:
    """Lower the entropy itself, and the cross-entropy of the likeliest classes, one by one."""
    budget, criterion = attack.budget, attack.reach.lowering()
    attack.descend(budget.sure, lambda logits, indices, progress: entropy(logits), criterion, goal=CERTAIN)
    for rank in range(1, min(1 + budget.targets, attack.classes)):
        loss = partial(_towards, attack.likeliest(rank))
        attack.descend(max(1, budget.sure // 3), loss, criterion, goal=CERTAIN)


def _towards(targets: Tensor, logits: Tensor, indices: Tensor, progress: float) -> Tensor:
    return cross_entropy(logits, targets[indices])


def _attack_calibrated(attack: FurtherAttack, temperature: float) -> None:
    """Raise and lower the entropy of the calibrated logits: they may be far from those served."""
    loss = annealed_entropy(margin_temperature(attack.clean), temperature)
    attack.descend(attack.budget.climb, loss, attack.reach.raising(1), step=1.0, goal=attack.highest)
    attack.descend(
        attack.budget.sure,
        lambda logits, indices, progress: entropy(logits.double() / temperature),
        attack.reach.lowering(1),
        goal=CERTAIN,
    )
