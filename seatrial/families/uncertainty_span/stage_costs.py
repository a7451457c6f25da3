"""How the work of a check is shared among its stages, for what is told of its progress."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.costs import OnDemand, Passes
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from seatrial.families.uncertainty_span.effort import (
    CROSSING,
    CROSSING_PASSES,
    DISPLACED,
    DISPLACED_PASSES,
    INTEGRATED,
    PICTURES,
    STAGES,
    TRANSFORMED,
    budget,
)
from seatrial.families.uncertainty_span.levelled import LEVELLED, levelled_passes
from seatrial.families.uncertainty_span.limits import (
    CROSSING_EXAMPLES,
    DISPLACED_EXAMPLES,
    GROWTH_EXAMPLES,
    SURROGATE_EXAMPLES,
    integrated_examples,
    looked_examples,
    pictured_examples,
    transformed_examples,
)
from seatrial.families.uncertainty_span.params import OutlierParams, UncertaintySpanParams
from seatrial.families.uncertainty_span.parts import part_passes


def stage_costs(params: Mapping[str, Any], samples: int) -> dict[str, float]:
    """Return the forward passes of each stage there may be, in the order in which they are run.

    What the further attacks cost together is shared equally among them, of which no one has been timed alone. The one
    on scores inside is run where a network has any, and that on scaled logits where a softmax is saturated.

    Args:
        params: As stored with the check.
        samples: Examples audited.
    """
    asked = UncertaintySpanParams.model_construct(**params)
    steps, further = asked.steps * asked.restarts, budget(asked.effort, asked.steps)
    both = Passes(4, 2 * steps)
    costs = {"attack": samples * both.in_forward, "growth": min(samples, GROWTH_EXAMPLES) * both.in_forward}
    if further is not None:
        costs["surrogate"] = further.surrogate_passes(min(samples, SURROGATE_EXAMPLES)).in_forward
        each = samples * further.passes(asked.norm).in_forward / len(STAGES)
        costs |= dict.fromkeys(STAGES, each) | {CROSSING: min(samples, CROSSING_EXAMPLES) * CROSSING_PASSES}
        costs[TRANSFORMED] = transformed_examples(samples, asked.steps) * further.transformed.in_forward
        costs[INTEGRATED] = integrated_examples(samples, asked.steps) * further.integrated.in_forward
        costs[DISPLACED] = looked_examples(DISPLACED_EXAMPLES, samples, asked.steps) * DISPLACED_PASSES.in_forward
        costs[LEVELLED] = OnDemand(samples * levelled_passes(further).in_forward)
    costs["tempered"] = OnDemand(samples * Passes(44, 3 * steps).in_forward)
    if asked.transfer_model is not None:
        costs["transfer"] = samples * Passes(7, 2 * steps).in_forward
    for name in asked.attacks:
        costs[name] = samples * (Passes(15, 1) if name == "ace" else Passes(1, steps)).in_forward
    costs |= dict.fromkeys(asked.parts, samples * part_passes(steps, further).in_forward)
    if outliers := params.get("outliers"):
        told = OutlierParams.model_construct(**outliers)
        attacked = len({epsilon for epsilon in told.epsilons if epsilon > 0})
        costs["outliers"] = told.limit(samples) * Passes(2, attacked * steps).in_forward
    if robust := params.get("robust_accuracy"):
        phases = RobustAccuracyParams.model_construct(**robust).phases(samples)
        costs |= {name: passes.in_forward for name, passes in phases.items()}
    picture = Passes(0, 0) if further is None else further.picture
    costs[PICTURES] = pictured_examples(samples) * (Passes(10, 2 * steps).in_forward + picture.in_forward)
    return costs
