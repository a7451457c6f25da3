"""The difference-of-logits-ratio losses, their stand-ins for two and three classes, and which classes are targeted.

All take logits (n, classes) and return (n,); an attack raises them. DLR divides by a difference of logits, so that
neither a shift nor a scale of the logits hides the gradient (Croce and Hein 2020, sec. 4.1, eqs. 6 and 7).

With few classes the ratios do not exist, and what takes their place is exact enough to say why:

* two classes: the difference of the two logits. It is a monotone function of the cross-entropy, so both attacks climb
  the same way and the second is a second random start; but it does not flatten out when the softmax saturates.
* three classes, targeted: the difference of the two logits. (z_(1) - z_(3) as divisor would make the loss constant
  where the target is last, a masked gradient of our own making.) Untargeted DLR is defined.
"""

import torch
from torch import Tensor

from workers.attacks.gradients import Loss
from workers.attacks.losses import margin

SMALL = 1e-12


def dlr(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -(z_y - max_{k != y} z_k) / (z_(1) - z_(3)), z_(i) the i-th largest logit: positive when misclassified.

    Raises:
        ValueError: Fewer than three classes.

    >>> dlr(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0])).item()
    -0.5
    """
    _need(logits, 3)
    largest = logits.topk(3, dim=1).values
    return -margin(logits, labels) / (largest[:, 0] - largest[:, 2] + SMALL)


def targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return -(z_y - z_t) / (z_(1) - (z_(3) + z_(4)) / 2).

    Raises:
        ValueError: Fewer than four classes.

    >>> targeted_dlr(torch.tensor([[5.0, 3.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([1])).item()
    -0.5
    """
    _need(logits, 4)
    largest = logits.topk(4, dim=1).values
    return lead(logits, labels, targets) / (largest[:, 0] - (largest[:, 2] + largest[:, 3]) / 2 + SMALL)


def lead(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return z_t - z_y, by how much the target leads the label.

    >>> lead(torch.tensor([[5.0, 3.0]]), torch.tensor([0]), torch.tensor([1])).item()
    -2.0
    """
    return (logits.gather(1, targets.unsqueeze(1)) - logits.gather(1, labels.unsqueeze(1))).squeeze(1)


def untargeted_loss(labels: Tensor) -> Loss:
    """Return what the untargeted attack descends: -DLR from three classes on, the margin for two."""

    def loss(logits: Tensor, indices: Tensor) -> Tensor:
        return margin(logits, labels[indices]) if logits.shape[-1] < 3 else -dlr(logits, labels[indices])

    return loss


def targeted_loss(labels: Tensor, targets: Tensor) -> Loss:
    """Return what the targeted attack descends: -targeted DLR from four classes on, z_y - z_t below."""

    def loss(logits: Tensor, indices: Tensor) -> Tensor:
        ratio = lead if logits.shape[-1] < 4 else targeted_dlr
        return -ratio(logits, labels[indices], targets[indices])

    return loss


def likeliest_targets(logits: Tensor, labels: Tensor, most: int) -> Tensor:
    """Return the wrong classes (n, targets) by falling logit, first class on ties; at most ``most`` of them.

    >>> likeliest_targets(torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([1]), 9)
    tensor([[2, 0]])
    """
    others = logits.scatter(1, labels.unsqueeze(1), -torch.inf)
    return others.argsort(dim=1, descending=True, stable=True)[:, : min(most, logits.shape[1] - 1)]


def _need(logits: Tensor, classes: int) -> None:
    if logits.shape[1] < classes:
        raise ValueError(f"this ratio of logits needs {classes} classes; the model has {logits.shape[1]}")
