"""Both attacks of the family on a model that gives no gradients: by its scores, and by its decisions alone."""

import math

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import BISECTIONS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.questions import questions
from seatrial.families.uncertainty_span.records import CHANGED
from workers.attacks.autoattack.balls import towards_origin
from workers.attacks.autoattack.rays import Rays
from workers.attacks.autoattack.square import Square
from workers.attacks.losses import entropy, margin
from workers.attacks.regions import bisect
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import CERTAIN, FIRST_SQUARES, LOST, PACE
from workers.families.uncertainty_span.prediction_sets import set_columns
from workers.families.uncertainty_span.records import measure
from workers.models import box_of, levels_of
from workers.models.memory import forward

QUERIES = "queries"
"""Column of the records of a model that gave no gradients: questions an example may have cost; not there otherwise."""


class Extremes:
    """The outputs of least and greatest entropy that a model gave for each example, over every image asked about.

    Args:
        clean: (n, classes) logits of the clean images.

    Attributes:
        over: (n, classes) logits of least entropy.
        under: (n, classes) of greatest.
        non_finite: (n,) bool, some output was not finite.
        changed: (n,) bool, some prediction was another one than that of the clean image.
    """

    def __init__(self, clean: Tensor) -> None:
        self.over, self.under = clean.clone(), clean.clone()
        self._predictions = clean.argmax(1)
        self.changed = torch.zeros_like(self._predictions, dtype=torch.bool)
        self.non_finite = ~clean.isfinite().all(1)
        self._lowest, self._highest = entropy(clean), entropy(clean)

    def see(self, logits: Tensor, indices: Tensor) -> Tensor:
        """Take in logits (k, classes) of the examples at ``indices`` (k,); return their entropies (k,)."""
        found, finite = entropy(logits), logits.isfinite().all(1)
        self.non_finite[indices] |= ~finite
        self.changed[indices] |= finite & (logits.argmax(1) != self._predictions[indices])
        less, more = finite & (found < self._lowest[indices]), finite & (found > self._highest[indices])
        self.over[indices[less]], self._lowest[indices[less]] = logits[less], found[less]
        self.under[indices[more]], self._highest[indices[more]] = logits[more], found[more]
        return found


def attack_by_queries(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch both ways by random squares, by the margin, and by decisions alone.

    What crosses the decision boundary is walked back, by bisection, to where the entropy is greatest. A model behind
    8 bits is asked about images on them alone.

    Returns:
        The columns of :func:`workers.families.uncertainty_span.span.attack_spans`, of the best image of each arm,
        and ``queries``; and which examples had an output that is not finite (batch,).
    """
    asked, model = questions(params.effort, params.steps), context.classifier.logits
    levels, box = levels_of(context.classifier), box_of(context.classifier)
    clean = forward(model, batch.images)
    predictions, classes = clean.argmax(1), clean.shape[1]
    reached = Extremes(clean)

    def square(queries: int) -> Square:
        return Square(params.norm, params.epsilon, queries, p_init=FIRST_SQUARES, pace=PACE, box=box, levels=levels)

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        reached.see(logits, indices)
        return margin(logits, predictions[indices])

    def has_crossed(logits: Tensor, indices: Tensor) -> Tensor:
        reached.see(logits, indices)
        return logits.argmax(1) != predictions[indices]

    def generators(purpose: str) -> list[torch.Generator]:
        return context.generators(purpose, batch.example_ids)

    square(asked.up).search(
        model,
        batch.images,
        lambda logits, indices: -reached.see(logits, indices),
        goal=-(1 - LOST) * math.log(classes),
        generators=generators("queried under"),
        check_cancelled=context.check_cancelled,
    )
    square(asked.down).search(
        model,
        batch.images,
        reached.see,
        goal=CERTAIN,
        generators=generators("queried over"),
        check_cancelled=context.check_cancelled,
    )
    across = square(asked.cross).search(
        model,
        batch.images,
        lead,
        lambda logits, indices: logits.argmax(1) != predictions[indices],
        generators=generators("queried across"),
        check_cancelled=context.check_cancelled,
    )
    _walk_back(context, batch.images, across.images, across.broken, reached, predictions, levels)
    rays = Rays(params.norm, params.epsilon, asked.decide, box=box, levels=levels)
    decided = rays.run(model, batch.images, has_crossed, check_cancelled=context.check_cancelled)
    _walk_back(context, batch.images, decided.images, decided.broken, reached, predictions, levels)
    columns: Columns = {}
    for arm, logits in (("clean", clean), ("over", reached.over), ("under", reached.under)):
        columns |= measure(logits, arm) | set_columns(params, logits, arm)
    columns |= {
        "is_saturated": clean.float().softmax(1).amax(1) == 1,
        "classes": torch.full_like(batch.labels, classes),
        QUERIES: torch.full_like(batch.labels, asked.total),
        "crossed": across.broken | decided.broken,
        CHANGED: reached.changed,
    }
    start = margin(clean.double(), predictions)
    for arm, logits, sign in (("over", reached.over, 1), ("under", reached.under, -1)):
        columns[f"advance_{arm}"] = sign * (margin(logits.double(), predictions) - start)
        columns[f"best_entropy_{arm}"] = entropy(logits)
        columns[f"zero_gradient_share_{arm}"] = torch.zeros_like(start)
        columns[f"gain_{arm}"] = sign * (entropy(clean) - entropy(logits))
    return columns, reached.non_finite


def _walk_back(
    context: ImageContext,
    inside: Tensor,
    outside: Tensor,
    crossed: Tensor,
    reached: Extremes,
    predictions: Tensor,
    levels: int | None,
) -> None:
    """Bisect the way from the images that crossed back to the clean ones for the decision boundary."""
    indices = crossed.nonzero().squeeze(1)
    if not len(indices):
        return
    origin = inside[indices]

    def is_across(points: Tensor) -> Tensor:
        context.check_cancelled()
        asked = points if levels is None else towards_origin(points, origin, levels)
        logits = forward(context.classifier.logits, asked)
        reached.see(logits, indices)
        return logits.argmax(1) != predictions[indices]

    bisect(origin, outside[indices], BISECTIONS, is_across)
