"""What the records of ``calibration`` hold, and what an example contributes to its means."""

from typing import Any

import numpy as np

from seatrial.contracts.family import Formula, formula

STAGE = "predictions"

ATTACKED = "attacked"


def _of_arm(values: Any, is_of_arm: Any) -> Any:
    return np.where(is_of_arm, values, np.nan)


def mean_over(arm: str, column: str) -> Formula:
    """Return the formula of a column over the examples of an arm."""
    return formula(STAGE, column, f"is_{arm}", of=_of_arm)


def accuracy_over(arm: str) -> Formula:
    """Return the formula of the accuracy over the examples of an arm."""
    return formula(STAGE, "prediction", "label", f"is_{arm}", of=lambda found, label, own: _of_arm(found == label, own))


SIGNED_ERROR = formula(
    STAGE,
    "prediction",
    "label",
    "confidence",
    "is_clean",
    of=lambda found, label, sure, own: _of_arm((found == label) - sure, own),
)
