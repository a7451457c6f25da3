"""What an example contributes to the numbers of ``uncertainty_span``, from columns of its records.

The family's estimates and the gates' resampling both call these.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.family import difference, formula
from seatrial.families.shared.per_example import Columns, Records, Values, values_of
from seatrial.families.uncertainty_span.effort import INTEGRATED, STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.statistics.arrays import Floats, Mask

SPAN = difference("attack", "entropy_under", "entropy_over")
"""H_under - H_over in nats, of any attack's records."""

SCALED_SPAN = difference("tempered", "scaled_entropy_under", "scaled_entropy_over")

FURTHER = (*STAGES, TRANSFORMED, INTEGRATED, LEVELLED, "tempered", "transfer")
"""Stages whose attacks may reach further than the paper's two."""

CALIBRATED = "calibrated_entropy_{}"
"""Columns of the entropies that a stage's attacks reached at the calibrated temperature."""


CHANGED = "changed"
"""Column of the further attacks, and of that on a model without gradients: whether any image asked about was predicted
otherwise than the clean one. Records from before it was kept have none."""

MOST_PIXELS = 3 * 512 * 512
"""Values of the largest image that is kept to be looked at."""

CHANGE_STEPS = 127
"""Steps of a change that is kept, from none to its largest."""


def relative_change(entropy: Floats, clean: Floats, classes: Floats) -> Floats:
    """Return |H_arm - H_clean| / (log C - H_clean) (n,), NaN where the clean output is uniform already.

    Args:
        entropy: (n,) under an attack.
        clean: (n,) without.
        classes: (n,) number of classes, in all rows the same.
    """
    # The library's logarithm of an array may differ from this one in the last digit, by processor.
    room = (math.log(classes[0]) if len(classes) else 0.0) - clean
    return np.where(room > 1e-9, np.abs(entropy - clean) / np.where(room > 1e-9, room, 1), np.nan)


CHANGE = formula("attack", "entropy_{arm}", "entropy_clean", "classes", of=relative_change)
CHANGE_UNDER = formula("attack", "entropy_under", "entropy_clean", "classes", of=relative_change)


def widest_span(lowest: Floats, highest: Floats, others: Iterable[tuple[Floats, Floats]]) -> Floats:
    """Return the widest span (n,) any attack reached.

    Args:
        lowest: (n,) entropies the white-box attack reached.
        highest: The same upwards.
        others: Lowest and highest (n,) of each further attack, NaN where an example errored in it.
    """
    for low, high in others:
        # fmin and fmax keep the white-box value of an example that errored in the other attack.
        lowest, highest = np.fmin(lowest, low), np.fmax(highest, high)
    return highest - lowest


def worst_span(records: Records) -> Values | None:
    """Return the widest span any attack reached, on the examples of the paper's two."""
    return _widest(records, "attack", ("best_entropy_over", "best_entropy_under"), ("entropy_over", "entropy_under"))


def calibrated_span(records: Records) -> Values | None:
    """Return the widest span any further attack reached at the calibrated temperature."""
    over, under = CALIBRATED.format("over"), CALIBRATED.format("under")
    return _widest(records, STAGES[0], (over, under), (over, under))


def decisions_kept(labels: Floats, clean: Floats, attacked: Iterable[Floats], changed: Iterable[Floats]) -> Floats:
    """Return 1 where a prediction is right and no attack changed it (n,), else 0.

    Args:
        labels: (n,) classes.
        clean: (n,) predictions without an attack.
        attacked: (n,) predictions under each of the paper's two.
        changed: (n,) of each further attack whether it changed it, NaN where the example errored or was left out there.
    """
    kept: Mask = clean == labels
    for found in changed:
        kept = kept & (np.nan_to_num(found) == 0)
    for predictions in attacked:
        kept = kept & (predictions == clean)
    return kept.astype(np.float64)


def decision_kept(records: Records) -> Values | None:
    """Return whether each prediction is right and withstands, on the examples of the paper's two attacks."""
    names = ("label", "prediction_clean", "prediction_over", "prediction_under")
    attack = records.columns("attack", names)
    # Without gradients there is one stage; by transfer or tempering alone nobody has looked for decisions.
    looked = [records.columns(stage, (CHANGED,)) for stage in ("attack", STAGES[0])]
    if attack is None or looked == [None, None]:
        return None
    further = [one for one in (*looked, *(records.columns(stage, (CHANGED,)) for stage in FURTHER[1:])) if one]
    ids, label, clean, over, under = (attack[name] for name in ("example_id", *names))
    changed = [_aligned(ids, one, CHANGED) for one in further]
    return values_of(ids, decisions_kept(label, clean, (over, under), changed))


def _widest(records: Records, stage: str, own: tuple[str, str], others: tuple[str, str]) -> Values | None:
    """Return the widest span of a stage and all further ones, on that stage's examples."""
    attack = records.columns(stage, own)
    if attack is None:
        return None
    ids, lowest, highest = (attack[name] for name in ("example_id", *own))
    found = (records.columns(further, others) for further in FURTHER)
    aligned = [
        (_aligned(ids, other, others[0]), _aligned(ids, other, others[1])) for other in found if other is not None
    ]
    return values_of(ids, widest_span(lowest, highest, aligned))


def _aligned(example_ids: NDArray[Any], other: Columns, name: str) -> Floats:
    order = np.argsort(other["example_id"], kind="stable")
    known, values = other["example_id"][order], other[name].astype(np.float64)[order]
    if not len(known):
        return np.full(len(example_ids), np.nan)
    at = np.minimum(np.searchsorted(known, example_ids), len(known) - 1)
    return np.where(known[at] == example_ids, values[at], np.nan)
