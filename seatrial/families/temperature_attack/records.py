"""What an example contributes to the numbers of ``temperature_attack``, from columns of its records.

The family's estimates and the gates' resampling both call these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.family import Formula, formula
from seatrial.families.shared.per_example import Records, Values, combine, values_of

UNCOUNTED = "input_reduction"
"""A recipe that keeps the prediction by design: accuracy under it says nothing about what an attacker can break."""


def stays_right(before: NDArray[Any], after: NDArray[Any], label: NDArray[Any]) -> NDArray[np.bool_]:
    """Return (n,) who is right before an attack and after it, by the unmodified model's predictions (n,)."""
    kept: NDArray[np.bool_] = (before == label) & (after == label)
    return kept


def _standing(recipe: str) -> Formula:
    return formula(f"attack_{recipe}", "prediction", "{arm}.prediction", "label", of=stays_right)


STANDING = _standing("{recipe}")
"""Who stays right under a recipe against the metric's arm."""


def standing_under_all(records: Records) -> Values | None:
    """Return who stays right under every recipe, of the examples that errored under none."""
    recipes = [recipe for recipe in records.params.get("recipes", ()) if recipe != UNCOUNTED]
    return combine([records.values(_standing(recipe)) for recipe in recipes], lambda columns: np.min(columns, axis=0))


def answered(records: Records) -> Values | None:
    """Return whether a text's class is right, of every text any recipe had an answer for."""
    outcomes: dict[int, bool] = {}
    for recipe in records.params.get("recipes", ()):
        columns = records.columns(f"attack_{recipe}", ("prediction", "label"), where="prediction")
        if columns is None:
            return None
        right = columns["prediction"] == columns["label"]
        outcomes = dict(zip(columns["example_id"].tolist(), right.tolist(), strict=True)) | outcomes
    return values_of(np.array(list(outcomes)), np.array(list(outcomes.values())))
