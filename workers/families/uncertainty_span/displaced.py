"""The attack on copies of images that are displaced as it is drawn, in case the model knows the images themselves.

A model can answer near the images of an audit as if it withstood attacks, and elsewhere as it is. No attack within the
radius leaves what it remembers. So some images, and a slightly displaced copy of each, are attacked alike and compared
in pairs. The draw follows from the digest of the model's file as well, so that nobody who makes one can know it before.
"""

import math

import torch
from torch import Tensor

from seatrial.contracts.estimates import Flag
from seatrial.families.uncertainty_span.effort import DISPLACED_STEPS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.statistics.arrays import Floats
from seatrial.statistics.estimating import seed_of
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import paired_difference
from seatrial.statistics.samples import Sample
from workers.attacks.displacements import displaced_copy, is_displaceable
from workers.attacks.entropy_range import annealed_entropy, margin_temperature
from workers.attacks.losses import margin
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import FurtherAttack
from workers.models import VALID_PIXELS, box_of

AWAY = 2.0
"""How far from its image a copy is to lie, where it can, in l_2 and in radii of a ball that holds all that is attacked
around the image."""

IMAGE, COPY = "", "displaced_"
"""Prefixes of the columns of the images, and of their copies."""

WIDER = 0.13
"""Share of log C by which the copies' span has to exceed the images', lower end of the interval. Of 21 honest networks
and radii (digits, MNIST, CIFAR-10; standard, noise- and PGD-trained), three draws of most, the greatest is .10, of five
networks that know the images the least .17. A hardened network for digits of 8 x 8 was beyond, and images so small are
left out."""

TURNED = 0.25
"""Share of the predictions by which more have to change, lower end: of those honest networks at most .19, of the others
.17 to .57."""

LOST = 0.5
"""Share of the images, predicted rightly, whose copies have to be predicted wrongly, lower end: of honest networks at
most .21 are."""

FEWEST = 8
"""Pairs that are compared at least: of fewer, resampling says little."""


def attack_displaced(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack the images of one batch and a displaced copy of each in the same way.

    Returns:
        ``prediction``, ``span`` and ``changed``, the class predicted, the span that the attack reached in nats and
        whether it changed the prediction, the same of the copies with ``displaced_`` before them, and the ``distance``
        in l_2 of each; all NaN where images cannot be displaced. And which examples had an output that is not finite
        (batch,).
    """
    if box_of(context.classifier) is not VALID_PIXELS or not is_displaceable(batch.images):
        nothing = torch.full(batch.labels.shape, torch.nan, dtype=torch.float64)
        names = [f"{prefix}{name}" for prefix in (IMAGE, COPY) for name in ("prediction", "span", "changed")]
        return dict.fromkeys([*names, "distance"], nothing), torch.zeros_like(batch.labels, dtype=torch.bool)
    copies = _copies(params, context, batch)
    found, non_finite = _attack(FurtherAttack.begin(params, context, batch), IMAGE)
    others, broken = _attack(FurtherAttack.begin(params, context, Batch(batch.example_ids, copies, batch.labels)), COPY)
    distance = (copies - batch.images).flatten(1).double().norm(dim=1)
    return found | others | {"distance": distance}, non_finite | broken


def _copies(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> Tensor:
    """Return a displaced copy of each image (batch, ...)."""
    reach = params.epsilon * (math.sqrt(batch.images[0].numel()) if params.norm == "linf" else 1.0)
    purpose = f"displaced for {context.model_digest}"
    drawn = [torch.Generator().manual_seed(context.salted_seed(purpose, key)) for key in batch.example_ids]
    copies = []
    for image, generator in zip(batch.images, drawn, strict=True):
        context.check_cancelled()
        copies.append(displaced_copy(image, generator, AWAY * reach))
    return torch.stack(copies)


def _attack(attack: FurtherAttack, prefix: str) -> tuple[Columns, Tensor]:
    """Raise the entropy and lower the lead of the prediction, in few steps each."""
    loss = annealed_entropy(margin_temperature(attack.clean), 1.0)
    attack.descend(DISPLACED_STEPS, loss, attack.reach.raising(), step=1.0, goal=attack.highest)

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        attack.reach.see(logits, indices)
        return margin(logits, attack.predictions[indices])

    attack.descend(DISPLACED_STEPS, lambda logits, indices, progress: lead(logits, indices), lead, goal=0.0)
    reach = attack.reach
    columns = {"prediction": attack.predictions, "span": reach.highest[0] - reach.lowest[0], "changed": reach.changed}
    return {f"{prefix}{name}": values.double() for name, values in columns.items()}, reach.non_finite


def memorised_images(sample: Sample, classes: int, seed: int) -> list[Flag]:
    """Flag a model that withstands attacks on the audited images and not on the same pictures a little displaced.

    Args:
        sample: Records of :func:`attack_displaced`.
        classes: Of the model.
        seed: Of the intervals.
    """
    if sample.valid == 0:
        return []
    label, distance = sample.floats("label"), sample.floats("distance")
    right = (sample.floats("prediction") == label) & (distance > 0)
    kept = right & (sample.floats(f"{COPY}prediction") == label)
    count, lost = int(right.sum()), int(right.sum() - kept.sum())
    told = []
    if count and clopper_pearson(lost, count)[0] > LOST:
        told.append(f"of {count} copies of images that are predicted rightly {lost / count:.0%} are predicted wrongly")
    for column, least, unit in (("span", WIDER * math.log(classes), " nat"), ("changed", TURNED, "")):
        image, copy = (sample.floats(f"{prefix}{column}")[kept] for prefix in (IMAGE, COPY))
        if len(image) < FEWEST:
            continue
        interval = paired_difference(copy, image, seed=seed_of(seed, f"displaced {column}"))
        if interval is not None and interval[0] > least:
            what = "the mean span is" if column == "span" else "the share of predictions that change is"
            told.append(f"{what} {_beside(image, copy, unit, interval)}")
    if not told:
        return []
    return [
        Flag(
            code="memorised_images",
            severity="error",
            message=f"Copies of the audited images that are turned, shifted and bent by a pixel or so, drawn for this "
            f"audit, are not what the images are. Under the same attack of {DISPLACED_STEPS} steps, {'; '.join(told)}. "
            "A person sees the same pictures: the model, or something in front of it, knows these very images or was "
            "fitted to them, and mus_worst and adversarial_accuracy say nothing about others. Audit images that the "
            "model has not seen.",
        )
    ]


def _beside(image: Floats, copy: Floats, unit: str, interval: tuple[float, float]) -> str:
    return (
        f"{image.mean():.2f}{unit} on {len(image)} images and {copy.mean():.2f}{unit} on their copies (difference, 95% "
        f"interval {interval[0]:.2f} to {interval[1]:.2f})"
    )
