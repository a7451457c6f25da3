"""Parameters of ``calibration``: what is asked of a table of predictions."""

from typing import Annotated, Literal

from pydantic import Field

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams

REDUCED_PER_S = 400.0
"""Examples whose intervals are made in a second, with ten classes; measured on one core."""


class CalibrationParams(FamilyParams):
    """Compare confidences with what came true. Nothing is run: what the model answered is in its table."""

    kind: Literal["calibration"] = Field(description="Which family: this one.")
    bins: int = Field(default=15, ge=1, le=100, description="Bins of every calibration error that has any.")
    conformal_miss: Annotated[Real, Field(gt=0, lt=1)] = Field(
        default=0.1, description="Share of prediction sets that may miss their label (split conformal prediction)."
    )
    smallest_group: int = Field(
        default=30, ge=1, le=1_000_000, description="Groups of fewer examples are not judged by themselves."
    )

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return the time of the intervals alone: nothing passes through a model."""
        return Passes(forward=0, backward=0, compute_s=samples / REDUCED_PER_S)
