"""Names of the arrays that numbers by example are held in."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[np.integer]
"""Of any width: records hold counts in 32 bits."""
Mask: TypeAlias = NDArray[np.bool_]
