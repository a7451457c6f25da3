"""Adversarial training within a norm ball: PGD (Madry et al. 2018) and TRADES (Zhang et al. 2019)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.hardening.images import AdversarialParams
from workers.attacks.regions import make_region
from workers.models import box_of
from workers.training.data import Batch
from workers.training.methods.plain import CrossEntropy
from workers.training.models import TrainableImages, evaluating, frozen
from workers.training.protocol import Step

TRADES_START = 1e-3
"""Standard deviation of the noise TRADES starts from: at the clean image its divergence has no gradient."""


class Adversarial(CrossEntropy):
    """Cross-entropy at PGD's images, or TRADES; the attack sees the model in eval mode, as it will be attacked."""

    params: AdversarialParams
    model: TrainableImages

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean loss at attacked images (0-d)."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        perturbed = self.perturb(images, batch.labels, step)
        step.check_cancelled()
        if self.params.loss == "pgd":
            return self.cross_entropy(self.model.logits(perturbed), batch.labels)
        clean, attacked = self.model.logits(images), self.model.logits(perturbed)
        return self.cross_entropy(clean, batch.labels) + self.params.beta * divergence(clean, attacked) / len(images)

    def perturb(self, images: Tensor, labels: Tensor, step: Step) -> Tensor:
        """Return images (n, ...) in the ball and the box, after all steps of the attack."""
        params = self.params
        region = make_region(params.norm, images, params.epsilon, box_of(self.model.classifier))
        with evaluating(self.model), frozen(self.model):
            target: Callable[[Tensor], Tensor]
            if params.loss == "trades":
                with torch.no_grad():
                    clean = self.model.logits(images)
                target = lambda logits: divergence(clean, logits)  # noqa: E731
                noise = torch.randn(images.shape, generator=step.generator).to(images)
                # A step of no length puts the start into ball and box.
                moved = region.step(images + TRADES_START * noise, torch.zeros_like(images), 0.0)
            else:
                target = lambda logits: F.cross_entropy(logits, labels, reduction="sum")  # noqa: E731
                moved = region.draw([step.generator] * len(images)) if params.random_start else images
            for _ in range(params.steps):
                step.check_cancelled()
                moved = moved.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(target(self.model.logits(moved)), moved)
                moved = region.step(moved.detach(), -gradient, params.length)
        return moved.detach()

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return logits at attacked images."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        perturbed = self.perturb(images, batch.labels, step)
        with torch.no_grad():
            return self.model.logits(perturbed)


def divergence(clean: Tensor, attacked: Tensor) -> Tensor:
    """Return KL(softmax(clean) || softmax(attacked)), summed over examples, in nats; both have gradients."""
    return F.kl_div(attacked.log_softmax(1), clean.softmax(1), reduction="sum")
