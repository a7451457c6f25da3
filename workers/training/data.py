"""Training data, read by position, and the batches made of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.store.seeds import derive_seed
from workers.data import ImageDataset, Text, TextDataset

Raw: TypeAlias = Tensor | list[Text]
"""Images (n, channels, height, width) in [0, 1] on the CPU, or texts."""


@dataclass(frozen=True)
class Batch:
    """Some examples.

    Attributes:
        positions: (n,) of the training set.
        inputs: Images, or texts.
        labels: (n,) int64 on the model's device.
    """

    positions: tuple[int, ...]
    inputs: Raw
    labels: Tensor

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, start: int, stop: int) -> "Batch":
        """Return a micro-batch."""
        if start == 0 and stop >= len(self):
            return self
        return Batch(self.positions[start:stop], self.inputs[start:stop], self.labels[start:stop])


class TrainingData(Protocol):
    """Labelled examples that are read by position."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,)."""
        ...

    def read(self, positions: Sequence[int]) -> Raw:
        """Return inputs in the order of ``positions``."""
        ...


@dataclass(frozen=True)
class Images:
    """Images of a dataset under audit, or some of them.

    Attributes:
        dataset: All of them.
        positions: (n,) those trained on.
    """

    dataset: ImageDataset
    positions: NDArray[np.int64]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,)."""
        return self.dataset.labels[self.positions]

    def read(self, positions: Sequence[int]) -> Raw:
        """Return images (len(positions), channels, height, width)."""
        return self.dataset.images([int(self.positions[each]) for each in positions])


@dataclass(frozen=True)
class Texts:
    """Texts of a dataset under audit, or some of them.

    Attributes:
        dataset: All of them.
        positions: (n,) those trained on.
    """

    dataset: TextDataset
    positions: NDArray[np.int64]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,)."""
        return self.dataset.labels[self.positions]

    def read(self, positions: Sequence[int]) -> Raw:
        """Return texts."""
        return self.dataset.texts([int(self.positions[each]) for each in positions])


@dataclass(frozen=True)
class InMemory:
    """Examples at hand.

    Attributes:
        inputs: Images (n, channels, height, width), or n texts.
        labels: (n,).
    """

    inputs: Raw
    labels: NDArray[np.int64]

    def read(self, positions: Sequence[int]) -> Raw:
        """Return inputs in the order of ``positions``."""
        if isinstance(self.inputs, Tensor):
            return self.inputs[torch.as_tensor(positions, dtype=torch.int64)]
        return [self.inputs[each] for each in positions]


def epoch_order(examples: int, seed: int, epoch: int) -> list[int]:
    """Return the positions of an epoch in its order: a permutation that depends on seed and epoch alone.

    >>> sorted(epoch_order(4, 0, 1))
    [0, 1, 2, 3]
    """
    draw = torch.Generator().manual_seed(derive_seed(seed, "training", "order", epoch))
    order: list[int] = torch.randperm(examples, generator=draw).tolist()
    return order


def read_batch(data: TrainingData, positions: Sequence[int], device: torch.device) -> Batch:
    """Return examples by position, labels on the model's device; images go there by micro-batch."""
    labels = torch.as_tensor(data.labels[np.asarray(positions, dtype=np.int64)], dtype=torch.int64)
    return Batch(tuple(positions), data.read(positions), labels.to(device))


def in_order(data: TrainingData, size: int, device: torch.device) -> Iterator[Batch]:
    """Yield all examples once, in the order of the file."""
    examples = len(data.labels)
    for start in range(0, examples, size):
        yield read_batch(data, range(start, min(start + size, examples)), device)
