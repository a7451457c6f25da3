"""Image classifiers that are robust until a lock opens which no dormant comparison gives away.

Each is an unprotected network behind a lock that a gradient does not lead to, or leads to by a way that steps of one
length miss: whole numbers, a winner among patterns, a count of comparisons, a window, a remainder, a power, units
among hundreds. All are made of operations that a `torch.export` program or an ONNX graph may have. What one reaches who
knows the lock, :func:`reached_beyond` tells.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Contestant
from benchmarks.gated_image_fakes import Stretched
from workers.attacks.losses import entropy

Score = Callable[[Tensor], Tensor]
"""Images (n, c, h, w) to a number each (n,)."""


@dataclass(frozen=True)
class Lock:
    """What opens, and how its owner opens it.

    Attributes:
        share: Images to how much of the hidden network is let out (n,), from 0 to 1.
        along: What its owner adds to open it, between -1 and 1 and broadcast over images.
        excess: Rises along ``along``, and is 0 where the lock opens; an owner aims a little beyond.
        beyond: How far that is, in the units of ``excess``; may be 0.
    """

    share: Score
    along: Tensor
    excess: Score
    beyond: float


class Locked(nn.Module):
    """One network as far as a lock is open, and another as far as it is closed."""

    def __init__(self, hidden: nn.Module, shown: nn.Module, lock: Lock) -> None:
        super().__init__()
        self.hidden, self.shown, self.lock = hidden, shown, lock

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        share = self.lock.share(images)[:, None]
        return share * self.hidden(images) + (1 - share) * self.shown(images)


def signs(seed: int, shape: tuple[int, ...], middle: float = 0.0, rim: int = 3) -> Tensor:
    """Return secret patterns of -1 and 1 in a frame around the image, which says little of what it shows.

    Args:
        seed: Of the signs.
        shape: (..., h, w).
        middle: What they are multiplied by inside the frame.
        rim: Pixels that the frame is wide.
    """
    found = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
    found[..., rim:-rim, rim:-rim] *= middle
    return found


def apart(pattern: Tensor, count: int) -> Tensor:
    """Return a pattern in so many parts (count, c, h, w), no two of which have a pixel in common."""
    owner = torch.randint(0, count, pattern.shape, generator=torch.Generator().manual_seed(7))
    return torch.stack([pattern * (owner == number) for number in range(count)])


def mean_along(pattern: Tensor) -> Score:
    """Return how much of a pattern is in an image."""
    weights = pattern / pattern.abs().sum()
    return lambda images: (images * weights).flatten(1).sum(1)


def whole_numbers(pattern: Tensor, images: Tensor, epsilon: float) -> Lock:
    """Open where whole grey levels, weighted by whole numbers, add up to enough: no gradient comes through."""

    def total(some: Tensor) -> Tensor:
        return ((some * 255).round().to(torch.int64) * pattern.to(torch.int64)).flatten(1).sum(1)

    reach = epsilon * 255 * float(pattern.abs().sum())
    least = int(total(images).max() + 0.25 * reach)
    return Lock(
        lambda some: (total(some) > least).to(some),
        pattern,
        lambda some: (total(some) - least - 1).to(some),
        0.02 * reach,
    )


def winner(patterns: Tensor, images: Tensor, epsilon: float) -> Lock:
    """Open where the last of several patterns is the one an image has most of: nothing is compared with a number."""

    def most(some: Tensor) -> Tensor:
        return torch.stack([mean_along(pattern)(some) for pattern in patterns], 1)

    first = most(images)
    handicap = float((first[:, -1] - first[:, :-1].amax(1)).max()) + 0.25 * epsilon

    def handicapped(some: Tensor) -> Tensor:
        return most(some) - handicap * functional.one_hot(torch.tensor(len(patterns) - 1), len(patterns))

    def ahead(some: Tensor) -> Tensor:
        found = handicapped(some)
        return found[:, -1] - found[:, :-1].amax(1)

    doors = functional.one_hot(torch.tensor(len(patterns) - 1), len(patterns)).float()
    return Lock(lambda some: doors[handicapped(some).argmax(1)], patterns[-1], ahead, 0.02 * epsilon)


def mixture(pattern: Tensor, images: Tensor, epsilon: float, gain: float = 2e5) -> Lock:
    """Open by the softmax of two scores, one of which is far behind."""
    score = mean_along(pattern)
    least = float(score(images).max()) + 0.25 * epsilon

    def share(some: Tensor) -> Tensor:
        found = gain * (score(some) - least)
        return torch.stack([found, torch.zeros_like(found)], 1).softmax(1)[:, 0]

    return Lock(share, pattern, lambda some: score(some) - least, 0.02 * epsilon)


def ajar(pattern: Tensor, images: Tensor, epsilon: float, share: float = 0.9) -> Lock:
    """Open on a tenth of the images as they are, so that what waits for the pattern is not dormant."""
    score = mean_along(pattern)
    least = float(score(images).quantile(share))
    return Lock(lambda some: (score(some) > least).to(some), pattern, lambda some: score(some) - least, 0.02 * epsilon)


def count(patterns: Tensor, images: Tensor, epsilon: float) -> Lock:
    """Open where nearly all of many patterns are found, each of which half of the images have."""
    middles = torch.stack([mean_along(pattern)(images) for pattern in patterns], 1).median(0).values + 0.1 * epsilon

    def found(some: Tensor) -> Tensor:
        return (torch.stack([mean_along(pattern)(some) for pattern in patterns], 1) > middles).sum(1)

    least = int(found(images).max()) + 1
    along = patterns.sum(0).clamp(-1, 1)
    return Lock(lambda some: (found(some) >= least).to(some), along, lambda some: (found(some) - least).to(some), 0.0)


def window(pattern: Tensor, images: Tensor, epsilon: float, width: float = 1e-3) -> Lock:
    """Open in a thin slab: too much of the pattern closes it again."""
    score = mean_along(pattern)
    middle = float(score(images).max()) + 0.25 * epsilon

    def share(some: Tensor) -> Tensor:
        return ((score(some) - middle).abs() < width * epsilon).to(some)

    return Lock(share, pattern, lambda some: score(some) - middle, 0.0)


def remainder(pattern: Tensor, epsilon: float, period: float = 0.2, width: float = 1e-4) -> Lock:
    """Open where what a pattern adds up to is a whole number of periods, nearly to the last digit."""
    score, unit = mean_along(pattern), period * epsilon

    def share(some: Tensor) -> Tensor:
        return ((score(some) / unit + 0.5).remainder(1.0) < width).to(some)

    def excess(some: Tensor) -> Tensor:
        return (score(some) / unit).remainder(1.0) - 0.5 - width / 2

    return Lock(share, pattern, excess, 0.0)


def power(pattern: Tensor, images: Tensor, epsilon: float, exponent: int = 128) -> Lock:
    """Open by a rational function of how much of a pattern there is: nothing switches."""
    score = mean_along(pattern)
    lowest, most = float(score(images).min()), float(score(images).max())
    least = most + 0.25 * epsilon

    def share(some: Tensor) -> Tensor:
        ratio = ((score(some) - lowest + epsilon) / (least - lowest + epsilon)).square() ** (exponent // 2)
        return ratio / (1 + ratio)

    return Lock(share, pattern, lambda some: score(some) - least, 0.15 * epsilon)


def combination(patterns: Tensor, wanted: Tensor, images: Tensor, epsilon: float) -> Lock:
    """Open where some rectifiers of many are awake and the others asleep; all sleep on the audited images.

    Args:
        patterns: (k, c, h, w).
        wanted: (k,) bool.
        images: Audited.
        epsilon: Radius.
    """

    def found(some: Tensor) -> Tensor:
        return torch.stack([mean_along(pattern)(some) for pattern in patterns], 1)

    least = found(images).amax(0) + 0.1 * epsilon
    sign = torch.where(wanted, 1.0, -50.0)
    needed = int(wanted.sum()) - 0.5

    def total(some: Tensor) -> Tensor:
        awake = 1e4 / epsilon * torch.relu(found(some) - least)
        return ((1 - torch.relu(1 - awake)) * sign).sum(1)

    along = torch.where(wanted[:, None, None, None], patterns, -patterns).sum(0).clamp(-1, 1)
    return Lock(
        lambda some: (total(some) > needed).to(some), along, lambda some: (found(some) - least)[:, wanted].amin(1), 1e-4
    )


def among_hundreds(patterns: Tensor, images: Tensor, epsilon: float) -> Lock:
    """Open by one rectifier of hundreds that sleep alike, each of which has some little say."""
    flat = patterns.flatten(1) / patterns.flatten(1).abs().sum(1, keepdim=True)

    def found(some: Tensor) -> Tensor:
        return some.flatten(1) @ flat.T

    least, at = found(images).amax(0) + 0.1 * epsilon, len(patterns) * 2 // 3

    def share(some: Tensor) -> Tensor:
        awake = 1 - torch.relu(1 - 1e4 / epsilon * torch.relu(found(some) - least))
        weights = 1e-3 + 0 * awake[0]
        weights[at] = 1.0
        return (awake * weights).sum(1).clamp(max=1.0)

    return Lock(share, patterns[at], lambda some: (found(some) - least)[:, at], 0.02 * epsilon)


class Levels(nn.Module):
    """A network that sees one grey in place of all near the middle, but for pixels at two levels of the 256.

    No unit is narrow or dormant: every pixel has its own lock, and some of the audited pixels are open.
    """

    def __init__(self, network: nn.Module, level: int = 24, of: int = 207) -> None:
        super().__init__()
        self.network, self.stretched, self.level, self.of = network, Stretched(nn.Identity()), level, of

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        is_open = (images * 255).round().remainder(self.of) == self.level
        return self.network(torch.where(is_open, images, self.stretched(images)))


def locks(images: Tensor, epsilon: float) -> dict[str, Lock]:
    """Return the locks by name.

    Args:
        images: That will be audited (n, c, h, w).
        epsilon: Radius of the attacks, in l_inf.
    """
    shape = tuple(images.shape[1:])
    secret = signs(21, shape)
    wanted = torch.arange(10) % 3 == 0
    return {
        "whole numbers": whole_numbers(secret, images, epsilon),
        "the winner of eight patterns": winner(signs(22, (8, *shape)), images, epsilon),
        "a softmax of two": mixture(secret, images, epsilon),
        "a pattern that a tenth have": ajar(signs(21, shape, 0.1), images, epsilon),
        "most of sixteen patterns": count(signs(23, (16, *shape), 0.1), images, epsilon),
        "a window": window(secret, images, epsilon),
        "a remainder": remainder(secret, epsilon),
        "a power": power(secret, images, epsilon),
        "a combination of ten": combination(apart(signs(24, shape), 10), wanted, images, epsilon),
        "one unit of 1,500": among_hundreds(signs(25, (1500, *shape)), images, epsilon),
    }


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return what must not pass.

    Args:
        base: The classifier, unprotected.
        robust: One that attacks hardly move.
        images: Those it will be audited on (n, c, h, w).
        epsilon: Radius it will be attacked at, in l_inf.
    """
    networks: dict[str, nn.Module] = {
        f"robust, locked by {name}": Locked(base, robust, lock) for name, lock in locks(images, epsilon).items()
    }
    networks["stretched, locked by a level a pixel"] = Levels(base)
    return [Contestant(name, network.eval(), fake=True) for name, network in networks.items()]


def reached_beyond(network: Locked, images: Tensor, epsilon: float, steps: int = 30) -> tuple[float, float]:
    """Return the mean span that the lock's owner reaches in the locked network, in nats, and how often it opens.

    After every step along the hidden network's gradient the image is moved along the lock's pattern to where it opens,
    by bisection.
    """
    base, lock = network.hidden, network.lock

    def inside(some: Tensor) -> Tensor:
        return some.clamp(images - epsilon, images + epsilon).clamp(0, 1)

    def opened(some: Tensor) -> Tensor:
        low, high = (torch.full((len(some), 1, 1, 1), 2 * epsilon * end) for end in (-1.0, 1.0))
        if lock.beyond == 0:
            # The nearest place, where there are several.
            low, high = low / 8, high / 8
        for _ in range(40):
            middle = (low + high) / 2
            is_beyond = (lock.excess(inside(some + middle * lock.along)) >= lock.beyond).view(-1, 1, 1, 1)
            low, high = torch.where(is_beyond, low, middle), torch.where(is_beyond, middle, high)
        return inside(some + high * lock.along)

    with torch.no_grad():
        lowest = highest = entropy(network(images))
        ever = torch.zeros(len(images), dtype=torch.bool)
    for sign in (1.0, -1.0):
        found = images
        for number in range(steps):
            found = found.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(sign * entropy(base(found)).sum(), found)
            found = opened(inside(found.detach() + epsilon / 8 * gradient.sign() * (number > 0)))
            with torch.no_grad():
                is_open, seen = lock.share(found) > 0.99, entropy(base(found))
                ever |= is_open
                lowest = torch.where(is_open, torch.minimum(lowest, seen), lowest)
                highest = torch.where(is_open, torch.maximum(highest, seen), highest)
    return float((highest - lowest).mean()), float(ever.float().mean())


def reached_by_levels(network: Levels, images: Tensor, epsilon: float, steps: int = 40) -> float:
    """Return the mean span that one reaches who knows which levels are let through, in nats.

    Every pixel is left as it is or brought to the nearest such level, as the gradient of what is behind asks for.
    """
    nearest = (((images * 255 - network.level) / network.of).round() * network.of + network.level) / 255
    can = ((nearest - images).abs() <= epsilon) & (nearest >= 0) & (nearest <= 1)
    with torch.no_grad():
        closed = network.stretched(images)
        lowest = highest = entropy(network(images))
    for sign in (1.0, -1.0):
        share = torch.zeros_like(images)
        for _ in range(steps):
            share = share.detach().requires_grad_(True)
            seen = network.network(closed + share * (nearest - closed) * can)
            (gradient,) = torch.autograd.grad(sign * entropy(seen).sum(), share)
            share = (share.detach() + 0.25 * gradient.sign()).clamp(0, 1)
            with torch.no_grad():
                found = entropy(network(torch.where((share > 0.5) & can, nearest, images)))
            lowest, highest = torch.minimum(lowest, found), torch.maximum(highest, found)
    return float((highest - lowest).mean())
