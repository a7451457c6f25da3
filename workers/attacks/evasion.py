"""An attack on classifiers that may refuse: answered first, and answered wrongly then.

A wrong answer nobody gives harms nobody. What the attacker raises is the cross-entropy where the example is answered,
less how far it is from being answered: where it is refused, the gradient is that of the refusal alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.gradients import Combine, IndexedModel
from workers.attacks.losses import cross_entropy
from workers.attacks.model_space import Found, descend, lengthened
from workers.attacks.pgd import PGD

SLACK = 2.0
"""Log-odds by which an example has to be answered before nothing is left to gain: odds of 1 to 7. The defender's own
discriminator is another one."""


def answered_loss(logits: Tensor, labels: Tensor, slack: float = SLACK) -> Tensor:
    """Return what an attack raises (n,): 1[m <= 0] CE(z, y) - max(m + slack, 0).

    Guarantee: an answered example has a greater value than a refused one, whatever the answers; of answered ones
    beyond the slack, the greater cross-entropy.

    Args:
        logits: (n, classes + 1): z, then m, the margin of :func:`workers.attacks.rejectors.rejection_margins`.
        labels: (n,) true labels y.
        slack: Log-odds.

    >>> z = torch.tensor([[0.0, 0.0, -3.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    >>> [round(value, 4) for value in answered_loss(z, torch.tensor([0, 0, 0]), 2.0).tolist()]
    [0.6931, -3.0, -0.3069]
    """
    margins = logits[:, -1]
    answered = cross_entropy(logits[:, :-1], labels).masked_fill(margins > 0, 0.0)
    return answered - (margins + slack).clamp_min(0.0)


@dataclass(frozen=True)
class RaiseAnsweredLoss:
    """PGD on :func:`answered_loss`; the best iterate counts and the clean image competes.

    Attributes:
        pgd: Norm, radius, step size, random starts; ``steps`` are those against one model.
        slack: Log-odds.
    """

    pgd: PGD
    slack: float = SLACK

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
        """Perturb a batch against models with their margins; see :class:`workers.attacks.model_space.Perturb`."""
        objective = descend(lambda logits, indices: -answered_loss(logits, labels[indices], self.slack), combine)
        pgd = lengthened(self.pgd, combine, len(models))
        outcome = pgd.run(models, images, objective, generators=generators, check_cancelled=check_cancelled)
        return Found(outcome.best, outcome.non_finite)
