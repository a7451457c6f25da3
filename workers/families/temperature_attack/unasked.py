"""Whether texts withstand attacks because they were asked as they are before: an attack on some that never were.

An audit asks every text as it is before it attacks any. An endpoint that remembers whatever is spelt right can decide
about each edited text what it decided about the texts it has pieces of, whichever those are, and is robust to nobody
else. So the search by labels is run on further texts of the data, from each with a few wrong letters, and how such a
text is written nobody asks. And one that keeps what it decided first of whatever is alike is asked about each text with
many wrong letters before.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seatrial.families.temperature_attack.params import UNASKED, WAYS, TemperatureAttackParams
from seatrial.statistics.arrays import Mask
from workers.attacks.text.meaning_free import meaning_free_edits
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import decided
from workers.families.temperature_attack.marking import mark_words
from workers.families.temperature_attack.pieced import AT_ONCE, Search
from workers.families.temperature_attack.probe import OPENING, edit_path

MISSPELT = (2, 3, 4, 5)
"""Words of a text that are misspelt where the search begins; how many is drawn."""

BEFORE = (16, 8)
"""Those where it is asked before, in turn: these hold that one."""

FEWEST = 20
"""Texts from which on they are compared."""

_SCHEMA = pa.schema(
    [
        *EXAMPLE,
        # Not this: without an answer it says nothing, and spoils no number.
        ("is_asked", pa.bool_()),
        ("right", pa.bool_()),
        ("robust", pa.bool_()),
        ("marks_asked", pa.int64()),
        ("marks_turning", pa.int64()),
    ]
)


def validated_texts(params: TemperatureAttackParams) -> int:
    """Return how many of the held-out texts are asked as they are."""
    return params.validation_samples if params.is_fitted and params.validation_dataset is None else 0


def further_texts(params: TemperatureAttackParams, done: Mapping[str, Records] | None = None) -> int:
    """Return how many of the held-out texts are validated or attacked, at most.

    Args:
        params: Of the check.
        done: Records by stage, where they are known: no more are attacked than are probed.
    """
    return validated_texts(params) + (UNASKED if done is None else min(UNASKED, done[OPENING].num_rows))


def attack_unasked(
    context: TextContext, examples: Sequence[TextExample], first: int, asked: AbstractSet[int], search: Search
) -> Records:
    """Attack a shard's texts with labels alone, from a text with wrong letters, and return a row for each.

    Args:
        context: The shard's.
        examples: Its texts.
        first: Which of them is the first behind as many as the validation has; those before it are left alone.
        asked: Ids of examples of the validation, which a longer draw need not begin with: they are left alone too.
        search: By labels.
    """
    rows: list[dict[str, Any]] = [
        {"example_id": one.example_id, "label": one.label, "errored": False, "is_asked": False} for one in examples
    ]
    attacked = [at for at in range(first, len(examples)) if examples[at].example_id not in asked]
    begun, edited = [], list[list[Text]]()
    for example in (examples[at] for at in attacked):
        seed, seen = context.salted_seed("unasked", example.example_id), context.scoring().seen(example.text)
        path = edit_path(example.text, seed, max(BEFORE), seen)
        wrong = MISSPELT[seed % len(MISSPELT)]
        begun.append(TextExample(example.example_id, path[min(wrong, len(path) - 1)], example.label))
        edited.append([path[min(more, len(path) - 1)] for more in BEFORE])
    for start in range(0, len(begun), AT_ONCE):
        context.check_cancelled()
        for turn in zip(*edited[start : start + AT_ONCE], strict=True):
            context.scoring().ask_anew(turn)
        some = begun[start : start + AT_ONCE]
        # Before the search: who asks a hundred questions about a text may be known by it.
        turned = [_turns(context, one) for one in some]
        outcomes = search(some)
        answers = context.scoring().ask_anew([*(one.text for one in some), *(outcome.text for outcome in outcomes)])
        for number, (example, outcome) in enumerate(zip(some, outcomes, strict=True)):
            before, after = decided(answers[number]), decided(answers[len(some) + number])
            row = rows[attacked[start + number]]
            row["is_asked"] = True
            if outcome.status != "errored" and before is not None and after is not None:
                robust = before == after == example.label and not turned[number]
                row |= {"right": before == example.label, "robust": robust}
                if robust:
                    seed = context.salted_seed("unasked marks", example.example_id)
                    marking = mark_words(context, example, seed, outcome.text, ways=WAYS)
                    row |= {"marks_asked": marking.asked, "marks_turning": len(marking.turning)}
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _turns(context: TextContext, example: TextExample) -> bool:
    """Return whether an edit without a meaning turns a text's decision round, as it counts of texts asked before."""
    seed, service = context.salted_seed("unasked meaning-free", example.example_id), context.scoring()
    edits = meaning_free_edits(example.text, seed, seen=service.seen(example.text))
    return any(decided(one) not in (None, example.label) for one in service.ask_anew([text for _, text in edits]))


@dataclass(frozen=True)
class Unasked:
    """What became of texts that were never asked as they are.

    Attributes:
        right: (n,) whether one with wrong letters was decided rightly.
        robust: (n,) whether it was after the attack too.
        unanswered: Those without an answer.
        marked: Of those that withstood, how many were asked with words written otherwise.
        turning: Of how many that changed the decision.
    """

    right: Mask
    robust: Mask
    unanswered: int
    marked: int = 0
    turning: int = 0

    @property
    def answered(self) -> int:
        """Those with one."""
        return len(self.right)


def read_unasked(records: Records | None) -> Unasked | None:
    """Return what the stage measured; None where it was not run, or no text was left."""
    rows = [] if records is None else [row for row in records.to_pylist() if row["is_asked"]]
    if not rows:
        return None
    pairs = [(row["right"], row["robust"]) for row in rows if row["right"] is not None]
    right, robust = np.array(pairs, dtype=bool).reshape(-1, 2).T
    # Records from before they were asked have none.
    marked = [row["marks_turning"] for row in rows if row.get("marks_asked")]
    return Unasked(right, robust, len(rows) - len(pairs), len(marked), sum(map(bool, marked)))
