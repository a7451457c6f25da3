"""Gradient descent with momentum, on the gradient of the model itself or of a smoothed copy of it.

Between the plain engine (:class:`workers.attacks.pgd.PGD`) and this one lies what a short, strong attack needs: the
gradients of earlier steps count on (Dong et al. 2018, "Boosting Adversarial Attacks with Momentum"), the first half of
the steps is long, and the loss may change on the way. The mean gradient over Gaussian copies of the input is that of a
smoothed model: sawteeth and stairs in front of a network average out, and so do units that are flat around one image.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from workers.attacks.autoattack.attempts import ActiveExamples
from workers.attacks.gradients import Loss, Model, input_gradient
from workers.attacks.regions import Box, Norm, make_region, per_example
from workers.models.memory import run_with_oom_split

ChangingLoss = Callable[[Tensor, Tensor, float], Tensor]
"""(logits (n, classes), indices (n,), share of the steps taken) to the value to descend (n,)."""

LATE = 0.25
"""Length of the steps of the second half, as a share of the first's."""


def length_share(step: int, steps: int) -> float:
    """Return how long one of some steps is, as a share of the first.

    >>> [length_share(step, 5) for step in range(5)]
    [1.0, 1.0, 1.0, 0.25, 0.25]
    """
    return 1.0 if 2 * step < steps else LATE


@dataclass
class Descent:
    """What a descent found, by example, on the device of the images.

    Attributes:
        best: (n, ...) iterate of the lowest criterion, the start included.
        final: (n, ...) last iterate.
        value: (n,) criterion at ``best``, float64; inf where no output was finite.
    """

    best: Tensor
    final: Tensor
    value: Tensor


@dataclass(frozen=True)
class MomentumPGD:
    """An attack; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box; noisy copies, which need not be, are asked for gradients only. Limit: a lower bound on what an attacker can do.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        steps: Gradient steps.
        step: Length of the steps of the first half, as a share of epsilon; the others are a quarter as long.
        decay: Weight of the gradients before in each step's direction, each divided by its mean absolute entry.
        sigmas: Standard deviations, in pixels' units, of the Gaussian copies whose gradients are added, fresh ones at
            every step; none: the gradient of the image itself.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float
    steps: int
    step: float = 0.5
    decay: float = 0.75
    sigmas: tuple[float, ...] = ()
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.steps >= 1 and self.step > 0 and 0 <= self.decay < 1):
            raise ValueError(f"not an attack: {self}")

    def run(
        self,
        model: Model,
        images: Tensor,
        loss: ChangingLoss,
        criterion: Loss,
        *,
        goal: float = -math.inf,
        starts: Tensor | None = None,
        generators: Sequence[torch.Generator] = (),
        changing: Callable[[float], Model] | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Descent:
        """Attack a batch; a batch that does not fit in memory is split.

        Args:
            model: Images to logits.
            images: (n, ...) floating point, in the box; not changed.
            loss: What the gradient descends.
            criterion: What ranks the iterates, lower is better; called once for each of them and for no noisy copy.
            goal: Criterion at which an example is finished and leaves.
            starts: (n, ...) first iterates, in the ball and the box; None: the images.
            generators: One per example, for noisy copies.
            changing: Share of the steps taken to the model that is asked then, in place of the model; None: it stays.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: An empty batch, starts that are not one per image, or copies without one generator per example.
        """
        if len(images) == 0 or (starts is not None and starts.shape != images.shape):
            raise ValueError(f"not a batch to attack: {tuple(images.shape)}")
        if self.sigmas and len(generators) != len(images):
            raise ValueError(f"noisy copies need one generator per example: {len(images)} examples")

        def piece(start: int, stop: int) -> Descent:
            where = slice(start, stop)
            return self._descend(
                _Question(changing or (lambda progress: model), loss, criterion, check_cancelled),
                images[where].detach(),
                (images if starts is None else starts)[where].detach(),
                torch.arange(start, stop, device=images.device),
                generators[where],
                goal,
            )

        pieces = run_with_oom_split(piece, 0, len(images), generators=generators or None)
        return Descent(*[torch.cat([getattr(piece, field.name) for piece in pieces]) for field in fields(Descent)])

    def _descend(
        self,
        question: "_Question",
        origin: Tensor,
        start: Tensor,
        indices: Tensor,
        generators: Sequence[torch.Generator],
        goal: float,
    ) -> Descent:
        found = Descent(start.clone(), start.clone(), torch.full((len(start),), math.inf, dtype=torch.float64))
        found.value = found.value.to(start.device)
        active = _Active(
            position=torch.arange(len(start), device=start.device),
            indices=indices,
            images=start,
            momentum=torch.zeros_like(start),
        )
        region = make_region(self.norm, origin, self.epsilon, self.box)
        for step in range(self.steps + 1):
            progress = step / self.steps
            noise = self._draw(active, generators) if step < self.steps else None
            value, gradient = question.ask(active, progress, noise, with_gradient=step < self.steps)
            self._keep_best(found, active, value)
            if step == self.steps:
                break
            staying = found.value[active.position] > goal
            if not bool(staying.all()):
                active.keep(staying)
                region.keep(staying)
                gradient = gradient[staying]
                if len(active.position) == 0:
                    break
            size = gradient.flatten(1).abs().mean(1).clamp_min(torch.finfo(gradient.dtype).tiny)
            active.momentum = self.decay * active.momentum + gradient / per_example(size, gradient)
            length = self.step * self.epsilon * length_share(step, self.steps)
            active.images = region.step(active.images, active.momentum.clone(), length)
            found.final[active.position] = active.images
        return found

    def _keep_best(self, found: Descent, active: "_Active", value: Tensor) -> None:
        better = value < found.value[active.position]
        position = active.position[better]
        found.value[position], found.best[position] = value[better], active.images[better]

    def _draw(self, active: "_Active", generators: Sequence[torch.Generator]) -> Tensor | None:
        """Return noise (copies, n, ...), each example's from its own generator; None without copies."""
        if not self.sigmas:
            return None
        shape = (len(self.sigmas), *active.images.shape[1:])
        drawn = [torch.randn(shape, generator=generators[i]) for i in active.position.tolist()]
        sigmas = torch.tensor(self.sigmas).view(-1, *[1] * active.images.dim())
        return (torch.stack(drawn, 1) * sigmas).to(active.images)


@dataclass
class _Active(ActiveExamples):
    """The examples that are not finished; position is that in the piece, indices that in the whole batch."""

    position: Tensor
    indices: Tensor
    images: Tensor
    momentum: Tensor


@dataclass(frozen=True)
class _Question:
    """What is asked about every iterate."""

    model_at: Callable[[float], Model]
    loss: ChangingLoss
    criterion: Loss
    check_cancelled: Callable[[], None]

    def ask(
        self, active: _Active, progress: float, noise: Tensor | None, *, with_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the criterion (n,), inf where it is NaN, and the gradient (n, ...) of the loss, or of its copies'."""
        if noise is None and with_gradient:
            logits, gradient = self._gradient(active.images, active.indices, progress)
        else:
            self.check_cancelled()
            with torch.no_grad():
                logits = self.model_at(progress)(active.images)
            gradient = torch.zeros_like(active.images)
            for copy in () if noise is None else noise:
                gradient += _finite(self._gradient(active.images + copy, active.indices, progress)[1])
        value = self.criterion(logits, active.indices).double()
        return value.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf), _finite(gradient)

    def _gradient(self, images: Tensor, indices: Tensor, progress: float) -> tuple[Tensor, Tensor]:
        self.check_cancelled()
        inputs = images.detach().requires_grad_()
        with torch.enable_grad():
            logits = self.model_at(progress)(inputs)
            value = self.loss(logits, indices, progress)
        return logits.detach(), input_gradient(value, inputs)


def _finite(gradient: Tensor) -> Tensor:
    return gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
