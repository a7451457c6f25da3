"""Where a run is: weights, optimiser, generators and curves, as safetensors and JSON, never pickle."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

NAME = "checkpoint.json"


class CheckpointError(ValueError):
    """A checkpoint is damaged, or of another run."""


@dataclass(frozen=True)
class Checkpoint:
    """A run between two steps.

    Attributes:
        tensors: On the CPU: ``model.*``, ``best.*``, ``optimizer.*``, ``generator.*``, ``loss``.
        document: JSON: where the run is, what it is a run of, its curves, the optimiser's numbers.
    """

    tensors: Mapping[str, Tensor]
    document: Mapping[str, Any]

    def to_bytes(self) -> tuple[bytes, bytes]:
        """Return the safetensors file and the JSON document, which names the digest of the former."""
        weights = save({name: tensor.contiguous() for name, tensor in self.tensors.items()})
        document = {**self.document, "sha256": hashlib.sha256(weights).hexdigest()}
        return weights, json.dumps(document, allow_nan=False, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, weights: bytes, document: bytes) -> "Checkpoint":
        """Return the checkpoint of two files.

        Raises:
            CheckpointError: One is damaged, or they are not of one checkpoint.
        """
        try:
            read = json.loads(document)
            digest = read.pop("sha256")
        except (ValueError, KeyError, AttributeError) as error:
            raise CheckpointError("the document of the checkpoint is damaged") from error
        if hashlib.sha256(weights).hexdigest() != digest:
            raise CheckpointError("weights and document are not of one checkpoint")
        return cls(load(weights), read)


class CheckpointFolder:
    """Keeps the newest checkpoint of a run in a folder.

    Guarantee: a process killed at any moment leaves a whole checkpoint, the new one or the one before: the document is
    put in place last, in one move, and names its weights by their digest.

    Args:
        folder: Made where it is not there; of this run alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        weights, document = checkpoint.to_bytes()
        name = f"{json.loads(document)['sha256']}.safetensors"
        self._put(name, weights)
        self._put(NAME, document)
        for path in self._folder.glob("*.safetensors"):
            if path.name != name:
                path.unlink()

    def load(self) -> Checkpoint | None:
        """Return the newest checkpoint; None where there is none.

        Raises:
            CheckpointError: Its files are damaged.
        """
        try:
            document = (self._folder / NAME).read_bytes()
        except FileNotFoundError:
            return None
        try:
            name = f"{json.loads(document)['sha256']}.safetensors"
            weights = (self._folder / Path(name).name).read_bytes()
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise CheckpointError(f"the checkpoint in {self._folder.name} is damaged") from error
        return Checkpoint.from_bytes(weights, document)

    def _put(self, name: str, content: bytes) -> None:
        part = self._folder / f"{name}.part"
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._folder / name)


def copied(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU: tied weights share memory, which safetensors refuses."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return an optimiser's tensors by name, and its other numbers as JSON."""
    state = optimizer.state_dict()
    tensors, numbers = {}, {}
    for number, values in state["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{number}.{key}"] = copied(value)
            else:
                numbers[f"{number}.{key}"] = value
    return tensors, {"numbers": numbers, "rates": [group["lr"] for group in state["param_groups"]]}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> None:
    """Put an optimiser back to where :func:`pack_optimizer` found it; it was made with the same parameters."""
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".", 2)
            state.setdefault(int(number), {})[key] = tensor
    for name, value in document["numbers"].items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for group, rate in zip(optimizer.param_groups, document["rates"], strict=True):
        group["lr"] = rate
