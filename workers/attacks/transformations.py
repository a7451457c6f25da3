"""Changes of an image that no gradient leads to and that cameras, screens and encoders make every day.

A model can answer honestly wherever attacks look and otherwise where something coarse about the image tells it so: a
haze over all of it, another contrast, grey levels that skip. Searches that begin with every pixel by itself do not
come by such places.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.regions import Region, per_example
from workers.models import GREY_LEVELS

STRIDES = (2, 4, 8)
"""Every how many of these an image may be left with, where the radius lets it."""


def transformations(images: Tensor, region: Region, epsilon: float) -> Iterator[Tensor]:
    """Yield each image changed in one plain way after the other, every time within its ball.

    Even lightening and darkening (of anything); of what has height and width, also ramps and slow waves of light either
    way, stripes and checks, more and less contrast, blur and sharpness, and a shift by a pixel.

    Args:
        images: (n, ...) in the box; not changed.
        region: Their balls.
        epsilon: Radius: how far what is added goes, before the region cuts it.
    """

    def inside(moved: Tensor) -> Tensor:
        return region.step(moved, torch.zeros_like(moved), 0.0)

    for sign in (1.0, -1.0):
        yield inside(images + sign * epsilon)
    if images.dim() != 4 or min(images.shape[2:]) < 3:
        return
    for pattern in _patterns(images):
        for sign in (1.0, -1.0):
            yield inside(images + sign * epsilon * pattern)
    flat = images.flatten(1)
    middle = per_example(flat.mean(1), images)
    largest = per_example((flat - flat.mean(1, keepdim=True)).abs().amax(1).clamp_min(1e-6), images)
    blurred = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    for towards in ((images - middle) / largest * epsilon, blurred - images):
        for sign in (1.0, -1.0):
            yield inside(images + sign * towards)
    for dimension in (2, 3):
        yield inside(images.roll(1, dimension))


def _patterns(images: Tensor) -> Iterator[Tensor]:
    """Yield what is added, each between -1 and 1 and broadcast over ``images``."""
    height, width = images.shape[2:]
    down = torch.linspace(-1, 1, height, device=images.device, dtype=images.dtype)[:, None].expand(height, width)
    along = torch.linspace(-1, 1, width, device=images.device, dtype=images.dtype).expand(height, width)
    yield from (down, along)
    yield torch.sin(torch.pi / 2 * down) * torch.sin(torch.pi / 2 * along)
    yield torch.cos(torch.pi * down) * torch.cos(torch.pi * along)
    rows = torch.arange(height, device=images.device)[:, None].expand(height, width)
    columns = torch.arange(width, device=images.device).expand(height, width)
    for cells in (rows, columns, rows + columns, rows // 4 + columns // 4):
        yield (1 - 2 * (cells % 2)).to(images.dtype)


def to_stride(images: Tensor, stride: int) -> Tensor:
    """Return images with every pixel at the nearest multiple of ``stride`` 255ths, as far as that is no lighter than 1.

    The gradient is that of no change.

    >>> to_stride(torch.tensor([2.9 / 255, 1.0]), 2).mul(255).round().tolist()
    [2.0, 254.0]
    """
    steps = (images.detach() * GREY_LEVELS / stride).round().clamp(max=GREY_LEVELS // stride)
    return images + (steps * stride / GREY_LEVELS - images).detach()
