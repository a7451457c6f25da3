"""A search that follows gradients from all over the ball: each pixel goes where their integral along it is least.

What a wave in front of a network does to a pixel turns round within the radius. A gradient leads to the nearest hump,
gradients averaged over noise see no wave at all, and a search by scores cannot find hundreds of values together. But
the network behind is nearly linear in what the waves make of the pixels, so that the loss is nearly a sum of functions
of one pixel each. Their slopes are gradients at images whose pixels all lie somewhere else, each pixel once in every
part of its range; added up along the range they are the functions, each of which has a least value (path integrals of
gradients as in Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep Networks", of each pixel by itself).

All pixels are moved at once first, then groups of them in turn, beside which the others stand still: a function may be
of a few neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.gradients import Loss, Model, input_gradient
from workers.attacks.regions import Box, Norm, make_region, per_example
from workers.models.memory import forward, run_with_oom_split

MOST_VALUES = 2**24
"""Slopes that are held at once, of as many images as these hold and one at least."""


@dataclass(frozen=True)
class IntegratedSearch:
    """An attack; it holds no state and no randomness.

    Guarantee: every image that the model is shown is in the norm ball around its original (to one rounding of its
    dtype) and in the box.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        farthest: How far a single pixel goes, at most.
        groups: Of pixels, that are moved in turn: 4 keep all neighbours in an image apart.
        points: Parts of a pixel's range at which its slope is taken while its group is moved; ``groups`` times as many
            while all are.
        sweeps: Times that all groups are moved.
        box: Least and greatest valid pixel.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float
    farthest: float
    groups: int
    points: int
    sweeps: int
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not (0 <= self.farthest <= self.epsilon and self.groups >= 1 and self.points >= 2 and self.sweeps >= 0):
            raise ValueError(f"not an attack: {self}")

    def run(
        self,
        model: Model,
        images: Tensor,
        loss: Loss,
        *,
        goal: float,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Tensor:
        """Return the images (n, ...) of least loss; what does not fit in memory is split.

        Args:
            model: Images to logits.
            images: (n, ...) floating point, in the box; not changed.
            loss: What is lowered.
            goal: Loss below which an example is finished.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Raises:
            ValueError: An empty batch, or generators that are not one per image.
        """
        if len(images) == 0 or len(generators) != len(images):
            raise ValueError(f"not a batch to attack: {tuple(images.shape)}, {len(generators)} generators")
        size = max(1, MOST_VALUES // (self.groups * self.points * images[0].numel()))

        def piece(start: int, stop: int) -> Tensor:
            run = _Run(self, model, images[start:stop].detach(), loss, start, generators[start:stop], check_cancelled)
            return run.until(goal)

        return torch.cat(
            [
                part
                for start in range(0, len(images), size)
                for part in run_with_oom_split(piece, start, min(start + size, len(images)), generators=generators)
            ]
        )


class _Run:
    """The search on as many images as fit."""

    def __init__(
        self,
        search: IntegratedSearch,
        model: Model,
        images: Tensor,
        loss: Loss,
        first: int,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None],
    ) -> None:
        self._search, self._model, self._images, self._loss = search, model, images, loss
        self._first, self._generators, self._check_cancelled = first, generators, check_cancelled
        lower, upper = search.box
        self._lower = (images - search.farthest).clamp_min(lower)
        self._upper = (images + search.farthest).clamp_max(upper)
        self._best = images.clone()
        self._value = self._look(images, torch.arange(len(images), device=images.device))

    def until(self, goal: float) -> Tensor:
        for sweep in range(1 + self._search.sweeps):
            groups = self._groups(sweep)
            for number in range(self._search.groups if sweep else 1):
                at = (self._value >= goal).nonzero().squeeze(1)
                if not len(at):
                    return self._best
                self._move(at, groups[at] == number)
        return self._best

    def _groups(self, sweep: int) -> Tensor:
        """Return to which group each pixel (n, ...) belongs: all to one first, then no neighbours to the same, or any.

        Neighbours are apart in every other sweep, whichever they are; in the others groups are drawn, so that no fixed
        pattern escapes them.
        """
        shape = self._images.shape[1:]
        if not sweep:
            return torch.zeros_like(self._images, dtype=torch.int64)
        if sweep % 2 == 0:
            drawn = [torch.randint(self._search.groups, shape, generator=generator) for generator in self._generators]
            return torch.stack(drawn).to(self._images.device)
        numbers = torch.arange(shape.numel()).view(shape)
        if len(shape) > 1:
            rows, columns = (torch.arange(length) % 2 for length in shape[-2:])
            numbers = 2 * rows[:, None] + columns
        return (numbers % self._search.groups).expand_as(self._images).to(self._images.device)

    def _move(self, at: Tensor, moves: Tensor) -> None:
        """Move some pixels of the examples at ``at`` (k,); ``moves`` (k, ...) tells which."""
        best, original = self._best[at], self._images[at]
        lower, upper = self._lower[at], self._upper[at]
        are_all = bool(moves.all())
        count = self._search.points * (self._search.groups if are_all else 1)
        width = (upper - lower) / count
        drawn = [torch.rand((count + 2, *best.shape[1:]), generator=self._generators[i]) for i in at.tolist()]
        draws = torch.stack(drawn, 1).to(best)
        # Each pixel is once in every part of its range, in an order of its own, always at the same place of the part.
        order, place, halved = draws[:count].argsort(0), draws[count], draws[count + 1] < 0.5
        slopes = torch.empty_like(draws[:count])
        for parts in order:
            inputs = self._inside(torch.where(moves, lower + (parts + place) * width, best), original)
            slopes.scatter_(0, parts[None], self._slope(inputs, at)[None])
        added = (slopes[1:] + slopes[:-1]).cumsum(0) * (width / 2)
        integral = torch.cat([torch.zeros_like(added[:1]), added])
        part = integral.argmin(0)
        found = torch.where(moves, lower + (part + place) * width, best)
        if self._search.norm == "l2":
            here = ((original - lower) / width - place).round().long().clamp(0, count - 1)
            gain = (integral.gather(0, here[None]) - integral.gather(0, part[None]))[0]
            found = self._affordable(found, original, gain, moves)
        # Of all pixels at once every second by itself too: too far is as likely as not far enough.
        for images in (found, torch.where(halved, found, best)) if are_all else (found,):
            images = self._inside(images, original)
            value = self._look(images, at)
            is_better = value < self._value[at]
            self._best[at] = torch.where(per_example(is_better, images), images, self._best[at])
            self._value[at] = torch.where(is_better, value, self._value[at])

    def _affordable(self, found: Tensor, original: Tensor, gain: Tensor, moves: Tensor) -> Tensor:
        """Return images with those of their moves that gain most for their square, within their share of the ball's."""
        squares = ((found - original) ** 2).where(moves, 0.0).flatten(1)
        worth = (gain.flatten(1) / squares.clamp_min(1e-12)).where(moves.flatten(1), -torch.inf)
        order = worth.argsort(dim=1, descending=True, stable=True)
        share = self._search.epsilon**2 * moves.flatten(1).double().mean(1, keepdim=True)
        is_paid = torch.zeros_like(order, dtype=torch.bool).scatter_(
            1, order, squares.gather(1, order).double().cumsum(1) <= share
        )
        return torch.where(moves & ~is_paid.view_as(moves), original, found)

    def _inside(self, images: Tensor, original: Tensor) -> Tensor:
        """Return images in their balls; of l_inf they are, as their pixels are in their ranges."""
        if self._search.norm == "linf":
            return images
        region = make_region(self._search.norm, original, self._search.epsilon, self._search.box)
        return region.step(images, torch.zeros_like(images), 0.0)

    def _slope(self, images: Tensor, at: Tensor) -> Tensor:
        self._check_cancelled()
        inputs = images.detach().requires_grad_()
        with torch.enable_grad():
            value = self._loss(self._model(inputs), at + self._first)
        return input_gradient(value, inputs).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    def _look(self, images: Tensor, at: Tensor) -> Tensor:
        self._check_cancelled()
        return self._loss(forward(self._model, images), at + self._first).nan_to_num(nan=torch.inf)
