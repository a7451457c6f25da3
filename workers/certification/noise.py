"""Gaussian noise on the grid, draw by draw: seeded in blocks, made on the device, forgotten after use."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from workers.certification.grid import law_distance, round_noise

Shape = tuple[int, int, int]
"""Channels, height, width."""

BLOCK = 1000
"""Draws of a block, at most: what one seed makes, on every device."""
BLOCK_VALUES = 2**24
"""Values of a block, at most: 64 MiB, whatever the images are."""
PIECE = 50
"""Draws a CPU makes at once: who needs 100, or 50 more, does not pay for 1000. A GPU makes a block at once."""


def block_of(shape: Shape) -> int:
    """Return how many draws a block has: as many of 1000 as fit, in a number that divides 1000.

    By the shape alone: neither a device nor how much of its memory is free changes which draw is which.

    >>> block_of((3, 32, 32)), block_of((3, 224, 224))
    (1000, 100)
    """
    fitting = [draws for draws in range(1, BLOCK + 1) if BLOCK % draws == 0 and draws * prod(shape) <= BLOCK_VALUES]
    return max(fitting, default=1)


class Noise:
    """Independent draws of N(0, sigma^2 I) rounded to the grid (:mod:`workers.certification.grid`), numbered from 0.

    Guarantee: draw number i of an example is the same whichever draws it is asked for with, in whatever order, and in
    any process on the same kind of device; its law is within ``distance`` of that of rounded Gaussian noise, in total
    variation. It fails where two blocks are given one seed, their draws are the same; or where whoever makes the model
    knows the seeds, and the model the draws.

    A CPU's draws are not a GPU's. They are numpy's: torch's CPU generator takes 32 of a seed's 64 bits, and among a
    million blocks a hundred pairs would be the same. Both are rounded from float64, of which a CPU makes a value in
    9 ns, beside 7 in float32.

    Args:
        sigma: Standard deviation in pixels, above 0.
        shape: Shape of the images: channels, height, width.
        device: Where to draw.
        seed_of: A block's number, and an example's (None: shared), to a seed of 63 bits. Noise for another purpose
            needs unrelated seeds.
        shared: Whether all examples see the same draws. A block is then made once for all of them; otherwise making
            the draws takes as long as a small network takes to classify them.

    Raises:
        ValueError: ``sigma`` is not above 0.
    """

    def __init__(
        self,
        sigma: float,
        shape: Shape,
        device: torch.device,
        seed_of: Callable[[int, int | None], int],
        *,
        shared: bool,
    ) -> None:
        if not sigma > 0:
            raise ValueError(f"sigma must be above 0, got {sigma}")
        self.sigma = sigma
        self.shape = shape
        self.shared = shared
        self.block = block_of(shape)
        self.distance = law_distance(sigma, prod(shape), device)
        self._device = device
        self._seed_of = seed_of
        self._piece = min(PIECE, self.block) if device.type == "cpu" else self.block
        self._held: tuple[int, int | None] | None = None
        self._values = torch.empty(0, dtype=torch.int32)
        self._seed = 0
        self._made: set[int] = set()

    def draws(self, start: int, stop: int, example_id: int | None = None) -> Tensor:
        """Return draws ``start`` to ``stop`` (stop - start, channels, height, width) int32; not to be written to.

        Args:
            start: First draw.
            stop: One past the last draw. Within one block nothing is copied.
            example_id: Whose draws; of no meaning where they are shared.

        Raises:
            ValueError: There are no such draws, or nobody to draw for.
        """
        if not 0 <= start < stop:
            raise ValueError(f"no draws from {start} to {stop}")
        if self.shared:
            example_id = None
        elif example_id is None:
            raise ValueError("independent noise is drawn for an example: its id is missing")
        parts = [
            self._within(
                block, max(start - block * self.block, 0), min(stop - block * self.block, self.block), example_id
            )
            for block in range(start // self.block, (stop - 1) // self.block + 1)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _within(self, block: int, start: int, stop: int, example_id: int | None) -> Tensor:
        if self._held != (block, example_id):
            # A new tensor: views of the one before may still be in use.
            self._values = torch.empty(self.block, *self.shape, dtype=torch.int32, device=self._device)
            self._seed = self._seed_of(block, example_id)
            self._made = set()
            self._held = (block, example_id)
        for piece in range(start // self._piece, (stop - 1) // self._piece + 1):
            if piece not in self._made:
                self._make(piece)
                self._made.add(piece)
        return self._values[start:stop]

    def _make(self, piece: int) -> None:
        values = self._values[piece * self._piece : (piece + 1) * self._piece]
        gaussian = torch.empty(values.shape, dtype=torch.float64, device=self._device)
        if self._device.type == "cpu":
            draw_by_numpy(gaussian, [self._seed, piece])
        else:
            draw_by_torch(gaussian, self._seed)
        round_noise(gaussian, self.sigma, values)


def draw_by_numpy(out: Tensor, seed: Sequence[int]) -> None:
    """Write standard normal draws to ``out``, float64 on the CPU."""
    # The fastest of numpy's generators that take a whole seed.
    np.random.Generator(np.random.SFC64(seed)).standard_normal(out=out.numpy())


def draw_by_torch(out: Tensor, seed: int) -> None:
    """Write standard normal draws to ``out``, float64 on a GPU."""
    out.normal_(generator=torch.Generator(out.device).manual_seed(seed))
