"""The stage that attacks scores inside a network, and what it costs."""

from collections.abc import Sequence

from seatrial.contracts.costs import Passes
from seatrial.families.uncertainty_span.effort import Budget, Round

LEVELLED = "levelled"
"""The stage that makes scores level which a network computes beside those it answers with; few networks have any."""

INNER_SCORES = 2
"""Of a network that are levelled, at most; a gate is followed beside, or thresholds are made to meet."""

BESIDE_PATIENCE, PATIENCE = 1, 7
"""Of them that are levelled where thresholds are made to meet patiently, at most, and how many times as many steps that
takes as a gate is followed for."""

CONFINED_WAYS, FOR_CONFINED = 2, 1
"""Attacks that are confined to some pixels, where these lead farther: up the entropy and down; and how many fewer
scores are levelled beside them, which cost more."""

FOR_LEAKING = 1
"""How many fewer scores are levelled beside an attack by gradients that go through units that are off."""

DISTORTED_WAYS, FOR_DISTORTED = 2, 1
"""Ways in which an attack leads what the network computes far from what it was; and the same beside it."""

TRIED_SCORES = 24
"""Of a network that has more: those least like its answer, and each other, that are tried, at most."""


def levelled_passes(budget: Budget) -> Passes:
    """Return what an example costs at most.

    Two descents of each of the scores, one that follows a gate or makes thresholds meet, and an ascent from the best
    end; two that are confined to some pixels, one by gradients that go through units that are off, and one that leads
    what the network computes far from what it was, either way, in place of one of the scores each; the last not beside
    a patient meeting.
    """
    beside = CONFINED_WAYS + 1
    most = ((INNER_SCORES, 2), (0, 2 + beside + DISTORTED_WAYS), (BESIDE_PATIENCE, PATIENCE), (0, PATIENCE + beside))
    backward = max(scores * (budget.climb + budget.cross) + times * follow_steps(budget) for scores, times in most)
    return Passes(5 + 2 * INNER_SCORES + beside + DISTORTED_WAYS, backward + budget.refine)


def follow_steps(budget: Budget) -> int:
    """Return for how many steps a gate is followed."""
    return max(1, min(budget.climb // 2, budget.steps // 5))


def rounds_left(budget: Budget, rounds: Sequence[Round], room: float) -> list[Round]:
    """Return the rounds of a check whose softmax is saturated, without the last ones that cost what this stage does.

    Where it is not saturated, the stage costs less than the attacks on scaled logits, which are not run.

    Args:
        budget: Of the check.
        rounds: On doubtful examples.
        room: How many times as many examples there are as doubtful ones.
    """
    left, spared = list(rounds), room * levelled_passes(budget).in_forward
    while left and spared > 0:
        spared -= budget.round_again(left.pop()).in_forward
    return left
