"""Applying a map of logits that a manifest holds."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.contracts.models import ModelManifest
from seatrial.contracts.recalibration import classes_of
from workers.errors import TargetError

LEAST = 1e-12
"""Least probability after an isotonic map: a logarithm is taken of it."""


class Recalibrated(nn.Module):
    """A network with a map of its logits behind it.

    Args:
        module: Returns logits (batch, classes).
        how: The map, as manifests hold it.
    """

    def __init__(self, module: nn.Module, how: Mapping[str, Any]) -> None:
        super().__init__()
        self.module = module
        self.how = how

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits after the map."""
        return attackable(self.how, self.module(inputs))


def map_of(manifest: ModelManifest, classes: int) -> Mapping[str, Any] | None:
    """Return the map a manifest holds; None where it holds none.

    Raises:
        TargetError: It is for another number of classes.
    """
    if manifest.recalibration is None:
        return None
    count = classes_of(manifest.recalibration)
    if count not in (None, classes):
        raise TargetError(
            "recalibration-mismatch",
            "The map of logits is for another number of classes",
            f"it is for {count if (count or 0) >= 0 else 'unequal numbers of'} classes, the model has {classes}",
            field="/manifest/recalibration",
        )
    return manifest.recalibration.model_dump()


def recalibrated(how: Mapping[str, Any], logits: Tensor) -> Tensor:
    """Return logits (n, classes) after a map, in the precision and on the device of those given.

    Differentiable, but for ``isotonic``, whose steps are flat.
    """
    kind = how["map"]
    if kind == "temperature":
        return logits / float(how["temperature"])
    if kind == "isotonic":
        scores = torch.softmax(logits.double(), 1)
        columns = [_stepped(scores[:, k], one) for k, one in enumerate(how["classes"])]
        mapped = torch.stack(columns, 1).clamp_min(LEAST)
        return (mapped / mapped.sum(1, keepdim=True)).log().to(logits)
    weights, bias = torch.as_tensor(how["weights"]).to(logits), torch.as_tensor(how["bias"]).to(logits)
    return (logits * weights if weights.ndim == 1 else logits @ weights.T) + bias


def attackable(how: Mapping[str, Any], logits: Tensor) -> Tensor:
    """Return :func:`recalibrated` logits with gradients that lead somewhere.

    Those of ``isotonic`` are 0 wherever there are any, which would stop every attack by gradients and leave the model
    as weak as it was (Athalye et al. 2018, backward pass differentiable approximation): they are those of the network.
    """
    mapped = recalibrated(how, logits)
    return logits + (mapped - logits).detach() if how["map"] == "isotonic" else mapped


def _stepped(scores: Tensor, steps: Mapping[str, Any]) -> Tensor:
    at, to = (torch.as_tensor(steps[name], dtype=torch.float64, device=scores.device) for name in ("at", "to"))
    # Below the first step there was no example: its value is the nearest one known.
    return to[(torch.searchsorted(at, scores.contiguous(), right=True) - 1).clamp_min(0)]
