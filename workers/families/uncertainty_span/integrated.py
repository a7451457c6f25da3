"""The attack along gradients from all over the ball, in case the one at the image leads to the next hump alone."""

from collections.abc import Sequence

from torch import Tensor

from seatrial.families.uncertainty_span.effort import APART, GROUPS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.integrated import IntegratedSearch
from workers.attacks.losses import margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import FurtherAttack, pixel_radius


def attack_integrated(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Lower the lead of the predictions of one batch until they change.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns.
    """
    attack = FurtherAttack.begin(params, context, batch)
    budget = attack.budget

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        attack.reach.see(logits, indices)
        return margin(logits, attack.predictions[indices])

    search = IntegratedSearch(
        params.norm,
        params.epsilon,
        min(params.epsilon, pixel_radius(params, batch.images)),
        GROUPS,
        budget.points,
        budget.sweeps,
        apart=APART,
        sides=(block_sides(batch.images.shape[1:]),) * budget.blocks,
        box=attack.box,
    )
    search.run(
        attack.model,
        batch.images,
        lead,
        goal=0.0,
        generators=attack.generators("integrated"),
        check_cancelled=context.check_cancelled,
    )
    return attack.columns()


def block_sides(shape: Sequence[int]) -> tuple[int, int]:
    """Return the least and the greatest side of blocks of an image: from a quarter to half of its shorter side."""
    shorter = min(shape[-2:])
    return max(1, shorter // 4), max(1, shorter // 2)
