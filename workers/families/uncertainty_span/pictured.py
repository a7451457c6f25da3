"""Attacked images to look at: those of the examples an attacker can do most with, attacked once more and kept."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import INTEGRATED, STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.families.uncertainty_span.limits import pictured_examples
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from seatrial.families.uncertainty_span.records import CHANGE_STEPS, MOST_PIXELS
from seatrial.statistics.samples import Sample
from workers.attacks.entropy_range import annealed_entropy, margin_temperature
from workers.attacks.losses import entropy
from workers.attacks.regions import per_example
from workers.families.contexts import Batch, ImageContext, Records
from workers.families.uncertainty_span.estimates import widest
from workers.families.uncertainty_span.flags import is_saturated
from workers.families.uncertainty_span.further import CERTAIN, SURROGATE, FurtherAttack
from workers.families.uncertainty_span.levelled import is_levelled
from workers.families.uncertainty_span.records import measure
from workers.families.uncertainty_span.span import attack_with, make_search, over_confidence, under_confidence
from workers.models import GREY_LEVELS, VALID_PIXELS, box_of
from workers.models.memory import forward

_SCHEMA: dict[str, pa.DataType] = {
    "span": pa.float64(),
    **{f"{name}_{arm}": pa.float64() for arm in ARMS for name in ("entropy", "confidence")},
    **{f"prediction_{arm}": pa.int64() for arm in ARMS},
    **{name: pa.int64() for name in ("channels", "height", "width")},
    "pixels": pa.large_binary(),
    **{f"change_{arm}": pa.large_binary() for arm in ("over", "under")},
    **{f"step_{arm}": pa.float64() for arm in ("over", "under")},
}


def attack_to_show(
    params: UncertaintySpanParams, context: ImageContext, batch: Batch, spans: Mapping[int, float]
) -> Records:
    """Attack those of a batch once more that are among the sample's worst, and keep the images.

    Args:
        params: Of the check.
        context: Of the shard.
        batch: Some of its examples.
        spans: The worst of the whole sample, see :func:`worst`.

    Returns:
        A row per example, all null but for the worst. Of these ``span``, the widest that the audit's attacks reached in
        nats; what the model says of the image and of the surest and the least sure one found here; ``pixels``, the
        image as bytes (channels, height, width); and ``change_*``, what was added to it in steps of ``step_*``, as
        signed bytes of the same shape. Nothing is kept of what is no picture: tables, and images of other than one or
        three channels.
    """
    values: dict[str, list[Any]] = {name: [None] * len(batch.example_ids) for name in _SCHEMA}
    chosen = [row for row, example in enumerate(batch.example_ids) if example in spans]
    if chosen and _is_picture(context, batch.images):
        at = torch.tensor(chosen, device=batch.images.device)
        part = Batch([batch.example_ids[row] for row in chosen], batch.images[at], batch.labels[at])
        for row in chosen:
            values["span"][row] = spans[batch.example_ids[row]]
        for name, found in _describe(params, context, part).items():
            for place, row in enumerate(chosen):
                values[name][row] = found[place]
    rows = {
        "example_id": pa.array(batch.example_ids, pa.int64()),
        "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
        "errored": pa.array([False] * len(batch.example_ids), pa.bool_()),
    }
    return pa.table(rows | {name: pa.array(values[name], kind) for name, kind in _SCHEMA.items()})


def worst(params: UncertaintySpanParams, context: ImageContext) -> dict[int, float]:
    """Return the widest spans of the sample by example; it reads all records, so once for all batches."""
    attack = Sample(context.records("attack"))
    others = [*STAGES, TRANSFORMED, INTEGRATED] if params.effort != "quick" else []
    others += [LEVELLED] if others and is_levelled(context.records(SURROGATE)) else []
    others += ["tempered"] if is_saturated(attack) else []
    others += ["transfer"] if params.transfer_model is not None else []
    spans = widest(attack, {name: Sample(context.records(name)) for name in others})
    order = np.argsort(-spans, kind="stable")[: pictured_examples(len(spans))]
    return {int(np.asarray(attack["example_id"])[at]): float(spans[at]) for at in order}


def _is_picture(context: ImageContext, images: Tensor) -> bool:
    shape = images.shape[1:]
    return (
        len(shape) == 3
        and shape[0] in (1, 3)
        and shape.numel() <= MOST_PIXELS
        and box_of(context.classifier) is VALID_PIXELS
    )


def _describe(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> dict[str, list[Any]]:
    shown = {"clean": batch.images, **_attack(params, context, batch)}
    columns: dict[str, list[Any]] = {}
    for arm, images in shown.items():
        columns |= {
            name: found.cpu().tolist()
            for name, found in measure(forward(context.classifier.logits, images), arm).items()
            if name in _SCHEMA
        }
        if arm != "clean":
            columns |= _changes(arm, (images.double() - batch.images.double()).cpu().numpy())
    pixels = (batch.images.double() * GREY_LEVELS).round().cpu().numpy().astype(np.uint8)
    size = dict(zip(("channels", "height", "width"), batch.images.shape[1:], strict=True))
    columns |= {name: [length] * len(pixels) for name, length in size.items()}
    return columns | {"pixels": [image.tobytes() for image in pixels]}


def _changes(arm: str, changes: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, list[Any]]:
    largest = np.abs(changes).reshape(len(changes), -1).max(axis=1)
    steps = np.where(largest > 0, largest, 1.0) / CHANGE_STEPS
    signed = np.rint(changes / steps.reshape(-1, 1, 1, 1)).astype(np.int8)
    return {f"change_{arm}": [one.tobytes() for one in signed], f"step_{arm}": steps.tolist()}


def _attack(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> dict[str, Tensor]:
    """Return the surest and the least sure images (batch, ...) of the paper's attacks and one each of the further."""
    model, images = context.classifier.logits, batch.images
    predictions = forward(model, images).argmax(1)
    search = make_search(params, context)
    lowering = [attack_with(search, context, batch, "over")(over_confidence(predictions)).best]
    raising = [attack_with(search, context, batch, "under")(under_confidence(context.classifier.classes)).best]
    if params.effort != "quick":
        attack = FurtherAttack.begin(params, context, batch)
        budget, up, down = attack.budget, attack.reach.raising(), attack.reach.lowering()
        loss = annealed_entropy(margin_temperature(attack.clean), 1.0)
        raising.append(attack.descend(budget.climb, loss, up, step=1.0, goal=attack.highest).best)
        raising.append(attack.climb(budget.refine, attack.anneal("pictures")).best)
        asked = attack.ask_squares(budget.queries, up, "pictures under", goal=attack.highest, starts=None, levels=True)
        raising += [asked, attack.climb(budget.refine, asked).best]
        lowering.append(
            attack.descend(budget.sure, lambda logits, indices, progress: entropy(logits), down, goal=CERTAIN).best
        )
        fewer = max(1, budget.queries // 5)
        lowering.append(attack.ask_squares(fewer, down, "pictures over", goal=CERTAIN, starts=None, levels=True))
    return {
        "over": _best(context, images, lowering, sign=1.0),
        "under": _best(context, images, raising, sign=-1.0),
    }


def _best(context: ImageContext, images: Tensor, found: Iterable[Tensor], *, sign: float) -> Tensor:
    """Return by example the image of least ``sign`` times entropy, the unattacked one included."""
    best, value = images, sign * entropy(forward(context.classifier.logits, images))
    for other in found:
        reached = sign * entropy(forward(context.classifier.logits, other))
        is_better = reached < value
        best, value = torch.where(per_example(is_better, best), other, best), torch.where(is_better, reached, value)
    return best
