"""The target for rows of a table: a frozen module behind the units of its columns."""

import torch
from torch import Tensor, nn

from seatrial.contracts.features import UNBOUNDED, FeatureSpec
from workers.models.image_classifier import ImageClassifier


class TableClassifier(ImageClassifier):
    """A frozen classifier of table rows in eval mode, which attacks meet as one of images of one line.

    A row is (1, 1, columns), each value in standard deviations of its column; the box is that of the columns' ranges.

    Args:
        module: Turns rows (batch, columns) into logits (batch, classes).
        labels: Class names in the order of the logits.
        features: Columns, units and ranges.
        device: Where to compute.
        values_per_row: Values the module computes for one row.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        labels: list[str],
        features: FeatureSpec,
        device: torch.device,
        values_per_row: int | None = None,
    ) -> None:
        super().__init__(
            module,
            labels=labels,
            input_shape=(1, 1, len(features.columns)),
            mean=[0.0],
            std=[1.0],
            device=device,
            values_per_image=values_per_row,
        )
        self.features = features
        mean, std = torch.tensor(features.means).double(), torch.tensor(features.stds).double()
        # A range is of the table's units; a column without one may go further than any attack.
        ends = [bounds or [-torch.inf, torch.inf] for bounds in features.ranges or [None] * len(std)]
        low, high = ((torch.tensor(ends, dtype=torch.float64) - mean.unsqueeze(1)) / std.unsqueeze(1)).unbind(1)
        limit = UNBOUNDED
        self.box = (low.clamp(-limit, limit).float().to(device), high.clamp(-limit, limit).float().to(device))
        self._row_mean = mean.float().to(device)
        self._row_std = std.float().to(device)

    def _prepared(self, images: Tensor) -> Tensor:
        """Return standardised rows (batch, 1, 1, columns) as the module takes them (batch, columns)."""
        rows = images.flatten(1)
        if self.features.takes == "raw":
            rows = rows * self._row_std + self._row_mean
        return rows
