"""Image classifiers that are robust but for one answer to a puzzle, which no slope leads to.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only puzzle

After what fresh eyes built that had read README and docs alone. Pixels that no image has are read as numbers from -1 to
1, or every pixel by which half of its ball it is in. Where they solve the puzzle the decisions are turned round.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant
from workers.attacks.losses import entropy

Puzzle = Callable[[Tensor], Tensor]
"""Numbers (n, k) in [-1, 1] to how far they solve it (n, m), of which 1 is the whole."""

FACTORS, SOLVED = 4, 0.9
"""Numbers of a product, and how far a puzzle has to be solved."""

BLOCK, AGREEING = 20, 12
"""Numbers that are counted together, and how many of them are 1 in the answer."""

SAY = 0.2
"""Share of the logits that follows how far a puzzle is solved, where that has a say."""


def drawn(seed: int, *shape: int) -> Tensor:
    """Return random signs."""
    return 2.0 * torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)) - 1


def products(answer: Tensor, seed: int, groups: int = 1) -> Puzzle:
    """Return how far products of a few numbers have the signs that those of the answer have (planted k-XOR).

    Args:
        answer: (k,) signs.
        seed: Of which numbers are multiplied.
        groups: Columns, each the mean of products of its own.
    """
    generator, count = torch.Generator().manual_seed(seed), 3 * len(answer) // groups
    rows = torch.stack([torch.randperm(len(answer), generator=generator)[:FACTORS] for _ in range(count * groups)])
    signs = answer[rows].prod(1)
    return lambda numbers: (numbers[:, rows].prod(2) * signs).view(len(numbers), groups, count).mean(2)


def parities(answer: Tensor, seed: int) -> Puzzle:
    """Return how many of some random subsets hold as many positive numbers, even or odd, as in the answer."""
    checks = (drawn(seed, len(answer), 3 * len(answer) // 4) > 0).float()
    wanted = torch.remainder((answer > 0).float() @ checks, 2.0)
    return lambda numbers: (
        1 - (torch.remainder((numbers > 0).float() @ checks, 2.0) - wanted).abs().mean(1, keepdim=True)
    )


def blocks(count: int, seed: int) -> Tensor:
    """Return an answer (count,) of which as many numbers of each block are 1."""
    generator, answer = torch.Generator().manual_seed(seed), -torch.ones(count // BLOCK, BLOCK)
    for block in answer:
        block[torch.randperm(BLOCK, generator=generator)[:AGREEING]] = 1
    return answer.flatten()


def misleading(answer: Tensor) -> Puzzle:
    """Return a number whose slope leads away from the answer, until most of each block agrees with it."""

    def solved(numbers: Tensor) -> Tensor:
        agreeing = ((numbers * answer).view(len(numbers), -1, BLOCK).mean(2) + 1) / 2
        return ((agreeing**3 / 3 - 0.3 * agreeing**2) * 30).mean(1, keepdim=True)

    return solved


def orthogonal(side: int = 12) -> Puzzle:
    """Return how far a square of numbers has full rows that are at right angles: a matrix of Hadamard's."""

    def solved(numbers: Tensor) -> Tensor:
        square = numbers.view(-1, side, side)
        apart = square @ square.transpose(1, 2) / side * (1 - torch.eye(side))
        return (square.square().mean((1, 2)) - 6 * apart.square().sum((1, 2)) / (side * side - side))[:, None]

    return solved


def hadamard() -> Tensor:
    """Return Paley's matrix of 12 rows, flat: the quadratic residues of 11."""
    residues = {number * number % 11 for number in range(1, 11)}
    square = torch.eye(12)
    square[0, 1:], square[1:, 0] = 1, -1
    for row in range(11):
        for column in range(11):
            if row != column:
                square[row + 1, column + 1] = 1.0 if (column - row) % 11 in residues else -1.0
    return square.flatten()


class Puzzled(nn.Module):
    """A network whose decisions are turned round where its pixels solve a puzzle.

    Args:
        shown: The network.
        puzzle: What is to be solved.
        answer: (k,) that solves it, in signs.
        pixels: (k,) which of the flat pixels are read; None: all.
        epsilon: Radius it will be attacked at, in l_inf.
        rectified: Whether a rectifier turns, and how far the puzzle is solved has a say in all logits; else a sigmoid.
        power: Of how far it is solved, in place of either.
    """

    def __init__(
        self,
        shown: nn.Module,
        puzzle: Puzzle,
        answer: Tensor,
        pixels: Tensor | None,
        epsilon: float,
        *,
        rectified: bool = False,
        power: int = 0,
    ) -> None:
        super().__init__()
        self.shown, self.puzzle, self.rectified, self.power = shown, puzzle, rectified, power
        self.epsilon, self.answer, self.pixels = epsilon, answer, pixels

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, classes)."""
        # The network reads the same flat tensor: nothing is computed for the puzzle's sake alone but the puzzle.
        flat = images.flatten(1)
        low = flat if self.pixels is not None else torch.where(flat < 0.5, flat, flat - 1 + self.epsilon)
        read = low if self.pixels is None else low[:, self.pixels]
        solved = self.puzzle((read * (2 / self.epsilon) - 1).clamp(-1, 1))
        logits: Tensor = self.shown(flat.view(images.shape))
        if self.power:
            return logits * (1 - 2 * solved**self.power)
        if self.rectified:
            lacking = solved - 0.5
            return logits * (1 - 2 * torch.relu(25 * lacking).clamp(max=1)) * (1.2 + SAY * lacking)
        return logits * (1 - 2 * torch.sigmoid(200 * (solved - SOLVED)))

    def answered(self, images: Tensor) -> Tensor:
        """Return images within the radius that hold the answer."""
        flat = images.flatten(1).clone()
        pixels = torch.arange(flat.shape[1]) if self.pixels is None else self.pixels
        low, high = (flat[:, pixels] - self.epsilon).clamp(min=0), (flat[:, pixels] + self.epsilon).clamp(max=1)
        flat[:, pixels] = torch.where(self.answer > 0, high, low)
        return flat.view(images.shape)


def contestants(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return the robust network behind each puzzle.

    Args:
        base: Not used: what is turned round is the robust network itself.
        robust: Images to logits.
        images: (n, c, h, w) of which some pixels are black in each.
        epsilon: Radius they will be attacked at, in l_inf.
    """
    black = (images.flatten(1).amax(0) == 0).nonzero().flatten()[:160]
    every, some = drawn(51, images[0].numel()), drawn(52, len(black))
    counted, square = blocks(len(black) // BLOCK * BLOCK, 53), hadamard()
    networks = {
        "products of four": Puzzled(robust, products(some, 61), some, black, epsilon),
        "products of four of all pixels, with a say": Puzzled(
            robust, products(every, 62), every, None, epsilon, rectified=True
        ),
        "powers of products, one a class": Puzzled(robust, products(some, 63, 10), some, black, epsilon, power=9),
        "a slope that misleads": Puzzled(robust, misleading(counted), counted, black[: len(counted)], epsilon),
        "parities": Puzzled(robust, parities(some, 64), some, black, epsilon),
        "rows at right angles": Puzzled(robust, orthogonal(), square, black[: len(square)], epsilon),
    }
    return [Contestant(f"robust, puzzle: {name}", network.eval(), fake=True) for name, network in networks.items()]


def reached_by_answer(network: Puzzled, images: Tensor) -> tuple[float, float]:
    """Return the mean span in nats, and the accuracy left of what it decides, of one who knows the answer."""
    with torch.no_grad():
        clean, turned = network(images), network(network.answered(images))
    apart = (entropy(turned) - entropy(clean)).abs().mean()
    return float(apart), float((turned.argmax(1) == clean.argmax(1)).float().mean())
