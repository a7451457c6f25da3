"""The attack on temperature-scaled logits, for a softmax that saturates.

Where one logit leads by more than about 17 nats, a float32 softmax is exactly one-hot: its entropy is 0 all over the
ball except in a thin shell around the decision boundary, too thin for the steps of an attack to land in. Such a model
has no span to show and is not robust for it. Three things are done about it, example by example:

* the logits are divided by a temperature that brings the clean margin to ``CLEAN_MARGIN``, and attacked both ways;
* one more attack lowers the prediction's margin until that changes, and the segment back to the clean image is bisected
  for the decision boundary. There two classes tie, and at a tie the entropy of the *unmodified* model is at least
  log 2 whatever the scale of its logits. A float32 image gets only as near to a tie as its last bit lets it: with
  logits up to about 1e6 that is log 2 to two digits, beyond that less and less (of a small network 0.66 at worst with
  logits of 9e6, 0.003 with 9e7);
* the span of the scaled softmax is recorded beside it: how far the uncertainty moves once saturation does not hide it.
"""

import math

import torch
from torch import Tensor

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import EntropyRange, temperature_of
from workers.attacks.losses import cross_entropy, entropy, margin, uniform_cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.regions import bisect
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import reached_columns, temperatures_of
from workers.families.uncertainty_span.span import attack_with, make_search
from workers.models.memory import forward

BISECTIONS = 40
"""More than the 24 bits of a float32: the last points are neighbours in it."""


def attack_tempered(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch through its scaled logits.

    Returns:
        ``entropy_over`` and ``entropy_under`` of the unmodified model, the same at the calibrated temperature where
        there is one, which predictions were changed, ``scaled_entropy_`` of the scaled one in the three arms,
        ``temperature`` and ``crossed`` (the prediction could be changed); and which examples had an output that is not
        finite (batch,).
    """
    model, search = context.classifier.logits, make_search(params, context)
    clean = forward(model, batch.images)
    predictions, temperatures = clean.argmax(1), temperature_of(clean)

    def scaled(logits: Tensor, rows: Tensor) -> Tensor:
        return logits / temperatures[rows].unsqueeze(1)

    everyone = torch.arange(len(clean), device=clean.device)
    over = attack_with(search, context, batch, "tempered_over")(
        Objective(
            loss=lambda logits, indices: cross_entropy(scaled(logits, indices), predictions[indices]),
            criterion=lambda logits, indices: entropy(scaled(logits[:, 0], indices)),
            floor=0.0,
        )
    )
    under = attack_with(search, context, batch, "tempered_under")(
        Objective(
            loss=lambda logits, indices: uniform_cross_entropy(scaled(logits, indices)),
            criterion=lambda logits, indices: -entropy(scaled(logits[:, 0], indices)),
            floor=math.log(context.classifier.classes),
        )
    )
    # Uniform cross-entropy stops short of many boundaries that are in reach; this goes for the nearest. The margin does
    # not saturate and needs no scaling: it changes 81 % of predictions where the scaled cross-entropy changed 74 %
    # (an MNIST CNN, epsilon 0.1, 40 steps, 200 images).
    across = attack_with(search, context, batch, "tempered_across")(
        Objective(
            loss=lambda logits, indices: margin(logits, predictions[indices]),
            criterion=lambda logits, indices: margin(logits[:, 0], predictions[indices]),
            until=lambda logits, indices: margin(logits[:, 0], predictions[indices]) < 0,
        )
    )
    seen = [
        clean,
        under.best_logits[:, 0],
        under.final_logits[:, 0],
        across.best_logits[:, 0],
        *_walk_boundary(context, batch.images, across.best, predictions),
    ]
    over_logits = over.best_logits[:, 0]
    reach = EntropyRange(clean, temperatures_of(params, context))
    for logits in (over_logits, *seen):
        reach.see(logits, everyone)
    columns = reached_columns(reach) | {
        "scaled_entropy_clean": entropy(scaled(clean, everyone)),
        "scaled_entropy_over": entropy(scaled(over_logits, everyone)),
        "scaled_entropy_under": torch.stack([entropy(scaled(logits, everyone)) for logits in seen]).amax(0),
        "temperature": temperatures.double(),
        "crossed": across.reached,
    }
    return columns, ~clean.isfinite().all(1) | over.non_finite | under.non_finite | across.non_finite


def _walk_boundary(context: ImageContext, inside: Tensor, outside: Tensor, predictions: Tensor) -> list[Tensor]:
    """Bisect the segments between images (n, ...) for the point where ``predictions`` (n,) stop being predicted.

    Ball and box are convex, so every point is allowed. Where the prediction does not change the walk ends at
    ``outside``.

    Returns:
        Logits (n, classes) at every point looked at.
    """
    seen = list[Tensor]()

    def has_crossed(points: Tensor) -> Tensor:
        context.check_cancelled()
        seen.append(forward(context.classifier.logits, points))
        return margin(seen[-1], predictions) < 0

    bisect(inside, outside, BISECTIONS, has_crossed)
    return seen
