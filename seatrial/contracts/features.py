"""What a classifier of table rows takes: its columns, their units, and the values they may have."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.contracts.base import Real, Request

MAX_FEATURES = 4096
"""Most columns of a row: as many as an image may have rows of pixels."""

UNBOUNDED = 1e6
"""Standard deviations that a column without a range may go: infinity times a weight of 0 is no number."""

FeatureName = Annotated[str, Field(min_length=1, max_length=200)]
Range = Annotated[list[Annotated[Real, Field(ge=-1e30, le=1e30)]], Field(min_length=2, max_length=2)]


class FeatureSpec(Request):
    """What the model takes: rows of numbers. Perturbations and radii are in units of ``std``, column by column."""

    columns: list[FeatureName] = Field(
        min_length=1,
        max_length=MAX_FEATURES,
        description="Names of the columns, in the order the model takes them.",
        examples=[["age", "income"]],
    )
    mean: list[Annotated[Real, Field(ge=-1e30, le=1e30)]] | None = Field(
        default=None, max_length=MAX_FEATURES, description="Mean of each column in the training data; default: zeros."
    )
    std: list[Annotated[Real, Field(gt=0, ge=1e-30, le=1e30)]] | None = Field(
        default=None,
        max_length=MAX_FEATURES,
        description="Standard deviation of each column in the training data: the unit of perturbations; default: ones.",
    )
    ranges: list[Range | None] | None = Field(
        default=None,
        max_length=MAX_FEATURES,
        description="Smallest and largest value of each column that an attacker may use, in the table's units; null "
        "for a column without limits. Default: no limits.",
        examples=[[[0, 120], None]],
    )
    takes: Literal["standardised", "raw"] = Field(
        default="standardised",
        description="What the model is given: `standardised` rows, (value - mean) / std; or `raw` values, where it "
        "standardises them itself.",
    )

    @model_validator(mode="after")
    def _one_value_per_column(self) -> Self:
        if len(set(self.columns)) != len(self.columns):
            twice = next(name for at, name in enumerate(self.columns) if name in self.columns[:at])
            raise ValueError(f"columns must differ from each other: {twice!r} stands twice")
        for name in ("mean", "std", "ranges"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.columns):
                raise ValueError(
                    f"{name} has {len(values)} values for {len(self.columns)} columns: give one per column"
                )
        for column, bounds in zip(self.columns, self.ranges or [], strict=False):
            if bounds is not None and not bounds[0] < bounds[1]:
                raise ValueError(f"ranges: {column!r} goes from {bounds[0]:g} to {bounds[1]:g}; the first must be less")
        return self

    @property
    def means(self) -> list[float]:
        """Mean of each column, the default filled in."""
        return self.mean or [0.0] * len(self.columns)

    @property
    def stds(self) -> list[float]:
        """Standard deviation of each column, the default filled in."""
        return self.std or [1.0] * len(self.columns)

    @property
    def shape(self) -> list[int]:
        """A row as the methods for images see it: one channel, one line, a value per column."""
        return [1, 1, len(self.columns)]

    def outside(self, smallest: list[float], largest: list[float]) -> str | None:
        """Return which column of data, by its least and greatest values in this order, leaves its range; None: none."""
        for at, bounds in enumerate(self.ranges or []):
            if bounds is not None and not (bounds[0] <= smallest[at] and largest[at] <= bounds[1]):
                return (
                    f"the column {self.columns[at]!r} has values from {smallest[at]:g} to {largest[at]:g}, and the "
                    f"model's range for it is {bounds[0]:g} to {bounds[1]:g}"
                )
        return None
