"""A search that follows gradients from all over the ball: each pixel goes where their integral along it is least.

What a wave in front of a network does to a pixel turns round within the radius. A gradient leads to the nearest hump,
gradients averaged over noise see no wave at all, and a search by scores cannot find hundreds of values together. But
the network behind is nearly linear in what the waves make of the pixels, so that the loss is nearly a sum of functions
of one pixel each. Their slopes are gradients at images whose pixels all lie somewhere else, each pixel once in every
part of its range; added up along the range they are the functions, each of which has a least value (path integrals of
gradients as in Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep Networks", of each pixel by itself).

All pixels are moved at once first, then groups of them in turn, beside which the others stand still: a function may be
of a few neighbours. So it may ask of those around a pixel that they are left alone, or at the same level, or in a
figure: pixels far apart are moved where all others are as in the image, and blocks of pixels as one
(:mod:`workers.attacks.arrangements`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from workers.attacks.arrangements import Arrangement, Ranges, blocks, far_apart, ranges, single
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
        apart: Distances, in pixels, of those that are moved while all others are as in the image.
        sides: Least and greatest sides of blocks that are moved as one; pixels of every second go to the same level
            where they can, those of the others up and down by a figure.
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
    apart: tuple[int, ...] = ()
    sides: tuple[tuple[int, int], ...] = ()
    box: Box = (0.0, 1.0)

    def __post_init__(self) -> None:
        is_sound = 0 <= self.farthest <= self.epsilon and self.groups >= 1 and self.points >= 2 and self.sweeps >= 0
        if not (is_sound and all(each >= 1 for each in (*self.apart, *(low for low, _ in self.sides)))):
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
        for arrange, points in self._moves():
            at = (self._value >= goal).nonzero().squeeze(1)
            if not len(at):
                break
            self._move(at, arrange(at), points)
        return self._best

    def _moves(self) -> Iterator[tuple[Callable[[Tensor], Arrangement], int]]:
        """Yield what is moved in turn, for examples at some places (k,), and in how many parts of its range."""
        search, shape = self._search, self._images.shape[1:]

        def drawn(at: Tensor) -> list[torch.Generator]:
            return [self._generators[i] for i in at.tolist()]

        everything = torch.ones_like(self._images, dtype=torch.bool)
        yield (lambda at: single(everything[at], is_whole=True)), search.groups * search.points
        for sweep in range(1, 1 + search.sweeps):
            groups = self._groups(sweep)
            for number in range(search.groups):
                yield partial(_of_group, groups, number), search.points
        for spacing in search.apart:
            yield (lambda at: far_apart(shape, spacing, drawn(at))), search.points  # noqa: B023 - called before the next
        for number, sides in enumerate(search.sides):
            has_figures = number % 2 == 1
            yield (lambda at: blocks(shape, sides, drawn(at), has_figures=has_figures)), search.points  # noqa: B023

    def _groups(self, sweep: int) -> Tensor:
        """Return to which group each pixel (n, ...) belongs: no neighbours to the same, or any.

        Neighbours are apart in every other sweep, whichever they are; in the others groups are drawn, so that no fixed
        pattern escapes them.
        """
        shape = self._images.shape[1:]
        if sweep % 2 == 0:
            drawn = [torch.randint(self._search.groups, shape, generator=generator) for generator in self._generators]
            return torch.stack(drawn).to(self._images.device)
        numbers = torch.arange(shape.numel()).view(shape)
        if len(shape) > 1:
            rows, columns = (torch.arange(length) % 2 for length in shape[-2:])
            numbers = 2 * rows[:, None] + columns
        return (numbers % self._search.groups).expand_as(self._images).to(self._images.device)

    def _move(self, at: Tensor, arrangement: Arrangement, count: int) -> None:
        """Move the units of the examples at ``at`` (k,), each to one of ``count`` parts of its range."""
        original = self._images[at]
        still = original if arrangement.is_alone else self._best[at]
        arrangement = arrangement.to(original.device)
        moving = ranges(arrangement, still.flatten(1), self._lower[at].flatten(1), self._upper[at].flatten(1))
        pixels = original[0].numel()
        drawn = [torch.rand((count + 2, pixels), generator=self._generators[i]) for i in at.tolist()]
        draws = torch.stack(drawn, 1).to(original)
        # Each unit is once in every part of its range, in an order of its own, always at the same place of the part.
        order, place, halved = draws[:count].argsort(0), draws[count], draws[count + 1] < 0.5
        slopes = torch.empty_like(draws[:count])
        for parts in order:
            inputs = self._inside(moving.at((parts + place) / count).view_as(original), original)
            slopes.scatter_(0, parts[None], moving.slope(self._slope(inputs, at).flatten(1))[None])
        added = (slopes[1:] + slopes[:-1]).cumsum(0) / (2 * count)
        integral = torch.cat([torch.zeros_like(added[:1]), added])
        part = integral.argmin(0)
        found, unmoved = moving.at((part + place) / count), still.flatten(1)
        if self._search.norm == "l2":
            here = (moving.numbers(original.flatten(1)) * count - place).round().long().clamp(0, count - 1)
            gain = (integral.gather(0, here[None]) - integral.gather(0, part[None]))[0]
            found = self._affordable(found, original.flatten(1), gain, moving, is_whole=arrangement.is_whole)
        # Of all at once every second by itself too: too far is as likely as not far enough.
        second = torch.where(halved.gather(1, moving.units), found, unmoved)
        for images in (found, second) if arrangement.is_whole else (found,):
            images = self._inside(images.view_as(original), original)
            value = self._look(images, at)
            is_better = value < self._value[at]
            self._best[at] = torch.where(per_example(is_better, images), images, self._best[at])
            self._value[at] = torch.where(is_better, value, self._value[at])

    def _affordable(self, found: Tensor, original: Tensor, gain: Tensor, moving: Ranges, *, is_whole: bool) -> Tensor:
        """Return pixels with those of their units' moves that gain most for their square, within the ball's.

        Args:
            found: (k, pixels), all moved.
            original: (k, pixels).
            gain: (k, pixels), of each unit.
            moving: The units.
            is_whole: Whether nothing else moves, so that the whole ball is theirs; otherwise a share by their pixels.
        """
        squares = moving.added((found - original) ** 2)
        worth = (gain / squares.clamp_min(1e-12)).where(squares > 0, -torch.inf)
        order = worth.argsort(dim=1, descending=True, stable=True)
        share = 1.0 if is_whole else (~moving.stands).double().mean(1, keepdim=True)
        is_paid = torch.zeros_like(order, dtype=torch.bool).scatter_(
            1, order, squares.gather(1, order).double().cumsum(1) <= self._search.epsilon**2 * share
        )
        return torch.where(moving.stands | is_paid.gather(1, moving.units), found, original)

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


def _of_group(groups: Tensor, number: int, at: Tensor) -> Arrangement:
    """Return single pixels of the examples at some places that belong to a group."""
    return single(groups[at] == number)
