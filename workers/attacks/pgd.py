"""Projected gradient descent over a batch, for any objective, on one model or several at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from workers.attacks.active_batch import ActiveBatch
from workers.attacks.gradients import IndexedModel, Joint
from workers.attacks.gradients import Loss as Loss
from workers.attacks.gradients import Model as Model
from workers.attacks.gradients import input_gradient as input_gradient
from workers.attacks.objectives import Objective, Outcome
from workers.attacks.regions import Box, Norm, Region, make_region
from workers.models.memory import run_with_oom_split


@dataclass(frozen=True)
class PGD:
    """An attack; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box. Limit: it is a lower bound on what an attacker can do; masked gradients make the bound loose.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        step_size: Length of a step in the same norm.
        steps: Gradient steps of one run.
        random_start: Start at a random point of the ball instead of the clean image.
        restarts: Runs per example; examples finished in one run are not in the next.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range, or restarts could only repeat each other.
    """

    norm: Norm
    epsilon: float
    step_size: float
    steps: int
    random_start: bool = False
    restarts: int = 1
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.step_size > 0 and self.steps >= 0 and self.restarts >= 1):
            raise ValueError(f"not an attack: {self}")
        if self.restarts > 1 and not self.random_start:
            raise ValueError("restarts repeat the same run unless random_start is true")

    def run(
        self,
        models: Sequence[Model | IndexedModel],
        images: Tensor,
        objective: Objective,
        *,
        generators: Sequence[torch.Generator] | None = None,
        starts: Tensor | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Attack a batch; a batch that does not fit in memory is split.

        Args:
            models: One or several; all see the same perturbed image. Those with parameters per example are given
                their indices.
            images: (n, ...) floating point, in the box; not changed.
            objective: What the attack wants.
            generators: One per example; needed for random starts.
            starts: (n, ...) first iterates, in the ball and the box, of an attack without random starts; the clean
                image competes. None: the attack begins as it says.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: No model, an empty batch, random starts without one generator per example, or starts that are
                not one per example of an attack without its own.
        """
        if not models or len(images) == 0:
            raise ValueError(f"nothing to attack: {len(models)} models, {len(images)} images")
        if self.random_start and len(generators or ()) != len(images):
            raise ValueError(f"random starts need one generator per example: {len(images)} examples")
        if starts is not None and (self.random_start or starts.shape != images.shape):
            raise ValueError(f"not the starts of this attack: {tuple(starts.shape)}, images {tuple(images.shape)}")

        def piece(start: int, stop: int) -> Outcome:
            active = ActiveBatch(
                images[start:stop].detach(), torch.arange(start, stop, device=images.device), objective
            )
            own = None if starts is None else starts[start:stop].detach()
            return self._run_restarts(joint, active, own, (generators or ())[start:stop])

        joint = Joint(models, objective.loss, objective.combine, check_cancelled)
        pieces = run_with_oom_split(piece, 0, len(images), generators=generators if self.random_start else None)
        if len(pieces) == 1:
            return pieces[0]
        return Outcome(*[torch.cat([getattr(piece, field.name) for piece in pieces]) for field in fields(Outcome)])

    def _run_restarts(
        self, models: Joint, active: ActiveBatch, starts: Tensor | None, generators: Sequence[torch.Generator]
    ) -> Outcome:
        if self.random_start or starts is not None:
            # The clean image is a candidate too, and a run that starts elsewhere does not pass through it.
            active.enter()
            self._descend(models, active, self._region(active), active.images, steps=0)
        for _ in range(self.restarts):
            active.enter()
            if active.is_empty:
                break
            region = self._region(active)
            if self.random_start:
                start = region.draw([generators[i] for i in active.position.tolist()])
            else:
                start = active.images if starts is None else starts[active.position]
            self._descend(models, active, region, start, steps=self.steps)
        return active.outcome

    def _descend(self, models: Joint, active: ActiveBatch, region: Region, images: Tensor, *, steps: int) -> None:
        """Run once from ``images``, the first iterates of the active examples."""
        for _ in range(steps):
            logits, gradient_of = models.logits_and_gradient(images, active.indices)
            active.record(images, logits)
            if active.is_empty:
                return
            images = active.step(region, *gradient_of(), self.step_size)
            # Nothing of this step may outlive it: what is freed after the next forward pass has begun makes the
            # allocator give memory back and fault it in again, a tenth of the time of a small network.
            del gradient_of
        active.record(images, models.logits(images, active.indices))
        active.leave()

    def _region(self, active: ActiveBatch) -> Region:
        return make_region(self.norm, active.images, self.epsilon, self.box)
