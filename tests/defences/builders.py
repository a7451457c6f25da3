"""A small classifier with batch norm and dropout on the bundled digits, trained in a second."""

from functools import lru_cache

import torch
from torch import Tensor, nn

from tests.assets import digits
from workers.defences.protocol import Training
from workers.models.image_classifier import ImageClassifier

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(first: int, count: int) -> Tensor:
    return torch.tensor(digits()[0][first : first + count]).float() / 255


def labels(first: int, count: int) -> Tensor:
    return torch.tensor(digits()[1][first : first + count])


def training(count: int = 400) -> Training:
    return Training(images(0, count), labels(0, count))


def points(count: int, first: int = 1200) -> Tensor:
    return images(first, count)


def network(dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Sequential(nn.Conv2d(8, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        nn.Dropout(dropout),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


@lru_cache(maxsize=1)
def _trained() -> dict[str, Tensor]:
    inputs, targets = images(0, 1000), labels(0, 1000)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = network()
        optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
        for _ in range(8):
            for chosen in torch.randperm(len(inputs)).split(100):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module((inputs[chosen] - 0.3) / 0.4), targets[chosen]).backward()
                optimizer.step()
    return module.state_dict()


def classifier(module: nn.Module, channels: int = 1, size: int = 8) -> ImageClassifier:
    return ImageClassifier(
        module,
        labels=[str(label) for label in range(10)],
        input_shape=(channels, size, size),
        mean=[0.3],
        std=[0.4],
        device=CPU,
    )


def base(dropout: float = 0.0) -> ImageClassifier:
    """Return a new object around the same trained weights."""
    module = network(dropout)
    module.load_state_dict(_trained())
    return classifier(module)


def weights(target: ImageClassifier) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in target.module.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())
