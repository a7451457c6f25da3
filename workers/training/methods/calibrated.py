"""Adversarial calibration training of smoothed models (Emde et al., eq. 7)."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from seatrial.hardening.images import AcceActParams, BrierActParams
from seatrial.statistics.arrays import Floats
from workers.certification.admm import LAST_PENALTY, Iterate, Program
from workers.certification.confidence import slack, standard_bounds
from workers.certification.worst_calibration import Intervals, worst_calibration_error
from workers.training.data import Batch
from workers.training.methods.smoothed import LEAST, SmoothAdv, copies, draw_noise
from workers.training.models import Trainable, evaluating
from workers.training.protocol import Step


def top_confidence(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the top class's mean score (n,) over draws, and that class (n,), of logits (draws, n, classes)."""
    found: tuple[Tensor, Tensor] = logits.softmax(2).mean(0).max(1)
    return found


class BrierAct(SmoothAdv):
    """SmoothAdv whose attack ascends the top-label Brier score of the smoothed model."""

    params: BrierActParams

    def __init__(self, params: BrierActParams, model: Trainable) -> None:
        super().__init__(params, model)
        self.step_factor = params.step_factor

    def objective(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return (correct - confidence)^2, summed over examples."""
        confidence, predicted = top_confidence(logits)
        return ((predicted == labels).to(confidence) - confidence).square().sum()


class AcceAct(SmoothAdv):
    """SmoothAdv whose attack ascends the calibration error of the batch over inputs and assignments to bins.

    ``admm``: the paper's; per step the inputs go down the augmented Lagrangian through their confidences, then the
    assignment takes a gradient step, copies are projected and multipliers ascend. ``exact``: the assignment of the
    largest error within the certified intervals is solved once, and confidences go where it pushes them: up in bins
    that are over-confident there, down in the others.

    The assignment needs the confidences of the whole batch, and nothing else does: graphs are held of ``step.micro``
    examples at a time, which costs ``admm`` one more forward pass in each step.
    """

    params: AcceActParams
    divisible = False
    cuts_itself = True

    def __init__(self, params: AcceActParams, model: Trainable) -> None:
        super().__init__(params, model)
        self.step_factor = params.step_factor

    def perturb(self, images: Tensor, labels: Tensor, noise: Tensor, step: Step) -> Tensor:
        """Return images (n, ...) after all steps of the attack on this batch as a whole."""
        with evaluating(self.model):
            confidence, predicted = self._looked(images, noise, step)
        clean, correct = confidence.double().cpu().numpy().clip(0, 1), (predicted == labels).cpu().numpy()
        lower, upper = self.intervals(clean, len(noise), self.radius(step.epoch))
        if self.params.inner == "exact":
            worst = worst_calibration_error(lower, upper, correct, self.params.bins)
            # The error's derivative by each confidence, times the examples.
            step.scratch["push"] = torch.as_tensor(worst.signs[worst.bins].astype(np.float32), device=images.device)
        else:
            program = Program.of(Intervals.read(lower, upper, correct, self.params.bins))
            step.scratch["iterate"] = Iterate(program, clean)
        return super().perturb(images, labels, noise, step)

    def intervals(self, mean: Floats, draws: int, radius: float) -> tuple[Floats, Floats]:
        """Return certified ends (n,), (n,) of confidences within a radius, from mean scores (n,)."""
        alpha = self.params.bound_alpha
        eps = np.zeros(len(mean)) if alpha is None else slack(np.full(len(mean), draws), np.full(len(mean), alpha))
        lower, upper = standard_bounds(mean, eps, np.array([radius / self.params.sigma]))
        return lower[:, 0], upper[:, 0]

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        """Attack the batch as a whole, then add the gradient of the mean loss of its micro-batches."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        noise = draw_noise(images, self.params.draws, self.params.sigma, step.generator)
        perturbed = self.perturb(images, batch.labels, noise, step)
        if not self.params.trains_all_draws:
            noise = noise[:1]
        total = torch.zeros((), device=self.model.device)
        for part in _parts(len(images), step):
            logits = copies(self.model, perturbed[part], noise[:, part])
            loss = self.cross_entropy(logits.flatten(0, 1), batch.labels[part].repeat(len(noise)))
            loss = loss * (len(perturbed[part]) / len(images))
            (loss * share).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def ascent(self, images: Tensor, delta: Tensor, labels: Tensor, noise: Tensor, step: Step) -> Tensor:
        """Return the direction (n, ...) that makes the batch's calibration worse."""
        if self.params.inner == "exact":
            push: Tensor = step.scratch["push"]
        else:
            iterate: Iterate = step.scratch["iterate"]
            confidence, _ = self._looked(images + delta, noise, step)
            iterate.place(confidence.double().cpu().numpy())
            push = -torch.as_tensor(iterate.gradient_z().sum(0)).to(confidence)
            iterate.step(self.params.assignment_rate, 0.0)
            iterate.penalty = min(LAST_PENALTY, iterate.penalty * self.params.growth)
        found: list[Tensor] = []
        for part in _parts(len(images), step):
            leaf = delta[part].detach().requires_grad_()
            confidence, _ = top_confidence(copies(self.model, images[part] + leaf, noise[:, part]))
            found += torch.autograd.grad((push[part] * confidence).sum(), leaf)
        return torch.cat(found)

    def _looked(self, images: Tensor, noise: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """Return confidences (n,) and classes (n,) of images, without gradients."""
        with torch.no_grad():
            parts = [
                top_confidence(copies(self.model, images[part], noise[:, part])) for part in _parts(len(images), step)
            ]
        return torch.cat([confidence for confidence, _ in parts]), torch.cat([predicted for _, predicted in parts])

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return the logarithm of mean scores (n, classes) at images attacked together."""
        images = batch.inputs.to(self.model.device)  # type: ignore[union-attr]
        noise = draw_noise(images, self.params.draws, self.params.sigma, step.generator)
        # What one batch hands from step to step is nothing to the next.
        alone = Step(step.model, step.epoch, 0, step.generator, step.check_cancelled, len(batch), micro=step.micro)
        perturbed = self.perturb(images, batch.labels, noise, alone)
        with torch.no_grad():
            scores = [
                copies(self.model, perturbed[part], noise[:, part]).softmax(2).mean(0)
                for part in _parts(len(images), alone)
            ]
        return torch.cat(scores).clamp_min(LEAST).log()


def _parts(examples: int, step: Step) -> Iterator[slice]:
    """Yield a batch's micro-batches, after a look at whether the run is cancelled."""
    size = step.micro or examples
    for start in range(0, examples, size):
        step.check_cancelled()
        yield slice(start, start + size)
