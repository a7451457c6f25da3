"""Models to measure on: small ones trained here on bundled digits, or one given on the command line."""

import argparse
import json
import pathlib
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from seatrial.contracts.architectures import LayersArchitecture
from workers.models.architectures import CifarResNet, layers


@dataclass(frozen=True)
class Case:
    """A model to attack, and with what."""

    name: str
    model: nn.Module
    images: Tensor
    labels: Tensor
    epsilon: float | None = None


def digits(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Return the bundled 8x8 digits enlarged to (n, *shape) in [0, 1], and their labels."""
    bundle = load_digits()
    images = torch.tensor(bundle.images / 16, dtype=torch.float32).unsqueeze(1)
    images = functional.interpolate(images, shape[1:], mode="bilinear").clamp(0, 1).expand(-1, *shape).contiguous()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order], torch.tensor(bundle.target)[order]


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> nn.Module:
    """Fit a model in the ordinary way and freeze it."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


def own_cases(examples: int, device: torch.device) -> list[Case]:
    """Return two small models trained here."""
    torch.manual_seed(0)
    cases = []
    cnn = nn.Sequential(
        *[nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, 10)],
    )
    for name, model, shape, epochs in (
        ("small CNN 1x28x28", cnn, (1, 28, 28), 5),
        ("ResNet-20 3x32x32", CifarResNet(20, 3, 10), (3, 32, 32), 2),
    ):
        images, labels = (tensor.to(device) for tensor in digits(shape))
        train(model.to(device), images[examples:], labels[examples:], epochs)
        attacked = examples // 8 if device.type == "cpu" and name.startswith("ResNet") else examples
        cases.append(Case(name, model, images[:attacked], labels[:attacked]))
    return cases


def given_case(arguments: argparse.Namespace, device: torch.device) -> Case:
    """Return the model and images of the command line."""
    from safetensors.torch import load_file

    note = json.loads(arguments.layers.read_text())
    if note["arch"][0] == "ResNetCifar":
        model: nn.Module = CifarResNet(6 * note["arch"][1] + 2, 3, 10)
    else:
        model = layers(LayersArchitecture(kind="layers", layers=note["arch"]))
    model.load_state_dict(load_file(str(arguments.weights)), strict=False)
    statistics_ = [torch.tensor(note["normalisation"][key]).view(1, -1, 1, 1) for key in ("mean", "std")]

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model
            self.register_buffer("mean", statistics_[0])
            self.register_buffer("std", statistics_[1])

        def forward(self, images: Tensor) -> Tensor:
            return self.inner((images - self.mean) / self.std)

    arrays = np.load(arguments.images)
    order = np.random.default_rng(0).permutation(len(arrays["images"]))[: arguments.examples]
    images = torch.tensor(arrays["images"][order]).float() / 255
    labels = torch.tensor(arrays["labels"][order])
    ready = Normalised().to(device).eval().requires_grad_(False)
    return Case(
        arguments.weights.stem, ready, images.to(device), labels.to(device), getattr(arguments, "epsilon", None)
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`given_case` needs, and the number of CPU threads."""
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's choice")
    parser.add_argument("--weights", type=pathlib.Path, help="safetensors, instead of the script's own models")
    parser.add_argument("--layers", type=pathlib.Path, help="JSON with arch and normalisation (mean, std)")
    parser.add_argument("--images", type=pathlib.Path, help=".npz with images (uint8, NCHW) and labels")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the command line's options, the threads set."""
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    return arguments
