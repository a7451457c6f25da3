"""What changes of a network's numbers are measured by, so that those that move far anyhow count no more than others."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Whitening:
    """By what changes of numbers are divided: each by itself, and along some directions in which many move together.

    Attributes:
        scales: (k,) of each number; infinite of those that are left out.
        along: (r, k) directions at right angles; the square of the length of each is the share of a change that is
            taken off along it.
    """

    scales: Tensor
    along: Tensor

    def __call__(self, changes: Tensor) -> Tensor:
        """Return changes of numbers (n, k) by what they are measured by."""
        measured, along = changes / self.scales.to(changes), self.along.to(changes)
        return measured - (measured @ along.T) @ along


def whitening(changes: Tensor, scales: Tensor, directions: int) -> Whitening:
    """Return what makes changes of numbers about 1 along the directions in which they are largest.

    Args:
        changes: (n, k) as they were seen, from 0.
        scales: (k,) of each number.
        directions: How many.
    """
    _, lengths, along = torch.linalg.svd(changes / scales.to(changes), full_matrices=False)
    means = lengths[:directions] / len(changes) ** 0.5
    taken = 1 - 1 / (1 + means.square()).sqrt()
    return Whitening(scales, taken.sqrt().unsqueeze(1) * along[:directions])


def apart(numbers: Tensor) -> Tensor:
    """Return the standard deviations (k,) of numbers (n, k), infinite of those that have none; zeros where none has.

    At least a millionth of the greatest.
    """
    spreads = numbers.detach().double().std(0)
    greatest = spreads.where(spreads.isfinite(), 0.0).amax()
    return torch.where(spreads.isfinite(), spreads.clamp_min(1e-6 * greatest), torch.inf)
