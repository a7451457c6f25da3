"""Columns of a stage's table as arrays that may be written to."""

import numpy as np

from seatrial.statistics.arrays import Floats, Ints
from workers.families.contexts import Records


def ints(records: Records, name: str) -> Ints:
    """Return a column of whole numbers (rows,); none of them may be null."""
    return np.array(records.column(name).to_numpy(), dtype=np.int64)


def floats(records: Records, name: str) -> Floats:
    """Return a column of numbers (rows,), NaN where it is null."""
    return np.array(records.column(name).to_numpy(), dtype=np.float64)
