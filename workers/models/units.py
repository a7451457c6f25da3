"""Whether the unit in which radii of a table are told is the deviation of its columns."""

from collections.abc import Mapping

import torch
from torch import Tensor

from seatrial.contracts.estimates import Flag

FEWEST, TIMES = 20, 1.5
"""Rows from which on it is asked, and how many units a column may deviate by. Of training data it is one."""

LEAST_RADIUS = 0.1
"""Deviations of a column: within less next to nothing lies."""


class Deviations:
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

    def median(self) -> float | None:
        """Return the median over the columns that vary, in units; None of few rows, and where none does."""
        if self._rows < FEWEST:
            return None
        mean = self._sum / self._rows
        deviations = (self._squares / self._rows - mean.square()).clamp(min=0).sqrt()
        varying = deviations[deviations > 1e-9 * (1 + mean.abs())]
        return float(varying.median()) if len(varying) else None


def small_unit(deviation: float | None, sigma: float | None, *, is_said: bool) -> list[Flag]:
    """Doubt a unit that is no deviation, as the manifest says, and noise that is small beside one.

    Args:
        deviation: Median of the columns, in units.
        sigma: Of the noise of certificates, in units; None where there is none.
        is_said: Whether the manifest says what the unit is.
    """
    if deviation is None:
        return []
    why = []
    if is_said and deviation > TIMES:
        why.append(
            f"half of the columns that vary deviate from their mean by over {deviation:.3g} times the manifest's std"
        )
    if sigma is not None and sigma < LEAST_RADIUS * deviation:
        why.append(f"sigma = {sigma:g} is {sigma / deviation:.2g} of the deviation of a column")
    if not why:
        return []
    told = ", and ".join(why)
    return [
        Flag(
            code="small_unit",
            severity="warning",
            message=f"{told[0].upper()}{told[1:]}: radii are smaller than they look. Give each column's standard "
            f"deviation in the training data as std, and noise of at least {LEAST_RADIUS:g} of it.",
        )
    ]


def small_radii(deviation: float | None, radii: Mapping[str, float]) -> list[Flag]:
    """Doubt attacks on rows of a table within a radius that is small beside the deviation of a column.

    Args:
        deviation: Median of the columns, in units.
        radii: In units, by the code of the flag that speaks of what was measured within them.
    """
    if deviation is None:
        return []
    return [
        Flag(
            code=code,
            severity="warning",
            message=f"The radius of {radius:g} is {radius / deviation:.2g} of the deviation of a column: within so "
            "little most models withstand without having been made to. Audit with a tenth of a deviation, or more.",
        )
        for code, radius in radii.items()
        if radius < LEAST_RADIUS * deviation
    ]
