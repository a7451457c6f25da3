"""The network, and how Seatrial is told about it."""

from typing import Any

from torch import nn

LAYERS: list[list[Any]] = [
    ["conv", 1, 16, 3, 1, 1],
    ["relu"],
    ["conv", 16, 16, 3, 2, 1],
    ["relu"],
    ["flatten"],
    ["linear", 256, 10],
]

MANIFEST: dict[str, Any] = {
    "name": "digits",
    "version": "1",
    "task": "image-classification",
    "architecture": {"kind": "layers", "layers": LAYERS},
    "input": {"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]},
    "labels": [str(digit) for digit in range(10)],
}


def build() -> nn.Sequential:
    """Return the untrained network of ``LAYERS``, from images (batch, 1, 8, 8) in [0, 1] to logits (batch, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
