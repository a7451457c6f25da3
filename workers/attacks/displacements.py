"""Copies of an image that show a person the same and lie farther from it than a small ball reaches.

Whoever knows the images of an audit can answer near them otherwise than elsewhere. A copy that is drawn when the audit
runs is known to nobody: turned, scaled, sheared and shifted a little, and bent along waves, by parts of a pixel.
"""

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

SMALLEST = 16
"""Least height and width of an image that a slight displacement leaves the same to a network, in pixels. Of 8 x 8,
where a pixel is an eighth of the picture, an honest hardened network was told."""

TRIES = 24
"""Displacements drawn until one leads far enough away."""

SHIFTED = 1 / 28
"""How far an image is shifted to see how far a copy is from that, as a share of the side and at least by a pixel: what
remembers the image may remember it in other places, too."""

TURN, STRETCH, SHEAR = math.radians(8), 0.05, 0.05
"""How far an image is turned at most, in radians, and scaled and sheared along either axis, as shares of it."""

SHIFT = 0.8 / 28
"""How far it is shifted at most along either axis, as a share of the side."""

WAVES, BEND, PERIODS = 4, 0.6 / 28, 2.0
"""Waves that bend it along either axis, how far each moves a point at most, as a share of the side, and how often it
turns along a side at most. A memory of nine shifted copies of each image and the 50 slowest bends of each explains all
of them but a squared length of 9.8 (median of 40 MNIST images), and 6.9 of waves that turn half as often; noise of
l_inf 0.1 has 4."""


@dataclass(frozen=True)
class Displacement:
    """A map of the plane in which an image is the square from -1 to 1.

    Attributes:
        affine: (2, 3) in float64: what of the image is shown where.
        bends: (4, waves, 2) of either axis: the reach of each wave, how fast it turns down and along, and its phase.
    """

    affine: Tensor
    bends: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator) -> "Displacement":
        """Return one that is drawn from a CPU generator."""

        def uniform(most: float, *shape: int) -> Tensor:
            return most * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)

        turn, shear, stretched = float(uniform(TURN)), float(uniform(SHEAR)), 1 + uniform(STRETCH, 2)
        turned = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]).double()
        sheared = torch.tensor([[1.0, shear], [0.0, 1.0]]).double()
        # A side is 2 long in these coordinates.
        affine = torch.cat([turned @ sheared @ torch.diag(stretched), uniform(2 * SHIFT, 2, 1)], 1)
        reaches, waves = uniform(2 * BEND, 1, WAVES, 2), uniform(math.pi * PERIODS, 3, WAVES, 2)
        return cls(affine, torch.cat([reaches, waves]))

    def apply(self, image: Tensor) -> Tensor:
        """Return an image (channels, height, width) of values in [0, 1] displaced, in the levels that it has itself.

        What was beyond an edge is what lies as far inside of it. What is between pixels is a mean of them, which greys
        edges that a network may live by: so the lightest pixel has the level of the image's own lightest, and so on.
        """
        whole = image.detach().double().cpu()[None]
        grid = functional.affine_grid(self.affine[None], list(whole.shape), align_corners=False)
        reach, down, along, phase = self.bends
        bent = (reach * torch.sin(grid[..., 1:, None] * down + grid[..., :1, None] * along + phase)).sum(-2)
        moved = functional.grid_sample(whole, grid + bent, padding_mode="reflection", align_corners=False)[0].flatten(1)
        # What is equal but for rounding stays equal: all of it has the lowest level of its ranks.
        seen = moved.mul(2**20).round()
        ranks = torch.searchsorted(seen.sort(dim=1).values, seen)
        levels = image.detach().cpu().flatten(1).sort(dim=1).values
        return levels.gather(1, ranks).view(image.shape).to(image)


def is_displaceable(images: Tensor) -> bool:
    """Tell whether (n, ...) have a height and a width that a slight displacement leaves recognisable."""
    return images.dim() == 4 and min(images.shape[2:]) >= SMALLEST


def displaced_copy(image: Tensor, generator: torch.Generator, least: float) -> Tensor:
    """Return a copy (channels, height, width) of an image in [0, 1], displaced as it is drawn.

    Guarantee: at least ``least`` away in l_2, from the image and from what a shift by a pixel makes of it, or the
    farthest of as many as are tried. What is drawn decides, and the image, and nothing else: neither other images nor
    the device it lies on.

    Args:
        image: (channels, height, width), at least :data:`SMALLEST` high and wide.
        generator: On the CPU.
        least: How far away is enough, in l_2.
    """
    best, farthest = image, -1.0
    step = max(1, round(SHIFTED * min(image.shape[1:])))
    for _ in range(TRIES):
        found = Displacement.draw(generator).apply(image)
        places = product((0, -step, step), repeat=2)
        distance = min(float((found - image.roll(place, (1, 2))).double().norm()) for place in places)
        if distance > farthest:
            best, farthest = found, distance
        if farthest >= least:
            break
    return best
