"""How the work of a check is shared among its stages, for what is told of its progress."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.costs import Passes, StageShares, place_of
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from seatrial.families.uncertainty_span.effort import (
    CROSSING,
    CROSSING_PASSES,
    PICTURED,
    PICTURES,
    STAGES,
    SURROGATE_EXAMPLES,
    TRANSFORMED,
    TRANSFORMED_EXAMPLES,
    budget,
)
from seatrial.families.uncertainty_span.params import OutlierParams, UncertaintySpanParams
from seatrial.families.uncertainty_span.parts import part_passes

BACKWARD = 3.0
"""Forward passes a forward and backward pass takes the time of."""

GROWTH_EXAMPLES = 100
"""Examples attacked again at twice the radius, at most: enough to see a mean grow."""


def stage_shares(params: Mapping[str, Any], stage: str, samples: int) -> StageShares | None:
    """Return where a stage stands, in forward passes.

    What the further attacks cost together is shared equally among them, of which no one has been timed alone. The one
    on scaled logits, which a saturated softmax calls for, is counted once it runs.

    Args:
        params: As stored with the check.
        stage: Its name.
        samples: Examples audited.
    """
    asked = UncertaintySpanParams.model_construct(**params)
    steps, further = asked.steps * asked.restarts, budget(asked.effort, asked.steps)
    both = Passes(4, 2 * steps)
    costs = {"attack": samples * _time(both), "growth": min(samples, GROWTH_EXAMPLES) * _time(both)}
    if further is not None:
        costs["surrogate"] = min(samples, SURROGATE_EXAMPLES) * further.surrogate_queries
        each = samples * _time(further.passes(asked.norm)) / len(STAGES)
        costs |= dict.fromkeys(STAGES, each) | {CROSSING: samples * CROSSING_PASSES}
        costs[TRANSFORMED] = min(samples, TRANSFORMED_EXAMPLES) * _time(further.transformed)
    if stage == "tempered":
        costs["tempered"] = samples * _time(Passes(44, 3 * steps))
    if asked.transfer_model is not None:
        costs["transfer"] = samples * _time(Passes(7, 2 * steps))
    for name in asked.attacks:
        costs[name] = samples * _time(Passes(15, 1) if name == "ace" else Passes(1, steps))
    costs |= dict.fromkeys(asked.parts, samples * _time(part_passes(steps, further)))
    if outliers := params.get("outliers"):
        told = OutlierParams.model_construct(**outliers)
        attacked = len({epsilon for epsilon in told.epsilons if epsilon > 0})
        costs["outliers"] = told.limit(samples) * _time(Passes(2, attacked * steps))
    if robust := params.get("robust_accuracy"):
        phases = RobustAccuracyParams.model_construct(**robust).phases(samples)
        costs |= {name: _time(passes) for name, passes in phases.items()}
    picture = Passes(0, 0) if further is None else further.picture
    costs[PICTURES] = min(samples, PICTURED) * (_time(Passes(10, 2 * steps)) + _time(picture))
    return place_of(stage, costs)


def _time(passes: Passes) -> float:
    return passes.forward + BACKWARD * passes.backward
