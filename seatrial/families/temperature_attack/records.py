"""What an example contributes to the numbers of ``temperature_attack``, from columns of its records.

The family's estimates and the gates' resampling both call these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.family import Formula, formula
from seatrial.families.shared.per_example import NoMeanError, Records, Values, combine, values_of
from seatrial.statistics.arrays import Floats

UNCOUNTED = "input_reduction"
"""A recipe that keeps the prediction by design: accuracy under it says nothing about what an attacker can break."""

CANDIDATES = 1.5
"""Candidates a word below which a recipe is inert: TextFooler with substitutes has 1.4 and leaves .73 where DeepWordBug
leaves .10."""


def is_inert(words: int, candidates: int) -> bool:
    """Return whether a recipe could hardly write anything, so that what withstands it shows nothing.

    Args:
        words: Words looked at, of all texts attacked.
        candidates: Texts that the recipe's constraints allow, one of these words changed.

    >>> is_inert(20, 29), is_inert(20, 30)
    (True, False)
    """
    return candidates < CANDIDATES * words


def stays_right(before: NDArray[Any], after: NDArray[Any], label: NDArray[Any]) -> NDArray[np.bool_]:
    """Return (n,) who is right before an attack and after it, by the unmodified model's predictions (n,)."""
    kept: NDArray[np.bool_] = (before == label) & (after == label)
    return kept


def _standing(recipe: str) -> Formula:
    return formula(f"attack_{recipe}", "prediction", "{arm}.prediction", "label", of=stays_right)


def standing(records: Records) -> Values | None:
    """Return who stays right under a recipe against the metric's arm; None where the recipe was inert."""
    recipe = records.qualifiers["recipe"]
    if _has_two_phases(records) and recipe != records.params["recipes"][0]:
        return None
    return None if _was_inert(records, recipe) else records.values(_standing(recipe))


def standing_under_all(records: Records) -> Values | None:
    """Return who stays right under every recipe, of the examples that errored under none that could attack.

    An inert recipe is no evidence of robustness: no example counts for having withstood it, and without another recipe
    there is no number. What it flips all the same is wrong.

    Raises:
        NoMeanError: There were two phases, and the number is a product of two shares.
    """
    if _has_two_phases(records):
        raise NoMeanError
    recipes = [recipe for recipe in records.params.get("recipes", ()) if recipe != UNCOUNTED]
    inert = [recipe for recipe in recipes if _was_inert(records, recipe)]
    able = [records.values(_standing(recipe)) for recipe in recipes if recipe not in inert]
    kept = combine(able, lambda columns: np.min(columns, axis=0))
    for recipe in inert if kept is not None else ():
        kept = _without(kept, records.values(_standing(recipe)))
    return kept


def _has_two_phases(records: Records) -> bool:
    return records.params.get("survivors") is not None


def _without(kept: Values | None, further: Values | None) -> Values | None:
    """Return values with those that a further recipe flipped as 0."""
    if kept is None or further is None:
        return None
    flipped = further.example_ids[further.values == 0]
    values: Floats = np.where(np.isin(kept.example_ids, flipped), 0.0, kept.values)
    return Values(kept.example_ids, values)


def _was_inert(records: Records, recipe: str) -> bool:
    columns = records.columns(f"attack_{recipe}", ("words", "candidates"), where="candidates")
    # Records from before it was counted say nothing of it.
    return columns is not None and is_inert(int(columns["words"].sum()), int(columns["candidates"].sum()))


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
