"""The networks of DANN, TADV and URejectron, for images of any shape; all take images in [0, 1].

Where an audit's models have the architecture too, it is theirs (:mod:`workers.models.architectures`).
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from workers.defences.protocol import DefenceError
from workers.models.architectures import CifarResNet, PreActResNet18, lenet

Shape = tuple[int, int, int]
"""Channels, height, width of the images."""

KERNEL = 5
"""Of the first two convolutions of DANN's network and of LeNet."""


class _Reversal(torch.autograd.Function):
    """The identity, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, alpha: float) -> Tensor:
        ctx.alpha = alpha
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.alpha * gradients[0], None


def reverse_gradient(inputs: Tensor, alpha: float) -> Tensor:
    """Return the inputs, through which a gradient comes back -alpha times (Ganin et al. 2016, eq. 16 and 17)."""
    return cast("Tensor", _Reversal.apply(inputs, alpha))  # type: ignore[no-untyped-call]


class Standardise(nn.Module):
    """Subtracts a mean and divides by a standard deviation, one or one per channel; both are part of the state."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(1, -1, 1, 1))

    @classmethod
    def nothing(cls, channels: int) -> "Standardise":
        """Return the layer that changes nothing, for its place in a network whose state is loaded."""
        return cls([0.0] * channels, [1.0] * channels)

    @classmethod
    def of(cls, images: Tensor) -> "Standardise":
        """Return the layer that gives these images (n, channels, height, width) mean 0 and deviation 1 by channel."""
        # A channel that never varies has no scale of its own.
        deviations = [float(images[:, channel].std()) or 1.0 for channel in range(images.shape[1])]
        return cls([float(images[:, channel].mean()) for channel in range(images.shape[1])], deviations)

    def forward(self, images: Tensor) -> Tensor:
        """Return images (batch, channels, height, width) on the new scale."""
        return (images - self.mean) / self.std


class SpatialMean(nn.Module):
    """(batch, channels, height, width) to (batch, channels).

    A mean, because the backward pass of adaptive pooling adds atomically on CUDA, in an order that varies.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return the mean over height and width."""
        return features.mean(dim=(2, 3))


class DomainNetwork(nn.Module):
    """Features that a predictor labels and a discriminator, behind a gradient reversal, tells the domain of.

    Args:
        features: Images to feature maps.
        predictor: Feature maps to logits (batch, classes).
        discriminator: Feature maps to logits (batch, 2) of source and target.
    """

    def __init__(self, features: nn.Module, predictor: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.features, self.predictor, self.discriminator = features, predictor, discriminator

    def forward(self, images: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
        """Return logits of classes (batch, classes) and of domains (batch, 2); the latter pull features backwards."""
        features = self.features(images)
        return self.predictor(features), self.discriminator(reverse_gradient(features, alpha))

    @property
    def classifier(self) -> nn.Sequential:
        """What answers once training is over, around the same weights."""
        return nn.Sequential(self.features, self.predictor)


def convolutional_domain_network(
    shape: Shape,
    classes: int,
    standardise: Standardise,
    *,
    channels: tuple[int, int] = (64, 128),
    hidden: int = 256,
    depths: tuple[int, int, int] = (2, 3, 5),
) -> DomainNetwork:
    """Return the network of the MNIST experiments (official code, ``dann_model.py``).

    Its 5x5 convolutions are unpadded. Images with a side under 16 would be used up by them; there they are padded,
    which is ours.

    Args:
        shape: Shape of the images.
        classes: Logits per example.
        standardise: The first layer.
        channels: Output channels of the two 5x5 convolutions; the second number is that of all later ones too.
        hidden: Units between the last feature map and the logits.
        depths: 3x3 convolutions of the encoder, the predictor and the discriminator.

    Raises:
        DefenceError: Nothing would be left of a side after pooling twice.
    """
    first, second = channels
    padding = 0 if min(shape[1:]) >= 16 else KERNEL // 2
    cells = second * _cells(shape, padding)
    encoder, predictor, discriminator = depths
    features = nn.Sequential(
        standardise,
        *[nn.Conv2d(shape[0], first, KERNEL, padding=padding), nn.BatchNorm2d(first), nn.MaxPool2d(2), nn.ReLU()],
        *[nn.Conv2d(first, second, KERNEL, padding=padding), nn.BatchNorm2d(second), nn.Dropout2d()],
        *[nn.MaxPool2d(2), nn.ReLU()],
        *_convolutions(second, encoder, has_norm=True),
    )
    labelling = nn.Sequential(
        *_convolutions(second, predictor, has_norm=True),
        *[nn.Flatten(), nn.Linear(cells, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, classes)],
    )
    return DomainNetwork(features, labelling, _discriminator(second, cells, hidden, discriminator))


def resnet_domain_network(shape: Shape, classes: int, standardise: Standardise) -> DomainNetwork:
    """Return a ResNet-18 whose features are what the third of its four stages gives (Chen et al., app. A).

    The code of the CIFAR-10 experiments was not published. Ours has pre-activation blocks, and the discriminator of the
    MNIST network (five 3x3 convolutions, 256 units) on 256 channels.
    """
    network = PreActResNet18(shape[0], classes, has_final_norm=True)
    assert network.bn is not None  # noqa: S101
    features = nn.Sequential(standardise, network.conv1, network.layer1, network.layer2, network.layer3)
    predictor = nn.Sequential(network.layer4, network.bn, nn.ReLU(), SpatialMean(), network.linear)
    # Two stages halve each side, rounding up.
    cells = 256 * -(-shape[1] // 4) * -(-shape[2] // 4)
    return DomainNetwork(features, predictor, _discriminator(256, cells, 256, 5))


def lenet_like(
    shape: Shape, classes: int, *, channels: tuple[int, int] = (32, 64), hidden: int = 1024
) -> nn.Sequential:
    """Return LeNet: two padded 5x5 convolutions, pooling after each, one hidden layer; no normalisation of the input.

    At the default widths, for images of 1x28x28, it is :func:`workers.models.architectures.lenet` itself.

    Raises:
        DefenceError: Nothing would be left of a side after pooling twice.
    """
    first, second = channels
    cells = second * _cells(shape, KERNEL // 2)
    if shape == (1, 28, 28) and channels == (32, 64) and hidden == 1024:
        return lenet(classes)
    return nn.Sequential(
        *[nn.Conv2d(shape[0], first, KERNEL, padding=KERNEL // 2), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Conv2d(first, second, KERNEL, padding=KERNEL // 2), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Flatten(), nn.Linear(cells, hidden), nn.ReLU(), nn.Linear(hidden, classes)],
    )


def resnet20(shape: Shape, classes: int) -> CifarResNet:
    """Return the ResNet-20 of He et al.: 16, 32 and 64 channels, parameter-free shortcuts.

    The official TADV code calls ResNet-20 one of four times the channels with 1x1 convolutions as shortcuts.
    """
    return CifarResNet(20, shape[0], classes)


def resnet18(shape: Shape, classes: int) -> PreActResNet18:
    """Return a ResNet-18 for small images, with pre-activation blocks (the official URejectron code: without)."""
    return PreActResNet18(shape[0], classes, has_final_norm=True)


def _cells(shape: Shape, padding: int) -> int:
    """Return the pixels that are left of an image after two 5x5 convolutions, each with a pooling by two."""
    lost = KERNEL - 1 - 2 * padding
    height, width = (((side - lost) // 2 - lost) // 2 for side in shape[1:])
    if min(height, width) < 1:
        raise DefenceError(f"images of {shape[1]}x{shape[2]} pixels are too small: this network pools twice")
    return height * width


def _convolutions(channels: int, count: int, *, has_norm: bool) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for _ in range(count):
        layers.append(nn.Conv2d(channels, channels, 3, padding=1))
        layers += [nn.BatchNorm2d(channels), nn.ReLU()] if has_norm else [nn.ReLU()]
    return layers


def _discriminator(channels: int, cells: int, hidden: int, depth: int) -> nn.Sequential:
    return nn.Sequential(
        *_convolutions(channels, depth, has_norm=False),
        *[nn.Flatten(), nn.Linear(cells, hidden), nn.ReLU(), nn.Linear(hidden, 2)],
    )
