"""Maps of logits a model applies after its network: what recalibration fits, and manifests hold."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.contracts.base import Real, Request

MOST_STEPS = 200_000
Numbers = Annotated[list[Real], Field(max_length=MOST_STEPS)]


class TemperatureMap(Request):
    """One divisor of all logits."""

    map: Literal["temperature"] = Field(description="This map.")
    temperature: Real = Field(gt=0, description="Logits are divided by it.")


class VectorMap(Request):
    """A factor and a bias per class."""

    map: Literal["vector"] = Field(description="This map.")
    weights: Numbers = Field(description="Factor of each class's logit.")
    bias: Numbers = Field(description="What is added to the result, by class.")


class MatrixMap(Request):
    """A row of factors and a bias per class."""

    map: Literal["matrix"] = Field(description="This map.")
    weights: list[Numbers] = Field(max_length=10_000, description="For each class, the factors of all logits.")
    bias: Numbers = Field(description="What is added to the result, by class.")


class Steps(Request):
    """A rising step function."""

    at: Numbers = Field(description="Where each step begins, ascending.")
    to: Numbers = Field(description="Value of the map from there on.")

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if len(self.at) != len(self.to) or not self.at:
            raise ValueError(f"at and to go together: {len(self.at)} and {len(self.to)} numbers")
        return self


class IsotonicMap(Request):
    """A rising step function of each class's probability, after which they are made to add up to 1."""

    map: Literal["isotonic"] = Field(description="This map.")
    classes: list[Steps] = Field(max_length=10_000, description="The function of each class.")


LogitMap = Annotated[TemperatureMap | VectorMap | MatrixMap | IsotonicMap, Field(discriminator="map")]


def classes_of(how: LogitMap) -> int | None:
    """Return for how many classes a map is; None for any number."""
    if isinstance(how, TemperatureMap):
        return None
    if isinstance(how, IsotonicMap):
        return len(how.classes)
    widths = {len(row) for row in how.weights} if isinstance(how, MatrixMap) else {len(how.weights)}
    return len(how.bias) if widths == {len(how.bias)} and len(how.weights) == len(how.bias) else -1
