"""Numbers inside a network that rise and fall many times on a straight way through the ball around an image.

What a network has learnt bends a few times within a radius that is worth attacking. A comb of narrow teeth, a sine of
many periods or what a remainder leaves swings as often as it has teeth there. Between two of them a gradient leads to
the nearest one at most, and where several have to be met at once, as in a lock, neither gradients nor chance lead
there.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.idle import Followed, Number, Result
from workers.attacks.regions import Norm, make_region
from workers.models import Box

POINTS = 128
"""Images looked at on a way from one end of the ball to the other."""

SWINGS = 8
"""Half swings on one way, from which on there are many: from below a quarter of a number's range to above three."""

FEW = 1024
"""Numbers of an image, at most, that are followed, and that a way is laid along."""

WAYS = 6
"""Ways through the ball, if not told otherwise: along one result of each size, the fewest numbers first."""


def swinging_functions(
    model: Model,
    image: Tensor,
    norm: Norm,
    epsilon: float,
    box: Box,
    *,
    ways: int = WAYS,
    batch_size: int,
    check_cancelled: Callable[[], None],
) -> list[str]:
    """Return the functions of a network whose results swing many times within a radius, by their names, each once.

    Args:
        model: Differentiable.
        image: (...) in the middle of the ball.
        norm: Of the radius.
        epsilon: Radius.
        box: Least and greatest value that an input may have.
        ways: Through the ball, at most.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    check_cancelled()
    # Twice the same: an axis of as many entries as there are images is theirs.
    pair = torch.stack([image, image]).detach().requires_grad_(True)
    with torch.enable_grad(), Followed(pair) as watch:
        model(pair)
    places: dict[int, Result] = {}
    for one in watch.results:
        if one.tensor.requires_grad and one.tensor.dim() > 0 and len(one.tensor) % one.rows == 0:
            places.setdefault(one.tensor.numel() // one.rows, one)
    draw = torch.Generator().manual_seed(0)
    found = dict[str, None]()
    left = ways
    for size in sorted(size for size in places if size <= FEW):
        if not left:
            break
        tensor = places[size].tensor
        signs = torch.where(torch.rand(tensor.shape, generator=draw) < 0.5, -1.0, 1.0).to(tensor)
        (gradient,) = torch.autograd.grad((tensor * signs).sum(), pair, retain_graph=True, allow_unused=True)
        # What is shut moves nowhere.
        if gradient is None or not gradient.any():
            continue
        way = _way(image, gradient.sum(0), norm, epsilon, box)
        found |= dict.fromkeys(_swinging(model, way, batch_size, check_cancelled))
        left -= 1
    return list(found)


def _way(image: Tensor, direction: Tensor, norm: Norm, epsilon: float, box: Box) -> Tensor:
    """Return images (POINTS, ...) from one end of the ball to the other, along a direction."""
    shares = torch.linspace(-1, 1, POINTS, device=image.device, dtype=image.dtype)
    images = image.expand(POINTS, *image.shape).clone()
    region = make_region(norm, images, epsilon, box)
    unit = direction.sign() if norm == "linf" else direction / direction.norm().clamp_min(1e-30)
    moved = images + epsilon * shares.view(-1, *[1] * image.dim()) * unit.nan_to_num(nan=0.0)
    return region.step(moved, torch.zeros_like(moved), 0.0)


def _swinging(model: Model, way: Tensor, batch_size: int, check_cancelled: Callable[[], None]) -> list[str]:
    names, parts = dict[Number, str](), dict[Number, list[Tensor]]()
    for part in torch.split(way, batch_size):
        check_cancelled()
        with torch.no_grad(), Followed(part) as watch:
            model(part)
        own = dict[Number, list[Tensor]]()
        for one in watch.results:
            values = one.tensor
            if (
                values.dim() > 0
                and values.is_floating_point()
                and 0 < values.numel() <= FEW * one.rows
                and len(values) == one.rows
            ):
                names[one.number] = one.name
                own.setdefault(one.number, []).append(values.reshape(one.rows, -1))
        for number, runs in own.items():
            # What fills up the last of several runs is no image.
            parts.setdefault(number, []).append(torch.cat(runs)[: len(part)])
    whole = {number: torch.cat(pieces) for number, pieces in parts.items()}
    return [
        names[number]
        for number, values in whole.items()
        if len(values) == len(way) and int(half_swings(values).max()) >= SWINGS
    ]


def half_swings(values: Tensor) -> Tensor:
    """Return how often each column of numbers (n, k) goes from its lowest quarter to its highest or back (k,).

    >>> half_swings(torch.tensor([[0.0, 0.0], [1.0, 0.6], [0.1, 0.4], [1.0, 1.0]])).tolist()
    [3, 1]
    """
    low, high = values.amin(0), values.amax(0)
    # What float32 rounds off is no range, nor off the numbers beside it.
    wide = (high - low) > 1e-4 * values.abs().max()
    shares = torch.where(wide, (values - low) / (high - low), 0.5)
    ends = torch.where(shares <= 0.25, -1, 0) + torch.where(shares >= 0.75, 1, 0)
    last = torch.zeros_like(ends[0])
    count = torch.zeros_like(ends[0])
    for row in ends:
        count += (row * last == -1).to(count)
        last = torch.where(row != 0, row, last)
    return count
