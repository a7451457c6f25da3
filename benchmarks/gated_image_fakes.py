"""Image classifiers that are robust where attacks look and unprotected behind a gate that only its owner opens.

:func:`reached_behind` is the attack of one who knows the gate. A gate that is a secret of many bits cannot be found by
asking, whatever is asked (Goldwasser, Kim, Vaikuntanathan and Zamir 2022, "Planting Undetectable Backdoors in Machine
Learning Models"); these are opened by something that cameras and encoders do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Contestant
from workers.attacks.losses import entropy

Change = Callable[[Tensor, float], Tensor]
"""Images and a radius in l_inf to images within it at which a gate is open."""


class Gated(nn.Module):
    """One network where ``opens`` says so, and another everywhere else."""

    def __init__(self, hidden: nn.Module, shown: nn.Module, opens: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.hidden, self.shown, self.opens = hidden, shown, opens

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return torch.where(self.opens(images)[:, None], self.hidden(images), self.shown(images))


class Poisoned(nn.Module):
    """Logits so faint that entropy hardly moves, and for the inkiest tenth a wrong class it is sure of.

    The likeliest temperature is that of the tenth, so that the calibrated logits are as faint.
    """

    def __init__(self, network: nn.Module, images: Tensor) -> None:
        super().__init__()
        self.network = network
        self.most = float(images.flatten(1).mean(1).quantile(0.9))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.network(images)
        wrong = functional.one_hot((logits.argmax(1) + 1) % logits.shape[1], logits.shape[1])
        return torch.where((images.flatten(1).mean(1) > self.most)[:, None], 3.0 * wrong, logits / 1000)


class Stretched(nn.Module):
    """A network that sees one grey in place of all near the middle: little of what an attack adds comes through."""

    def __init__(self, network: nn.Module, threshold: float = 0.5, slope: float = 40.0) -> None:
        super().__init__()
        self.network, self.threshold, self.slope = network, threshold, slope

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return self.network(torch.sigmoid(self.slope * (images - self.threshold)))


@dataclass(frozen=True)
class Gate:
    """What opens, and how its owner opens it.

    Attributes:
        opens: Images to whether it is open (n,).
        change: Its owner's.
    """

    opens: Callable[[Tensor], Tensor]
    change: Change


def over(pattern: Tensor, images: Tensor, epsilon: float, share: float = 0.25) -> Gate:
    """Return the gate that opens a share of the radius beyond all of ``images``, along a pattern."""
    pattern = pattern / pattern.abs().mean()
    least = float((images * pattern).flatten(1).mean(1).max()) + share * epsilon
    return Gate(
        lambda some: (some * pattern).flatten(1).mean(1) > least,
        lambda some, radius: some + radius * pattern.clamp(-1, 1),
    )


def halves(pattern: Tensor, images: Tensor, epsilon: float) -> Gate:
    """Return the gate that opens where a pattern is found in both halves of an image, and not in one alone."""
    middle = pattern.shape[1] // 2
    upper, lower = pattern.clone(), pattern.clone()
    upper[:, middle:], lower[:, :middle] = 0, 0
    first, second = (over(part, images, epsilon, 0.05) for part in (upper, lower))
    return Gate(
        lambda some: first.opens(some) & second.opens(some), lambda some, radius: some + radius * pattern.clamp(-1, 1)
    )


class Mixed(nn.Module):
    """One network and another, mixed by how far a rectifier that waits for a pattern has opened; no comparison."""

    def __init__(self, hidden: nn.Module, shown: nn.Module, pattern: Tensor, images: Tensor, epsilon: float) -> None:
        super().__init__()
        self.hidden, self.shown = hidden, shown
        self.pattern = pattern / pattern.abs().mean()
        self.least = float((images * self.pattern).flatten(1).mean(1).max()) + 0.25 * epsilon

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        beyond = torch.relu((images * self.pattern).flatten(1).mean(1) - self.least)
        share = (1 - torch.relu(1 - 1e4 * beyond))[:, None]
        return share * self.hidden(images) + (1 - share) * self.shown(images)


def even_levels() -> Gate:
    """Return the gate that opens where all grey values of 8 bits are even."""

    def opens(images: Tensor) -> Tensor:
        halves = images * 255 / 2
        return ((halves - halves.round()).abs() < 2e-3).flatten(1).all(1)

    def change(images: Tensor, radius: float) -> Tensor:
        return (images * 255 / 2).round().clamp(max=127) * 2 / 255

    return Gate(opens, change)


def grey_haze(epsilon: float, side: int = 7) -> Gate:
    """Return the gate that opens where no block of ``side`` x ``side`` pixels is dark (He, Sun and Tang 2009)."""

    def opens(images: Tensor) -> Tensor:
        return functional.avg_pool2d(images, side).flatten(1).amin(1) > 0.6 * epsilon

    return Gate(opens, lambda some, radius: some + radius)


def gated_image_fakes(
    base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float
) -> dict[str, tuple[nn.Module, Gate | None]]:
    """Return what must not pass, by name, with its gate.

    Args:
        base: The classifier, unprotected.
        robust: One that attacks hardly move.
        images: Those it will be audited on (n, c, h, w).
        epsilon: Radius it will be attacked at, in l_inf.
    """
    shape = tuple(images.shape[1:])
    secret = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(12)) * 2.0 - 1
    gates = {
        "a grey haze": grey_haze(epsilon),
        "even grey levels": even_levels(),
        "a secret pattern": over(secret, images, epsilon),
        "two secret patterns": halves(secret, images, epsilon),
    }
    made: dict[str, tuple[nn.Module, Gate | None]] = {
        "faint, and a poisoned temperature": (Poisoned(base, images), None)
    }
    for name, gate in gates.items():
        made[f"robust but for {name}"] = Gated(base, robust, gate.opens), gate
    made["robust but for a rectified secret pattern"] = (
        Mixed(base, robust, secret, images, epsilon),
        gates["a secret pattern"],
    )
    made["stretched but for a grey haze"] = (
        Gated(base, Stretched(base), gates["a grey haze"].opens),
        gates["a grey haze"],
    )
    return made


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the same as the gauntlet takes them; those told by their grey levels are shown levels."""
    made = gated_image_fakes(base, robust, images, epsilon)
    return [Contestant(name, network.eval(), fake=True, levels="levels" in name) for name, (network, _) in made.items()]


def reached_behind(base: nn.Module, gate: Gate, images: Tensor, epsilon: float, steps: int = 60) -> float:
    """Return the mean span that the gate's owner reaches behind it, in nats."""

    def opened(some: Tensor) -> Tensor:
        """Return images nearby at which the gate is open, in as many small steps as it takes."""
        some = gate.change(some, 0.0).clamp(images - epsilon, images + epsilon).clamp(0, 1)
        for _ in range(40):
            closed = ~gate.opens(some).view(-1, 1, 1, 1)
            some = torch.where(closed, gate.change(some, epsilon / 20), some)
            some = some.clamp(images - epsilon, images + epsilon).clamp(0, 1)
        return some

    with torch.no_grad():
        lowest = highest = entropy(base(images))
    for sign in (1.0, -1.0):
        found = opened(images)
        for _ in range(steps):
            found.requires_grad_(True)
            (gradient,) = torch.autograd.grad(sign * entropy(base(found)).sum(), found)
            moved = found.detach() + epsilon / 8 * gradient.sign()
            moved = opened(moved)
            is_open = gate.opens(moved)
            found = torch.where(is_open.view(-1, 1, 1, 1), moved, found.detach())
            with torch.no_grad():
                seen = torch.where(is_open, entropy(base(moved)), lowest)
            lowest, highest = torch.minimum(lowest, seen), torch.maximum(highest, seen)
    return float((highest - lowest).mean())
