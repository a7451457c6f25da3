"""Datasets under audit: readers and seeded sampling."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Text: TypeAlias = str | tuple[str, ...]
"""A text; premise and hypothesis; or, of a sentence that is tagged, its tokens."""


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


class TextDataset(Protocol):
    """Labelled texts, read by position in the file; the position is the example's id."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,) of texts with one class each; (n, classes) of zeros and ones of multi-label texts."""
        ...

    @property
    def label_names(self) -> list[str] | None:
        """Class names, where the file or its manifest has them."""
        ...

    def texts(self, positions: Sequence[int]) -> list[Text]:
        """Return texts, in the order of ``positions``."""
        ...


class TaggedDataset(Protocol):
    """Sentences whose every token has a tag."""

    @property
    def label_names(self) -> list[str]:
        """Tag names in the order of the tag numbers."""
        ...

    @property
    def tags(self) -> NDArray[np.int64]:
        """Tag numbers (tokens,) of all sentences, one after the other."""
        ...

    def __len__(self) -> int:
        """Return the number of sentences."""
        ...

    def sentence(self, position: int) -> tuple[list[str], list[int]]:
        """Return the tokens of a sentence and their tag numbers."""
        ...
