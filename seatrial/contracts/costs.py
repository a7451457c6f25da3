"""What a check costs, in passes."""

from typing import NamedTuple


class Passes(NamedTuple):
    """Upper bounds on the work of one check.

    Attributes:
        forward: Single-example forward passes.
        backward: Single-example forward and backward passes.
        queries: Scores a black-box attack asks for, those answered from a cache included.
        slowdown: How many times as long as a bare forward pass one takes here, with what is done around it.
        compute_s: Seconds of one core beside the model: solvers, bootstraps.
    """

    forward: int
    backward: int
    queries: int = 0
    slowdown: float = 1.0
    compute_s: float = 0.0


class StageShares(NamedTuple):
    """Where a stage stands in its check, in forward passes an example.

    Attributes:
        before: Cost of the stages before.
        here: Cost of the stage itself.
        after: Cost of those that follow, at most.
    """

    before: float
    here: float
    after: float
