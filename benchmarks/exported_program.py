"""An exported program beside the module it was exported from: seconds forward, and forward and backward to the image.

    python -m benchmarks.exported_program

A ResNet-18 (He et al. 2016, table 1), written here in plain torch, with random weights; both frozen, in eval mode. The
two take turns on the same batch, and who begins alternates; the ratio is the median of
the turns'. Ends with status 1 when the
outputs or gradients differ in a bit, or the program has less than 0.9 of the module's speed.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from workers.models.torch_exported import load_exported_image

TARGET = 0.9


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, as torchvision's BasicBlock has them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)  # type: ignore[no-any-return]


def resnet18(classes: int) -> nn.Sequential:
    """Return ResNet-18 for 224x224 images."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for width in (64, 128, 256, 512):
        layers += [Block(channels, width, 1 if width == 64 else 2), Block(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def timed(function: Callable[[], object]) -> float:
    """Return the seconds a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def main() -> None:
    """Print both speeds, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    module = resnet18(100).eval().requires_grad_(False)
    shape = (3, options.side, options.side)
    manifest = ModelManifest.model_validate(
        {
            "name": "resnet18",
            "version": "1",
            "task": "image-classification",
            "architecture": {"kind": "exported"},
            "input": {"shape": list(shape), "mean": [0.0], "std": [1.0]},
            "labels": [str(number) for number in range(100)],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        batch = torch.export.Dim("batch", min=1, max=4096)
        torch.export.save(torch.export.export(module, (torch.rand(2, *shape),), dynamic_shapes=({0: batch},)), path)
        print(f"{path.stat().st_size / 2**20:.0f} MiB", end=", ")
        started = time.perf_counter()
        program = load_exported_image(manifest, path, torch.device("cpu"), limits=Settings()).module
        print(f"loaded in {time.perf_counter() - started:.2f} s, shapes traced first")
    images = torch.rand(options.batch, *shape)

    def forward(network: nn.Module) -> Tensor:
        with torch.no_grad():
            logits: Tensor = network(images)
        return logits

    def backward(network: nn.Module) -> Tensor:
        leaf = images.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(network(leaf).logsumexp(1).sum(), leaf)
        return gradient

    is_good = True
    for name, step in (("forward", forward), ("forward and backward", backward)):
        is_same = torch.equal(step(module), step(program))
        seconds: dict[str, list[float]] = {"module": [], "program": []}
        for turn in range(options.repeats):
            both = [("module", module), ("program", program)]
            for who, network in both if turn % 2 else reversed(both):
                seconds[who].append(timed(lambda step=step, network=network: step(network)))  # type: ignore[misc]
        eager, exported = (statistics.median(seconds[who]) for who in ("module", "program"))
        ratio = statistics.median(m / p for m, p in zip(seconds["module"], seconds["program"], strict=True))
        print(
            f"{name}: module {eager:.3f} s, program {exported:.3f} s, speed ratio {ratio:.3f}; "
            f"{'equal to the bit' if is_same else 'DIFFERENT'}"
        )
        is_good = is_good and is_same and ratio >= TARGET
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
