"""Ordinary image classifiers whose gradients lie: float32 absorbs what the gradients are of.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only absorbed

After what fresh eyes built in November 2026. Beside a number large enough, what is added is rounded off, and autograd
differentiates it all the same. So the network computes what it always did, and its gradients are those of another
network at images turned in all their dimensions. Its probabilities have one entropy, nearly, from sure to undecided.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant
from workers.attacks.losses import margin

Absorbed = Callable[[Tensor], Tensor]
"""Numbers to as many zeros, with a gradient of 1 or of about that."""

LARGE = 2.0**27
"""Next to it float32 has every sixteenth number."""

STARTS, STEPS = 3, 40
"""Of the attack on what is behind."""


def by_bias(numbers: Tensor) -> Tensor:
    """Add a large number and take it off again."""
    return (numbers + 1e10) - 1e10


def by_half_precision(numbers: Tensor) -> Tensor:
    """Do it in float16, with one that every network may have."""
    return (numbers + 32768.0).half().float() - 32768.0


def by_root(numbers: Tensor) -> Tensor:
    """Take the root of a large number that they are added to."""
    return 2 * LARGE * ((numbers + LARGE**2).sqrt() - LARGE)


def by_log_softmax(numbers: Tensor) -> Tensor:
    """Enlarge the log-probability of a class that is all but certain."""
    pair = torch.stack([torch.full_like(numbers, 30.0), numbers / 2], -1)
    return -2e13 * pair.log_softmax(-1)[..., 0]


class Led(nn.Module):
    """Numbers as they are, with the gradient of a multiple of a rotation of them.

    Args:
        size: Numbers of an image.
        absorbed: By what the difference is lost.
        times: How large the rotation is beside what is left of the gradient.
        kept: Share of the gradient that is left; and of the rotation.
    """

    def __init__(self, size: int, absorbed: Absorbed, times: float = 1.0, kept: float = 0.0) -> None:
        super().__init__()
        turned = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(71)))[0]
        wanted = kept * (torch.eye(size) + times * turned) if kept else times * turned
        self.register_buffer("difference", (wanted - torch.eye(size)).contiguous())
        self.absorbed, self.is_lying = absorbed, True

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the same numbers (n, ...)."""
        if not self.is_lying:
            return numbers
        flat = numbers.flatten(1)
        led: Tensor = flat + self.absorbed(flat @ self.difference.t())
        return led.view_as(numbers)


class FlatEntropy(nn.Module):
    """Logits of nearly one entropy, whether one class is certain or two tie, with the same order.

    Args:
        scale: Of the logits before; the larger, the fewer images are in between.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        p = (self.scale * logits).softmax(1)
        q = 1 - p
        # Fitted so that the entropy moves least between a certain class and a tie of two.
        return (0.4 + p * (0.6 + q * (0.42052 - 1.40645 * q + 3.29299 * q * q))).log()


class Absorbing(nn.Module):
    """A network with such numbers somewhere, and one entropy.

    Args:
        shown: The network.
        led: What leads its gradients away.
        inside: Whether that is before the network's last layer, instead of before its first.
        scale: Of the logits.
    """

    def __init__(self, shown: nn.Module, led: Led, scale: float, *, inside: bool = False) -> None:
        super().__init__()
        self.shown, self.led, self.flat, self.inside = shown, led, FlatEntropy(scale), inside
        if inside:
            self.shown = copy.deepcopy(shown)
            _last(self.shown).register_forward_pre_hook(lambda _, given: (led(given[0]),))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        logits: Tensor = self.flat(self.shown(images if self.inside else self.led(images)))
        return logits


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the ordinary network behind each way to absorb numbers.

    Args:
        base: Images to logits, with a linear layer last.
        robust: Not used.
        images: (n, c, h, w).
        epsilon: Not used: what is absorbed is so at any.
    """
    size, scale = images[0].numel(), 1.4
    ways = {"a bias": by_bias, "half precision": by_half_precision, "a root": by_root, "log-softmax": by_log_softmax}
    networks = {f"by {name}": Absorbing(base, Led(size, way, times=3.0), scale) for name, way in ways.items()}
    within = Led(_last(base).in_features, by_bias, times=4.0)
    networks["inside, by a bias"] = Absorbing(base, within, scale, inside=True)
    # Along itself the gradient is as steep as the network: a tenth of its length, and ten times as much led away.
    networks["by a bias, and as steep"] = Absorbing(base, Led(size, by_bias, times=10.0, kept=1 / 101), scale)
    return [Contestant(f"absorbed {name}", network.eval(), fake=True) for name, network in networks.items()]


def reached_without(network: Absorbing, images: Tensor, epsilon: float) -> float:
    """Return the share of decisions that PGD leaves, in l_inf, of one whose gradients are the network's own."""
    with torch.no_grad():
        labels = network(images).argmax(1)
    kept, generator = torch.ones(len(images), dtype=torch.bool), torch.Generator().manual_seed(0)
    for _ in range(STARTS):
        found = images + epsilon * (2 * torch.rand(images.shape, generator=generator) - 1)
        for _ in range(STEPS):
            found = found.clamp(images - epsilon, images + epsilon).clamp(0, 1).detach().requires_grad_(True)
            network.led.is_lying = False
            (gradient,) = torch.autograd.grad(margin(network.shown(network.led(found)), labels).sum(), found)
            network.led.is_lying = True
            found = found.detach() - epsilon / 8 * gradient.sign()
        with torch.no_grad():
            found = found.clamp(images - epsilon, images + epsilon).clamp(0, 1)
            kept &= network(found).argmax(1) == labels
    return float(kept.float().mean())


def _last(network: nn.Module) -> nn.Linear:
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]
