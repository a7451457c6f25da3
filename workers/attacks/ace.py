"""The (eta, omega)-ACE attacks: confidence in a class lowered or raised, the prediction kept (Emde et al.)."""

import torch
from torch import Tensor

from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Condition, Objective

ETA_OMEGA: dict[str, tuple[int, str]] = {
    "ace_lower_true": (1, "true"),
    "ace_raise_true": (-1, "true"),
    "ace_lower_predicted": (1, "predicted"),
    "ace_raise_predicted": (-1, "predicted"),
}
"""eta and omega by name: confidence in the true or the predicted class is lowered (1) or raised (-1)."""


def eta_omega(eta: int, omega: Tensor, predictions: Tensor | None = None) -> Objective:
    """Return the objective of (eta, omega)-ACE: greatest eta times cross-entropy to ``omega``, prediction kept.

    An example whose prediction would change stops at its last iterate before that.

    Args:
        eta: 1 lowers the confidence in ``omega``, -1 raises it.
        omega: (n,) true labels or clean predictions.
        predictions: (n,) predictions to keep; None where a certificate says that they cannot change. The best iterate
            is kept then, of all.
    """

    def loss(logits: Tensor, indices: Tensor) -> Tensor:
        return -eta * cross_entropy(logits, omega[indices])

    floor = 0.0 if eta < 0 else -torch.inf
    if predictions is None:
        return Objective(loss=loss, criterion=lambda logits, indices: loss(logits[:, 0], indices), floor=floor)
    return Objective(loss=loss, feasible=keeps(predictions), stops_when_infeasible=True, floor=floor)


def keeps(predictions: Tensor) -> Condition:
    """Return the condition that the (first) model still predicts ``predictions`` (n,)."""
    return lambda logits, indices: logits[:, 0].argmax(1) == predictions[indices]
