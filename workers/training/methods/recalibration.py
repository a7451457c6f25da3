"""Maps of logits, fitted on held-out examples, as JSON that a manifest can hold, and what applies them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seatrial.hardening.recalibration import RecalibrateParams
from seatrial.statistics.arrays import Floats
from workers.calibration.scaling import fit_platt, fit_temperature
from workers.errors import PreflightError

LEAST = 1e-12
"""Least probability after an isotonic map: a logarithm is taken of it."""


def recalibrate(params: RecalibrateParams, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """Return the map that suits held-out logits (n, classes) and labels (n,) best, as :func:`recalibrated` takes it.

    Raises:
        PreflightError: The examples do not determine it: none is wrong, say.
    """
    values, truth = logits.detach().cpu().double().numpy(), labels.cpu().numpy().astype(np.int64)
    if params.map == "temperature":
        fitted = fit_temperature(values, truth)
        _refuse(fitted.degenerate)
        return {"map": "temperature", "temperature": fitted.temperature}
    if params.map == "isotonic":
        _refuse("no_examples" if len(values) == 0 else None)
        scores = torch.softmax(logits.detach().cpu().double(), 1).numpy()
        steps = [isotonic_steps(scores[:, k], truth == k) for k in range(scores.shape[1])]
        return {"map": "isotonic", "classes": [{"at": at.tolist(), "to": to.tolist()} for at, to in steps]}
    platt = fit_platt(values, truth, params.map)
    _refuse(platt.degenerate)
    return {"map": params.map, "weights": platt.weights.tolist(), "bias": platt.bias.tolist()}


def recalibrated(how: Mapping[str, Any], logits: Tensor) -> Tensor:
    """Return logits (n, classes) after a map, in the precision and on the device of those given.

    Differentiable, but for ``isotonic``, whose steps are flat: attacks need the logits before it.
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


def isotonic_steps(scores: Floats, hits: Floats) -> tuple[Floats, Floats]:
    """Return where a rising step function begins each step (k,), and its values (k,), nearest to 0/1 ``hits`` (n,).

    Least squares by pooling adjacent violators; equal scores are one point, at their mean.

    >>> at, to = isotonic_steps(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]))
    >>> at.tolist(), to.tolist()
    ([0.1, 0.4, 0.9], [0.0, 0.5, 1.0])
    """
    at, which, counts = np.unique(np.asarray(scores, np.float64), return_inverse=True, return_counts=True)
    sums = np.bincount(which, weights=np.asarray(hits, np.float64))
    blocks: list[tuple[float, float, float]] = []
    for begins, total, count in zip(at.tolist(), sums.tolist(), counts.tolist(), strict=True):
        blocks.append((begins, total, count))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][2] >= blocks[-1][1] * blocks[-2][2]:
            _, later, more = blocks.pop()
            first, earlier, fewer = blocks.pop()
            blocks.append((first, earlier + later, fewer + more))
    return np.array([begins for begins, _, _ in blocks]), np.array([total / count for _, total, count in blocks])


def _stepped(scores: Tensor, steps: Mapping[str, Any]) -> Tensor:
    at, to = (torch.as_tensor(steps[name], dtype=torch.float64, device=scores.device) for name in ("at", "to"))
    # Below the first step there was no example: its value is the nearest one known.
    return to[(torch.searchsorted(at, scores.contiguous(), right=True) - 1).clamp_min(0)]


def _refuse(degenerate: str | None) -> None:
    if degenerate is not None:
        raise PreflightError(
            "recalibration-undetermined",
            "The held-out examples do not determine the map",
            f"{degenerate.replace('_', ' ')}: give more of them, of which the model has some wrong, or a map with "
            "fewer parameters",
            field="/validation_dataset",
        )
