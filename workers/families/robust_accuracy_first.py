"""The cheap first phase of a robust accuracy in two: PGD of few steps on every example.

AutoAttack then goes on with some of those it leaves standing. Attacks are nested, since an example is robust if it
withstands them all: what counts as robust withstood both.
"""

import pyarrow as pa
import torch

from seatrial.families.shared.robust_accuracy import FIRST, FIRST_STEPS, SECOND, RobustAccuracyParams
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import is_wrong, pgd_untargeted
from workers.families.contexts import Columns, Records, ResumableImageContext
from workers.families.protocol import Stage
from workers.models import box_of
from workers.models.memory import forward

STANDING = "standing"
"""Column, of both: right, and standing after the first phase. The second attacks no other rows."""

STEP = 2.5
"""Length of all steps together, in radii (Madry et al. 2018, appendix)."""


def stages(params: RobustAccuracyParams, first: Records | None) -> list[Stage]:
    """Return the stages of a robust accuracy.

    Args:
        params: What was asked.
        first: Records of the first phase, where it is over.
    """
    if params.survivors is None:
        return [Stage(SECOND)]
    if first is None:
        return [Stage(FIRST), Stage(SECOND)]
    return [Stage(FIRST), Stage(SECOND, limit=reach(first, params.survivors))]


def reach(first: Records, survivors: int) -> int:
    """Return how many examples from the first one on hold so many that stand; all of them where fewer do.

    The sample is in random order with every class spread evenly over it, so that those are a random part of the ones
    that stand, stratified by class.
    """
    standing = first[STANDING].fill_null(False).to_numpy(zero_copy_only=False).nonzero()[0]
    return int(standing[survivors - 1]) + 1 if len(standing) >= survivors else first.num_rows


def run_first(params: RobustAccuracyParams, context: ResumableImageContext) -> Records:
    """Attack one shard by PGD and return a row per example: ``correct`` and ``standing``, null where it errored."""
    model, rows = context.classifier, list[Columns]()
    search = PGD(
        norm=params.norm,
        epsilon=params.radius,
        step_size=STEP * params.radius / FIRST_STEPS,
        steps=FIRST_STEPS,
        box=box_of(model),
    )
    for batch in context.batches():
        clean = forward(model.logits, batch.images)
        outcome = pgd_untargeted(
            search, model.logits, batch.images, batch.labels, check_cancelled=context.check_cancelled
        )
        errored = ~clean.isfinite().all(1) | outcome.non_finite
        right = ~is_wrong(clean, batch.labels)
        found = {"label": batch.labels, "errored": errored, "correct": right, STANDING: right & ~outcome.reached}
        rows.append({"example_id": torch.tensor(batch.example_ids), **{k: v.cpu() for k, v in found.items()}})
    columns = {name: torch.cat([row[name] for row in rows]).numpy() for name in rows[0]}
    missing = columns["errored"]
    return pa.table(
        {name: pa.array(values) for name, values in columns.items() if name in ("example_id", "label", "errored")}
        | {name: pa.array(columns[name], mask=missing) for name in ("correct", STANDING)}
    )


def standing_ids(first: Records) -> frozenset[int]:
    """Return the ids of the examples that stand after the first phase."""
    standing = first[STANDING].fill_null(False).to_pylist()
    return frozenset(
        example for example, stands in zip(first["example_id"].to_pylist(), standing, strict=True) if stands
    )
