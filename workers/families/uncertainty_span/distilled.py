"""Attacks made on a surrogate that is fitted to the model's outputs during the audit, and carried over."""

from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import COPIES, Budget, budget
from seatrial.families.uncertainty_span.levelled import follow_steps
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.entropy_range import CLEAN_MARGIN, EntropyRange, annealed_entropy, margin_temperature
from workers.attacks.levels import VALUES, is_on_grid, values_of
from workers.attacks.losses import confidence, cross_entropy, margin
from workers.attacks.surrogate import BATCH, Distillation, Surrogate
from workers.families.contexts import Batch, Columns, ImageContext, Records
from workers.families.uncertainty_span.calibrated import calibrated_temperature
from workers.families.uncertainty_span.dormant import DORMANT, UNFOLLOWED, find_dormant
from workers.families.uncertainty_span.further import MARGIN, SURROGATE, FurtherAttack, pixel_radius
from workers.families.uncertainty_span.inner import (
    AGREEMENTS,
    COMPANY,
    IDLE,
    SLOPES,
    SWINGING,
    checked_gradients,
    differs_by_company,
    find_confinement,
    find_inner_scores,
    find_opening,
    left_of_slopes,
    look_inside,
)
from workers.families.uncertainty_span.levelled import (
    CONFINED,
    DISTORTED,
    DISTORTED_TYPE,
    GATE,
    GATE_TYPE,
    INNER,
    LEAKING,
    MEETING,
    MEETING_TYPE,
)
from workers.families.uncertainty_span.records import to_records, with_first
from workers.models import box_of
from workers.models.memory import forward

CONFIDENCE, CORRECT = "calibrated_confidence", "correct"
"""Columns of the records of the stage. Records from before they were kept have none."""


def fit_surrogate(params: UncertaintySpanParams, context: ImageContext) -> Records:
    """Learn of the model what later stages need: a surrogate, the temperature of its clean logits, its dormant units.

    Returns:
        A row per example: ``agrees`` (the surrogate predicts what the model does), ``temperature`` (null where the
        likelihood has no best one), ``calibrated_confidence`` of the prediction at it and whether that is ``correct``,
        the clean ``margin``, and in the first row the ``weights`` of the surrogate, the ``dormant_units`` of the
        model, the functions they could not be looked for behind (:mod:`workers.families.uncertainty_span.dormant`),
        what it computes inside (:mod:`workers.families.uncertainty_span.inner`), and the ``values`` of an image.

    Raises:
        ValueError: The effort of the parameters has no surrogate.
    """
    steps = budget(params.effort, params.steps)
    if steps is None:
        raise ValueError(f"effort {params.effort} has no surrogate")
    batch, model = context.together(), context.classifier.logits
    parts = []
    for part in torch.split(batch.images, BATCH):
        context.check_cancelled()
        parts.append(forward(model, part))
    clean = torch.cat(parts)
    is_finite = clean.isfinite().all(1)
    images, unit = batch.images[is_finite], pixel_radius(params, batch.images)
    box = box_of(context.classifier)
    agrees, weights = torch.zeros_like(is_finite), None
    if len(images):
        (generator,) = context.generators(SURROGATE, [0])
        surrogate = Distillation(
            params.norm, params.epsilon, [share * unit for share in COPIES], steps.rounds, steps.fit, box
        ).run(model, images, clean[is_finite], generator, batch_size=BATCH, check_cancelled=context.check_cancelled)
        weights = surrogate.flat().numpy()
        agrees[is_finite] = forward(surrogate, images).argmax(1) == clean[is_finite].argmax(1)
    temperature = calibrated_temperature(clean[is_finite], batch.labels[is_finite])
    rows = len(batch.example_ids)
    scaled = confidence(clean.double() / (temperature or 1.0), clean.argmax(1))
    margins = CLEAN_MARGIN * margin_temperature(clean.double())
    columns = {"agrees": agrees, CONFIDENCE: scaled, CORRECT: clean.argmax(1) == batch.labels, MARGIN: margins}
    table = to_records(batch, ~is_finite, columns)
    on_grid = bool(len(images)) and is_on_grid(images, box)
    table = table.append_column("on_grid", pa.array([on_grid] * rows, pa.bool_()))
    table = table.append_column("temperature", pa.array([temperature] * rows, pa.float64()))
    found = look_at(params, context, images, steps) | {VALUES: (values_of(images, box), pa.int64())}
    return with_first(table, found | {"weights": (weights, pa.list_(pa.float32()))})


def look_at(
    params: UncertaintySpanParams, context: ImageContext, images: Tensor, steps: Budget
) -> dict[str, tuple[Any, pa.DataType]]:
    """Return what the model is as a whole, by column, and the type of that.

    Args:
        params: Of the check.
        context: Of the shard.
        images: (n, ...) whose outputs are finite; of none nothing is found.
        steps: Of the effort.
    """
    names, numbers, measured = pa.list_(pa.string()), pa.list_(pa.list_(pa.int64())), pa.list_(pa.float64())
    types = {
        **{DORMANT: numbers, UNFOLLOWED: names, IDLE: names, SWINGING: names, INNER: numbers},
        **{GATE: GATE_TYPE, MEETING: MEETING_TYPE, LEAKING: pa.float64(), DISTORTED: DISTORTED_TYPE},
        CONFINED: pa.string(),
        **{COMPANY: pa.float64(), AGREEMENTS: measured, SLOPES: measured},
    }
    if not len(images):
        return {name: ([] if pa.types.is_list(kind) else None, kind) for name, kind in types.items()}
    units, cut = find_dormant(params, context, images, steps.among(len(images)))
    found: dict[str, Any] = {DORMANT: units, UNFOLLOWED: cut, **look_inside(params, context, images)}
    found[INNER] = find_inner_scores(params, context, images)
    found |= find_opening(params, context, images, follow_steps(steps))
    found[CONFINED] = find_confinement(params, context, images, follow_steps(steps))
    found[COMPANY] = differs_by_company(params, context, images)
    found[AGREEMENTS] = checked_gradients(params, context, images)
    found[SLOPES] = left_of_slopes(params, context, images)
    return {name: (found[name], kind) for name, kind in types.items()}


def fitted_surrogate(context: ImageContext, images: Tensor, classes: int) -> Surrogate | None:
    """Return the surrogate that the check fitted, on the images' device; None where no output was finite.

    Args:
        context: Of the shard.
        images: (n, channels, height, width) of the kind it learnt from.
        classes: Of the model under audit.
    """
    weights = context.records(SURROGATE)["weights"][0].values
    if weights is None:
        return None
    surrogate = Surrogate((images.shape[1], images.shape[2], images.shape[3]), classes)
    surrogate.load(torch.tensor(weights.to_numpy()))
    return surrogate.to(images.device)


def attack_distilled(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch of the surrogate, and show the model under audit where the attacks ended.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies of images that were made without asking the model.
    """
    attack = FurtherAttack.begin(params, context, batch)
    surrogate = fitted_surrogate(context, batch.images, attack.classes)
    if surrogate is None:
        return attack.columns(attack.reach.copy())
    under, over = _carry_over(attack, surrogate)
    alone = attack.reach.copy()
    attack.climb(attack.budget.refine, under)
    attack.descend(
        max(1, attack.budget.refine // 2),
        lambda logits, indices, progress: cross_entropy(logits, attack.predictions[indices]),
        attack.reach.lowering(),
        step=0.25,
        starts=over,
    )
    return attack.columns(alone)


def _carry_over(attack: FurtherAttack, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
    """Return the images (batch, ...) made on the surrogate of which the model is least and most sure."""
    own = forward(surrogate, attack.batch.images)
    of_surrogate, predictions = EntropyRange(own), attack.predictions
    steps = attack.budget.climb

    def lead(logits: Tensor, indices: Tensor) -> Tensor:
        return margin(logits, predictions[indices])

    climbed = attack.descend(
        steps, annealed_entropy(margin_temperature(own), 1.0), of_surrogate.raising(), model=surrogate
    )
    crossed = attack.descend(steps, lambda logits, indices, progress: lead(logits, indices), lead, model=surrogate)
    made_sure = attack.descend(
        steps,
        lambda logits, indices, progress: cross_entropy(logits, predictions[indices]),
        of_surrogate.lowering(),
        model=surrogate,
    )
    everyone = torch.arange(len(predictions), device=predictions.device)
    candidates = [attack.batch.images, climbed.best, climbed.final, crossed.best, made_sure.best, made_sure.final]
    entropies = torch.stack(
        [attack.reach.see(forward(attack.model, images), everyone)[0] for images in candidates]
    ).nan_to_num(nan=0.0)
    stacked, rows = torch.stack(candidates), everyone
    return stacked[entropies.argmax(0), rows], stacked[entropies.argmin(0), rows]
