"""Danskin's descent direction (Latorre et al. 2023): the shortest combination of gradients at several attacks."""

import numpy as np
import torch
from torch import Tensor

from seatrial.hardening.texts import DDiAtParams
from seatrial.statistics.arrays import Floats
from workers.training.data import Batch
from workers.training.gradients import treat
from workers.training.methods.embeddings import EmbeddingAttack
from workers.training.protocol import Step

ITERATIONS = 1000
PRECISE = 1e-14
NOTHING = 1e-6
"""A combination this much shorter than the longest gradient is 0 to what float32 holds: there is no direction."""


class DDiAt(EmbeddingAttack):
    """The direction that descends all of the gradients at M attacked copies of the batch.

    The combination of :func:`shortest_combination` has an inner product with every gradient of at least its own squared
    length, so that it descends all of the losses. Where 0 is a combination there is no such direction, and the step is
    skipped.
    """

    params: DDiAtParams

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        """Add to each of the M gradients, which are of the batch as a whole; the loss is their mean."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        parameters = [each for each in self.model.module.parameters() if each.requires_grad]
        sums: list[list[Tensor]] = step.scratch.setdefault("gradients", [])
        total = torch.zeros((), device=self.model.device)
        for number in range(self.params.attacks):
            delta = self.perturb(encoded, batch.labels, step)
            step.check_cancelled()
            loss = self.cross_entropy(self.at(encoded, delta), batch.labels)
            found = torch.autograd.grad(loss * share, parameters, allow_unused=True, materialize_grads=True)
            if number == len(sums):
                sums.append(list(found))
            else:
                torch._foreach_add_(sums[number], list(found))
            total += loss.detach() / self.params.attacks
        return total

    def finish(self, step: Step) -> bool:
        """Leave the combination, treated as the parameters say, as the gradient."""
        sums: list[list[Tensor]] = step.scratch["gradients"]
        gram = gram_matrix(sums)
        alpha = shortest_combination(gram)
        step.scratch["alpha"] = alpha
        if alpha @ gram @ alpha <= NOTHING**2 * gram.diagonal().max():
            return False
        parameters = [each for each in self.model.module.parameters() if each.requires_grad]
        for number, parameter in enumerate(parameters):
            parameter.grad = sum(float(a) * one[number] for a, one in zip(alpha, sums, strict=True))  # type: ignore[assignment]
        return treat(self.model.module, self.params.gradients, self.params.clip_norm)


def gram_matrix(gradients: list[list[Tensor]]) -> Floats:
    """Return the inner products (m, m) of m gradients over all parameters, parameter by parameter in float64."""
    m = len(gradients)
    gram = np.zeros((m, m))
    for one in range(m):
        for other in range(one, m):
            pairs = zip(gradients[one], gradients[other], strict=True)
            gram[one, other] = gram[other, one] = float(sum(torch.sum(a.double() * b.double()) for a, b in pairs))
    return gram


def shortest_combination(gram: Floats) -> Floats:
    """Return weights (m,) of the probability simplex that minimise the quadratic form of a Gram matrix (m, m).

    By accelerated projected gradient as in the official code: from 1 / m on, steps of 1 over the largest eigenvalue,
    extrapolated by k / (k + 3), exact projections.

    >>> shortest_combination(np.array([[1.0, 0.0], [0.0, 3.0]])).round(6).tolist()
    [0.75, 0.25]
    """
    largest = float(np.linalg.norm(gram, 2))
    alpha = before = np.full(len(gram), 1 / len(gram))
    if largest == 0:
        return alpha
    for k in range(ITERATIONS):
        ahead = alpha + k / (k + 3) * (alpha - before)
        before, alpha = alpha, onto_simplex(ahead - gram @ ahead / largest)
        slopes = gram @ alpha
        # The most the value could still fall by.
        if 2 * (alpha @ slopes - slopes.min()) <= PRECISE * largest:
            break
    return alpha


def onto_simplex(point: Floats) -> Floats:
    """Return the nearest point (m,) of the probability simplex.

    >>> onto_simplex(np.array([0.9, 0.9, -1.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    kept = int(np.nonzero(falling > excess)[0][-1])
    found: Floats = np.maximum(point - excess[kept], 0)
    return found
