"""What an edit that is sent before its text is attacked makes of the search by labels.

Whoever holds off searches answers as its model does until one has begun. So each audited text is sent once before, with
wrong letters in the words that speak for its class when each is asked about alone: an attack as DeepWordBug may make
it, and counted where the search found none. Of 17 texts that withstand on log-odds it turns none.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from workers.attacks.text.attacking import Outcome
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.fragments import ANSWER, OPENING, QUESTIONS
from workers.families.temperature_attack.large_steps import is_counted
from workers.families.temperature_attack.meaning_free import counted_in, withstanding
from workers.families.temperature_attack.ordinary import recorded, text_of
from workers.families.temperature_attack.sent_once import PREPARED
from workers.families.temperature_attack.transferred import TRANSFERRED, WHERE
from workers.models import Answer

SENT_FIRST = "words misspelt before any search"


def with_openings(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    clean: Sequence[Answer],
    outcomes: Sequence[Outcome],
    answers: Sequence[Answer],
    recipe: str,
) -> tuple[list[Outcome], list[Answer]]:
    """Return how the search by labels ended with these edits counted in, and what was answered to its ends.

    What was answered then stands for an edit: by now it may be answered otherwise.

    Args:
        params: Of the check.
        context: Of the shard.
        examples: The shard's.
        clean: What the model answers to each text as it is.
        outcomes: Of the search by labels.
        answers: To what it ended with.
        recipe: Whose constraints the search keeps to; nothing is counted where they are others than DeepWordBug's.
    """
    ended, given = list(outcomes), list(answers)
    if not is_counted(params, recipe):
        return ended, given
    opened = _opened(context)
    for row, example, outcome, _ in withstanding(params, context, examples, clean, outcomes):
        for text, questions, logits in opened[example.example_id]:
            # An attack of its own, not what a search has left of its questions.
            if questions > (params.query_budget or math.inf):
                continue
            found = counted_in(outcome, example, [(SENT_FIRST, text)], [int(logits.argmax())])
            if found.status != outcome.status:
                ended[row], given[row] = replace(found, queries=outcome.queries), logits
                break
    return ended, given


def _opened(context: TextContext) -> dict[int, list[tuple[Text, int, Tensor]]]:
    """Return by example what was sent of it before its attack, the questions that each took, and what was answered."""
    found = defaultdict[int, list[tuple[Text, int, Tensor]]](list)
    sources = (
        (recorded(context, TRANSFERRED), "questions", [(f"{where}_parts", f"{where}_logits") for where in WHERE]),
        (recorded(context, PREPARED), QUESTIONS, [(OPENING, ANSWER)]),
    )
    for rows, questions, columns in sources:
        for row in rows or []:
            found[row["example_id"]] += [
                (text_of(row[parts]), row[questions], torch.tensor(row[logits]))
                for parts, logits in columns
                if row[logits] is not None
            ]
    return found
