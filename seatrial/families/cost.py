"""What a check costs, from its parameters and what was measured when the model was checked."""

from dataclasses import dataclass
from typing import Any

from seatrial.contracts.family import FamilyParams

OVERHEAD_S = 3.0
"""Seconds of a check that do not depend on its passes: picking it up, the bootstrap, the figures."""


@dataclass(frozen=True)
class Cost:
    """Upper bounds for one check.

    Attributes:
        kind: Its family.
        forward: Single-example forward passes.
        backward: Single-example forward and backward passes.
        queries: Scores black-box attacks ask for.
        seconds: On one worker like the one that checked the model; None until it has.
    """

    kind: str
    forward: int
    backward: int
    queries: int
    seconds: float | None


def cost_of(
    check: FamilyParams,
    samples: int,
    sizes: dict[str, int],
    facts: dict[str, Any] | None,
    *,
    mean_words: float | None = None,
) -> Cost:
    """Return what a check costs at most.

    Args:
        check: Its parameters.
        samples: Examples audited.
        sizes: Examples of each further dataset, by the parameter that names it.
        facts: Seconds per pass, as measured when the model was checked.
        mean_words: Mean words of a text, where there are texts.
    """
    passes = check.passes(samples, sizes, mean_words=mean_words)
    seconds = None
    if facts is not None:
        # The time of a text grows with its tokens; English has about 1.3 of them to a word.
        longer = max(1.0, 1.3 * mean_words / facts["tokens"]) if mean_words and facts.get("tokens") else 1.0
        seconds = OVERHEAD_S + passes.compute_s + passes.forward * facts["forward_s"] * longer * passes.slowdown
        seconds += passes.backward * (facts["backward_s"] or 0.0)
    return Cost(check.kind, passes.forward, passes.backward, passes.queries, seconds)


def total_seconds(costs: list[Cost]) -> float | None:
    """Return the seconds of all checks one after the other; None when any is unknown."""
    seconds = [cost.seconds for cost in costs if cost.seconds is not None]
    return sum(seconds) if len(seconds) == len(costs) else None
