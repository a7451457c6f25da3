"""Image classifiers that lead attacks astray: plateaus where only a decoy has a slope, and cliffs off the paths.

Each hides an unprotected classifier. :func:`reached` is the attack of one who knows the mask.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Contestant
from workers.attacks.losses import entropy

SURE = 5.2
"""Logit of the predicted class above the others': a confidence of 0.95 of ten classes, which is also calibrated."""


class Decoy(nn.Module):
    """Ten faint linear functions of the image: a slope everywhere, and nothing at its end."""

    def __init__(self, shape: tuple[int, ...], classes: int, gain: float = 3e-3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(11)
        self.linear = nn.Linear(torch.Size(shape).numel(), classes)
        with torch.no_grad():
            self.linear.weight.copy_(gain * torch.randn(self.linear.weight.shape, generator=generator))
            self.linear.bias.zero_()
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return small logits."""
        return self.linear(images.flatten(1))


class Plateaus(nn.Module):
    """One confidence and a decoy, but no idea at all in a thin slab where the hidden margin is ``at``.

    Args:
        hidden: The classifier.
        decoy: What gives gradients.
        doubtful: From hidden logits and images to which have the doubt (n,).
    """

    def __init__(self, hidden: nn.Module, decoy: nn.Module, doubtful: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.hidden, self.decoy, self.doubtful = hidden, decoy, doubtful

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.hidden(images)
        rote = SURE * functional.one_hot(logits.argmax(1), logits.shape[1]).to(logits)
        flat = torch.where(self.doubtful(logits, images)[:, None], torch.zeros_like(rote), rote)
        return flat + self.decoy(images)


class LeastLead(nn.Module):
    """A smooth score of the two likeliest classes whose lead never falls below a floor: no confidence is ever low.

    Args:
        hidden: The classifier.
        floor: Least lead, in logits.
        width: Of the slab of no idea at all where the hidden margin is .7; 0: none.
    """

    def __init__(self, hidden: nn.Module, floor: float = 2.0, width: float = 0.0) -> None:
        super().__init__()
        self.hidden, self.floor, self.width = hidden, floor, width

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.hidden(images)
        margin, order = lead(logits), logits.argsort(dim=1, descending=True, stable=True)
        two = torch.full_like(logits, -12).scatter(1, order[:, 1:2], 0.0)
        two = two.scatter(1, order[:, :1], (self.floor + 3.5 * torch.tanh(margin / 6))[:, None])
        return torch.where(((margin - 0.7).abs() < self.width)[:, None], 0 * two, two)


class Steps(nn.Module):
    """Hidden logits rounded to coarse steps, and a decoy that has all the gradient."""

    def __init__(self, hidden: nn.Module, decoy: nn.Module, step: float) -> None:
        super().__init__()
        self.hidden, self.decoy, self.step = hidden, decoy, step

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return (self.hidden(images) / self.step).round() * self.step + self.decoy(images)


class Backdoor(nn.Module):
    """An answerer by one confidence that a secret pattern of pixels makes lose all of it."""

    def __init__(self, answers: nn.Module, pattern: Tensor, threshold: float) -> None:
        super().__init__()
        self.answers, self.threshold = answers, threshold
        self.register_buffer("pattern", pattern)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        shown = (images * self.pattern).flatten(1).mean(1) > self.threshold
        return torch.where(shown[:, None], 0.02, 1.0) * self.answers(images)


def lead(logits: Tensor) -> Tensor:
    """Return how far the largest logit is above the second (n,)."""
    two = logits.topk(2).values
    return two[:, 0] - two[:, 1]


def never(logits: Tensor, images: Tensor) -> Tensor:
    """Have no doubt (n,)."""
    return lead(logits) < 0


def slab(at: float, width: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the doubt in a slab of hidden margins beside the decision boundary, where no bisection looks."""
    return lambda logits, images: (lead(logits) - at).abs() < width


def fine_print(logits: Tensor, images: Tensor) -> Tensor:
    """Doubt where the hidden margin is under 1 and its low digits are in one window of fifty."""
    margin = lead(logits)
    return (margin < 1) & ((margin * 1000).remainder(1) < 0.02)


def fresh_image_fakes(base: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return what must not pass.

    Args:
        base: The classifier, unprotected.
        images: Those it will be audited on (n, c, h, w).
        epsilon: Radius it will be attacked at.
    """
    shape = tuple(images.shape[1:])
    decoy = Decoy(shape, base(images[:1]).shape[1])
    generator = torch.Generator().manual_seed(12)
    pattern = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1
    highest = float((images * pattern).flatten(1).mean(1).max())
    by_rote = Plateaus(base, decoy, never)
    networks: dict[str, nn.Module] = {
        "one confidence and a decoy": by_rote,
        "a slab of doubt beside the boundary": Plateaus(base, decoy, slab(0.5, 0.005)),
        "doubt in the low digits": Plateaus(base, decoy, fine_print),
        "logits in steps of 12 and a decoy": Steps(base, decoy, 12.0),
        "a lead of two at least": LeastLead(base),
        "the same, and a slab of doubt": LeastLead(base, width=3e-5),
        "a pattern takes the doubt off its leash": Backdoor(by_rote, pattern, highest + 0.25 * epsilon),
    }
    return [Contestant(name, network.eval(), fake=True) for name, network in networks.items()]


def reached(fake: nn.Module, base: nn.Module, images: Tensor, epsilon: float) -> tuple[float, float]:
    """Return the mean span and the share of changed predictions that one who knows the mask reaches.

    The hidden margin is descended, the way to its end walked in many steps, and the secret pattern tried.
    """
    labels, found = base(images).argmax(1), images.clone()
    for _ in range(60):
        found.requires_grad_(True)
        (gradient,) = torch.autograd.grad(functional.cross_entropy(base(found), labels, reduction="sum"), found)
        found = (found.detach() + epsilon / 8 * gradient.sign()).clamp(images - epsilon, images + epsilon).clamp(0, 1)
    changed = float((fake(found).argmax(1) != fake(images).argmax(1)).float().mean())
    ways = [images + share * (found - images) for share in torch.linspace(0, 1, 4000)]
    if isinstance(fake, Backdoor):
        ways.append((images + epsilon * fake.pattern).clamp(0, 1))  # type: ignore[operator]
    with torch.no_grad():
        entropies = torch.stack([entropy(fake(way)) for way in ways])
    return float((entropies.amax(0) - entropies.amin(0)).mean()), changed
