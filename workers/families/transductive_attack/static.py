"""The stage ``static``: the model without a defence, under the attacks that are then sent to every defence."""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from seatrial.families.shared.robust_accuracy import ATTACKS
from seatrial.families.transductive_attack.params import CORRUPTIONS, TransductiveAttackParams
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.attacks.carlini_wagner import LeastPerturbation, RaiseWrongConfidence
from workers.attacks.corruptions import brighten
from workers.attacks.gradients import IndexedModel, Model
from workers.attacks.levels import VALUES, values_of
from workers.attacks.model_space import Perturb, RaiseCrossEntropy
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import is_wrong
from workers.families import robust_accuracy
from workers.families.contexts import Batch, ImageContext
from workers.models import box_of
from workers.models.memory import forward

SIGNS = {
    "answers_right": pa.int64(),
    "answers_apart": pa.float64(),
    "is_probability": pa.bool_(),
    "runs_backward": pa.bool_(),
    "zero_gradient": pa.bool_(),
    "classes": pa.int64(),
    robust_accuracy.SLOPE_GONE: pa.bool_(),
}
"""Columns of signs that AutoAttack is weak on the static model."""


PERTURBED = ("autoattack", "pgd", "confidence", "cw", *CORRUPTIONS)
"""What the stage leaves images of, with whether the static model is right on them."""


def make_pgd(params: TransductiveAttackParams) -> PGD:
    """Return the check's PGD."""
    return PGD(params.norm, params.epsilon, params.step_size, params.steps, random_start=True)


def make_autoattack(params: TransductiveAttackParams) -> AutoAttack:
    """Return the check's AutoAttack, without Square where it has no queries."""
    attacks = tuple(name for name in ATTACKS["standard"] if name != "square" or params.autoattack_queries)
    return AutoAttack(params.norm, params.epsilon, attacks, queries=max(1, params.autoattack_queries))


def attack_static(params: TransductiveAttackParams, context: ImageContext, batch: Batch) -> pa.Table:
    """Attack one batch and return its ``static`` records.

    The perturbed images are in them, as float32 bytes: defences are sent exactly these.
    """
    model = context.classifier.logits
    clean = forward(model, batch.images)
    errored = ~clean.isfinite().all(1)
    missing: list[None] = [None] * len(batch.example_ids)
    values = values_of(batch.images, box_of(context.classifier))
    columns = {VALUES: pa.array([values] * len(missing), pa.int64())}
    if "transfer_autoattack" in params.attacks:
        ensemble = make_autoattack(params)
        evaluation, signs = robust_accuracy.attack_batch(ensemble, context, batch, "autoattack")
        errored |= evaluation.non_finite | ~signs["answers_apart"].isfinite().to(errored.device)
        columns["robust_autoattack"] = pa.array(evaluation.robust.cpu().numpy())
        columns["broken_by"] = robust_accuracy.to_names(evaluation.broken_by, ensemble, errored=errored)
        columns["image_autoattack"] = to_bytes(evaluation.images)
        columns |= {name: pa.array(signs[name].numpy(), kind) for name, kind in SIGNS.items()}
    for attack, perturb in _perturbing(params).items():
        # As the first iteration of every model space attack: with T = 0 these are transfers, to the bit.
        sent = perturb(
            [IndexedModel(lambda images, indices: model(images))],
            "sum",
            batch.images,
            batch.labels,
            generators=context.generators("start 0", batch.example_ids),
            check_cancelled=context.check_cancelled,
        )
        columns |= _column(attack, sent.images, model, batch.labels)
        errored |= sent.non_finite
    if "transfer_cw" in params.attacks:
        least = LeastPerturbation(params.cw_steps, params.cw_learning_rate)
        sent = least.run(model, batch.images, batch.labels, check_cancelled=context.check_cancelled)
        columns |= _column("cw", sent.images, model, batch.labels)
        errored |= sent.non_finite
    for name in params.corruptions:
        columns |= _column(name, corrupt(params, name, batch.images), model, batch.labels)
    rows = {
        "example_id": pa.array(batch.example_ids, pa.int64()),
        "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
        "errored": pa.array(errored.cpu().numpy(), pa.bool_()),
        "correct": pa.array((~is_wrong(clean, batch.labels)).cpu().numpy()),
        **{f"robust_{name}": pa.array(missing, pa.bool_()) for name in PERTURBED},
        "broken_by": pa.array(missing, pa.string()),
        **{f"image_{name}": pa.array(missing, pa.large_binary()) for name in PERTURBED},
        **{name: pa.array(missing, kind) for name, kind in SIGNS.items()},
    }
    return pa.table(rows | columns)


def corrupt(params: TransductiveAttackParams, name: str, images: Tensor) -> Tensor:
    """Return images (n, ...) harmlessly changed.

    Raises:
        ValueError: There is no such corruption.
    """
    if name != "brightness":
        raise ValueError(f"no such corruption: {name}")
    return brighten(images, params.brightness)


def _perturbing(params: TransductiveAttackParams) -> dict[str, Perturb]:
    """Return the attacks on the static model within the radius that are PGD's, by the end of their name."""
    pgd = make_pgd(params)
    known: dict[str, Perturb] = {"pgd": RaiseCrossEntropy(pgd), "confidence": RaiseWrongConfidence(pgd)}
    return {name: perturb for name, perturb in known.items() if f"transfer_{name}" in params.attacks}


def _column(name: str, images: Tensor, model: Model, labels: Tensor) -> dict[str, pa.Array]:
    wrong = is_wrong(forward(model, images), labels)
    return {f"robust_{name}": pa.array((~wrong).cpu().numpy()), f"image_{name}": to_bytes(images)}


def to_bytes(images: Tensor) -> pa.Array:
    """Return images (n, ...) as float32 bytes."""
    return pa.array([image.tobytes() for image in images.float().cpu().numpy()], pa.large_binary())


def from_bytes(values: list[bytes], shape: tuple[int, ...]) -> Tensor:
    """Return what :func:`to_bytes` was given (n, *shape)."""
    return torch.from_numpy(np.stack([np.frombuffer(value, np.float32).reshape(shape) for value in values]))
