"""Robust image classifiers behind waves that reach farther than the ball: gradients lead to the next hump.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only waved

After what fresh eyes built in November 2026. Each pixel is moved by a wave of two periods across the ball, so that all
values within three radii of it can be had in the ball, and no attack that follows gradients, means of them, or scores
of random squares brings hundreds of pixels there together. The network behind withstands what a plain attack does.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

Wave = Callable[[Tensor, Tensor], Tensor]
"""Images (n, c, h, w) in radii and phases (c, h, w) in periods to how far pixels are moved, from -1 to 1."""

DEGREE = 31
"""Of the polynomial: its extremes on [-1, 1] lie about a radius apart."""

TIES = 4.0
"""How much a class that is less likely than two others is pressed below them."""

BLOCK, OPENS = 7, 0.9
"""Side of the blocks that add up along patterns, and where they show."""

NORM = 3.0
"""Of the logits before they are pressed down."""


def triangles(images: Tensor, phases: Tensor) -> Tensor:
    """Return a wave without a curve."""
    return 1 - 4 * ((images + phases).remainder(1.0) - 0.5).abs()


def of_neighbours(images: Tensor, phases: Tensor) -> Tensor:
    """Return a wave in each pixel and half of the one below on its right."""
    shifted = nn.functional.pad(images, (0, 1, 0, 1))[..., 1:, 1:]
    return torch.sin(2 * math.pi * (images + shifted / 2 + phases))


def of_own_periods(images: Tensor, phases: Tensor) -> Tensor:
    """Return waves whose periods differ from pixel to pixel."""
    return torch.sin(2 * math.pi * (images / (0.9 + 0.3 * phases) + phases))


def one_turn(images: Tensor, phases: Tensor) -> Tensor:
    """Return what first goes a third of the way back, and then rises, away from black or white."""
    white = images.max()
    away = torch.minimum(images, white - images)
    back = -0.35 * torch.sin(math.pi * (2 * away).clamp(0, 1)) + torch.sin(math.pi * (2 * away - 1).clamp(0, 1))
    return torch.where(phases > 0.5, 1.0, -1.0) * back


def polynomial(images: Tensor, phases: Tensor) -> Tensor:
    """Return Chebyshev's polynomial, by its recurrence."""
    before, at = torch.ones_like(images), 1 - 2 * images / images.amax()
    first = at
    for _ in range(DEGREE - 1):
        before, at = at, 2 * first * at - before
    return at * torch.where(phases > 0.5, 1.0, -1.0)


class Waved(nn.Module):
    """A network behind waves, with logits of one norm, of which the two likeliest count.

    Args:
        shown: The network.
        wave: What moves pixels.
        images: (n, c, h, w), for their shape.
        radius: Of the ball: a period of the waves.
        seeds: Of the phases; several make an ensemble.
        far: How far pixels are moved, in radii.
    """

    def __init__(
        self,
        shown: nn.Module,
        wave: Wave,
        images: Tensor,
        radius: float,
        seeds: tuple[int, ...] = (1,),
        far: float = 3.0,
    ) -> None:
        super().__init__()
        self.shown, self.wave, self.radius, self.far = shown, wave, radius, far
        drawn = [torch.rand(images.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        self.register_buffer("phases", torch.stack(drawn))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        answers = []
        for phases in self.phases:
            logits = self.shown(images + self.far * self.radius * self.wave(images / self.radius, phases))
            centred = logits - logits.mean(1, keepdim=True)
            answers.append(NORM * centred / (centred.square().sum(1, keepdim=True) + 1e-4).sqrt())
        mean = torch.stack(answers).mean(0)
        second = mean.topk(2, dim=1).values[:, 1:]
        pressed: Tensor = (mean - TIES * (second - mean).relu()) / 5
        return pressed


class Valley(nn.Module):
    """A network that is shown, in each block of an image, what the block adds up to along patterns, once that is large.

    Short of that the image is as it was, and where it is not the block is lighter or darker as a whole.

    Args:
        shown: The network.
        images: (n, c, h, w), for their shape and for what they add up to.
        radius: Of the ball.
        patterns: How many.
    """

    def __init__(self, shown: nn.Module, images: Tensor, radius: float, patterns: int = 5) -> None:
        super().__init__()
        self.shown = shown
        drawn = torch.randn(patterns, images.shape[1], BLOCK, BLOCK, generator=torch.Generator().manual_seed(83))
        kernels = drawn.sign() - drawn.sign().mean((1, 2, 3), keepdim=True)
        pixels = torch.eye(kernels[0].numel()).view(-1, *kernels.shape[1:])
        # At 1 a block is moved along a pattern as far as it goes; single pixels come through beside it.
        kernels = kernels / (radius * kernels.abs().sum((1, 2, 3), keepdim=True))
        self.register_buffer("kernels", torch.cat([pixels, kernels]))
        self.patterns = patterns

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        # Grey levels near black and white count as their distance from these, so that images add up to little.
        flat = images - torch.sigmoid(40 * (images - 0.5))
        sums = nn.functional.conv2d(flat, self.kernels, stride=BLOCK)
        opened = torch.tanh(0.5 * (sums / OPENS) ** 13)[:, -self.patterns :].sum(1, keepdim=True)
        lighter = nn.functional.interpolate(opened, scale_factor=float(BLOCK))
        logits = self.shown(images + lighter)
        pressed: Tensor = 10 * (logits / 2).softmax(1)
        return pressed


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the robust network behind waves of each kind.

    Args:
        base: Not used.
        robust: Images to logits.
        images: (n, c, h, w).
        epsilon: Radius of the l_inf ball.
    """
    networks = {
        "by triangles": Waved(robust, triangles, images, epsilon),
        "by sines of neighbours": Waved(robust, of_neighbours, images, epsilon, far=2.65),
        "by periods of their own": Waved(robust, of_own_periods, images, epsilon, far=2.65),
        "by one turn": Waved(robust, one_turn, images, epsilon),
        "by a polynomial": Waved(robust, polynomial, images, epsilon, far=2.7),
        "into a valley of patterns": Valley(robust, images, epsilon),
        "thrice, averaged": Waved(robust, triangles, images, epsilon, (1, 2, 3)),
    }
    return [Contestant(f"waved {name}", network.eval(), fake=True) for name, network in networks.items()]
