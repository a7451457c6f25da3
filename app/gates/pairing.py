"""Two audits example by example: which records a metric is the mean of, and how two audits' are put side by side."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Pairing:
    """Where the records of an audit and its baseline are read from.

    Attributes:
        read: (audit id, position of the check, stage) to the stage's records; None where there are none.
        is_same_dataset: Whether both audits drew from the same dataset, by digest.
    """

    read: Callable[[str, int, str], pa.Table | None]
    is_same_dataset: bool
