"""The Square attack: random squares, kept when they lower a score (Andriushchenko et al., ECCV 2020).

It asks for scores alone, so a model cannot hide from it by hiding its gradients. Every example has squares of its own,
drawn from its own generator. The published score is the margin; any other will do (:meth:`Square.search`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from seatrial.contracts.costs import Passes
from workers.attacks.autoattack.attempts import ActiveExamples, Attempt, in_halves
from workers.attacks.autoattack.balls import project, towards_origin
from workers.attacks.gradients import Loss, Model
from workers.attacks.losses import margin
from workers.attacks.regions import Box, Norm, per_example
from workers.attacks.robust_accuracy import is_wrong

Done = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, classes), indices (n,)) to (n,) bool."""

HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Queries after which the share of pixels in a square is halved; not rescaled to the budget, as in AutoAttack."""

DRAWN_AT_ONCE = 100
"""Queries whose random numbers are drawn together: one call of a generator costs more than one small image's pass."""


def share_of_pixels(query: float, p_init: float) -> float:
    """Return the share of the image that the square of a query covers.

    >>> [share_of_pixels(query, 0.8) for query in (1, 10, 11, 51, 8001)]
    [0.8, 0.8, 0.4, 0.2, 0.0015625]
    """
    return float(p_init / 2 ** bisect_left(HALVED_AFTER, query))


@dataclass(frozen=True)
class Square:
    """A search; it holds no state and no randomness.

    Guarantee: every returned image is in the norm ball around its original (to one rounding of its dtype) and in the
    box, and no example is asked more than ``queries`` times. Limit: it is a random search; what it does not break
    may still break.

    Attributes:
        norm: Norm of the perturbation.
        epsilon: Radius of the ball, in pixels' units.
        queries: Scores asked for per example, the first image included.
        p_init: Share of the image that the first squares cover.
        pace: Queries of the published schedule that each of these stands for: a short search has to come to small
            squares sooner.
        box: Least and greatest valid pixel.
        levels: Steps from 0 to 1 at which the model sees its inputs; images asked about are on them, as the originals
            are. None: anywhere.

    Raises:
        ValueError: A number is out of range.
    """

    norm: Norm
    epsilon: float
    queries: int = 5000
    p_init: float = 0.8
    pace: float = 1.0
    box: Box = (0.0, 1.0)
    levels: int | None = None

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.queries >= 1 and 0 < self.p_init <= 1 and self.pace > 0):
            raise ValueError(f"not an attack: {self}")

    def passes(self) -> Passes:
        """Return what one example costs at most."""
        return Passes(forward=self.queries, backward=0, queries=self.queries)

    def run(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        *,
        generators: Sequence[torch.Generator],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Attempt:
        """Attack the predictions of a batch; a batch that does not fit in memory is halved.

        Args:
            model: Images to logits.
            images: (n, channels, height, width) floating point, in the box; not changed.
            labels: (n,) int64.
            generators: One per example.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Returns:
            Attempt: With the image of least margin where none is broken.

        Raises:
            ValueError: No images of four dimensions, or not one generator per example.
        """
        return self.search(
            model,
            images,
            lambda logits, indices: margin(logits, labels[indices]),
            lambda logits, indices: is_wrong(logits, labels[indices]),
            generators=generators,
            check_cancelled=check_cancelled,
        )

    def search(
        self,
        model: Model,
        images: Tensor,
        score: Loss,
        until: Done | None = None,
        *,
        goal: float = -math.inf,
        generators: Sequence[torch.Generator],
        starts: Tensor | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Attempt:
        """Lower a score of a batch; a batch that does not fit in memory is halved.

        Args:
            model: Images to logits.
            images: (n, channels, height, width) floating point, in the box; not changed.
            score: What is lowered; called once for every image that is asked about.
            until: Examples where it holds are broken and leave. None: none is.
            goal: Score at which an example is finished and leaves.
            generators: One per example.
            starts: (n, ...) the first images, in the ball and the box; None: random stripes or tiles.
            check_cancelled: Called before every forward pass; may raise to stop the attack.

        Returns:
            Attempt: With the image of least score where none is broken.

        Raises:
            ValueError: No images of four dimensions, or not one generator per example.
        """
        if images.dim() != 4 or len(images) == 0 or len(generators) != len(images):
            raise ValueError(f"squares need images (n, channels, height, width) and n generators: {images.shape}")

        def piece(start: int, stop: int) -> Attempt:
            part = slice(start, stop)
            return self._search(
                _Question(model, score, until, goal, check_cancelled),
                images[part].detach(),
                torch.arange(start, stop, device=images.device),
                generators[part],
                None if starts is None else starts[part].detach(),
            )

        with torch.no_grad():
            return in_halves(piece, len(images), generators=generators)

    def _search(
        self,
        question: "_Question",
        origin: Tensor,
        indices: Tensor,
        generators: Sequence[torch.Generator],
        starts: Tensor | None,
    ) -> Attempt:
        found = Attempt.none_yet(origin)
        first = _stripes if self.norm == "linf" else _tiles
        active = _Active(
            position=torch.arange(len(origin), device=origin.device),
            indices=indices,
            origin=origin,
            best=origin,
            value=torch.full_like(origin.flatten(1)[:, 0], torch.inf),
            draws=origin.new_empty((len(origin), 0, 0)),
        )
        proposal = first(origin, self.epsilon, generators) if starts is None else starts
        for query in range(1, self.queries + 1):
            proposal = project(self.norm, proposal, active.origin, self.epsilon, self.box)
            if self.levels is not None:
                proposal = towards_origin(proposal, active.origin, self.levels)
            value, broken, non_finite = question.ask(proposal, active.indices)
            better = (value < active.value) | broken
            active.value = torch.where(better, value, active.value)
            active.best = torch.where(per_example(better, proposal), proposal, active.best)
            leaving = broken | non_finite | (active.value <= question.goal)
            if query == self.queries or bool(leaving.any()):
                leaving |= query == self.queries
                position = active.position[leaving]
                found.images[position], found.forward[position] = active.best[leaving], query
                found.broken[position], found.non_finite[position] = broken[leaving], non_finite[leaving]
                active.keep(~leaving)
                if len(active.position) == 0:
                    break
            drawn = (query - 1) % DRAWN_AT_ONCE
            if drawn == 0:
                active.draw([generators[i] for i in active.position.tolist()])
            share = share_of_pixels(query * self.pace, self.p_init)
            side = math.sqrt(share * origin.shape[2] * origin.shape[3])
            propose = _square_linf if self.norm == "linf" else _square_l2
            proposal = propose(active, active.draws[:, drawn], side, self.epsilon)
        return found


@dataclass(frozen=True)
class _Question:
    """What is asked about every image."""

    model: Model
    score: Loss
    until: Done | None
    goal: float
    check_cancelled: Callable[[], None]

    def ask(self, images: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores in the images' dtype (n,), which are broken (n,) and whose output is not finite (n,)."""
        self.check_cancelled()
        logits = self.model(images)
        non_finite = ~logits.isfinite().flatten(1).all(1)
        broken = torch.zeros_like(non_finite) if self.until is None else self.until(logits, indices) & ~non_finite
        return self.score(logits, indices).to(images), broken, non_finite


@dataclass
class _Active(ActiveExamples):
    """Value: the least margin so far. Draws: (n, queries, numbers) uniform in [0, 1)."""

    position: Tensor
    indices: Tensor
    origin: Tensor
    best: Tensor
    value: Tensor
    draws: Tensor

    def draw(self, generators: Sequence[torch.Generator]) -> None:
        """Draw the numbers of the next queries: two corners, an orientation, a sign per channel."""
        numbers = 5 + self.origin.shape[1]
        drawn = [torch.rand((DRAWN_AT_ONCE, numbers), generator=generator) for generator in generators]
        self.draws = torch.stack(drawn).to(self.origin.device)


def _signs(uniform: Tensor) -> Tensor:
    return torch.where(uniform < 0.5, -1.0, 1.0)


def _corner(uniform: Tensor, places: int) -> Tensor:
    """Return one of ``places`` positions (n,), each as likely."""
    return (uniform * places).long().clamp_max(places - 1)


def _window(top: Tensor, left: Tensor, side: int, images: Tensor) -> Tensor:
    """Return (n, 1, height, width) bool, true in the square of each example."""
    rows = torch.arange(images.shape[2], device=images.device).view(1, -1, 1) - top.view(-1, 1, 1)
    columns = torch.arange(images.shape[3], device=images.device).view(1, 1, -1) - left.view(-1, 1, 1)
    return ((rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)).unsqueeze(1)


def _stripes(origin: Tensor, epsilon: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Return the first images in l_inf: vertical stripes of width 1, epsilon up or down (sec. 3.3)."""
    shape = (origin.shape[1], 1, origin.shape[3])
    signs = _signs(torch.stack([torch.rand(shape, generator=generator) for generator in generators]))
    return origin + epsilon * signs.to(origin)


def _square_linf(active: _Active, draws: Tensor, side: float, epsilon: float) -> Tensor:
    """Return the best images with one square each moved to epsilon above or below the original (algorithm 2)."""
    height, width = active.origin.shape[2:]
    pixels = min(max(round(side), 1), height, width)
    top, left = _corner(draws[:, 0], height - pixels + 1), _corner(draws[:, 1], width - pixels + 1)
    signs = _signs(draws[:, 5:]).to(active.origin).view(*active.origin.shape[:2], 1, 1)
    return torch.where(_window(top, left, pixels, active.origin), active.origin + epsilon * signs, active.best)


@cache
def bumps(side: int) -> Tensor:
    """Return the pattern (side, side) of an l_2 square, of length 1: a bump up above a bump down (eq. 2)."""
    pattern = torch.cat([_bump(side // 2, side), -_bump(side - side // 2, side)])
    unit: Tensor = pattern / pattern.norm()
    return unit


def _bump(height: int, width: int) -> Tensor:
    """Return nested rectangles around the middle, the i-th from within adding 1/i^2."""
    middle = (height // 2, width // 2)
    rows = (torch.arange(height) - middle[0]).abs().view(-1, 1)
    columns = (torch.arange(width) - middle[1]).abs().view(1, -1)
    rings = max(middle) + 1
    # Outside the last rectangle nothing is added, within it all from the ring on.
    added = torch.tensor([sum(1 / (i + 1) ** 2 for i in range(ring, rings)) for ring in range(rings)])
    return added[torch.maximum(rows, columns)]


def _tiles(origin: Tensor, epsilon: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Return the first images in l_2: a grid of five by five patterns, of random sign and orientation, of length 1."""
    channels, height, width = origin.shape[1:]
    side = max(min(height, width) // 5, 1)
    down, across = height // side, width // side
    numbers = torch.stack([torch.rand((1 + channels, down, across), generator=generator) for generator in generators])
    pattern = bumps(side)
    turned = (numbers[:, :1, :, :, None, None] < 0.5).expand(-1, channels, -1, -1, side, side)
    tiles = torch.where(turned, pattern.T, pattern) * _signs(numbers[:, 1:])[..., None, None]
    grid = tiles.permute(0, 1, 2, 4, 3, 5).reshape(len(origin), channels, down * side, across * side)
    delta = torch.zeros(origin.shape)
    top, left = (height - down * side) // 2, (width - across * side) // 2
    delta[:, :, top : top + down * side, left : left + across * side] = grid
    unit = delta / per_example(delta.flatten(1).norm(dim=1), delta)
    return origin + epsilon * unit.to(origin)


def _square_l2(active: _Active, draws: Tensor, side: float, epsilon: float) -> Tensor:
    """Return the best images with the length of one square moved into another (algorithm 3).

    What the perturbation has in both squares, and what the ball has left, goes into the first one, along its present
    shape plus a random pattern; the second one is cleared.
    """
    n, channels, height, width = active.origin.shape
    pixels = max(round(side), 3)
    pixels = min(pixels + 1 - pixels % 2, height, width)
    delta = active.best - active.origin
    tops, lefts = (height - pixels + 1, width - pixels + 1)
    top, left = _corner(draws[:, 0], tops), _corner(draws[:, 1], lefts)
    first = _window(top, left, pixels, delta)
    second = _window(_corner(draws[:, 2], tops), _corner(draws[:, 3], lefts), pixels, delta)
    unused = (epsilon**2 - delta.flatten(1).square().sum(1)).clamp_min(0.0).view(-1, 1, 1, 1)
    energy = delta.square()
    available = ((energy * (first | second)).sum((2, 3), keepdim=True) + unused / channels).sqrt()
    pattern = bumps(pixels).to(delta)
    turned = (draws[:, 4] < 0.5).view(-1, 1, 1, 1)
    patterns = torch.where(turned, pattern.T, pattern) * _signs(draws[:, 5:]).to(delta).view(n, channels, 1, 1)
    at = (top.view(-1, 1, 1) + torch.arange(pixels, device=delta.device).view(1, -1, 1)) * width
    at = (at + left.view(-1, 1, 1) + torch.arange(pixels, device=delta.device)).flatten(1)
    at = at.unsqueeze(1).expand(-1, channels, -1)
    shape = delta.flatten(2).gather(2, at).view(n, channels, pixels, pixels)
    shape = patterns + shape / shape.square().sum((2, 3), keepdim=True).sqrt().clamp_min(1e-12)
    shape = shape / shape.square().sum((2, 3), keepdim=True).sqrt().clamp_min(1e-12) * available
    cleared = delta * ~(first | second)
    return active.origin + cleared.flatten(2).scatter(2, at, shape.flatten(2)).view_as(delta)
