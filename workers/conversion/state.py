"""Reading a state dict without running anything that is in the file."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from workers.conversion.errors import ConversionError
from workers.models.state_dicts import strip_prefixes

WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "params", "ema", "weights")
"""Names training code stores a state dict under, beside its optimizer and its epoch."""
FACTORY = "give the code that builds the network with --factory package.module:make"


def read_state(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a state dict, prefixes stripped.

    ``torch.load`` is told to read weights only: whatever else the file holds is refused and never called.

    Raises:
        ConversionError: It holds something else.
    """
    try:
        held = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = str(error).partition("GLOBAL ")[2].partition(" ")[0] or "objects of classes"
        raise ConversionError(
            f"{path} holds more than weights ({named}), and is not loaded: save `model.state_dict()`, or {FACTORY}"
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, SafetensorError) as error:
        raise ConversionError(
            f"{path} holds no state dict that torch reads ({str(error).splitlines()[0][:200]}). Of TorchScript, "
            f"{FACTORY}"
        ) from error
    return strip_prefixes(_tensors(held, path))


def _tensors(held: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(held, Mapping):
        tensors = {name: value for name, value in held.items() if isinstance(name, str) and isinstance(value, Tensor)}
        if tensors:
            return tensors
        for name in WRAPPERS:
            if isinstance(held.get(name), Mapping):
                return _tensors(held[name], path)
    raise ConversionError(f"{path} holds {type(held).__name__} without tensors: save `model.state_dict()`")
