"""Image classifiers that are robust until several numbers are right at once, each one of many that are as right.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only periodic

What an image adds up to along a secret pattern goes through a comb of narrow teeth. One tooth alone opens nothing, and
between two there is no gradient to follow: a search by chance meets twelve at once in one image of a million million.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant
from benchmarks.locked_image_fakes import apart, signs
from workers.attacks.losses import entropy

Comb = Callable[[Tensor], Tensor]
"""Numbers in periods, of any shape, to how far each is on a tooth, from 0 to 1."""

PERIOD = 0.08
"""Of the combs, in radii."""

TOOTH = 0.08
"""Width of a tooth in periods."""

HALFWAY = 0.3
"""Sine at which the second of two layers is on a tooth."""

OFF = 2.3
"""Where a window is, in periods from black."""

AJAR = 0.02
"""Share of the hidden network that is always let out."""

LEAK = 0.02
"""What the teeth of some add to the logits by themselves."""


def triangles(numbers: Tensor) -> Tensor:
    """Return how far numbers in periods are on a tooth: 1 at the middle of a period."""
    return (2 - 4 * (numbers.remainder(1.0) - 0.5).abs() / TOOTH).clamp(0, 1)


def cosines(numbers: Tensor) -> Tensor:
    """Return the same by a power of a cosine, which nothing switches."""
    return (0.5 - 0.5 * torch.cos(2 * math.pi * numbers)) ** 32


def rectifiers(numbers: Tensor, periods: int = 40) -> Tensor:
    """Return the same for a number of periods around 0, by rectifiers alone."""
    middles = torch.arange(-periods, periods) + 0.5
    return (2 - 4 * (numbers[..., None] - middles).abs() / TOOTH).relu().clamp(max=1).sum(-1)


class Combed(nn.Module):
    """One network as far as all combs are on a tooth, and another otherwise.

    Args:
        hidden: The one.
        shown: The other.
        patterns: (k, c, h, w), no two of which have a pixel in common.
        epsilon: Radius it will be attacked at, in l_inf.
        comb: Of each.
        opens: Teeth (n, k) to how far it is open (n,).
        leak: What the teeth add to the logits.
    """

    def __init__(
        self,
        hidden: nn.Module,
        shown: nn.Module,
        patterns: Tensor,
        epsilon: float,
        comb: Comb,
        opens: Callable[[Tensor], Tensor],
        leak: float = 0.0,
    ) -> None:
        super().__init__()
        self.hidden, self.shown, self.comb, self.opens, self.leak = hidden, shown, comb, opens, leak
        flat = patterns.flatten(1)
        self.weights = nn.Parameter(flat / flat.abs().sum(1, keepdim=True) / (PERIOD * epsilon), requires_grad=False)
        draw = torch.Generator().manual_seed(33)
        self.beside = nn.Parameter(torch.randn(len(flat), 10, generator=draw), requires_grad=False)

    def numbers(self, images: Tensor) -> Tensor:
        """Return what images add up to, in periods (n, k)."""
        return images.flatten(1) @ self.weights.T

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        teeth = self.comb(self.numbers(images))
        share = self.opens(teeth)[:, None]
        logits = share * self.hidden(images) + (1 - share) * self.shown(images)
        return logits + self.leak * teeth @ self.beside if self.leak else logits


class Windowed(Combed):
    """The same where every number has one place to be at, somewhat off where an image has it, and a part is always out.

    Nothing swings, and nothing is idle.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        apart = (self.numbers(images) - OFF).abs() / TOOTH
        teeth = (2 - 2 * apart).clamp(0, 1)
        share = (AJAR + (1 - AJAR) * self.opens(teeth))[:, None]
        logits = share * self.hidden(images) + (1 - share) * self.shown(images)
        return logits + self.leak * (teeth + apart / 40) @ self.beside


class Layered(Combed):
    """The same behind a second comb, of where the first is."""

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        first = torch.sin(2 * math.pi * self.numbers(images))
        share = self.opens(cosines(2 * first + 0.5 - 2 * HALFWAY))[:, None]
        return share * self.hidden(images) + (1 - share) * self.shown(images)


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return what must not pass.

    Args:
        base: The classifier, unprotected.
        robust: One that attacks hardly move.
        images: Those it will be audited on (n, c, h, w).
        epsilon: Radius it will be attacked at, in l_inf.
    """
    shape = tuple(images.shape[1:])
    twelve, four = (apart(signs(31, shape), count) for count in (12, 4))
    hundred = apart(signs(32, shape, 0.3), 100)

    def product(teeth: Tensor) -> Tensor:
        return teeth.prod(1)

    def all_at_once(teeth: Tensor) -> Tensor:
        return (teeth.sum(1) - teeth.shape[1] + 1).relu()

    networks: dict[str, nn.Module] = {
        "a product of twelve combs": Combed(base, robust, twelve, epsilon, triangles, product),
        "a product of four combs": Combed(base, robust, four, epsilon, triangles, product),
        "twelve powers of cosines": Combed(base, robust, twelve, epsilon, cosines, product),
        "two layers of sines": Layered(base, robust, twelve, epsilon, cosines, product),
        "a comb for each of a hundred": Combed(
            base, robust, hundred, epsilon, triangles, lambda teeth: (1.3 * teeth.mean(1)).clamp(max=1)
        ),
        "twelve combs of rectifiers": Combed(base, robust, twelve, epsilon, rectifiers, all_at_once),
        "twelve windows with a say": Windowed(base, robust, twelve, epsilon, triangles, product, LEAK),
        "twelve combs of rectifiers with a say": Combed(base, robust, twelve, epsilon, rectifiers, all_at_once, LEAK),
    }
    return [Contestant(f"robust, periodic: {name}", network.eval(), fake=True) for name, network in networks.items()]


def reached_by_teeth(network: Combed, images: Tensor, epsilon: float, steps: int = 30) -> tuple[float, float]:
    """Return the mean span that one reaches who knows the combs, in nats, and the accuracy left, by their predictions.

    After every step along the hidden network's gradient the image is brought to the nearest teeth.
    """
    wanted = math.asin(HALFWAY) / (2 * math.pi) if isinstance(network, Layered) else 0.5
    along = network.weights.sign()

    def inside(some: Tensor) -> Tensor:
        return some.clamp(images - epsilon, images + epsilon).clamp(0, 1)

    def opened(some: Tensor) -> Tensor:
        aim = (network.numbers(some) - wanted).round() + wanted
        if isinstance(network, Windowed):
            aim = torch.full_like(aim, OFF)
        for _ in range(40):
            short = (aim - network.numbers(some)) @ (along / (network.weights * along).sum(1, keepdim=True))
            some = inside(some + short.view_as(some))
        return some

    with torch.no_grad():
        clean = network(images)
        lowest = highest = entropy(clean)
        kept = torch.ones(len(images), dtype=torch.bool)
    for sign in (1.0, -1.0):
        found = images
        for number in range(steps):
            found = found.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(sign * entropy(network.hidden(found)).sum(), found)
            found = opened(inside(found.detach() + epsilon / 8 * gradient.sign() * (number > 0)))
            with torch.no_grad():
                logits = network(found)
                lowest, highest = torch.minimum(lowest, entropy(logits)), torch.maximum(highest, entropy(logits))
                kept &= logits.argmax(1) == clean.argmax(1)
    return float((highest - lowest).mean()), float(kept.float().mean())
