"""Texts that withstood the search by labels, asked with many words misspelt at once.

Every search goes on from what it asked before, by a few words, and one that knows it by that can hold it off and answer
all other questions as its model does. Nothing is near to these but the text itself, and they keep to what DeepWordBug
may edit: they are counted among its attacks. Of 19 texts that withstand on log-odds sixteen such questions turn none.
"""

from collections.abc import Sequence

from seatrial.families.temperature_attack.params import LARGE_STEPS, TemperatureAttackParams
from workers.attacks.text.attacking import Outcome
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.displaced import DISPLACED_WITH, decided
from workers.families.temperature_attack.insisting import much_misspelt
from workers.families.temperature_attack.meaning_free import counted_in, withstanding
from workers.models import Answer

MISSPELT_WORDS = "misspelt words"

BOTH_PARTS = ("published", "both")
"""Which parts of a pair are edited where both are."""


def is_counted(params: TemperatureAttackParams, recipe: str) -> bool:
    """Return whether words misspelt as DeepWordBug may are an attack under a recipe's constraints."""
    return recipe == DISPLACED_WITH and params.pair_parts in BOTH_PARTS


def step_far(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    clean: Sequence[Answer],
    outcomes: Sequence[Outcome],
    recipe: str,
) -> list[Outcome]:
    """Return how the search by labels ended with these questions counted in.

    Args:
        params: Of the check.
        context: Of the shard.
        examples: The shard's.
        clean: What the model answers to each text as it is.
        outcomes: Of the search by labels.
        recipe: Whose constraints the search keeps to; nothing is asked where they are others than DeepWordBug's.
    """
    ended = list(outcomes)
    if not is_counted(params, recipe):
        return ended
    for row, example, outcome, left in withstanding(params, context, examples, clean, outcomes):
        texts = much_misspelt(params, context, example, "at once", LARGE_STEPS)[:left]
        decisions = list(map(decided, context.scoring().scores(texts)))
        ended[row] = counted_in(outcome, example, [(MISSPELT_WORDS, text) for text in texts], decisions)
    return ended
