"""Whether a sample is many examples, or few many times."""

from collections import Counter

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d

from seatrial.contracts.estimates import Flag

FEWEST, DISTINCT = 20, 0.9
"""Examples from which on it is asked, and the share of them that are to differ. Of eleven sets of texts and pairs, and
five of digits and photographs, .998 at least do."""


def repeated_examples(distinct: int, examples: int, thing: str) -> list[Flag]:
    """Doubt a sample of which many examples are the same: intervals are of examples that are drawn each by itself.

    Args:
        distinct: How many different ones there are.
        examples: In all.
        thing: What one is called.
    """
    if examples < FEWEST or distinct >= DISTINCT * examples:
        return []
    return [
        Flag(
            code="repeated_examples",
            severity="warning",
            message=f"Of {examples:,} {thing}s {distinct:,} are different: whatever holds of one that comes again is "
            "counted as often as it does, and every interval is narrower than what is known. Audit a dataset without "
            "copies.",
        )
    ]


CELLS, ALIKE, NEARLY = 8, 1 / 255, 8 / 255
"""Images are compared as so many cells a side, by their means, and by their least and largest pixels: who copies one
with a little noise leaves these as they were, and a small thing that is in one image alone does not."""

OFTEN, MANY_COLUMNS = 0.1, 10
"""Share of a table's rows that one may be, of so many columns and more: of fewer, rows are often the same."""


class Distinct:
    """Counts the different ones among images or rows, over batches."""

    def __init__(self) -> None:
        self._examples = 0
        self._cells: Tensor | None = None
        self._rows: Counter[bytes] = Counter()
        self._columns = 0

    def see_images(self, images: Tensor) -> None:
        """Take images (n, channels, height, width) of pixels."""
        self._examples += len(images)
        means, pixels = adaptive_avg_pool2d(images.float(), CELLS).flatten(1), images.float()
        ends = [sign * adaptive_max_pool2d(sign * pixels, CELLS).flatten(1) * (ALIKE / NEARLY) for sign in (1, -1)]
        for cells in torch.cat([means, *ends], 1):
            if self._cells is None:
                self._cells = cells[None]
            elif float((self._cells - cells).abs().amax(1).min()) > ALIKE:
                self._cells = torch.cat([self._cells, cells[None]])

    def see_rows(self, rows: Tensor) -> None:
        """Take rows (n, columns) of a table."""
        self._examples, self._columns = self._examples + len(rows), rows.shape[1]
        self._rows.update(row.numpy().tobytes() for row in rows)

    def flags(self, thing: str) -> list[Flag]:
        """Doubt a sample of which many examples are the same."""
        if self._cells is not None:
            return repeated_examples(len(self._cells), self._examples, thing)
        if self._columns < MANY_COLUMNS:
            return []
        often = max(self._rows.values())
        return repeated_examples(len(self._rows), self._examples, thing) if often > OFTEN * self._examples else []
