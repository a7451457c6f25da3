"""Maps of logits, fitted on held-out examples, as JSON that a manifest can hold."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from seatrial.hardening.recalibration import RecalibrateParams
from seatrial.statistics.arrays import Floats
from workers.calibration.scaling import fit_platt, fit_temperature
from workers.errors import PreflightError


def recalibrate(params: RecalibrateParams, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """Return the map that suits held-out logits (n, classes) and labels (n,) best, as manifests hold it.

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


def _refuse(degenerate: str | None) -> None:
    if degenerate is not None:
        raise PreflightError(
            "recalibration-undetermined",
            "The held-out examples do not determine the map",
            f"{degenerate.replace('_', ' ')}: give more of them, of which the model has some wrong, or a map with "
            "fewer parameters",
            field="/validation_dataset",
        )
