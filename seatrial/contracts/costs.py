"""What a check costs, in passes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Passes(NamedTuple):
    """Upper bounds on the work of one check.

    Attributes:
        forward: Single-example forward passes.
        backward: Single-example forward and backward passes.
        queries: Scores a black-box attack asks for, those answered from a cache included.
        slowdown: How many times as long as a bare forward pass one takes here, with what is done around it.
        compute_s: Seconds of one core beside the model: solvers, bootstraps.
        together: Single-example forward passes made together whatever the size of a batch, by kind of device; None
            where it is not known what is, as networks are trained.
    """

    forward: int
    backward: int
    queries: int = 0
    slowdown: float = 1.0
    compute_s: float = 0.0
    together: Mapping[str, int] | None = MappingProxyType({})


class StageShares(NamedTuple):
    """Where a stage stands in its check, in forward passes.

    Attributes:
        before: Cost of the stages before.
        here: Cost of the stage itself.
        after: Cost of those that follow, at most.
    """

    before: float
    here: float
    after: float


def place_of(stage: str, costs: Mapping[str, float]) -> StageShares | None:
    """Return where a stage stands among those of its check; None where it is none of them.

    Args:
        stage: Its name.
        costs: What each costs, in the order in which they are run.

    >>> place_of("b", {"a": 2.0, "b": 3.0, "c": 4.0}), place_of("z", {"a": 2.0})
    (StageShares(before=2.0, here=3.0, after=4.0), None)
    """
    if stage not in costs:
        return None
    each, number = list(costs.values()), list(costs).index(stage)
    return StageShares(sum(each[:number]), each[number], sum(each[number + 1 :]))
