"""Cheap recipes before dear ones: what a recipe of the second phase need not attack, and how far it goes.

Recipes are nested, since a text is robust if it withstands them all. What an earlier recipe has broken in an arm is not
attacked again there: its row holds what broke it, and counts as wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seatrial.families.temperature_attack.params import AS_SERVED, TemperatureAttackParams
from seatrial.families.temperature_attack.records import UNCOUNTED, stays_right
from seatrial.statistics.arrays import Mask
from workers.attacks.text.attacking import Outcome
from workers.data import Text
from workers.families.contexts import Records, RunContext, TextExample

Fallen: TypeAlias = Mapping[tuple[str, int], Outcome]
"""By arm and example: what stands in its row in place of another attack."""


def reach_of(params: TemperatureAttackParams, recipe: str, done: Mapping[str, Records]) -> int | None:
    """Return how many texts from the first one on a recipe of the second phase looks at; None: all.

    The sample is in random order with every class spread evenly over it, so that the survivors among its first texts
    are a random part of all survivors.

    Args:
        params: Of the check.
        recipe: Which.
        done: Records of the stages that are over.
    """
    first = done.get(f"attack_{params.recipes[0]}")
    if params.survivors is None or recipe not in params.second_phase or first is None:
        return None
    standing = _standing(first, AS_SERVED).nonzero()[0]
    return int(standing[params.survivors - 1]) + 1 if len(standing) >= params.survivors else first.num_rows


def fallen_before(
    params: TemperatureAttackParams, recipe: str, context: RunContext, examples: Sequence[TextExample]
) -> Fallen:
    """Return what earlier recipes have broken, or could not attack, of a shard's examples.

    Args:
        params: Of the check.
        recipe: That is to be run.
        context: Of the shard.
        examples: The shard's.
    """
    if recipe not in params.second_phase:
        return {}
    earlier = [one for one in params.recipes[: params.recipes.index(recipe)] if one != UNCOUNTED]
    ours, found = pa.array([example.example_id for example in examples]), dict[tuple[str, int], Outcome]()
    for name in earlier:
        table = context.records(f"attack_{name}")
        table = table.filter(pc.is_in(table["example_id"], ours))
        for arm in [column.removesuffix(".status") for column in table.column_names if column.endswith(".status")]:
            for row in table.filter(pa.array(~_standing(table, arm))).select(_texts(arm)).to_pylist():
                example = row["example_id"]
                found.setdefault((arm, example), Outcome(example, "skipped", _text(row, arm), 0, 0.0))
    return found


def _standing(table: Records, arm: str) -> Mask:
    """Return (n,) who was right and stayed so; what errored has no answer under attack, and is not attacked again."""
    names = ("prediction", f"{arm}.prediction", "label")
    return stays_right(*(table[name].fill_null(-1).to_numpy() for name in names))


def _texts(arm: str) -> list[str]:
    return ["example_id", *(f"{prefix}{name}" for prefix in ("", f"{arm}.") for name in ("text", "second_text"))]


def _text(row: Mapping[str, Any], arm: str) -> Text:
    """Return what broke a text in an arm; the text itself where it errored."""
    prefix = "" if row[f"{arm}.text"] is None else f"{arm}."
    first, second = row[f"{prefix}text"], row[f"{prefix}second_text"]
    return str(first) if second is None else (str(first), str(second))
