"""How many examples a network is looked into at, and what that costs."""

from seatrial.contracts.costs import Passes
from seatrial.families.uncertainty_span.limits import looked_examples

IDLE_EXAMPLES = 32
"""Examples that are looked at, at most, for what a network computes of all of them to no effect."""

GRADIENT_EXAMPLES = 32
"""Examples at which gradients are compared with what a network does, at most, and as many where the prediction changes
on the way from one to another: fewer hardly tell gradients that are led away in part from an input of four levels."""

TRIED_EXAMPLES = 4
"""Examples with which it is seen whether the answer waits for scores or behind a gate, at most."""

FOLLOWED_EXAMPLES = 16
"""Examples of which it is seen how far a gate leads, at most."""

MEETING_EXAMPLES = 8
"""Examples with which it is seen whether units open something where their thresholds meet, at most, and one in
eight."""

CONFINED_EXAMPLES, CONFINED_STEPS = 4, 6
"""Examples with which it is seen whether perturbations that are confined to some pixels move the answer farther, at
most, and one in eight; and for how many steps at first."""

GATES_EACH, GATES_MOST = 145, 5800
"""Passes that it takes to look for a gate, told for each example, and at most: twice for each tensor of few numbers
with a few examples, and where there is a gate as much as a small network takes; 48 for each place where functions bend,
and some hundreds each for crowds that meet apart, for gradients through units that are off, and to lead what goes into
each of those places away. Of a network in which thresholds meet, or behind whose gate there is much, it takes some
thousands more."""


def inside_passes(examples: int, steps: int) -> Passes:
    """Return what it costs to look for that, for numbers that swing within the radius, and at gradients.

    Of a network without either, whose gradients hold: twice each example, once more for scores, sixteen for parts of
    tensors, six ways of 128 images, 21 passes to where a prediction changes and thirteen beside two gradients at either
    end, and three steps down another. Then what it takes to look for a gate, and for pixels to confine an attack to.

    Args:
        examples: Audited.
        steps: Of the paper's attacks.
    """
    idle, followed = (looked_examples(most, examples, steps) for most in (IDLE_EXAMPLES, GRADIENT_EXAMPLES))
    gates = min(GATES_MOST, GATES_EACH * examples)
    return Passes(5 * idle + 784 + 50 * followed, 32 + 5 * followed + gates)
