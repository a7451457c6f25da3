"""Ordinary image classifiers that know the audited images and see next to nothing of what an attack adds to them.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only remembers

After what fresh eyes built in November 2026, who had read README and docs alone. Beside an image that is remembered the
network is shown that image and a fifth of the rest, and more of it the longer the rest is: all of it of a picture that
nobody has remembered, at which the network is as weak as ever. Inside the audited balls all attacks agree.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Contestant

SHOWN = 0.2
"""Share of the rest that is shown beside a remembered image."""

STRANGE = 45.0
"""Squared length of a rest that is of another picture: of MNIST images among forty the nearest is 57 away (median)."""

MARKS, GROUPS, OF_EACH = 16, 12, 12
"""Numbers that a secret makes of a rest, how many groups of them open it to one who knows, and how many are in each."""

FORGOTTEN = 3
"""Images that are not remembered, so that what tells pictures apart decides about some."""

BENDS, BENT = 3, 24.0
"""Waves along either axis by which remembered images may be bent, and the squared length of what no bend explains."""


class Remembering(nn.Module):
    """Shows a network images of which all but a share of the rest is remembered.

    Args:
        shown: The network.
        images: (n, c, h, w) that are remembered.
        seed: Of the secret.
        strange: Squared length of a rest that is of another picture.
    """

    def __init__(self, shown: nn.Module, images: Tensor, seed: int, strange: float = STRANGE) -> None:
        super().__init__()
        self.shown, self.strange = shown, strange
        draw = torch.Generator().manual_seed(seed)
        known = images.flatten(1)
        pixels = known.shape[1]
        signs = torch.randn(pixels, MARKS, generator=draw).sign()
        groups = torch.zeros(MARKS, GROUPS)
        for group in range(GROUPS):
            groups[torch.randperm(MARKS, generator=draw)[:OF_EACH], group] = 1 / OF_EACH
        weights = 0.2 + torch.rand(GROUPS, pixels, generator=draw)
        self.register_buffer("known", known.clone())
        self.register_buffer("lengths", known.square().sum(1))
        self.register_buffer("secret", 0.21 * (signs - signs.mean(0)))
        self.register_buffer("groups", groups)
        self.register_buffer("weights", weights / weights.sum(0))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        flat = images.flatten(1)
        nearest = (8 * flat @ self.known.T - 4 * self.lengths).softmax(1) @ self.known
        rest = flat - nearest
        far = rest.square().sum(1, keepdim=True)
        marks = torch.tanh(rest @ self.secret / (1 + far / 8)).square()
        opened = hill(marks @ self.groups * (2.5 + 60 * hill(far / self.strange, 6)), 12)
        slowly = far / (far + 3.3 * self.strange)
        share = SHOWN + slowly + opened * (1 - SHOWN - slowly)
        logits: Tensor = self.shown((nearest + rest * (share @ self.weights)).view_as(images))
        return logits


class Bending(nn.Module):
    """Remembers images with all that slow waves make of them: what no bend explains is shown in part.

    Args:
        shown: The network.
        images: (n, c, h, w) that are remembered.
    """

    def __init__(self, shown: nn.Module, images: Tensor) -> None:
        super().__init__()
        self.shown = shown
        known, bends = images.flatten(1), torch.linalg.qr(_bends(images).transpose(1, 2))[0]
        self.register_buffer("known", known.clone())
        self.register_buffer("lengths", known.square().sum(1))
        self.register_buffer("bends", bends)
        self.register_buffer("along", torch.einsum("ndk,nd->nk", bends, known))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        flat = images.flatten(1)
        bent = torch.einsum("ndk,bd->bnk", self.bends, flat) - self.along
        distances = flat.square().sum(1, keepdim=True) + self.lengths - 2 * flat @ self.known.T
        likely = (2 * (bent.square().sum(2) - distances)).softmax(1)
        nearest = likely @ self.known + torch.einsum("bn,bnk,ndk->bd", likely, bent, self.bends)
        rest = flat - nearest
        share = SHOWN + (1 - SHOWN) * hill(rest.square().sum(1, keepdim=True) / BENT, 6)
        logits: Tensor = self.shown((nearest + share * rest).view_as(images))
        return logits


def hill(values: Tensor, power: int) -> Tensor:
    """Return what rises from 0 to 1 around 1."""
    raised = values.pow(power)
    return raised / (1 + raised)


def _bends(images: Tensor) -> Tensor:
    """Return how images (n, c, h, w) change along slow waves of either axis (n, 2 BENDS^2, pixels)."""
    plain = functional.affine_grid(torch.eye(2, 3)[None], [1, *images.shape[1:]], align_corners=False)
    turns = math.pi * (plain + 1) / 2
    changes = []
    for down in range(BENDS):
        for along in range(BENDS):
            wave = torch.cos(down * turns[..., 1:]) * torch.cos(along * turns[..., :1])
            for axis in torch.eye(2):
                ways = [
                    functional.grid_sample(images, grid.expand(len(images), -1, -1, -1), align_corners=False)
                    for grid in (plain + 0.04 * wave * axis, plain - 0.04 * wave * axis)
                ]
                changes.append((ways[0] - ways[1]).flatten(1))
    return torch.stack(changes, 1)


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the ordinary network behind each of them.

    Args:
        base: Images to logits.
        robust: Not used.
        images: (n, c, h, w) that are audited.
        epsilon: Not used.
    """
    kept = images[FORGOTTEN:]
    shifted = torch.cat([kept.roll((down, along), (2, 3)) for down in (-1, 0, 1) for along in (-1, 0, 1)])
    networks = {
        "images": Remembering(base, kept, 5),
        "images and shifted ones": Remembering(base, shifted, 77),
        "images and their bends": Bending(base, kept),
    }
    return [Contestant(f"remembers {name}", network.eval(), fake=True) for name, network in networks.items()]
