"""Which pixels an attack moves together and which stand still: single ones, those far apart, blocks of one level."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

STANDS = -1
"""The unit of a pixel that stands still."""


@dataclass(frozen=True)
class Arrangement:
    """Units of pixels that an attack moves, each along one number.

    Attributes:
        units: (n, pixels) int64, the unit of each pixel, from 0 to pixels - 1; ``STANDS`` where it stands still.
        signs: (n, pixels), 1 for a pixel that moves as its unit does and -1 for one that moves the other way.
        is_even: Whether the pixels of a unit that can all be at the same level are.
        is_alone: Whether pixels that stand still are as in the image; otherwise as in the best one so far.
        is_whole: Whether the units are of the whole image, so that all of them may go too far together.
    """

    units: Tensor
    signs: Tensor
    is_even: bool = False
    is_alone: bool = False
    is_whole: bool = False

    def to(self, device: torch.device) -> "Arrangement":
        """Return the arrangement on a device."""
        return replace(self, units=self.units.to(device), signs=self.signs.to(device))


@dataclass(frozen=True)
class Ranges:
    """Where each pixel goes while the number of its unit goes from 0 to 1, and back.

    Attributes:
        still: (n, pixels), the values of pixels that stand still.
        start: (n, pixels), a pixel's value at 0.
        width: (n, pixels), how far it is from there at 1; nothing where it stands still.
        units: (n, pixels), the unit of each, 0 where it stands still.
        stands: (n, pixels).
    """

    still: Tensor
    start: Tensor
    width: Tensor
    units: Tensor
    stands: Tensor

    def at(self, numbers: Tensor) -> Tensor:
        """Return the pixels (n, pixels) where units are at ``numbers`` (n, pixels)."""
        moved = self.start + self.width * numbers.gather(1, self.units)
        return torch.where(self.stands, self.still, moved)

    def slope(self, gradients: Tensor) -> Tensor:
        """Return the derivative (n, pixels) by each unit's number, of what has these gradients (n, pixels)."""
        return self.added(gradients * self.width)

    def numbers(self, pixels: Tensor) -> Tensor:
        """Return the numbers (n, pixels) at which units are nearest to pixels (n, pixels): their pixels' mean."""
        room = self.width.where(self.width != 0, 1.0)
        share, counts = self.added((pixels - self.start) / room), self.added(torch.ones_like(pixels))
        return (share / counts.clamp_min(1.0)).clamp(0, 1)

    def added(self, values: Tensor) -> Tensor:
        """Return for each unit the sum (n, pixels) of its pixels' values (n, pixels)."""
        return torch.zeros_like(values).scatter_add(1, self.units, values.masked_fill(self.stands, 0.0))


def ranges(arrangement: Arrangement, still: Tensor, lower: Tensor, upper: Tensor) -> Ranges:
    """Return the ranges of an arrangement.

    Args:
        arrangement: Of n images.
        still: (n, pixels), what stands still.
        lower: (n, pixels), the least value of each pixel.
        upper: (n, pixels), the greatest.
    """
    stands = arrangement.units < 0
    units = arrangement.units.clamp_min(0)
    upward = arrangement.signs > 0
    start = torch.where(upward, lower, upper)
    width = torch.where(upward, upper - lower, lower - upper)
    if arrangement.is_even:
        floors = torch.full_like(lower, -torch.inf).scatter_reduce(1, units, lower, "amax").gather(1, units)
        roofs = torch.full_like(upper, torch.inf).scatter_reduce(1, units, upper, "amin").gather(1, units)
        fits = (floors <= roofs) & upward
        start, width = torch.where(fits, floors, start), torch.where(fits, roofs - floors, width)
    return Ranges(still, start, width.masked_fill(stands, 0.0), units, stands)


def single(moves: Tensor, *, is_whole: bool = False) -> Arrangement:
    """Return the arrangement in which each pixel that ``moves`` (n, ...) is a unit."""
    moves = moves.flatten(1)
    units = torch.arange(moves.shape[1], device=moves.device).expand_as(moves)
    return Arrangement(units.masked_fill(~moves, STANDS), torch.ones_like(moves, dtype=torch.int8), is_whole=is_whole)


def far_apart(shape: Sequence[int], spacing: int, generators: Sequence[torch.Generator]) -> Arrangement:
    """Return single pixels of images (..., rows, columns), ``spacing`` apart from a drawn one on, all else as it is.

    What a network makes of a pixel may need that those around it are left alone.
    """
    channels, rows, columns = _planes(shape)
    moves = []
    for generator in generators:
        down, right = torch.randint(spacing, (2,), generator=generator).tolist()
        lines = (torch.arange(rows) + (down if rows > 1 else 0)) % spacing == 0
        moves.append((lines[:, None] & ((torch.arange(columns) + right) % spacing == 0)).expand(channels, -1, -1))
    return replace(single(torch.stack(moves), is_whole=True), is_alone=True)


def blocks(
    shape: Sequence[int], sides: tuple[int, int], generators: Sequence[torch.Generator], *, has_figures: bool
) -> Arrangement:
    """Return square blocks of images (..., rows, columns), each a unit in each channel.

    What a network makes of a pixel may need that those around it are at the same level, or form a figure.

    Args:
        shape: Of an image.
        sides: The least and the greatest side of a block, one of which is drawn for each image.
        generators: One per image.
        has_figures: Whether pixels move up and down by a figure that is drawn: checks, lines, or noise.
    """
    channels, rows, columns = _planes(shape)
    units, signs = [], []
    for generator in generators:
        side = int(torch.randint(sides[0], sides[1] + 1, (1,), generator=generator))
        down, right = torch.randint(side, (2,), generator=generator).tolist()
        lines, places = (torch.arange(rows) + down) // side, (torch.arange(columns) + right) // side
        plane = lines[:, None] * (columns + side) + places
        numbers = torch.arange(channels)[:, None, None] * (rows + side) * (columns + side) + plane
        units.append(torch.unique(numbers, return_inverse=True)[1].flatten())
        figure = _figure(rows, columns, generator) if has_figures else torch.ones(rows, columns, dtype=torch.int8)
        signs.append(figure.expand(channels, -1, -1).flatten())
    return Arrangement(torch.stack(units), torch.stack(signs), is_even=not has_figures, is_whole=True)


def _planes(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the channels, rows and columns of an image; the numbers of what has no rows are one."""
    rows, columns = (shape[-2], shape[-1]) if len(shape) > 1 else (1, shape[-1])
    return math.prod(shape) // (rows * columns), rows, columns


def _figure(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Return signs (rows, columns) int8: of checks or lines of one or two pixels, or drawn."""
    kind, width = (int(torch.randint(most, (1,), generator=generator)) for most in (4, 2))
    noise = torch.randint(2, (rows, columns), generator=generator)
    lines, places = torch.arange(rows)[:, None] // (1 + width), torch.arange(columns) // (1 + width)
    drawn = (noise, lines.expand(-1, columns), places.expand(rows, -1), lines + places)[kind]
    return (1 - 2 * (drawn % 2)).to(torch.int8)
