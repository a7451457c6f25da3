"""Robust accuracy under AutoAttack, for every family of image audits: a stage, its estimates, and when to doubt them.

Guarantee: an example counted as broken has an image in the ball that the model misclassifies. Limit: the share of the
others is an upper bound of the true robust accuracy; the flags are the signs that it is a loose one.

The records decide everything: numbers and flags are those of the examples, however a stage was cut into shards.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.estimates import Estimate, Flag, Result, metric_name
from seatrial.families.shared.robust_accuracy import (
    ATTACKS,
    DRAWS,
    FIRST,
    LOOKS,
    SECOND,
    TARGETS,
    WITHOUT_GRADIENTS,
    AttackName,
    RobustAccuracyParams,
)
from seatrial.families.shared.robust_accuracy_records import holds
from seatrial.statistics.estimating import proportion
from seatrial.statistics.nested import nested_proportion
from workers.attacks.autoattack import checks
from workers.attacks.autoattack.checks import Doubt
from workers.attacks.autoattack.ensemble import AutoAttack, Evaluation
from workers.attacks.kept_slopes import HALF, slope_shares
from workers.attacks.levels import VALUES, values_of
from workers.families.contexts import Batch, Columns, ImageContext, Records, ResumableImageContext
from workers.families.robust_accuracy_first import STANDING, standing_ids
from workers.models import VALID_PIXELS, Box, box_of, gives_gradients, levels_of
from workers.models.memory import run_with_oom_split

STAGES = (FIRST, SECOND)
"""Names of its stages: the second is AutoAttack, and alone unless there are two phases."""

GRADIENT_FREE = "gradient_free"
"""Column of the records of a model that gave no gradients; not there otherwise."""

SLOPE_GONE = "slope_gone"
"""Column of whether little of a gradient is left a small step away; not there of a model without gradients, or with
randomness, nor in records from before it was kept."""

RATIOS: tuple[AttackName, ...] = ("apgd-dlr", "apgd-t")
"""Attacks whose gradients are looked at: that of a ratio of logits does not vanish because the softmax saturates."""


def make_ensemble(
    params: RobustAccuracyParams,
    box: Box = VALID_PIXELS,
    *,
    by_gradients: bool = True,
    levels: int | None = None,
) -> AutoAttack:
    """Return the AutoAttack that was asked for, within the box of a model's inputs; or what runs without gradients."""
    attacks = tuple(name for name in ATTACKS[params.version] if name != "square" or params.queries)
    return AutoAttack(
        params.norm,
        params.radius,
        attacks if by_gradients else WITHOUT_GRADIENTS,
        steps=params.steps,
        targets=TARGETS,
        queries=max(1, params.queries),
        draws=DRAWS if params.version == "rand" else 1,
        box=box,
        levels=levels,
    )


def made_with(params: RobustAccuracyParams, records: Records) -> AutoAttack:
    """Return the ensemble that records were made with."""
    return make_ensemble(params, by_gradients=GRADIENT_FREE not in records.column_names)


def run(params: RobustAccuracyParams, context: ResumableImageContext) -> Records:
    """Attack one shard and return a row per example: ``correct``, ``robust``, ``broken_by`` and the signs for flags.

    It goes on from the last batch that was saved. In two phases there is ``standing`` as well, and of what does not
    stand after the first nothing else.
    """
    saved, model = context.checkpoint(), context.classifier
    standing = None if params.survivors is None else standing_ids(context.records(FIRST))
    ensemble = make_ensemble(params, box_of(model), by_gradients=gives_gradients(model), levels=levels_of(model))
    done: Columns = {} if saved is None else dict(saved)
    begin = len(done["errored"]) if done else 0
    for batch in context.batches():
        if begin > 0:
            begin -= len(batch.example_ids)
            continue
        rows = _attack(ensemble, context, batch, standing)
        done = {name: torch.cat([done[name], values]) if done else values for name, values in rows.items()}
        context.save(done)
    return to_records(done, ensemble)


def _attack(ensemble: AutoAttack, context: ImageContext, batch: Batch, standing: frozenset[int] | None) -> Columns:
    """Return the rows of one batch; only those that stand are attacked."""
    stands = torch.tensor([standing is None or example in standing for example in batch.example_ids])
    at = stands.nonzero().squeeze(1)
    rows = {"example_id": torch.tensor(batch.example_ids), "label": batch.labels.cpu()}
    if standing is not None:
        rows[STANDING] = stands
    part = batch
    if len(at) < len(stands):
        # One example at least, so that every batch has the same columns.
        at = at if len(at) else torch.tensor([0])
        places = at.to(batch.images.device)
        part = Batch([batch.example_ids[i] for i in at.tolist()], batch.images[places], batch.labels[places])
    evaluation, signs = attack_batch(ensemble, context, part, SECOND)
    found = {
        "errored": evaluation.non_finite.cpu() | ~signs["answers_apart"].isfinite(),
        "correct": evaluation.correct.cpu(),
        "robust": evaluation.robust.cpu(),
        "broken_by": evaluation.broken_by.cpu(),
        **signs,
    }
    for name, values in found.items():
        rows[name] = torch.zeros(len(stands), dtype=values.dtype)
        rows[name][at] = values
    return rows


def _slope_gone(ensemble: AutoAttack, context: ImageContext, batch: Batch) -> Tensor:
    """Return of which images (n,) less than half of the gradient is left a small step away."""
    model, cancelled = context.classifier.logits, context.check_cancelled

    def piece(start: int, stop: int) -> Tensor:
        images = batch.images[start:stop]
        return slope_shares(model, images, ensemble.norm, ensemble.epsilon, ensemble.box, cancelled)[0] < HALF

    return torch.cat(run_with_oom_split(piece, 0, len(batch.images))).cpu()


def attack_batch(ensemble: AutoAttack, context: ImageContext, batch: Batch, purpose: str) -> tuple[Evaluation, Columns]:
    """Attack one batch of the model under audit, with randomness for ``purpose``, and look for signs of a weak attack.

    Returns:
        What AutoAttack found, and by example: ``answers_right``, ``answers_apart``, ``is_probability``,
        ``runs_backward``, ``zero_gradient``, ``classes``, :data:`VALUES` and, of a deterministic model,
        :data:`SLOPE_GONE`; those of :func:`doubt`.
    """
    model = context.classifier.logits
    right, apart = checks.look_again(model, batch.images, batch.labels, check_cancelled=context.check_cancelled)
    by_gradients = gives_gradients(context.classifier)
    adapts = by_gradients and checks.runs_backward(model, batch.images)
    generators = context.generators(purpose, batch.example_ids)
    evaluation = ensemble.run(
        model, batch.images, batch.labels, generators=generators, check_cancelled=context.check_cancelled
    )
    without_gradient = [evaluation.zero_gradient[name] for name in ensemble.attacks if name in RATIOS]
    signs = {
        "answers_right": right,
        "answers_apart": apart,
        "is_probability": checks.is_probability(evaluation.logits),
        "runs_backward": torch.full_like(evaluation.correct, adapts),
        "zero_gradient": torch.stack([torch.zeros_like(evaluation.correct), *without_gradient]).any(0),
        "classes": torch.full_like(batch.labels, context.classifier.classes),
        VALUES: torch.full_like(batch.labels, values_of(batch.images, box_of(context.classifier))),
    }
    if by_gradients and ensemble.draws == 1:
        signs[SLOPE_GONE] = _slope_gone(ensemble, context, batch)
    if not by_gradients:
        signs[GRADIENT_FREE] = torch.ones_like(evaluation.correct)
    return evaluation, {name: values.cpu() for name, values in signs.items()}


def to_records(columns: Columns, ensemble: AutoAttack) -> pa.Table:
    """Return rows; what was measured is null where an example errored or was not attacked, ``broken_by`` if it held."""
    unknown = columns["errored"] | ~columns.get(STANDING, torch.ones_like(columns["errored"]))
    missing = unknown.numpy()
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        if name == "errored":
            arrays[name] = pa.array((values & columns.get(STANDING, values)).numpy())
        elif name in ("example_id", "label", STANDING):
            arrays[name] = pa.array(values.numpy())
        elif name == "broken_by":
            arrays[name] = to_names(values, ensemble, errored=unknown)
        else:
            arrays[name] = pa.array(values.numpy(), mask=missing)
    return pa.table(arrays)


def to_names(broken_by: Tensor, ensemble: AutoAttack, *, errored: Tensor) -> pa.Array:
    """Return the names of attacks from their positions (n,) in the ensemble; null where none broke an example."""
    positions = torch.where(errored, -1, broken_by).tolist()
    return pa.array([ensemble.attacks[at] if at >= 0 else None for at in positions], pa.string())


def add_to(result: Result, params: RobustAccuracyParams, done: Mapping[str, Records]) -> None:
    """Put the estimates, counts and flags of the records, by stage, beside those a result has; none of no stage."""
    if SECOND not in done:
        return
    first, records = done.get(FIRST), attacked(done[SECOND])
    result.estimates |= estimate(params, records, first)
    result.counts |= count(params, records, first)
    result.flags += doubt(records, made_with(params, records))


def attacked(records: Records) -> Records:
    """Return the rows of those that AutoAttack was run on: all in one phase, of two those that stand."""
    return records.filter(records[STANDING]) if STANDING in records.column_names else records


def estimate(params: RobustAccuracyParams, records: Records, first: Records | None = None) -> dict[str, Estimate]:
    """Return the robust accuracy, and what it was after each attack, with their intervals.

    In one phase they are shares with Clopper-Pearson's intervals; in two, products of two shares
    (:func:`seatrial.statistics.nested.nested_proportion`), and ``attack=pgd`` is what the first leaves.

    Args:
        params: What was asked.
        records: Of those attacked.
        first: Of the first phase, where there was one.
    """
    held = holding(records, made_with(params, records))
    shares: dict[str, Estimate] = {}
    if first is None:
        shares = {name: proportion(robust) for name, robust in held.items()}
    else:
        standing = _flags(first, STANDING)
        shares["pgd"] = proportion(standing)
        for name, robust in held.items():
            shares[name] = nested_proportion(int(standing.sum()), len(standing), int(robust.sum()), len(robust))
    last = list(held)[-1]
    return {"robust_accuracy": shares[last]} | {
        metric_name("robust_accuracy", attack=name): share for name, share in shares.items()
    }


def count(params: RobustAccuracyParams, records: Records, first: Records | None = None) -> dict[str, int]:
    """Return how many examples there were, errored, were right, held, and were broken by each attack.

    In two phases those are of the examples AutoAttack was run on; what the first one did is beside them.
    """
    ensemble = made_with(params, records)
    correct = _flags(records, "correct")
    counts = {
        "robust_accuracy_n": records.num_rows,
        "robust_accuracy_errored": int(_flags(records, "errored").sum()),
        "robust_accuracy_correct": int(correct.sum()),
        "robust_accuracy_held": int(list(holding(records, ensemble).values())[-1].sum()),
    }
    if first is not None:
        counts |= {
            "robust_accuracy_first_n": first.num_rows,
            "robust_accuracy_first_errored": int(_flags(first, "errored").sum()),
            "robust_accuracy_first_correct": int(_flags(first, "correct").sum()),
            "robust_accuracy_first_standing": int(_flags(first, STANDING).sum()),
        }
    broken_by = records["broken_by"].to_pylist()
    return counts | {metric_name("broken", attack=name): broken_by.count(name) for name in ensemble.attacks}


def holding(records: Records, ensemble: AutoAttack) -> Mapping[AttackName, NDArray[np.bool_]]:
    """Return by attack (n,) who is right and held it and those before it; an example that errored did not."""
    correct, errored, broken_by = (records[name].to_pylist() for name in ("correct", "errored", "broken_by"))
    return {
        name: holds(correct, errored, broken_by, ensemble.attacks[: at + 1]) for at, name in enumerate(ensemble.attacks)
    }


def doubt(records: Records, ensemble: AutoAttack, *, of: str = "AutoAttack") -> list[Flag]:
    """Return the flags on a robust accuracy.

    Args:
        records: With ``errored``, ``correct``, ``broken_by`` and the columns :func:`attack_batch` describes.
        ensemble: What they were made with.
        of: What the messages are said to be about.
    """
    sound = records.filter(pa.array(~_flags(records, "errored")))
    if sound.num_rows == 0:
        return []
    held = holding(sound, ensemble)
    ratio = next((name for name in ensemble.attacks if name in RATIOS), None)
    started = without_gradient = 0
    if ratio is not None:
        position = ensemble.attacks.index(ratio)
        before = held[ensemble.attacks[position - 1]] if position else _flags(sound, "correct")
        started, without_gradient = int(before.sum()), int(_flags(sound, "zero_gradient").sum())
    right = sound["answers_right"].to_numpy()
    apart = float(sound["answers_apart"].to_numpy().max())
    wavering = int(((right > 0) & (right < LOOKS)).sum())
    flags = [
        None if ensemble.draws > 1 else checks.randomized_forward(apart, wavering),
        checks.gradient_free(ensemble.queries) if GRADIENT_FREE in sound.column_names else None,
        checks.softmax_output(int(_flags(sound, "is_probability").sum()), sound.num_rows),
        checks.zero_gradients(without_gradient, started),
        _slopes(sound, list(held.values())[-1]),
        # Records from before it was kept do not tell.
        checks.autoattack_radius(
            ensemble.norm, ensemble.epsilon, sound[VALUES][0].as_py() if VALUES in sound.column_names else None
        ),
        _square(held, ensemble, records.num_rows),
        checks.optimizes_at_inference(int(_flags(sound, "runs_backward").sum())),
        checks.losses_replaced(int(sound["classes"][0].as_py()), ensemble.attacks, ensemble.targets),
    ]
    return [
        Flag(code=one.code, severity=one.severity, message=f"{of}: {one.message}") for one in flags if one is not None
    ]


def _square(held: Mapping[AttackName, NDArray[np.bool_]], ensemble: AutoAttack, examples: int) -> Doubt | None:
    position = ensemble.attacks.index("square") if "square" in ensemble.attacks else 0
    if position == 0:
        return None
    before, after = (int(held[ensemble.attacks[at]].sum()) for at in (position - 1, position))
    return checks.square_improves(before, after, examples)


def _slopes(sound: Records, holding: NDArray[np.bool_]) -> Doubt | None:
    if SLOPE_GONE not in sound.column_names:
        return None
    return checks.failed_gradient_check(int((_flags(sound, SLOPE_GONE) & holding).sum()), int(holding.sum()))


def _flags(records: Records, name: str) -> NDArray[np.bool_]:
    """Return a column of flags (n,), false where it is null."""
    column: NDArray[np.bool_] = records[name].fill_null(False).to_numpy()
    return column.astype(bool)
