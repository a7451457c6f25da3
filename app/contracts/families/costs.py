"""What a check costs, in passes."""

from typing import NamedTuple


class Passes(NamedTuple):
    """Upper bounds on the work of one check.

    Attributes:
        forward: Single-example forward passes.
        backward: Single-example forward and backward passes.
        queries: Scores a black-box attack asks for, those answered from a cache included.
        compute_s: Seconds of one core beside the model: solvers and certificates.
    """

    forward: int
    backward: int
    queries: int = 0
    compute_s: float = 0.0
