"""Texts that withstood the search by labels, asked again with edits that leave alone what they say.

Some are as small as the recipes' and are counted among them. Others write many words otherwise in one way, which is
more than the recipes do: they tell of a model that turns round at one of these ways, and change no number.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.statistics.arrays import Mask
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.meaning_free import meaning_free_edits
from workers.attacks.text.watched_texts import changed_share
from workers.data import Text
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import decided
from workers.families.temperature_attack.marking import mark_words
from workers.models import Answer

ASKED, KIND = "edits_asked", "edit_kind"
"""Columns: how many edits a text was asked with, and the kind that changed its decision, null where none did."""

MARKED, TURNING = "marks_asked", "marks_turning"
"""Columns: the ways in which many of a text's words were written otherwise, and those that changed its decision.
Records from before they were asked have none."""


@dataclass(frozen=True)
class Edited:
    """What the edits did to one text.

    Attributes:
        asked: Questions; 0 where the search by labels had flipped the text, or it was wrong as it is.
        kind: Of the first edit that changed the decision; None where none did.
        marks: Ways in which many words were written otherwise.
        turning: Those of them that changed the decision, or had no answer: who gives none has withstood nothing.
    """

    asked: int = 0
    kind: str | None = None
    marks: tuple[str, ...] = ()
    turning: tuple[str, ...] = ()


def edit_survivors(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    clean: Sequence[Answer],
    outcomes: Sequence[Outcome],
    scored: Sequence[Outcome],
) -> tuple[list[Outcome], list[Edited]]:
    """Return how the search by labels ended with these edits counted in, and what they did.

    Args:
        params: Of the check.
        context: Of the shard.
        examples: The shard's.
        clean: What the model answers to each text as it is.
        outcomes: Of the search by labels.
        scored: Of the attack on the scores as served: the words it changed are those that speak for a decision.
    """
    ended, found = list(outcomes), [Edited() for _ in examples]
    for row, example, outcome, left in withstanding(params, context, examples, clean, outcomes):
        # The same for every recipe: what has been asked once is known.
        seed, service = context.salted_seed("meaning-free", example.example_id), context.scoring()
        edits = meaning_free_edits(example.text, seed, seen=service.seen(example.text))[:left]
        if not edits:
            continue
        decisions = [decided(given) for given in service.scores([text for _, text in edits])]
        flips = [number for number, one in enumerate(decisions) if one not in (None, example.label)]
        marking = mark_words(context, example, seed, scored[row].text, left=None if left is None else left - len(edits))
        kind = edits[flips[0]][0] if flips else None
        found[row] = Edited(len(edits), kind, marking.ways, marking.turning)
        ended[row] = counted_in(outcome, example, edits, decisions)
        ended[row] = replace(ended[row], queries=ended[row].queries + marking.asked)
    return ended, found


def withstanding(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    clean: Sequence[Answer],
    outcomes: Sequence[Outcome],
) -> Iterator[tuple[int, TextExample, Outcome, int | None]]:
    """Yield the row, text and end of each search by labels that failed, and how many questions are left, if limited.

    Args:
        params: Of the check.
        context: Of the shard.
        examples: The shard's.
        clean: What the model answers to each text as it is.
        outcomes: Of the search.
    """
    for row, (example, answer, outcome) in enumerate(zip(examples, clean, outcomes, strict=True)):
        if outcome.status == "failed" and decided(answer) == example.label:
            context.check_cancelled()
            yield row, example, outcome, params.query_budget and max(0, params.query_budget - outcome.queries)


def counted_in(
    outcome: Outcome, example: TextExample, edits: Sequence[tuple[str, Text]], decisions: Sequence[int | None]
) -> Outcome:
    """Return how a search that failed ended with further questions.

    Args:
        outcome: Its own end.
        example: The text.
        edits: What was asked about, each with what was done to the text.
        decisions: About each; None where there was no answer.
    """
    ended = replace(outcome, queries=outcome.queries + len(edits))
    both = list(zip(edits, decisions, strict=True))
    for (_, text), one in both:
        if one not in (None, example.label):
            share = changed_share(_words(example.text), _words(text))
            return replace(ended, status="succeeded", text=text, perturbed_share=share)
    silent = [kind for (kind, _), one in both if one is None]
    # As in every attack: who does not answer has withstood nothing.
    return replace(ended, status="errored", error=f"no scores of the text with {silent[0]}") if silent else ended


def with_edits(records: Records, edited: Sequence[Edited]) -> Records:
    """Return a recipe's table with what the edits did to its texts."""
    records = records.append_column(ASKED, pa.array([one.asked for one in edited], pa.int64()))
    records = records.append_column(KIND, pa.array([one.kind for one in edited], pa.string()))
    for name, ways in ((MARKED, [one.marks for one in edited]), (TURNING, [one.turning for one in edited])):
        records = records.append_column(name, pa.array(list(map(list, ways)), pa.list_(pa.string())))
    return records


@dataclass(frozen=True)
class EditSample:
    """Texts that had withstood the search by labels, under one recipe.

    Attributes:
        example_ids: (n,).
        kinds: (n,) of the edits that changed the decision; None where none did.
        marks: Of each way of writing words otherwise how many were asked so.
        turned: Of how many that changed the decision.
        marked: How many were asked in any.
        turning: Of how many any changed the decision.
        texts: That the recipe attacked, those included that did not withstand it.
    """

    example_ids: list[int]
    kinds: list[str | None]
    marks: Counter[str] = field(default_factory=Counter)
    turned: Counter[str] = field(default_factory=Counter)
    marked: int = 0
    turning: int = 0
    texts: int = 0

    @property
    def flipped(self) -> Mask:
        """(n,) whether any edit did."""
        return np.array([kind is not None for kind in self.kinds], dtype=bool)


def read_edits(records: Records) -> EditSample | None:
    """Return what the edits did; None where the records are from before there were any."""
    if ASKED not in records.column_names:
        return None
    rows = [
        (number, kind)
        for number, kind, asked, errored in zip(
            *(records[name].to_pylist() for name in ("example_id", KIND, ASKED, "errored")), strict=True
        )
        if asked and not errored
    ]
    ids, kinds = [number for number, _ in rows], [kind for _, kind in rows]
    if MARKED not in records.column_names:
        return EditSample(ids, kinds)
    answered = [
        (ways, turning)
        for errored, ways, turning in zip(
            *(records[name].to_pylist() for name in ("errored", MARKED, TURNING)), strict=True
        )
        if not errored
    ]
    return EditSample(
        ids,
        kinds,
        Counter(way for ways, _ in answered for way in ways),
        Counter(way for _, turning in answered for way in turning),
        sum(bool(ways) for ways, _ in answered),
        sum(bool(turning) for _, turning in answered),
        len(answered),
    )


def _words(text: Text) -> list[str]:
    return (text if isinstance(text, str) else " ".join(text)).split()
