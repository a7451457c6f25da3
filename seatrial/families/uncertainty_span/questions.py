"""What a check asks a model that gives no gradients, by the effort that is asked for."""

from dataclasses import dataclass

from seatrial.families.uncertainty_span.effort import BISECTIONS, Effort


@dataclass(frozen=True)
class Questions:
    """Queries about one example of a model that gives no gradients.

    Attributes:
        up: Of the search by scores that raises the entropy.
        down: Of the one that lowers it.
        cross: Of the one that lowers the lead of the prediction.
        decide: Of the search by decisions alone.
    """

    up: int
    down: int
    cross: int
    decide: int

    @property
    def total(self) -> int:
        """Queries an example costs at most, the clean image and both ways back from across the boundary included."""
        return 1 + self.up + self.down + self.cross + self.decide + 2 * BISECTIONS


QUERIES_A_STEP: dict[Effort, int] = {"quick": 2, "standard": 8, "thorough": 40}
"""Queries that raise the entropy, by gradient steps asked for."""


def questions(effort: Effort, steps: int) -> Questions:
    """Return the queries of a check without gradients, in proportion to the steps of one with them."""
    up = QUERIES_A_STEP[effort] * steps
    return Questions(up, max(1, up // 3), max(1, up // 3), max(1, up // 4))
