"""Training by cross-entropy of clean examples: what differs is the gradient, or the logits' temperature."""

from typing import Literal

from pydantic import Field

from seatrial.contracts.base import Real
from seatrial.contracts.training import MethodSpec
from seatrial.hardening.params import TextTrainingParams

TASKS = ("image-classification", "text-classification", "text-pair-classification", "tabular-classification")


class GradientNormalisedParams(TextTrainingParams):
    """Cross-entropy whose gradient has an l_2 norm of 1 over all parameters at every step (Raina et al.)."""

    method: Literal["gradient_normalised"] = Field(description="This method.")
    gradients: Literal["plain", "normalised", "clipped"] = Field(
        default="normalised",
        description="`normalised` is the method. To compare: `clipped` scales down gradients longer than `clip_norm`, "
        "`plain` leaves them.",
    )


class HighTemperatureParams(TextTrainingParams):
    """Cross-entropy of logits divided by a temperature, by which they are not divided afterwards (Raina et al.)."""

    method: Literal["high_temperature"] = Field(description="This method.")
    training_temperature: Real = Field(
        default=200.0,
        ge=1e-3,
        le=1e6,
        description="Logits are divided by it in the training loss; the model is used without it. The paper tries 1 to "
        "2000.",
    )
    gradients: Literal["plain", "normalised", "clipped"] = Field(
        default="normalised",
        description="What is done to the gradient over all parameters; the paper's best clean accuracy is with "
        "`normalised`.",
    )


GRADIENT_NORMALISED = MethodSpec(
    "gradient_normalised",
    GradientNormalisedParams,
    "workers.training.methods.plain:CrossEntropy",
    TASKS,
    "Raina et al. 2024, The Illusion of Robustness",
)
HIGH_TEMPERATURE = MethodSpec(
    "high_temperature",
    HighTemperatureParams,
    "workers.training.methods.plain:CrossEntropy",
    TASKS,
    "Raina et al. 2024, The Illusion of Robustness",
)
