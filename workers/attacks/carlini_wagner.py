"""Attacks through differences of logits, and the many runs of them that DENT is attacked with (Chen et al., app. A).

The logits' differences do not saturate where a softmax does. Which class is easiest to reach differs from example to
example, so DENT is attacked by several untargeted runs and one run towards each other class, and every example keeps
the run that makes some wrong class most probable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.autoattack.dlr import lead
from workers.attacks.gradients import Combine, IndexedModel, Loss, joined
from workers.attacks.losses import margin
from workers.attacks.model_space import Found, descend, lengthened
from workers.attacks.pgd import PGD
from workers.attacks.regions import per_example


def untargeted(logits: Tensor, labels: Tensor) -> Tensor:
    """Return L1 = -z_y + max_{k != y} z_k (n,), which an attack raises: positive when misclassified.

    >>> untargeted(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0])).item()
    -2.0
    """
    return -margin(logits, labels)


def targeted(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Return L2 = -z_y + z_t (n,), which an attack raises.

    >>> targeted(torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([0]), torch.tensor([2])).item()
    -4.0
    """
    return lead(logits, labels, targets)


def wrong_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the softmax probability of the likeliest wrong class, max_{k != y} p_k (n,), in float64.

    >>> wrong_confidence(torch.zeros(1, 4), torch.tensor([2])).item()
    0.25
    """
    return logits.double().softmax(1).scatter(1, labels.unsqueeze(1), 0.0).amax(1)


@dataclass(frozen=True)
class RaiseWrongConfidence:
    """Runs of PGD, untargeted from several random starts and then once towards each of several wrong classes.

    Guarantee: against one model, some wrong class is at least as probable as at the clean image. In a run the best
    iterate of its own loss counts; between runs and the clean image, the first with the largest
    :func:`wrong_confidence`. Against several models that is their sum or, under ``max``, the least of them. A
    generator's draws are those of the first run, then those of the second, and so on.

    Attributes:
        pgd: Norm, radius, step size; ``steps`` are those of one run against one model.
        starts: Untargeted runs.
        targets: Most targeted runs; example by example the classes after the true one, round the end, up to C - 1.

    Raises:
        ValueError: A number is out of range, or untargeted runs could only repeat each other.
    """

    pgd: PGD
    starts: int = 5
    targets: int = 9

    def __post_init__(self) -> None:
        if self.starts < 1 or self.targets < 0:
            raise ValueError(f"not an attack: {self}")
        if self.starts > 1 and not self.pgd.random_start:
            raise ValueError("untargeted runs repeat each other unless random_start is true")

    def __call__(
        self,
        models: Sequence[IndexedModel],
        combine: Combine,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> Found:
        """Perturb a batch; see :class:`workers.attacks.model_space.Perturb`."""
        pgd = lengthened(self.pgd, combine, len(models))
        best, best_value = images, torch.empty(0)
        non_finite = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for shift in [0] * self.starts + list(range(1, self.targets + 1)):
            objective = descend(_loss(labels, shift), combine)
            outcome = pgd.run(models, images, objective, generators=generators, check_cancelled=check_cancelled)
            if len(best_value) == 0:
                best_value = _value(outcome.start_logits, labels, combine)
            value = _value(outcome.best_logits, labels, combine)
            better = value > best_value
            best = torch.where(per_example(better, images), outcome.best, best)
            best_value = torch.where(better, value, best_value)
            non_finite = non_finite | outcome.non_finite
            if shift == outcome.start_logits.shape[-1] - 1:
                break
        return Found(best, non_finite)


def _loss(labels: Tensor, shift: int) -> Loss:
    """Return what the run towards the ``shift``-th class after the true one descends; 0: the untargeted run."""

    def loss(logits: Tensor, indices: Tensor) -> Tensor:
        own = labels[indices]
        return -targeted(logits, own, (own + shift) % logits.shape[1]) if shift else -untargeted(logits, own)

    return loss


def _value(logits: Tensor, labels: Tensor, combine: Combine) -> Tensor:
    """Return what runs are compared by (n,), of logits (n, models, classes); -inf where it cannot be told."""
    lost = torch.stack([-wrong_confidence(one, labels) for one in logits.unbind(1)], 1)
    return -joined(lost, combine).nan_to_num(nan=torch.inf)
