"""Gradient descent through a blur that lifts on the way (graduated optimisation).

Units that only large changes of a pixel wake, as the thresholds that l_inf training puts into a first layer, have no
slope at the image nor within small noise of it: what moves them is many small changes that each do nothing, or few
large ones that no gradient asks for. One noisy copy a step, wide at first, shows where they wake; as the noise narrows,
the changes that count remain (Blake and Zisserman 1987, "Visual Reconstruction"; Hazan et al. 2016, "On Graduated
Optimization for Stochastic Non-Convex Problems"). Copies are folded back into the box: noise beyond a pixel's end would
be lost on the model, and half of it is beyond where pixels are black or white.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.gradients import Model, input_gradient
from workers.attacks.momentum import ChangingLoss
from workers.attacks.regions import Box, Norm, make_region, per_example
from workers.models.memory import run_with_oom_split

ROOT_THREE = math.sqrt(3.0)
"""Half the width of a uniform law of standard deviation 1."""

LAST = 0.25
"""Length of the last step, as a share of the first's."""


@dataclass(frozen=True)
class AnnealedPGD:
    """An attack; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box, as is every image that the model is shown. Limit: iterates are not looked at; where one ends need not be where
    it was best.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        steps: Gradient steps, each through one noisy copy.
        step: Length of the first step, as a share of epsilon; they shrink geometrically.
        sigmas: Standard deviation of the uniform noise at the first step and at the last, in pixels' units.
        decay: Weight of the gradients before in each step's direction, each divided by its mean absolute entry.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float
    steps: int
    step: float
    sigmas: tuple[float, float]
    decay: float = 0.75
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.steps >= 1 and self.step > 0 and 0 <= self.decay < 1):
            raise ValueError(f"not an attack: {self}")
        if not min(self.sigmas) > 0:
            raise ValueError(f"noise needs a width: {self.sigmas}")

    def run(
        self,
        model: Model,
        images: Tensor,
        loss: ChangingLoss,
        *,
        starts: Tensor,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Tensor:
        """Return where a batch (n, ...) ends; one that does not fit in memory is split.

        Args:
            model: Images to logits.
            images: (n, ...) floating point, in the box; not changed.
            loss: What the gradient descends.
            starts: (n, ...) first iterates, in the ball and the box.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: An empty batch, or starts or generators that are not one per image.
        """
        if len(images) == 0 or starts.shape != images.shape or len(generators) != len(images):
            raise ValueError(f"not a batch to attack: {tuple(images.shape)}, {len(generators)} generators")

        def piece(start: int, stop: int) -> Tensor:
            where = slice(start, stop)
            indices = torch.arange(start, stop, device=images.device)
            region = make_region(self.norm, images[where].detach(), self.epsilon, self.box)
            found, momentum = starts[where].detach(), torch.zeros_like(images[where])
            for number in range(self.steps):
                check_cancelled()
                progress = number / max(1, self.steps - 1)
                sigma = self.sigmas[0] * (self.sigmas[1] / self.sigmas[0]) ** progress
                inputs = self._blur(found, sigma, generators[where]).requires_grad_()
                with torch.enable_grad():
                    value = loss(model(inputs), indices, progress)
                gradient = input_gradient(value, inputs).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
                size = gradient.flatten(1).abs().mean(1).clamp_min(torch.finfo(gradient.dtype).tiny)
                momentum = self.decay * momentum + gradient / per_example(size, gradient)
                found = region.step(found, momentum.clone(), self.step * self.epsilon * LAST**progress)
            return found

        return torch.cat(run_with_oom_split(piece, 0, len(images), generators=generators))

    def _blur(self, images: Tensor, sigma: float, generators: Sequence[torch.Generator]) -> Tensor:
        """Return one noisy copy of each image (n, ...), folded into the box."""
        drawn = torch.stack([torch.rand(images.shape[1:], generator=generator) for generator in generators])
        moved = images + (2 * drawn - 1).to(images) * (ROOT_THREE * sigma)
        lower, upper = (torch.as_tensor(end, dtype=images.dtype, device=images.device) for end in self.box)
        # Not by absolute values: an open box has infinite ends.
        moved = torch.where(moved < lower, 2 * lower - moved, moved)
        moved = torch.where(moved > upper, 2 * upper - moved, moved)
        return torch.maximum(torch.minimum(moved, upper), lower)
