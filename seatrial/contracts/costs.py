"""What a check costs, in passes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

BACKWARD = 3.0
"""Forward passes a forward and backward pass takes the time of."""


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
        watches: Whether some of the passes keep what went into every function that switches.
    """

    forward: int
    backward: int
    queries: int = 0
    slowdown: float = 1.0
    compute_s: float = 0.0
    together: Mapping[str, int] | None = MappingProxyType({})
    watches: bool = False

    @property
    def in_forward(self) -> float:
        """Forward passes that take as long.

        >>> Passes(10, 2).in_forward
        16.0
        """
        return self.forward + BACKWARD * self.backward


class OnDemand(float):
    """Forward passes of a stage that is run only where what was measured calls for it, which is seldom."""


StageCosts: TypeAlias = Mapping[str, float]
"""Forward passes of every stage there may be, in the order in which they are run, :class:`OnDemand` where few checks
run one: how the work of a check is shared. Without it nobody can say how much of it is done."""
