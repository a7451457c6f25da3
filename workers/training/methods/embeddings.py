"""Adversarial training on word embeddings: PGD-K and FreeLB, as TextDefender does them (Li et al. 2021)."""

import torch
from torch import Tensor

from seatrial.hardening.texts import EmbeddingAttackParams
from workers.training.data import Batch
from workers.training.methods.plain import CrossEntropy
from workers.training.models import Encoded, Trainable, TrainableTexts, evaluating, frozen
from workers.training.protocol import Step

LEAST_NORM = 1e-8
"""Least norm a gradient is divided by."""


class EmbeddingAttack(CrossEntropy):
    """What PGD-K, FreeLB and DDi-AT share: the perturbation (n, tokens, dimensions) of word embeddings, and its ascent.

    Dropout is as in training meanwhile. Positions, token types and normalisation come after the word embeddings.

    Raises:
        PreflightError: The model takes no embeddings.
    """

    params: EmbeddingAttackParams
    model: TrainableTexts

    def __init__(self, params: EmbeddingAttackParams, model: Trainable) -> None:
        super().__init__(params, model)
        self.model.require_embeddings()

    def start(self, encoded: Encoded, generator: torch.Generator) -> Tensor:
        """Return a random perturbation: uniform in [-1, 1] on tokens, times start / sqrt(tokens * dimensions)."""
        size = self.model.words.embedding_dim
        drawn = 2 * torch.rand(*encoded.ids.shape, size, generator=generator).to(self.model.device) - 1
        drawn = drawn * encoded.mask.unsqueeze(2)
        if self.params.norm == "linf":
            return drawn * self.params.start
        length = self.params.start / (encoded.mask.sum(1).float() * size).sqrt()
        return drawn * length.view(-1, 1, 1)

    def moved(self, delta: Tensor, gradient: Tensor) -> Tensor:
        """Return a perturbation after one step up a gradient, each text's by its norm over all tokens."""
        flat = gradient.flatten(1)
        size = flat.norm(dim=1) if self.params.norm == "l2" else flat.abs().amax(1)
        delta = (delta + self.params.step_size * gradient / size.clamp_min(LEAST_NORM).view(-1, 1, 1)).detach()
        if self.params.max_norm == 0:
            return delta
        if self.params.norm == "linf":
            return delta.clamp(-self.params.max_norm, self.params.max_norm)
        found: Tensor = delta.renorm(p=2, dim=0, maxnorm=self.params.max_norm)
        return found

    def perturb(self, encoded: Encoded, labels: Tensor, step: Step) -> Tensor:
        """Return the perturbation after all steps."""
        delta = self.start(encoded, step.generator)
        with frozen(self.model):
            words = self.model.words(encoded.ids)
            for _ in range(self.params.steps):
                step.check_cancelled()
                delta = delta.detach().requires_grad_()
                loss = self.cross_entropy(self.model.logits_of(encoded, words + delta), labels)
                (gradient,) = torch.autograd.grad(loss, delta)
                delta = self.moved(delta.detach(), gradient)
        return delta

    def at(self, encoded: Encoded, delta: Tensor) -> Tensor:
        """Return logits of perturbed embeddings, differentiable by the weights, the embeddings' table among them."""
        return self.model.logits_of(encoded, self.model.words(encoded.ids) + delta)

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return logits at perturbed embeddings."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        with evaluating(self.model):
            delta = self.perturb(encoded, batch.labels, step)
            with torch.no_grad():
                return self.at(encoded, delta)


class PgdK(EmbeddingAttack):
    """Cross-entropy at the perturbed embeddings alone."""

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean loss of a micro-batch (0-d)."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        delta = self.perturb(encoded, batch.labels, step)
        step.check_cancelled()
        return self.cross_entropy(self.at(encoded, delta), batch.labels)


class FreeLB(EmbeddingAttack):
    """Every step of the ascent adds 1 / steps of its gradient to the weights'."""

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        """Add the mean over steps; the loss is that mean too."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        delta = self.start(encoded, step.generator)
        total = torch.zeros((), device=self.model.device)
        for number in range(self.params.steps):
            step.check_cancelled()
            delta = delta.detach().requires_grad_()
            loss = self.cross_entropy(self.at(encoded, delta), batch.labels)
            (loss * (share / self.params.steps)).backward()  # type: ignore[no-untyped-call]
            total += loss.detach() / self.params.steps
            if number + 1 < self.params.steps and delta.grad is not None:
                delta = self.moved(delta.detach(), delta.grad)
        return total
