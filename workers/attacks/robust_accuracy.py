"""Untargeted PGD on accuracy: the attack behind every robust-accuracy number."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Objective, Outcome
from workers.attacks.pgd import PGD


def pgd_untargeted(
    pgd: PGD,
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    until_wrong: bool = True,
    generators: Sequence[torch.Generator] | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Outcome:
    """Raise the cross-entropy of the true labels (Madry et al. 2018, sec. 2.1).

    Args:
        pgd: Norm, radius, steps.
        model: Images to logits.
        images: (n, ...) in [0, 1].
        labels: (n,) int64.
        until_wrong: Examples leave the batch at their first misclassified iterate, ``outcome.reached``; False runs
            every step on every example and returns the last iterate.
        generators: One per example, for random starts.
        check_cancelled: Called before every step.
    """
    objective = Objective(
        loss=lambda logits, indices: -cross_entropy(logits, labels[indices]),
        until=(lambda logits, indices: is_wrong(logits[:, 0], labels[indices])) if until_wrong else None,
    )
    return pgd.run([model], images, objective, generators=generators, check_cancelled=check_cancelled)


def robust_accuracy(
    pgd: PGD,
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    generators: Sequence[torch.Generator] | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return (n,) bool: right at every iterate, the clean image included.

    The mean is an upper bound of the true robust accuracy. An example whose output is not finite is not robust.
    """
    outcome = pgd_untargeted(pgd, model, images, labels, generators=generators, check_cancelled=check_cancelled)
    return ~(outcome.reached | outcome.non_finite)


def is_wrong(logits: Tensor, labels: Tensor) -> Tensor:
    """Return (n,) bool: the prediction (first class on ties) is not the label, or the output is not finite.

    >>> is_wrong(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0])).tolist()
    [False, True]
    """
    return (logits.argmax(1) != labels) | ~logits.isfinite().all(1)
