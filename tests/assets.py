"""A real classifier in a second: a small CNN on scikit-learn's bundled digits."""

import gzip
import io
import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_safetensors
from torch import nn

LAYERS: list[list[Any]] = [
    ["conv", 1, 16, 3, 1, 1],
    ["relu"],
    ["conv", 16, 16, 3, 2, 1],
    ["relu"],
    ["flatten"],
    ["linear", 256, 10],
]


def model_manifest(name: str = "digits-cnn", version: str = "1", **more: Any) -> dict[str, Any]:
    """Return the manifest of the digits classifier."""
    return {
        "name": name,
        "version": version,
        "task": "image-classification",
        "architecture": {"kind": "layers", "layers": LAYERS},
        "input": {"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]},
        "labels": [str(digit) for digit in range(10)],
        **more,
    }


def dataset_manifest(name: str = "digits", version: str = "1", **more: Any) -> dict[str, Any]:
    """Return the manifest of the digits."""
    return {"name": name, "version": version, "task": "image-classification", "split": "test", **more}


@lru_cache(maxsize=1)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images (1797, 1, 8, 8) uint8 and labels (1797,) int64."""
    # Importing scikit-learn for one file of it takes every test process seconds.
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz") as lines:
        rows = np.loadtxt(lines, delimiter=",")
    images = rows[:, :-1].reshape(-1, 8, 8)
    return (images * 255 / 16).round().astype(np.uint8)[:, None], rows[:, -1].astype(np.int64)


def build() -> nn.Sequential:
    """Return the untrained network of ``LAYERS``."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )


@lru_cache(maxsize=1)
def trained() -> nn.Sequential:
    """Return the network trained for a few epochs on the first 1,000 digits."""
    images, labels = digits()
    inputs, targets = torch.tensor(images[:1000]).float() / 255, torch.tensor(labels[:1000])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build()
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(12):
            for batch in torch.randperm(len(inputs)).split(100):
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(inputs[batch]), targets[batch]).backward()
                optimizer.step()
    return network.eval()


def weights(scale: float = 1.0) -> bytes:
    """Return the trained weights as safetensors; ``scale`` multiplies the logits."""
    state = {name: tensor.detach().clone() for name, tensor in trained().state_dict().items()}
    state["5.weight"] *= scale
    state["5.bias"] *= scale
    return save_safetensors(state)


def exported() -> bytes:
    """Return the trained classifier as ``torch.export.save`` writes it."""
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(trained(), (torch.rand(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def npz(count: int = 300, first: int = 1000, scale: np.float32 | None = None) -> bytes:
    """Return held-out digits as .npz bytes; the pixels times ``scale``."""
    images, labels = digits()
    buffer = io.BytesIO()
    chosen = images[first : first + count]
    np.savez(buffer, images=chosen if scale is None else chosen * scale, labels=labels[first : first + count])
    return buffer.getvalue()


def multipart(manifest: dict[str, Any], name: str, data: bytes) -> dict[str, Any]:
    """Return the arguments of an upload with httpx."""
    return {"data": {"manifest": json.dumps(manifest)}, "files": {"file": (name, data)}}
