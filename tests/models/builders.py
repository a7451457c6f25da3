"""Small models on disk."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from seatrial.contracts.models import ModelManifest

CPU = torch.device("cpu")


def manifest(architecture: dict[str, Any], **changes: Any) -> ModelManifest:
    body = {
        "name": "m",
        "version": "1",
        "task": "image-classification",
        "architecture": architecture,
        "input": {"shape": [3, 32, 32], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]},
        "labels": [f"c{number}" for number in range(10)],
        **changes,
    }
    return ModelManifest.model_validate_json(
        json.dumps({key: value for key, value in body.items() if value is not None})
    )


def store(path: Path, state: dict[str, Tensor]) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    return path


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give a module random weights and running statistics."""
    draw = torch.Generator().manual_seed(seed)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=draw) * 0.4 + (0.05 if tensor.ndim == 1 else -0.2))
    return module.eval()
