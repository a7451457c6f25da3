"""Where a perturbed image may be: a norm ball around the original, cut with the box of valid pixels.

A region holds one ball per example, knows how to draw a point of it and how to make one descent step in it. Distances
are in the units of the pixels, on the flattened image.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from workers.models import Box as Box

Norm = Literal["linf", "l2"]


class Region(Protocol):
    """Balls around (n, ...) originals."""

    def keep(self, mask: Tensor) -> None:
        """Drop the examples where ``mask`` (n,) is false."""
        ...

    def step(self, images: Tensor, gradient: Tensor, step_size: float) -> Tensor:
        """Return ``images`` after one step of ``step_size`` against ``gradient``, which is used up, and projected."""
        ...

    def draw(self, generators: Sequence[torch.Generator]) -> Tensor:
        """Return a random point of each ball, each from its own generator."""
        ...


class LinfRegion:
    """l_inf balls: the step is ``step_size`` times the sign of the gradient."""

    def __init__(self, origin: Tensor, epsilon: float, box: Box) -> None:
        # Ball and box are both boxes: one clamp does both projections.
        self._lower = (origin - epsilon).clamp_(min=box[0])
        self._upper = (origin + epsilon).clamp_(max=box[1])
        self._origin = origin
        self._epsilon = epsilon

    def keep(self, mask: Tensor) -> None:
        """Drop the examples where ``mask`` is false."""
        self._lower, self._upper, self._origin = self._lower[mask], self._upper[mask], self._origin[mask]

    def step(self, images: Tensor, gradient: Tensor, step_size: float) -> Tensor:
        """Take one signed step; a NaN in the gradient counts as 0."""
        # In the gradient's memory: allocating an image batch costs more than all the arithmetic here.
        return gradient.sign_().mul_(-step_size).add_(images).clamp_(self._lower, self._upper)

    def draw(self, generators: Sequence[torch.Generator]) -> Tensor:
        """Draw every pixel's perturbation uniformly from [-epsilon, epsilon]."""
        unit = torch.stack(
            [torch.rand(self._origin.shape[1:], generator=g, dtype=self._origin.dtype) for g in generators]
        )
        drawn = self._origin + (2 * unit - 1).to(self._origin.device) * self._epsilon
        return drawn.clamp_(self._lower, self._upper)


class L2Region:
    """l_2 balls: the step is ``step_size`` times the gradient divided by its norm."""

    def __init__(self, origin: Tensor, epsilon: float, box: Box) -> None:
        self._origin = origin
        self._epsilon = epsilon
        self._box = box

    def keep(self, mask: Tensor) -> None:
        """Drop the examples where ``mask`` is false."""
        self._origin = self._origin[mask]

    def step(self, images: Tensor, gradient: Tensor, step_size: float) -> Tensor:
        """Take one normalised step; a gradient that is zero or not finite moves nothing."""
        moved = images.add(unit_vectors(gradient), alpha=-step_size)
        return self._project(moved)

    def draw(self, generators: Sequence[torch.Generator]) -> Tensor:
        """Draw uniformly from the ball (a Gaussian direction, a radius of epsilon u^(1/d)), then clamp to the box."""
        shape = self._origin.shape[1:]
        draws = [(torch.randn(shape, generator=g), torch.rand(1, generator=g)) for g in generators]
        directions = unit_vectors(torch.stack([direction for direction, _ in draws]))
        radii = self._epsilon * torch.stack([u for _, u in draws]).pow(1 / max(1, directions[0].numel()))
        delta = directions * per_example(radii.flatten(), directions)
        return self._project(self._origin + delta.to(self._origin))

    def _project(self, images: Tensor) -> Tensor:
        delta = images - self._origin
        norms = delta.flatten(1).norm(dim=1)
        shrink = (self._epsilon / norms.clamp_min(1e-30)).clamp_max(1.0)
        return (self._origin + delta * per_example(shrink, delta)).clamp_(*self._box)


def make_region(norm: Norm, origin: Tensor, epsilon: float, box: Box) -> Region:
    """Return the balls of a norm around ``origin`` (n, ...)."""
    return LinfRegion(origin, epsilon, box) if norm == "linf" else L2Region(origin, epsilon, box)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return each example's vector at length 1; zero and non-finite vectors become zero.

    Divided by the largest entry first: the square of a float32 gradient below 1e-23 is 0.
    """
    flat = vectors.flatten(1).nan_to_num(nan=0.0)
    flat = flat / flat.abs().amax(1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
    unit: Tensor = flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return unit.view_as(vectors)


def off_edges(images: Tensor, box: Box, distance: float | Tensor) -> Tensor:
    """Return images off the edges of the box, with the gradients of the images.

    A network that clips its input has none at the edges, where the ground of many images is.

    Args:
        images: (n, ...).
        box: Least and greatest valid pixel.
        distance: From either that is kept; a quarter of what lies between at most.
    """
    least, greatest = (torch.as_tensor(edge).to(images) for edge in box)
    off = torch.minimum(torch.as_tensor(distance).to(images), (greatest - least) / 4)
    return images + (torch.minimum(torch.maximum(images, least + off), greatest - off) - images).detach()


WIDEST = 20.0
"""Standard deviations that a column of a table is taken to be wide, at most: one without a range has no ends."""


def box_width(box: Box) -> float:
    """Return how far the ends of a box lie apart, of a table's columns the two that do farthest."""
    least, greatest = box
    return float(torch.as_tensor(greatest - least).clamp(max=WIDEST).max())


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """Return ``values`` (n,) in a shape that broadcasts over ``like`` (n, ...)."""
    return values.view(-1, *[1] * (like.dim() - 1))


def bisect(inside: Tensor, outside: Tensor, times: int, is_across: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return segments (n, ...) halved some times, towards where what is asked of their points begins.

    Args:
        inside: Ends at which it is not.
        outside: Ends at which it is; where it is nowhere, the segment goes to this end.
        times: How often.
        is_across: Points (n, ...) to whether it is (n,) bool.

    Returns:
        Both ends.
    """
    for _ in range(times):
        middle = (inside + outside) / 2
        crossed = per_example(is_across(middle), middle)
        inside, outside = torch.where(crossed, inside, middle), torch.where(crossed, middle, outside)
    return inside, outside
