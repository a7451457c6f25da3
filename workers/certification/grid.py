"""The grid certificates are made on: images and noise as whole numbers of steps of 1 / 16,320, 64 to a step of 8 bits.

Added in floating point, an image leaves its trace in the low bits of the sum: what is 1 / 255 + draw has none below
2^-31, what is 0 + draw has. A classifier that reads them tells images apart that Gaussian noise makes nearly the same,
and is certified where nothing holds (Voracek and Hein, Sound randomized smoothing in floating-point arithmetic, ICLR
2023). tests/certification/test_false_certificates.py has one that 1,000 draws certify to 0.53, although an image at
0.22 has the other class in all of them.

Here the noise is rounded to the grid, and the network is given a function of the sum of two integers. For an image x on
the grid, rounding x + noise gives x + rounded noise: so the network after rounding is an ordinary classifier of
x + noise, to which Neyman and Pearson's lemma applies, for every x on the grid. **Every 8-bit image is on it.** An
image given in other numbers is rounded to it first, and certified as rounded.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from seatrial.contracts.datasets import GRID as GRID
from seatrial.contracts.datasets import REPRESENTED

LARGEST = 2**30
"""Steps an image may hold, so that those of the noise can be added in 32 bits."""


def to_grid(images: Tensor) -> Tensor:
    """Return the nearest point of the grid to images in pixels, as steps (same shape) int32; halves to even.

    Raises:
        ValueError: A value is not finite, or too large to add noise to.

    >>> to_grid(torch.tensor([0.0, 1 / 255, 0.5, 1.0])).tolist()
    [0, 64, 8160, 16320]
    """
    steps = images.detach().double() * GRID
    if not bool((steps.abs() <= LARGEST).all()):
        raise ValueError(f"images must be finite numbers of at most {LARGEST // GRID:,} times the pixels' range")
    rounded: Tensor = steps.round_().to(torch.int32)
    return rounded


def to_pixels(steps: Tensor) -> Tensor:
    """Return what the network is given for points of the grid: float32 pixels (same shape), a function of the integer.

    >>> to_pixels(torch.tensor([0, 16320], dtype=torch.int32)).tolist()
    [0.0, 1.0]
    """
    pixels: Tensor = steps.to(torch.float32).mul_(1 / GRID)
    return pixels


def rounding(images: Tensor) -> Tensor:
    """Return how far images (batch, ...) are moved by :func:`to_grid`, in l_2 of pixels (batch,) float64 on the CPU.

    Exactly 0 for an image on the grid, whatever float32 makes of its values.
    """
    exact = images.detach().double() * GRID
    moved = exact.sub_(exact.round()).flatten(1)
    moved[moved.abs() <= REPRESENTED] = 0.0
    distance: Tensor = (moved.norm(dim=1) / GRID).cpu()
    return distance


class _OnGrid(torch.autograd.Function):
    """To the grid, plus a draw, to pixels; the gradient passes as if nothing were rounded."""

    @staticmethod
    def forward(_: Any, images: Tensor, draw: Tensor) -> Tensor:
        return to_pixels(to_grid(images) + draw)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def noisy_copies(images: Tensor, draw: Tensor) -> Tensor:
    """Return what the network is given for images (n, ...) in pixels under one draw (...) in steps, differentiable."""
    copies: Tensor = _OnGrid.apply(images, draw)  # type: ignore[no-untyped-call]
    return copies


def within(images: Tensor, moved: Tensor) -> Tensor:
    """Return points of the grid near ``moved`` (n, ...), no further from those near ``images`` than it is from these.

    Every pixel's change is cut to whole steps, which never makes it longer. In pixels, float32.
    """
    origin = to_grid(images)
    change = (moved.detach().double() - images.detach().double()).mul_(GRID).trunc_()
    return to_pixels(origin + change.to(torch.int32))


def law_distance(sigma: float, values: int, device: torch.device) -> float:
    """Return a bound on the total variation distance of a draw's law from that of rounded Gaussian noise.

    Every probability under the noise that is drawn is within it of that under the noise that is certified, so bounds of
    the one, wider by it, are bounds of the other. Added to alpha instead, it would have to be multiplied by the draws:
    that is 0.001 at sigma 0.25, 3072 values and 100,000 draws, as much as alpha itself.

    What differs are the low bits, which are few, and the tails, which end. Coupled to the real number it stands for, a
    draw falls into another step only where a boundary of two steps is between them. Let s be sigma in steps.

    - numpy's ziggurat in float64 puts 2^52 points into a strip of width x, so that s x boundaries have a point of
      2^-52 beside each, 1.60 s 2^-52 over its strips; rounding x, its factor and the product with s adds 0.6 s 2^-52.
      Its strips are of one area to 3.3e-14, which is 4.5e-15 over all. The tail goes on to 13.7 (1e-42). Less than
      s 2^-50 + 2^-46 a value; computed from numpy's tables the distance is about 2e-14 at s = 4080. (float32's draws
      have 1e-5 there: too much for 3072 values.)
    - The Box-Muller transform of 53 bits, of torch on a GPU in float64: a boundary meets at most
      (1/2 + 2 exp(-b^2 / 2)) 2^53 of the 2^106 squares of one pair, 13.7 s 2^-53 over those up to 8.65, beyond which
      there are 5e-18; 4 ulp of the functions add 0.4 s 2^-50. Less than s 2^-48 + 2^-46.

    The generator's bits count as random.

    Args:
        sigma: Standard deviation in pixels.
        values: Values of a draw.
        device: Where it is drawn.

    >>> law_distance(0.25, 3 * 32 * 32, torch.device("cpu")) < 2e-8
    True
    """
    return min(1.0, values * (sigma * GRID * (2.0**-50 if device.type == "cpu" else 2.0**-48) + 2.0**-46))


def round_noise(gaussian: Tensor, sigma: float, out: Tensor) -> None:
    """Write standard normal draws float64, which are used up, to ``out`` int32 as steps of noise of ``sigma``."""
    out.copy_(gaussian.mul_(np.float64(sigma) * GRID).round_())
