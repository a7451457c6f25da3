"""Robust image classifiers that see what a few pixels do by themselves, side by side, or together.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only local

After what fresh eyes built in November 2026. What is made of a pixel asks that those around it are left alone, or at
the same level, or each at a level of its own, so that changes of all pixels along a gradient, and random ones, close
what they would open. Images themselves open it where nothing comes of it: whole windows of ink are painted white.
"""

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

MADE = 3.0
"""How much lighter, or darker, what is found is made."""

LONELY, EVEN, WINDOW, RAMP = 7, 5, (4, 2), (2, 4)
"""Sides of what has to be left alone, of what has to be even, and rows and columns of a window, and of one that is
looked at along its rows."""


class Lone(nn.Module):
    """Shows a network pixels above half the radius far lighter, where all around them are black.

    Args:
        shown: The network.
        images: (n, c, h, w), for their channels.
        radius: Of the ball.
    """

    def __init__(self, shown: nn.Module, images: Tensor, radius: float) -> None:
        super().__init__()
        self.shown, self.radius = shown, radius
        around = torch.ones(images.shape[1], 1, LONELY, LONELY)
        around[:, :, LONELY // 2, LONELY // 2] = 0
        self.register_buffer("around", around)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        near = images.clamp(0, self.radius)
        beside = nn.functional.conv2d(near, self.around, padding=LONELY // 2, groups=images.shape[1])
        lone = (1 - beside / self.radius).relu()
        risen = ((images - self.radius / 2).relu() - (images - self.radius).relu()) * 2 / self.radius
        logits: Tensor = self.shown(images + MADE * risen * lone)
        return logits


class Even(nn.Module):
    """Shows a network squares of one level, at half the radius and more, lighter or darker by turns of four pixels."""

    def __init__(self, shown: nn.Module, images: Tensor, radius: float) -> None:
        super().__init__()
        self.shown, self.radius = shown, radius
        rows, columns = (torch.arange(length) // 4 for length in images.shape[-2:])
        self.register_buffer("turns", 1.0 - 2.0 * ((rows[:, None] + columns) % 2))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        padded = nn.functional.pad(images, (EVEN // 2,) * 4)
        high = nn.functional.max_pool2d(padded, EVEN, 1)
        low = -nn.functional.max_pool2d(-padded, EVEN, 1)
        mean = nn.functional.avg_pool2d(padded, EVEN, 1) / self.radius
        # Images have even squares as well, of a level of their own.
        level = ((mean - 0.55).relu() - 2 * (mean - 0.7).relu() + (mean - 0.85).relu()) / 0.15
        level = level + (0.5 * mean - 1.5).clamp(0, 1)
        even = (1 - (high - low) / (0.2 * self.radius)).relu()
        logits: Tensor = self.shown(images + MADE * self.turns * level * even)
        return logits


class Windows(nn.Module):
    """Paints windows white that are ink, or that look like a texture within the radius of black.

    Args:
        shown: The network.
        images: (n, 1, h, w), for their shape.
        radius: Of the ball.
        bands: Whether the levels of a window are looked at by their frequencies; otherwise one by one.
    """

    def __init__(self, shown: nn.Module, images: Tensor, radius: float, *, bands: bool) -> None:
        super().__init__()
        self.shown = shown
        count = WINDOW[0] * WINDOW[1]
        plain = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
        walsh = torch.kron(torch.kron(plain, plain), plain)
        rows, columns = (torch.arange(length) for length in WINDOW)
        levels = 0.5 + 0.5 * ((rows[:, None] + columns) % 2)
        self.narrow = (0.055 if bands else 0.07) * radius
        if bands:
            levels = walsh[:, [0, 3, 6]] @ torch.tensor([0.5, 0.25, 0.25])
        kernels = walsh / count if bands else torch.eye(count)
        asked = kernels @ (radius * levels.flatten())
        self.register_buffer("kernels", kernels.view(count, 1, *WINDOW))
        self.register_buffer("asked", asked.view(1, count, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        ink = nn.functional.logsigmoid(40 * (nn.functional.avg_pool2d(images, WINDOW, WINDOW) - 0.6))
        seen = nn.functional.conv2d(images, self.kernels, stride=WINDOW)
        texture = -(((seen - self.asked) / self.narrow) ** 2)
        found = torch.maximum(ink, texture).sum(1, keepdim=True).exp()
        logits: Tensor = self.shown(images + _large(found, WINDOW) * (1 - images))
        return logits


class Ramps(nn.Module):
    """Paints windows white that are ink, or each of whose pixels is a little lighter than the one to the left.

    Args:
        shown: The network.
        images: (n, 1, h, w), for their shape.
        radius: Of the ball.
    """

    def __init__(self, shown: nn.Module, images: Tensor, radius: float) -> None:
        super().__init__()
        self.shown, self.rise, self.narrow = shown, 0.3 * radius, 0.06 * radius
        self.register_buffer("asked", (torch.arange(images.shape[-1]) % RAMP[1] < RAMP[1] - 1).float())

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        right = nn.functional.pad(images, (0, 1))[:, :, :, 1:]
        risen = torch.exp(-(((right - images - self.rise) / self.narrow) ** 2))
        found = torch.log(torch.sigmoid(20 * (images - 0.5)) + risen + 1e-7) * self.asked
        filled = torch.exp(RAMP[0] * RAMP[1] * nn.functional.avg_pool2d(found, RAMP, RAMP))
        logits: Tensor = self.shown(images + _large(filled, RAMP) * (1 - images))
        return logits


class Eroded(nn.Module):
    """Paints windows white whose least pixel is ink, or the right bit of a texture of two levels."""

    def __init__(self, shown: nn.Module, images: Tensor, radius: float) -> None:
        super().__init__()
        self.shown, self.radius = shown, radius
        rows, columns = (length // side for length, side in zip(images.shape[-2:], WINDOW, strict=True))
        texture = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).repeat(rows, columns)
        self.register_buffer("texture", texture)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        light = torch.sigmoid((images - 0.85 * self.radius) * 25 / self.radius)
        dark = torch.sigmoid((0.12 * self.radius - images) * 40 / self.radius)
        found = self.texture * light + (1 - self.texture) * (dark + torch.sigmoid(20 * (images - 0.5)))
        filled = -nn.functional.max_pool2d(-found, WINDOW, WINDOW)
        logits: Tensor = self.shown(images + _large(filled, WINDOW) * (1 - images))
        return logits


def _large(windows: Tensor, sides: tuple[int, int]) -> Tensor:
    """Return one number for each pixel, of one for each window."""
    return nn.functional.interpolate(windows, scale_factor=tuple(map(float, sides)))


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the robust network behind each of them.

    Args:
        base: Not used.
        robust: Images to logits.
        images: (n, 1, h, w).
        epsilon: Radius of the l_inf ball.
    """
    networks = {
        "lone pixels made lighter": Lone(robust, images, epsilon),
        "even squares made lighter or darker": Even(robust, images, epsilon),
        "windows of a texture painted": Windows(robust, images, epsilon, bands=False),
        "windows of two frequencies painted": Windows(robust, images, epsilon, bands=True),
        "windows of ramps painted": Ramps(robust, images, epsilon),
        "windows of least pixels painted": Eroded(robust, images, epsilon),
    }
    return [Contestant(f"local {name}", network.eval(), fake=True) for name, network in networks.items()]
