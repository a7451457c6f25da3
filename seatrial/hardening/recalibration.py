"""Recalibration: a map of logits, fitted on held-out examples; the weights stay as they are."""

from typing import Literal

from pydantic import Field

from seatrial.contracts.costs import Passes
from seatrial.contracts.training import MethodParams, MethodSpec


class RecalibrateParams(MethodParams):
    """Fit a map of logits on the validation dataset (Guo et al. 2017; Raina et al.)."""

    method: Literal["recalibrate"] = Field(description="This method.")
    map: Literal["temperature", "vector", "matrix", "isotonic"] = Field(
        default="temperature",
        description="`temperature`: one divisor of all logits, which changes no prediction; `vector`, `matrix`: "
        "factors per class, or a row of them, and a bias; `isotonic`: a rising step function of each class's "
        "probability, after which they are made to add up to 1.",
    )

    def passes(self, examples: int, validation: int) -> Passes:
        """Return one pass of every held-out example."""
        return Passes(validation, 0)


RECALIBRATE = MethodSpec(
    "recalibrate",
    RecalibrateParams,
    "workers.training.methods.recalibration:recalibrate",
    (
        "image-classification",
        "tabular-classification",
        "text-classification",
        "text-pair-classification",
    ),
    "Guo et al. 2017, On Calibration of Modern Neural Networks; Raina et al. 2024",
    trains=False,
)
