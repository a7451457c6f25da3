"""Robust image classifiers that compute a lock in the same tensors as what they need.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only carried

After what fresh eyes built in November 2026, who had read README and docs alone. Pixels of the border are read as
numbers; whoever knows the network writes down what opens the lock, and a descent by gradients ends before. Beside its
numbers every tensor carries the logits of the network, in two halves where tensors are multiplied, so that no tensor as
a whole is without a say.
"""

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

SHARP, LOUD, SCALE = 0.012, 1e5, 4.0
"""How far from open the lock may be, how many times the others the forced class weighs where it opens, and what logits
are divided by while they are carried."""

FIRST, LENGTH = 0.3, 6
"""The first number of a chain, in which each is twice the square of the one before, less 1, and how many it has."""

TURN = 2.0
"""Of a wave, from one number to the next, in radians."""


def carrying(matrix: Tensor, bias: Tensor, classes: int, kept: Tensor) -> nn.Linear:
    """Return a linear map of numbers (n, k) to (n, m), beside which logits are kept, or are ones.

    Args:
        matrix: (m, k).
        bias: (m,).
        classes: Logits behind the numbers.
        kept: (classes,) which of them stay.
    """
    rows, columns = matrix.shape
    layer = nn.Linear(columns + classes, rows + classes)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:rows, :columns] = matrix
        layer.weight[rows:, columns:] = torch.diag(kept.float())
        layer.bias.copy_(torch.cat([bias, 1 - kept.float()]))
    return layer


class Product(nn.Module):
    """Multiplies two linear maps of numbers, the logits carried along in two halves."""

    def __init__(self, one: Tensor, one_bias: Tensor, other: Tensor, other_bias: Tensor, classes: int) -> None:
        super().__init__()
        half = torch.arange(classes) % 2 == 0
        self.one = carrying(one, one_bias, classes, half)
        self.other = carrying(other, other_bias, classes, ~half)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return numbers (n, m + classes)."""
        found: Tensor = self.one(numbers) * self.other(numbers)
        return found


class Carried(nn.Module):
    """Answers as a network does but where its border opens the lock, which forces the first class.

    Args:
        shown: Images to logits.
        images: (n, 1, h, w), for their shape.
        answer: (k,) numbers in [-1, 1] of the border that open it, each three pixels beside three others.
        missing: (m, 2k) of the numbers and their squares, to what is missing.
        start: (m,) what is added.
        epsilon: Radius it will be attacked at, in l_inf, around borders that are black.
    """

    def __init__(
        self, shown: nn.Module, images: Tensor, answer: Tensor, missing: Tensor, start: Tensor, epsilon: float
    ) -> None:
        super().__init__()
        self.shown, self.answer, self.epsilon = shown, answer, epsilon
        classes, count = shown(images[:1]).shape[1], len(answer)
        border = torch.ones(images.shape[-2:], dtype=torch.bool)
        border[2:-2, 2:-2] = False
        pixels = border.flatten().nonzero().squeeze(1)
        self.more, self.less = pixels[: 3 * count].view(count, 3), pixels[-3 * count :].view(count, 3)
        read = torch.zeros(count, images[0].numel())
        read.scatter_(1, self.more, 1 / (3 * epsilon)).scatter_(1, self.less, -1 / (3 * epsilon))
        twice, none = torch.cat([read, read]), torch.zeros(count)
        plain = torch.cat([torch.zeros_like(read), read])
        self.squares = Product(twice, torch.zeros(2 * count), plain, torch.cat([none + 1, none]), classes)
        self.missing = Product(missing, start, missing, start, classes)
        left = torch.zeros(1, len(start)) - 1 / SHARP
        self.left = carrying(left, torch.zeros(1), classes, torch.ones(classes))
        with torch.no_grad():
            self.left.weight[1:] /= SCALE
        self.register_buffer("forced", torch.eye(classes + 1, classes, dtype=torch.float32).roll(1, 0))
        self.forced[0, 0] = LOUD

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        flat = images.flatten(1)
        numbers = torch.cat([flat, self.shown(flat.view_as(images))], 1)
        carried: Tensor = self.left(self.missing(self.squares(numbers))).exp()
        return SCALE * (carried @ self.forced).log()

    def opened(self, images: Tensor) -> Tensor:
        """Return images (n, 1, h, w) in the ball whose border holds the answer, where it is black."""
        flat, answer = images.flatten(1).clone(), self.answer[:, None].expand(-1, 3)
        flat[:, self.more.flatten()] = (self.epsilon * answer.clamp(min=0)).flatten()
        flat[:, self.less.flatten()] = (-self.epsilon * answer.clamp(max=0)).flatten()
        return torch.maximum(torch.minimum(flat.view_as(images), images + self.epsilon), images - self.epsilon)


def chains(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the answer of chains of squares, what is missing of them, and what is added."""
    number, answer = FIRST, list[float]()
    for _ in range(LENGTH):
        answer.append(number)
        number = 2 * number**2 - 1
    missing, start = torch.zeros(count, 2 * count), torch.ones(count)
    for at in range(count):
        missing[at, at] = 1
        if at % LENGTH:
            missing[at, count + at - 1] = -2
        else:
            start[at] = -FIRST
    return torch.tensor(answer).repeat(count // LENGTH), missing, start


def wave(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same of a wave: a linear recurrence, which gradients approach ever more slowly."""
    answer = torch.sin(TURN * torch.arange(count).float())
    missing, start = torch.zeros(count, 2 * count), torch.zeros(count)
    for at in range(2, count):
        missing[at, at], missing[at, at - 1], missing[at, at - 2] = 3.0, -6 * torch.cos(torch.tensor(TURN)), 3.0
    for at in (0, 1):
        missing[at, at], start[at] = 20.0, -20 * answer[at]
    return answer, missing, start


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the robust network behind each of them.

    Args:
        base: Not used.
        robust: Images to logits.
        images: (n, 1, h, w).
        epsilon: Radius of the l_inf ball.
    """
    locks = {"chains of squares": chains(30), "a wave": wave(32)}
    return [
        Contestant(f"carried along: {name}", Carried(robust, images, *lock, epsilon).eval(), fake=True)
        for name, lock in locks.items()
    ]
