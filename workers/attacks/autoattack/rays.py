"""An attack by decisions alone: along directions of signs, block by block (RayS, Chen and Gu, KDD 2020).

It asks only whether an image is still classified as before, so that neither hidden gradients nor rounded, flattened or
withheld scores mislead it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seatrial.contracts.costs import Passes
from workers.attacks.autoattack.attempts import ActiveExamples, Attempt, in_halves
from workers.attacks.autoattack.balls import project, towards_origin
from workers.attacks.autoattack.square import Done
from workers.attacks.gradients import Model
from workers.attacks.regions import Box, Norm, per_example

TOLERANCE = 0.02
"""Share of the radius of the ball to which the distance along a direction is found."""


@dataclass(frozen=True)
class Rays:
    """A search; it holds no state and no randomness: the same model and image give the same questions.

    Guarantee: every image said to be broken was asked about, is in the norm ball around its original and in the box.
    Limit: what it does not break may still break.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        queries: Decisions asked for per example, at most.
        box: Least and greatest valid pixel.
        levels: Steps from 0 to 1 at which the model sees its inputs; images asked about are on them. None: anywhere.
    """

    norm: Norm
    epsilon: float
    queries: int = 1000
    box: Box = (0.0, 1.0)
    levels: int | None = None

    def passes(self) -> Passes:
        """Return what one example costs at most."""
        return Passes(forward=self.queries, backward=0, queries=self.queries)

    def run(
        self, model: Model, images: Tensor, until: Done, *, check_cancelled: Callable[[], None] = lambda: None
    ) -> Attempt:
        """Look for an image in each ball where ``until`` holds; a batch that does not fit in memory is halved.

        Args:
            model: Images to logits.
            images: (n, channels, height, width) floating point, in the box; not changed.
            until: Examples where it holds have crossed.
            check_cancelled: Called before every forward pass; may raise to stop the attack.
        """

        def piece(start: int, stop: int) -> Attempt:
            part = slice(start, stop)
            indices = torch.arange(start, stop, device=images.device)
            return self._search(model, images[part].detach(), indices, until, check_cancelled)

        with torch.no_grad():
            return in_halves(piece, len(images))

    def _search(
        self, model: Model, origin: Tensor, indices: Tensor, until: Done, check_cancelled: Callable[[], None]
    ) -> Attempt:
        found, farthest = Attempt.none_yet(origin), self._farthest(origin)
        active = _Active.begin(origin, indices, farthest)
        for query in range(1, self.queries + 1):
            check_cancelled()
            direction = active.proposed()
            radius = torch.where(active.is_searching, (active.inside + active.radius) / 2, active.radius)
            images = self._at(active.origin, direction, radius)
            logits = model(images)
            non_finite = ~logits.isfinite().all(1)
            crossed = until(logits, active.indices) & ~non_finite
            active.learn(crossed, direction, radius, self.epsilon * TOLERANCE)
            broken = crossed & (radius <= self.epsilon)
            leaving = broken | non_finite
            if query == self.queries or bool(leaving.any()):
                position = active.position[leaving]
                found.images[position], found.broken[position] = images[leaving], broken[leaving]
                found.non_finite[position] = non_finite[leaving]
                ending = leaving if query < self.queries else torch.ones_like(leaving)
                found.forward[active.position[ending]] = query
                active.keep(~ending)
                if len(active.position) == 0:
                    break
        return found

    def _farthest(self, origin: Tensor) -> float:
        # From anywhere in the box this far along a direction leads to a corner of it.
        low, high = (float(torch.as_tensor(end).abs().max()) for end in self.box)
        reach = max(high - low, high + low) if low > 0 else high - low
        return max(reach if self.norm == "linf" else reach * float(origin[0].numel()) ** 0.5, self.epsilon)

    def _at(self, origin: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
        unit = direction if self.norm == "linf" else direction / direction[0].numel() ** 0.5
        moved = origin + per_example(radius, origin) * unit
        # The ball of each example is its radius now: the box and the levels only shorten the way.
        moved = project("linf", moved, origin, float(radius.max()) if len(radius) else 0.0, self.box)
        return moved if self.levels is None else towards_origin(moved, origin, self.levels)


@dataclass
class _Active(ActiveExamples):
    """Direction: of signs, the best so far. Radius: where it crosses; inside: where it is known not to."""

    position: Tensor
    indices: Tensor
    origin: Tensor
    direction: Tensor
    radius: Tensor
    inside: Tensor
    is_searching: Tensor
    stage: Tensor
    block: Tensor

    @classmethod
    def begin(cls, origin: Tensor, indices: Tensor, farthest: float) -> "_Active":
        """Return the examples at the direction of ones, across which nothing is known; its block flips nothing."""
        none = torch.zeros(len(origin), dtype=torch.int64, device=origin.device)
        far = torch.full((len(origin),), farthest, dtype=origin.dtype, device=origin.device)
        return cls(
            position=torch.arange(len(origin), device=origin.device),
            indices=indices,
            origin=origin,
            direction=torch.ones_like(origin),
            radius=far,
            inside=torch.zeros_like(far),
            is_searching=none.bool(),
            stage=none,
            block=none - 1,
        )

    def proposed(self) -> Tensor:
        """Return the direction each example asks about: its best, or that with the signs of its block turned."""
        numbers = self.origin[0].numel()
        blocks = (2**self.stage).clamp_max(numbers)
        start, stop = self.block * numbers // blocks, (self.block + 1) * numbers // blocks
        places = torch.arange(numbers, device=self.origin.device)
        turned = (places >= start.unsqueeze(1)) & (places < stop.unsqueeze(1)) & (self.block >= 0).unsqueeze(1)
        turned &= ~self.is_searching.unsqueeze(1)
        return torch.where(turned.view_as(self.direction), -self.direction, self.direction)

    def learn(self, crossed: Tensor, direction: Tensor, radius: Tensor, tolerance: float) -> None:
        """Take in whether the images asked about crossed, and go on to the next question of each example."""
        proposing = ~self.is_searching
        self.direction = torch.where(per_example(crossed & proposing, direction), direction, self.direction)
        self.radius = torch.where(crossed, radius, self.radius)
        self.inside = torch.where(crossed & proposing, 0.0, torch.where(~crossed & ~proposing, radius, self.inside))
        self.is_searching = torch.where(proposing, crossed, self.radius - self.inside > tolerance)
        # A direction that was improved is turned in its next block; one that was not, as well.
        done = (proposing & ~crossed) | (~proposing & ~self.is_searching)
        self.block = self.block + done.long()
        is_last = self.block >= (2**self.stage).clamp_max(self.origin[0].numel())
        self.block = torch.where(is_last, 0, self.block)
        self.stage = torch.where(is_last, self.stage + 1, self.stage).clamp_max(30)
