"""A small network fitted to another model's outputs, so that attacks can be made on it and carried over.

Its gradients are those of a plain network, whatever hides the other's: "Practical Black-Box Attacks against Machine
Learning" (Papernot et al. 2017). It learns from the images themselves, from noisy copies, and, round by round, from the
points at which attacks on itself arrive, where the two models differ most.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from workers.attacks.entropy_range import margin_temperature
from workers.attacks.gradients import Model
from workers.attacks.losses import cross_entropy, margin, uniform_cross_entropy
from workers.attacks.momentum import ChangingLoss, MomentumPGD
from workers.attacks.regions import Norm
from workers.models import VALID_PIXELS, Box
from workers.models.memory import forward

SIDE = 32
"""Pixels a side that it works on at most: larger images are averaged down."""

BATCH = 64
RATE = 2e-3
ATTACK_STEPS = 10
"""Of the optimiser, and of the attacks on itself between rounds."""


class Surrogate(nn.Module):
    """A convolutional network of some 100,000 weights; of a single line, two hidden layers.

    Args:
        shape: Channels, height, width of the images.
        classes: Number of logits.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self._pooled = (1, 1)
        if channels == height == 1:
            # A table's columns have no neighbours.
            self.layers = nn.Sequential(
                *[nn.Flatten(), nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, classes)]
            )
            self.requires_grad_(False)
            return
        self._pooled = (math.ceil(height / SIDE), math.ceil(width / SIDE))
        sides = [math.ceil(side // pooled / 4) for side, pooled in zip((height, width), self._pooled, strict=True)]
        self.layers = nn.Sequential(
            *[nn.Conv2d(channels, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()],
            *[nn.Linear(32 * sides[0] * sides[1], 64), nn.ReLU(), nn.Linear(64, classes)],
        )
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes) of images (n, channels, height, width) in [0, 1]."""
        logits: Tensor = self.layers(self.pool(images))
        return logits

    def pool(self, images: Tensor) -> Tensor:
        """Return the images (n, channels, ...) at the size the layers work on."""
        # Not adaptive pooling, whose backward pass on CUDA adds up in an order that varies.
        return functional.avg_pool2d(images, self._pooled) if self._pooled != (1, 1) else images

    def draw(self, generator: torch.Generator) -> None:
        """Draw all weights anew, as torch does by default."""
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                bound = 1 / math.sqrt(layer.weight[0].numel())
                for weights in layer.parameters():
                    drawn = torch.rand(weights.shape, generator=generator)
                    weights.copy_((2 * drawn - 1) * bound)

    def flat(self) -> Tensor:
        """Return all weights (weights,) float32, on the CPU."""
        return torch.cat([weights.detach().flatten().float().cpu() for weights in self.parameters()])

    def load(self, flat: Tensor) -> None:
        """Take over weights that :meth:`flat` returned."""
        sizes = [weights.numel() for weights in self.parameters()]
        for weights, values in zip(self.parameters(), torch.split(flat, sizes), strict=True):
            weights.copy_(values.view_as(weights))


@dataclass(frozen=True)
class Distillation:
    """How a surrogate is fitted; everything random comes from the generator it is given.

    Attributes:
        norm: Norm of the attacks it is to be good for.
        epsilon: Their radius, in pixels' units.
        sigmas: Standard deviations of the noisy copies, in pixels' units.
        rounds: Times it is fitted; between two it attacks itself and asks about where it arrives.
        steps: Of the optimiser in each round.
        box: Least and greatest value that an input may have.
    """

    norm: Norm
    epsilon: float
    sigmas: Sequence[float]
    rounds: int
    steps: int
    box: Box = VALID_PIXELS

    @property
    def queries(self) -> int:
        """How often the model is asked about each image."""
        return 1 + len(self.sigmas) + len(_ATTACKS) * (self.rounds - 1)

    def run(
        self,
        model: Model,
        images: Tensor,
        clean: Tensor,
        generator: torch.Generator,
        *,
        batch_size: int,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Surrogate:
        """Return a surrogate of ``model``.

        Args:
            model: Images to logits; asked for outputs only.
            images: (n, channels, height, width) in [0, 1].
            clean: (n, classes) its logits of them, already known; finite.
            generator: On the CPU.
            batch_size: Images asked about at once.
            check_cancelled: Called before every forward pass and every step; may raise.
        """
        channels, height, width = images.shape[1:]
        surrogate = Surrogate((channels, height, width), clean.shape[1]).to(images.device)
        surrogate.draw(generator)
        # One temperature for all: how sure the model is of one image compared with another is part of what is learned.
        temperature = float(margin_temperature(clean).median().clamp_min(1e-6))
        points, targets = [surrogate.pool(images)], [(clean / temperature).softmax(1)]

        def ask(part: Tensor) -> None:
            check_cancelled()
            logits = forward(model, part)
            finite = logits.isfinite().all(1)
            points.append(surrogate.pool(part[finite]))
            targets.append((logits[finite] / temperature).softmax(1))

        for sigma in self.sigmas:
            for part in torch.split(images, batch_size):
                noise = torch.randn(part.shape, generator=generator).to(part)
                ask((part + sigma * noise).clamp_(*self.box))
        for number in range(self.rounds):
            if number:
                for part in torch.split(images, batch_size):
                    for attacked in self._attack(surrogate, part, check_cancelled):
                        ask(attacked)
            self._fit(surrogate, torch.cat(points), torch.cat(targets), generator, check_cancelled)
        return surrogate

    def _attack(self, surrogate: Surrogate, images: Tensor, check_cancelled: Callable[[], None]) -> list[Tensor]:
        search = MomentumPGD(self.norm, self.epsilon, ATTACK_STEPS, box=self.box)
        predictions = forward(surrogate, images).argmax(1)
        return [
            search.run(
                surrogate,
                images,
                attack(predictions),
                # Nothing is ranked: the last iterate is taken.
                lambda logits, indices: torch.zeros(len(logits), device=logits.device),
                check_cancelled=check_cancelled,
            ).final
            for attack in _ATTACKS
        ]

    def _fit(
        self,
        surrogate: Surrogate,
        points: Tensor,
        targets: Tensor,
        generator: torch.Generator,
        check_cancelled: Callable[[], None],
    ) -> None:
        surrogate.requires_grad_(True)
        optimizer = torch.optim.Adam(surrogate.parameters(), RATE)
        order = torch.empty(0, dtype=torch.int64)
        for _ in range(self.steps):
            check_cancelled()
            if len(order) < min(BATCH, len(points)):
                order = torch.randperm(len(points), generator=generator)
            chosen, order = order[:BATCH].to(points.device), order[BATCH:]
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = functional.cross_entropy(surrogate.layers(points[chosen]), targets[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        surrogate.requires_grad_(False)


_ATTACKS: tuple[Callable[[Tensor], ChangingLoss], ...] = (
    lambda predictions: lambda logits, indices, progress: uniform_cross_entropy(logits),
    lambda predictions: lambda logits, indices, progress: margin(logits, predictions[indices]),
    lambda predictions: lambda logits, indices, progress: cross_entropy(logits, predictions[indices]),
)
"""Predictions (n,) to the losses of the attacks between rounds: lost, across the boundary, sure."""
