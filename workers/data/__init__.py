"""Datasets under audit: readers and seeded sampling."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class ImageDataset(Protocol):
    """Labelled images, read by position in the file; the position is the example's id."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,), class numbers from 0."""
        ...

    @property
    def label_names(self) -> list[str] | None:
        """Class names, where the file or its manifest has them."""
        ...

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return float32 images (len(positions), channels, height, width) in [0, 1], on the CPU.

        Raises:
            DataError: An image does not decode, or has another shape than the others.
        """
        ...
