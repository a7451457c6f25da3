"""Small models and data that train in milliseconds."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.image_classifier import ImageClassifier
from workers.training.data import Batch, InMemory
from workers.training.models import TrainableImages, TrainableTexts
from workers.training.protocol import Step

CPU = torch.device("cpu")


def image_data(count: int = 40, *, seed: int = 0, classes: int = 3) -> InMemory:
    """Images (count, 1, 4, 4) whose brightest row is, mostly, their class."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=draw)
    images = torch.rand(count, 1, 4, 4, generator=draw) * 0.6
    images[torch.arange(count), 0, labels] += 0.3
    return InMemory(images, labels.numpy().astype(np.int64))


def cnn(*, seed: int = 0, dropout: float = 0.3, has_norm: bool = True) -> TrainableImages:
    """A network with what makes resuming hard: batch normalisation and dropout."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4) if has_norm else nn.Identity(),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(64, 3),
        )
    return trainable(module, (1, 4, 4), 3)


def trainable(
    module: nn.Module, shape: tuple[int, int, int], classes: int, *, mean: float = 0.0, std: float = 1.0
) -> TrainableImages:
    labels = [str(number) for number in range(classes)]
    return TrainableImages(
        ImageClassifier(module, labels=labels, input_shape=shape, mean=[mean], std=[std], device=CPU)
    )


def linear(weights: Tensor) -> TrainableImages:
    """Logits are weights (classes, pixels) times the pixels of an image (1, 1, pixels); no bias."""
    layer = nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    layer.weight.data.copy_(weights)
    return trainable(nn.Sequential(nn.Flatten(), layer), (1, 1, weights.shape[1]), weights.shape[0])


def bert(*, seed: int = 0) -> TrainableTexts:
    """A BERT of two layers with random weights."""
    # transformers takes seconds to import, which processes that train images need not wait for.
    from tests import texts

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = texts._seeded(["negative", "positive"])
    return TrainableTexts(
        HuggingFaceTextClassifier(module, texts.review_tokenizer(), labels=["negative", "positive"], device=CPU)
    )


def text_data(count: int = 16, *, seed: int = 0) -> InMemory:
    from tests import texts

    rows = texts.sentences(count, seed=seed)
    return InMemory([text for text, _ in rows], np.array([label for _, label in rows], dtype=np.int64))


def batch_of(data: InMemory, start: int = 0, stop: int | None = None) -> Batch:
    positions = tuple(range(start, len(data.labels) if stop is None else stop))
    return Batch(positions, data.read(positions), torch.as_tensor(data.labels[list(positions)]))


def step_of(model: Any, examples: int = 1, *, seed: int = 0, epoch: int = 0) -> Step:
    return Step(model, epoch, 0, torch.Generator().manual_seed(seed), lambda: None, examples)


def gradients(model: Any) -> list[Tensor]:
    return [each.grad.clone() for each in model.module.parameters() if each.grad is not None]


def set_gradients_to_none(model: Any) -> None:
    model.module.zero_grad(set_to_none=True)
