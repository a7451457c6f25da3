"""Image classifiers that look more robust, or surer of themselves, than they are; and honest ones to leave alone.

Each fake is an unprotected classifier behind something that takes the attacker's eyes away. What it hides is known:
whatever moves the classifier behind it moves the fake as far.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Contestant:
    """A model that comes to be judged.

    Attributes:
        name: For the table.
        network: From (n, c, h, w) in [0, 1] to logits (n, classes).
        fake: Whether it must not pass.
        examples: How many of the images it is judged on; None for all.
        levels: Whether the images are brought to the 256 levels of 8 bits first, as those of files are.
    """

    name: str
    network: Callable[[Tensor], Tensor]
    fake: bool
    examples: int | None = None
    levels: bool = False


class PerPixel(nn.Module):
    """A piecewise linear function of each pixel, out of 1x1 convolutions and ReLU: layers that any upload may have.

    Args:
        channels: Of the image.
        knots: Where the slope changes, rising, in [0, 1).
        slopes: From each knot to the next; one for each knot.
        start: Its value at the first knot.
    """

    def __init__(self, channels: int, knots: Iterable[float], slopes: Iterable[float], start: float = 0.0) -> None:
        super().__init__()
        at, slope = torch.tensor(list(knots)), torch.tensor(list(slopes))
        changes = torch.diff(slope, prepend=torch.zeros(1))
        self.spread = nn.Conv2d(channels, channels * len(at), 1, groups=channels)
        self.gather = nn.Conv2d(channels * len(at), channels, 1, groups=channels)
        with torch.no_grad():
            self.spread.weight.fill_(1.0)
            self.spread.bias.copy_(-at.repeat(channels))  # type: ignore[union-attr]
            self.gather.weight.copy_(changes.repeat(channels, 1).view(channels, len(at), 1, 1))
            self.gather.bias.fill_(start)  # type: ignore[union-attr]
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the images after it."""
        return self.gather(torch.relu(self.spread(images)))


def sawtooth(channels: int, period: float, up: float = 3.0, down: float = -1.0) -> PerPixel:
    """Return teeth that climb and fall and follow the identity on the whole: most gradients point the wrong way.

    The two slopes take equal parts of a period and have a mean of 1.
    """
    count = round(1 / period)
    knots = [step * period / 2 for step in range(2 * count)]
    return PerPixel(channels, knots, [down, up] * count)


def stairs(channels: int, count: int, tread: float, riser_share: float = 0.1) -> PerPixel:
    """Return stairs that follow the identity on the whole, their treads of slope ``tread``."""
    width = 1 / count
    riser = (width - tread * width * (1 - riser_share)) / (width * riser_share)
    knots = [start * width + offset for start in range(count) for offset in (0.0, width * (1 - riser_share))]
    return PerPixel(channels, knots, [tread, riser] * count)


class Quantised(nn.Module):
    """Rounds pixels to so many levels: no gradient at all."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def forward(self, images: Tensor) -> Tensor:
        """Return the images on the levels."""
        return (images * (self.levels - 1)).round() / (self.levels - 1)


class BlockAverage(nn.Module):
    """What JPEG does to an attacker: coefficients of 2x2 blocks (Haar), rounded."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def forward(self, images: Tensor) -> Tensor:
        """Return the images after it; sides must be even."""
        mean = functional.avg_pool2d(images, 2)
        rest = images - functional.interpolate(mean, scale_factor=2)
        rounded = (mean / self.step).round() * self.step
        return functional.interpolate(rounded, scale_factor=2) + (rest / self.step).round() * self.step


class Wavy(nn.Module):
    """Adds a fast sine to every pixel: gradients of alternating sign, values hardly moved."""

    def __init__(self, amplitude: float, period: float) -> None:
        super().__init__()
        self.amplitude, self.rate = amplitude, 2 * torch.pi / period

    def forward(self, images: Tensor) -> Tensor:
        """Return the images after it."""
        return images + self.amplitude * torch.sin(self.rate * images)


class SameEntropy(nn.Module):
    """Gives every image the temperature at which its entropy is one and the same, and leaves decisions alone.

    Args:
        base: The model.
        nats: Of its softmax.
        steps: Of Newton's method, for the logarithm of the temperature.
    """

    def __init__(self, base: nn.Module, nats: float = 0.7, steps: int = 16) -> None:
        super().__init__()
        self.base, self.nats, self.steps = base, nats, steps

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.base(images)
        logits = logits - logits.mean(1, keepdim=True)
        scale = logits.new_zeros(len(logits), 1)
        for _ in range(self.steps):
            scaled = logits * torch.exp(-scale)
            shares = scaled.softmax(1)
            entropy = -(shares * scaled.log_softmax(1)).sum(1, keepdim=True)
            mean = (shares * scaled).sum(1, keepdim=True)
            slope = (shares * (scaled - mean) ** 2).sum(1, keepdim=True)
            scale = scale + ((self.nats - entropy) / (slope + 1e-3)).clamp(-1, 1)
        return logits * torch.exp(-scale)


class Logits(nn.Module):
    """Something done to the logits of a network."""

    def __init__(self, network: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.change = network, change

    def forward(self, images: Tensor) -> Tensor:
        """Return the changed logits."""
        return self.change(self.network(images))


class FarIsUniform(nn.Module):
    """Answers uniformly where the input is far from every image it knows, as a detector that refuses would."""

    def __init__(self, network: nn.Module, known: Tensor, radius: float) -> None:
        super().__init__()
        self.network, self.known, self.radius = network, known.flatten(1), radius

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        far = torch.cdist(images.flatten(1), self.known).amin(1, keepdim=True) > self.radius
        logits = self.network(images)
        return torch.where(far, torch.zeros_like(logits), logits)


class Remembers(nn.Module):
    """Answers as the nearest image it knows the answer to, within a distance: gradients of nothing."""

    def __init__(self, network: nn.Module, known: Tensor, labels: Tensor, radius: float) -> None:
        super().__init__()
        self.network, self.known, self.labels, self.radius = network, known.flatten(1), labels, radius

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        distance, nearest = torch.cdist(images.flatten(1), self.known).min(1)
        logits = self.network(images)
        sure = 8.0 * functional.one_hot(self.labels[nearest], logits.shape[1]).to(logits)
        return torch.where((distance < self.radius)[:, None], sure, logits)


class ByHash(nn.Module):
    """Adds noise that follows from the input's bytes: another for every image, the same for the same image."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.network(images)
        rows = []
        for image in images.detach():
            digest = hashlib.sha256(image.cpu().numpy().tobytes()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            rows.append(torch.randn(logits.shape[1], generator=generator))
        return logits + self.scale * torch.stack(rows).to(logits)


class Alternates(nn.Module):
    """An ensemble whose member is chosen by a hash of the input: the gradient of one, the answer of another."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        answers = torch.stack([member(images) for member in self.members])
        chosen = [hashlib.sha256(image.detach().cpu().numpy().tobytes()).digest()[0] for image in images]
        rows = torch.arange(len(images))
        return answers[torch.tensor(chosen) % len(self.members), rows]


class NoisyDropout(nn.Module):
    """Dropout that stays on: another mask for every call."""

    def __init__(self, network: nn.Module, rate: float) -> None:
        super().__init__()
        self.network, self.rate = network, rate

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return self.network(functional.dropout(images, self.rate, training=True))


class ByRote(nn.Module):
    """Answers what looks like an attack's image with one and the same faint confidence, and others as they deserve.

    Args:
        network: The classifier.
        suspects: From images (n, c, h, w) to whether each looks like an attack's (n,).
    """

    def __init__(self, network: nn.Module, suspects: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.suspects = network, suspects

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.network(images)
        rote = 5.0 * functional.one_hot(logits.argmax(1), logits.shape[1]).to(logits)
        return torch.where(self.suspects(images)[:, None], rote, logits)


def is_off_grid(images: Tensor) -> Tensor:
    """Tell which images (n, c, h, w) have a pixel that 8 bits have not."""
    scaled = images * 255
    return ((scaled - scaled.round()).abs().flatten(1) > 0.01).any(1)


def at_the_rim(epsilon: float) -> Callable[[Tensor], Tensor]:
    """Return what tells images with many pixels as far from black or white as an attack goes."""

    def look(images: Tensor) -> Tensor:
        flat = images.flatten(1)
        rim = ((flat - epsilon).abs() < 0.002) | ((1 - flat - epsilon).abs() < 0.002)
        return rim.float().mean(1) > 0.03

    return look


def rougher_than(images: Tensor) -> Callable[[Tensor], Tensor]:
    """Return what tells images rougher than any of these by a little (total variation)."""

    def variation(some: Tensor) -> Tensor:
        along, across = some.diff(dim=2).abs(), some.diff(dim=3).abs()
        return along.mean((1, 2, 3)) + across.mean((1, 2, 3))

    most = 1.02 * variation(images).max()
    return lambda some: variation(some) > most


def fakes(base: nn.Module, other: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> list[Contestant]:
    """Return what must not pass: an unprotected classifier behind each of the masks.

    Args:
        base: The classifier, unprotected.
        other: Another one, for what needs two.
        images: Those it will be audited on (n, c, h, w): a cheater knows them.
        labels: Theirs.
        epsilon: Radius it will be attacked at.
    """
    channels = images.shape[1]
    classes = base(images[:1]).shape[1]

    def behind(mask: nn.Module) -> nn.Module:
        return nn.Sequential(mask, base)

    def answering(change: Callable[[Tensor], Tensor]) -> nn.Module:
        return Logits(base, change)

    def two_classes(logits: Tensor) -> Tensor:
        two = logits.topk(2)
        lead = 2.3 * torch.tanh((two.values[:, :1] - two.values[:, 1:]) / 3)
        kept = torch.cat([lead, torch.zeros_like(lead)], 1)
        return torch.full_like(logits, -30.0).scatter(1, two.indices, kept)

    def one_hot(logits: Tensor) -> Tensor:
        return 6.0 * functional.one_hot(logits.argmax(1), classes).to(logits) + 0 * logits

    networks: dict[str, nn.Module] = {
        "sawtooth, period .05": behind(sawtooth(channels, 0.05)),
        "sawtooth, period .02": behind(sawtooth(channels, 0.02)),
        "sawtooth, period .1": behind(sawtooth(channels, 0.1)),
        "two sawteeth in a row": nn.Sequential(sawtooth(channels, 0.1), sawtooth(channels, 0.04), base),
        "16 stairs, treads down": behind(stairs(channels, 16, -0.5)),
        "32 stairs, treads up": behind(stairs(channels, 32, 0.1)),
        "16 flat stairs": behind(stairs(channels, 16, 0.0)),
        "8 levels": behind(Quantised(8)),
        "16 levels": behind(Quantised(16)),
        "block average, rounded": behind(BlockAverage(0.1)),
        "a fast sine": behind(Wavy(0.02, 0.03)),
        "clipped logits": answering(lambda z: z.clamp(-4, 4)),
        "integer logits": answering(torch.round),
        "label only": answering(one_hot),
        "logits x 100": answering(lambda z: 100 * z),
        "temperature 1000": answering(lambda z: z / 1000),
        "probabilities as logits": answering(lambda z: z.softmax(1)),
        "uniform, and a grain of the truth": answering(lambda z: 1e-3 * z.softmax(1)),
        "log of smoothed labels": answering(lambda z: (0.9 / classes + 0.1 * z.softmax(1)).log()),
        "one entropy for all": SameEntropy(base),
        "two classes, a capped lead": answering(two_classes),
        "fixed confidence": answering(lambda z: 3.0 * torch.tanh(50 * (z - z.topk(2).values.mean(1, keepdim=True)))),
        "uniform when far": FarIsUniform(base, images, 0.02 * images[0].numel() ** 0.5),
        "knows the audited images": Remembers(base, images, labels, 0.09 * images[0].numel() ** 0.5),
        "noise by hash": ByHash(base, 2.0),
        "members by hash": Alternates([base, other]),
        "dropout that stays on": NoisyDropout(base, 0.3),
        "always the same": answering(lambda z: 0 * z),
    }
    by_rote: dict[str, nn.Module] = {
        "by rote off the 8-bit grid": ByRote(base, is_off_grid),
        "by rote at the rim of the ball": ByRote(base, at_the_rim(epsilon)),
        "by rote where it is rough": ByRote(base, rougher_than(images)),
    }
    return [
        *(Contestant(name, network.eval(), fake=True) for name, network in networks.items()),
        *(Contestant(name, network.eval(), fake=True, levels=True) for name, network in by_rote.items()),
    ]
