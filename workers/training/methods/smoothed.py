"""Training for randomized smoothing: Gaussian noise (Cohen et al. 2019) and SmoothAdv (Salman et al. 2019)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.hardening.images import GaussianParams, SmoothedAttackParams
from workers.models import box_of
from workers.training.data import Batch
from workers.training.methods.plain import CrossEntropy
from workers.training.models import TrainableImages, evaluating, frozen
from workers.training.protocol import Step

LEAST = 1e-20
"""Least mean probability whose logarithm is taken, as in the official code."""


def draw_noise(images: Tensor, draws: int, sigma: float, generator: torch.Generator) -> Tensor:
    """Return noise (draws, n, ...) for images (n, ...); drawn on the CPU, so that a GPU is given the same."""
    return torch.randn(draws, *images.shape, generator=generator).to(images) * sigma


def copies(model: TrainableImages, images: Tensor, noise: Tensor) -> Tensor:
    """Return logits (draws, n, classes) of noisy copies, pixels not clipped."""
    logits = model.logits((images + noise).flatten(0, 1))
    return logits.view(*noise.shape[:2], -1)


class Gaussian(CrossEntropy):
    """Cross-entropy of noisy copies."""

    params: GaussianParams
    model: TrainableImages

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean over copies and examples (0-d)."""
        logits = self._copies(batch, step)
        return self.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(self.params.draws))

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return the logarithm of mean scores over noisy copies: nothing is attacked, but noise is what it meets."""
        with torch.no_grad():
            return self._copies(batch, step).softmax(2).mean(0).clamp_min(LEAST).log()

    def _copies(self, batch: Batch, step: Step) -> Tensor:
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        return copies(self.model, images, draw_noise(images, self.params.draws, self.params.sigma, step.generator))


class SmoothAdv(CrossEntropy):
    """Cross-entropy of noisy copies of images that PGD found to be worst for the smoothed model.

    As the official code does it: the same draws for all steps of the attack and for the weights; no random start; steps
    of 2 epsilon / steps along the unit gradient, a random direction where it is 0; first into the box, then into the
    ball; the attack sees the model in eval mode.
    """

    params: SmoothedAttackParams
    model: TrainableImages
    step_factor = 1.0

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean over copies and examples (0-d)."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        noise = draw_noise(images, self.params.draws, self.params.sigma, step.generator)
        perturbed = self.perturb(images, batch.labels, noise, step)
        step.check_cancelled()
        if not self.params.trains_all_draws:
            noise = noise[:1]
        logits = copies(self.model, perturbed, noise)
        return self.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(noise)))

    def objective(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return what the attack ascends, of logits (draws, n, classes): minus the log of the label's mean score."""
        if len(logits) == 1:
            return F.cross_entropy(logits[0], labels, reduction="sum")
        return F.nll_loss(logits.softmax(2).mean(0).clamp_min(LEAST).log(), labels, reduction="sum")

    def radius(self, epoch: int) -> float:
        """Return the attack's radius in an epoch, counted from 0."""
        return min(self.params.epsilon, (epoch + 1) * self.params.epsilon / self.params.warmup_epochs)

    def perturb(self, images: Tensor, labels: Tensor, noise: Tensor, step: Step) -> Tensor:
        """Return images (n, ...) after all steps of the attack."""
        radius = self.radius(step.epoch)
        length = self.step_factor * 2 * radius / self.params.steps
        delta = torch.zeros_like(images)
        with evaluating(self.model), frozen(self.model):
            for _ in range(self.params.steps):
                step.check_cancelled()
                gradient = self.ascent(images, delta, labels, noise, step)
                delta = moved(images, delta, gradient, length, radius, box_of(self.model.classifier), step.generator)
        return images + delta

    def ascent(self, images: Tensor, delta: Tensor, labels: Tensor, noise: Tensor, step: Step) -> Tensor:
        """Return the direction (n, ...) the attack goes in: the gradient of the objective."""
        delta = delta.detach().requires_grad_()
        value = self.objective(copies(self.model, images + delta, noise), labels)
        (gradient,) = torch.autograd.grad(value, delta)
        return gradient

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return the logarithm of mean scores (n, classes) at attacked images, over the attack's own draws."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        noise = draw_noise(images, self.params.draws, self.params.sigma, step.generator)
        perturbed = self.perturb(images, batch.labels, noise, step)
        with torch.no_grad():
            return copies(self.model, perturbed, noise).softmax(2).mean(0).clamp_min(LEAST).log()


def moved(
    images: Tensor,
    delta: Tensor,
    gradient: Tensor,
    length: float,
    radius: float,
    box: tuple[float, float] | tuple[Tensor, Tensor],
    generator: torch.Generator,
) -> Tensor:
    """Return perturbations (n, ...) after one step along the unit gradient, in the box and then in the ball."""
    norms = gradient.flatten(1).norm(dim=1)
    if bool((norms == 0).any()):
        # Where the model says the same all around, the official code goes anywhere, by a vector of no fixed length.
        anywhere = torch.randn(images.shape, generator=generator).to(images)
        gradient = torch.where((norms == 0).view(-1, *[1] * (images.dim() - 1)), anywhere, gradient)
        norms = torch.where(norms == 0, torch.ones_like(norms), norms)
    delta = delta + length * gradient / norms.view(-1, *[1] * (images.dim() - 1))
    delta = (images + delta).clamp(*box) - images
    found: Tensor = delta.renorm(p=2, dim=0, maxnorm=radius)
    return found.detach()
