"""Whether the unit in which radii of a table are told is the deviation of its columns."""

import torch
from torch import Tensor

from seatrial.contracts.estimates import Flag

FEWEST, TIMES = 20, 3.0
"""Rows from which on it is asked, and how many units a column may deviate by. Of training data it is one."""


class Unit:
    """How far the columns of standardised rows deviate from their means, over batches."""

    def __init__(self) -> None:
        self._rows = 0
        self._sum = self._squares = torch.zeros(())

    def see(self, rows: Tensor) -> None:
        """Take rows (n, columns), in units of the manifest's ``std``."""
        rows = rows.double()
        self._rows += len(rows)
        self._sum = self._sum + rows.sum(0)
        self._squares = self._squares + rows.square().sum(0)

    def flags(self) -> list[Flag]:
        """Doubt a unit that is small in most of the columns that vary: radii are then less than they look."""
        if self._rows < FEWEST:
            return []
        mean = self._sum / self._rows
        deviations = (self._squares / self._rows - mean.square()).clamp(min=0).sqrt()
        varying = deviations[deviations > 1e-9 * (1 + mean.abs())]
        small = int((varying > TIMES).sum())
        if 2 * small <= len(varying):
            return []
        return [
            Flag(
                code="small_unit",
                severity="warning",
                message=f"In {small} of the {len(varying)} columns that vary, values deviate from their mean by over "
                f"{TIMES:g} times the std of the manifest (median {float(varying.median()):.3g}): radii are in that "
                "unit, and far smaller than they look. Give each column's standard deviation in the training data.",
            )
        ]
