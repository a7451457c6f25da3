"""A search by scores alone, which a model cannot hide from by hiding its gradients."""

from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.losses import margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import CERTAIN, FurtherAttack


def attack_by_score(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch by random squares, with the entropy as their score (after Andriushchenko et al.), then the lead.

    The lead of the prediction is what decisions follow where the entropy does not, as where all images have one.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies reached without any gradient.
    """
    attack = FurtherAttack.begin(params, context, batch)
    alone = attack.reach.copy()

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        alone.see(logits, indices)
        return margin(logits, attack.predictions[indices])

    for repeat in range(attack.budget.repeats):
        images = attack.ask_squares(
            attack.budget.queries,
            alone.raising(),
            f"score under {repeat}",
            goal=attack.highest,
            starts=None,
            levels=True,
        )
        attack.ask_squares(
            max(1, attack.budget.queries // 5),
            alone.lowering(),
            f"score over {repeat}",
            goal=CERTAIN,
            starts=None,
            levels=True,
        )
        # From the image itself, since a search without a start stripes it all over first: a model may tell what is
        # changed by how much of it is.
        attack.ask_squares(
            attack.budget.across,
            lead,
            f"score across {repeat}",
            goal=-CERTAIN,
            starts=attack.batch.images,
            levels=True,
        )
        attack.reach.take_in(alone)
        attack.climb(attack.budget.refine, images)
    return attack.columns(alone)
