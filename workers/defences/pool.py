"""The augmented training set RMC looks for neighbours in: every example clean, then under attack, with its features."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD
from workers.defences.copies import penultimate
from workers.defences.protocol import DefenceError, Training
from workers.models.image_classifier import ImageClassifier
from workers.models.memory import forward

CHUNK = 256
"""Examples that are attacked, or whose features are computed, at once."""

PADDING = 4
"""Pixels of zeros on every side that a random crop is taken from."""

ROWS = 65536
"""Features whose distances are computed at once, so that their differences are never all held."""


@dataclass(frozen=True)
class Pool:
    """Labelled images with their features, on the CPU (D' of RMC).

    Attributes:
        images: (n, channels, height, width) float32 in [0, 1].
        labels: (n,) int64.
        features: (n, dimensions) float32, of the base classifier.
        clean: How many of the first ones nobody attacked.
    """

    images: Tensor
    labels: Tensor
    features: Tensor
    clean: int

    def tensors(self) -> dict[str, Tensor]:
        """Return it as tensors by name, not copied."""
        return {**vars(self), "clean": torch.tensor(self.clean)}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the pool that :meth:`tensors` wrote down."""
        return cls(tensors["images"], tensors["labels"], tensors["features"], int(tensors["clean"]))

    def nearest(self, features: Tensor, count: int) -> Tensor:
        """Return the positions (count,) of the nearest rows by Euclidean distance, nearest first, the first of ties.

        Args:
            features: (dimensions,) of the point asked about.
            count: How many, at most as many as there are.
        """
        rows = torch.split(self.features, ROWS)
        distances = torch.cat([torch.linalg.vector_norm(row - features.cpu(), dim=1) for row in rows])
        return distances.sort(stable=True).indices[:count]


def make_pool(
    base: ImageClassifier,
    training: Training,
    pgd: PGD,
    *,
    passes: int,
    is_augmented: bool,
    seed: int,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Pool:
    """Return the training examples once as they are and ``passes`` times attacked on the base (Wu et al., sec. 4).

    As the official script does it: in every pass each image is cropped and flipped anew where asked for, and what is
    kept of an attack is the iterate of the largest cross-entropy, the clean image among them. The same arguments give
    the same pool, and an example's copies do not depend on the examples beside it, up to floating point.

    Args:
        base: The model attacked; its features are used.
        training: The examples.
        pgd: Attack on the training images.
        passes: Adversarial copies of each example.
        is_augmented: Crop (after padding with 4 zeros) and flip.
        seed: Seed of crops, flips and random starts.
        check_cancelled: Called before every forward and backward pass.

    Raises:
        DefenceError: There are no examples, they do not fit the model, or it has no features.
    """
    _check(base, training)
    generator = torch.Generator().manual_seed(seed)
    # Filled in place: the official size, 250,000 images of CIFAR-10, is 3 GB and should not be held twice.
    images = training.images.new_empty(((1 + passes) * len(training), *training.images.shape[1:]))
    for number in range(1 + passes):
        fresh = augmented(training.images, generator) if is_augmented else training.images
        if number > 0:
            seeds = torch.randint(2**63 - 1, (len(fresh),), generator=generator).tolist()
            fresh = _attacked(base, fresh, training.labels, pgd, seeds, check_cancelled)
        images[number * len(training) : (number + 1) * len(training)] = fresh
    features: list[Tensor] = []
    for chunk in torch.split(images, CHUNK):
        check_cancelled()
        features.append(forward(lambda inputs: penultimate(base, inputs), chunk.to(base.device)).cpu())
    return Pool(images, training.labels.repeat(1 + passes), torch.cat(features), len(training))


def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return each image (n, channels, height, width) shifted by up to 4 pixels, zeros entering, and flipped or not."""
    count, _, height, width = images.shape
    top, left = torch.randint(2 * PADDING + 1, (2, count), generator=generator)
    is_flipped = torch.rand(count, generator=generator) < 0.5
    columns = torch.arange(width).where(~is_flipped[:, None], torch.arange(width).flip(0)) + left[:, None]
    rows = torch.arange(height) + top[:, None]
    padded = F.pad(images, (PADDING,) * 4)
    examples = torch.arange(count)[:, None, None]
    # Indexed dimensions apart from each other come first in the result: (n, height, width, channels).
    return padded[examples, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _attacked(
    base: ImageClassifier,
    images: Tensor,
    labels: Tensor,
    pgd: PGD,
    seeds: list[int],
    check_cancelled: Callable[[], None],
) -> Tensor:
    batches: list[Tensor] = []
    for start in range(0, len(images), CHUNK):
        stop = start + CHUNK
        expected = labels[start:stop].to(base.device)
        outcome = pgd.run(
            [base.logits],
            images[start:stop].to(base.device),
            highest_cross_entropy(expected),
            generators=[torch.Generator().manual_seed(seed) for seed in seeds[start:stop]],
            check_cancelled=check_cancelled,
        )
        batches.append(outcome.best.cpu())
    return torch.cat(batches)


def highest_cross_entropy(labels: Tensor) -> Objective:
    """Return what a defence's own attacks want of a model: the iterate of the largest cross-entropy of (n,) labels."""
    return Objective(
        loss=lambda logits, indices: -cross_entropy(logits, labels[indices]),
        criterion=lambda logits, indices: -cross_entropy(logits[:, 0], labels[indices]),
    )


def _check(base: ImageClassifier, training: Training) -> None:
    shape = tuple(training.images.shape[1:])
    if len(training) == 0 or math.prod(shape) == 0 or shape != tuple(base.input_shape):
        raise DefenceError(f"{len(training)} training images of {shape} for a model of images {base.input_shape}")
    if int(training.labels.min()) < 0 or int(training.labels.max()) >= base.classes:
        span = f"{int(training.labels.min())} to {int(training.labels.max())}"
        raise DefenceError(f"training labels are {span}, and the model has {base.classes} classes")
