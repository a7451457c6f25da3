"""Steps, projections and random points in l_inf and l_2 balls, with a length of its own for every example."""

from collections.abc import Sequence

import torch
from torch import Tensor

from workers.attacks.regions import Box, Norm, per_example


def project(norm: Norm, images: Tensor, origin: Tensor, epsilon: float, box: Box) -> Tensor:
    """Return ``images`` (n, ...) brought into the ball of radius ``epsilon`` around ``origin`` and into the box.

    In l_2 the ball comes first and the box second: the box holds the origin, so clamping to it only shortens the way.
    """
    if norm == "linf":
        return images.clamp((origin - epsilon).clamp_(min=box[0]), (origin + epsilon).clamp_(max=box[1]))
    delta = images - origin
    shrink = (epsilon / lengths("l2", delta).clamp_min(1e-30)).clamp_max(1.0)
    return (origin + delta * per_example(shrink, delta)).clamp_(*box)


ON_LEVEL = 1e-3
"""How far short of a level, in levels, a value may fall by rounding and still be at it."""


def towards_origin(images: Tensor, origin: Tensor, levels: int) -> Tensor:
    """Return images (n, ...) with every change from ``origin``, which is on the levels, cut to whole levels.

    Cut and not rounded: no change grows, so an image of a ball stays in it, in any norm.

    >>> towards_origin(torch.tensor([[0.8, 0.0]]), torch.tensor([[0.5, 0.5]]), 4).tolist()
    [[0.75, 0.0]]
    """
    change = (images - origin) * levels
    cut = (change + ON_LEVEL * change.sign()).trunc()
    return ((origin * levels).round() + cut) / levels


def steepest(norm: Norm, gradient: Tensor) -> Tensor:
    """Return the direction (n, ...) of length 1 in which a gradient rises fastest; zero where it is not finite.

    In l_2 divided by the largest entry first: the square of a float32 gradient below 1e-23 is 0.
    """
    finite = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    if norm == "linf":
        return finite.sign()
    flat = finite.flatten(1)
    flat = flat / flat.abs().amax(1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
    unit: Tensor = flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return unit.view_as(gradient)


def lengths(norm: Norm, delta: Tensor) -> Tensor:
    """Return the norm (n,) of each example's difference.

    >>> lengths("l2", torch.tensor([[3.0, -4.0]])).item(), lengths("linf", torch.tensor([[3.0, -4.0]])).item()
    (5.0, 4.0)
    """
    flat = delta.flatten(1)
    return flat.abs().amax(1) if norm == "linf" else flat.norm(dim=1)


def draw_on_sphere(
    norm: Norm, origin: Tensor, epsilon: float, box: Box, generators: Sequence[torch.Generator]
) -> Tensor:
    """Return random points at distance ``epsilon``, cut to the box, each from its own generator.

    x + epsilon t / ||t|| with t uniform in [-1, 1]^d (l_inf) or Gaussian (l_2): the start of the authors' APGD.
    """
    shape, dtype = origin.shape[1:], origin.dtype
    if norm == "linf":
        drawn = torch.stack([2 * torch.rand(shape, generator=g, dtype=dtype) - 1 for g in generators])
    else:
        drawn = torch.stack([torch.randn(shape, generator=g, dtype=dtype) for g in generators])
    unit = drawn / per_example(lengths(norm, drawn).clamp_min(torch.finfo(dtype).tiny), drawn)
    return project(norm, origin + epsilon * unit.to(origin.device), origin, epsilon, box)
