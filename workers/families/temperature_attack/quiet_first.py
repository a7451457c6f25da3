"""What is asked before all else: ordinary texts in a row, and edited ones among others, each once.

Whoever takes a stranger for a user until it has seen what only an audit asks, or for a user for ever behind a row of
ordinary questions, is shown as what it is to users: to the attacks if it sleeps for ever, and by what it answers to
these texts later if it wakes (:mod:`workers.families.temperature_attack.quiet`).
"""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import torch

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import (
    EDITED,
    FEWEST_EDITED,
    FIRST_PLAIN,
    PLAIN,
    SENT_AMID,
    first_texts,
    in_a_row,
)
from seatrial.families.temperature_attack.sent import COVERS, SENT_LATER, SENT_ONCE, UNMET, transferred
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import HELD_OUT, Stage
from workers.families.temperature_attack.displaced import logits_of
from workers.families.temperature_attack.ordinary import (
    ask_among,
    ask_in_turn,
    is_ordinary,
    misspelt_alike,
    parts_of,
    put_together,
    recorded,
    text_of,
)
from workers.families.temperature_attack.word_surrogate import weigh_words

FIRST = "quiet_first"
"""The stage."""

MARGIN = 8
"""Further texts behind those that other stages draw which are left alone at first: a draw of another length may hold
some of them."""

FIRST_SHARE = 6
"""Of so many further texts that no other stage asks about, one is edited at first: half as often as in the last."""

_FIRST = pa.schema(
    [
        *EXAMPLE,
        # Null where it is not asked.
        ("is_edited", pa.bool_()),
        ("ordinary", pa.int64()),
        ("answer", pa.list_(pa.float64())),
        # The text, of those whose thirds are ordinary ones for later, and of those that are sent edited then.
        ("cover", pa.list_(pa.string())),
        ("unmet", pa.list_(pa.string())),
        # Ordinary texts, one in a row of this table: of the first ones, what was answered; of others, for later.
        ("row_parts", pa.list_(pa.string())),
        ("row_logits", pa.list_(pa.float64())),
        ("spare", pa.list_(pa.string())),
    ]
)


def first_stage(others: int) -> Stage:
    """Return the stage before all others: over all further texts that this one and the last may ask about.

    Args:
        others: Further texts that are validated or attacked, at most.
    """
    plain = FIRST_PLAIN + COVERS * SENT_LATER
    limit = _left_alone(others) + plain + EDITED + UNMET + PLAIN + SENT_AMID + EDITED
    return Stage(FIRST, HELD_OUT, limit, grain=limit, is_whole=True)


def _left_alone(others: int) -> int:
    return max(others, SENT_ONCE) + MARGIN


def ask_first(
    params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], others: int
) -> Records:
    """Ask about further texts before all else, ordinary ones and then edited ones, and return a row for each.

    What is edited behind the attacks and last stays unasked: where the data hold too few besides, ordinary texts are
    put together from parts of two of those, and each part is used once. By the answers to the first row it is known
    what words speak for: texts are edited by that.

    Args:
        params: Of the check.
        context: The shard's.
        examples: All of the stage.
        others: Further texts that are validated or attacked, at most.
    """
    rows = rows_of(examples)
    far = left_over(context, examples, others)
    most, count = first_texts(context.samples)
    early = transferred(context.samples)
    most += COVERS * early
    count = min(count, len(far) // FIRST_SHARE)
    if count < FEWEST_EDITED:
        return pa.Table.from_pylist(rows, schema=_FIRST)
    far, last = far[:-count], far[-count:]
    kept, unmet = far[: -UNMET * count // EDITED], far[-UNMET * count // EDITED :]
    apart = min(SENT_AMID + EDITED, len(kept) // 2)
    # Short ones too, or lengths would tell these from what users ask.
    left = sorted({*range(_left_alone(others), len(examples))}.difference(kept[:apart], unmet, last))
    spare, unasked = left[:most], [*kept[:apart], *left[most:]]
    rng = random.Random(context.salted_seed("quiet, put together", 0))  # noqa: S311 - not for secrets
    made = put_together([examples[at] for at in unasked], rng)[: most - len(spare)]
    # Texts as they are come first: of few further ones these are worth most before the first edited one.
    natural = [examples[at].text for at in rng.sample(spare, len(spare))]
    plain = natural + made
    row = plain[: in_a_row(len(plain), len(natural))]
    given = ask_in_turn(context, row)
    weights = weigh_words({one.label for one in examples}, row, given)
    for of, text, answer in zip(rows, row, given, strict=False):
        of |= {"row_parts": parts_of(text), "row_logits": logits_of(answer)}
    # The others stand between audited texts, which are sent edited alike before anything else is asked.
    ours = (len(plain) - len(row)) * count // (count + early)
    covers, later = plain[len(row) :][:ours], plain[len(row) :][ours:]
    for of, text in zip(rows, later, strict=False):
        of["spare"] = parts_of(text)
    some = [examples[at] for at in last]
    edited = [misspelt_alike(params, context, one, weights.get(one.label))[0][0] for one in some]
    answers = ask_among(context, covers, edited)
    for at in spare:
        rows[at]["is_edited"] = False
    for at in max(spare, unasked, key=len):
        rows[at]["cover"] = parts_of(examples[at].text)
    for at in unmet:
        rows[at]["unmet"] = parts_of(examples[at].text)
    for at, answer in zip(last, answers, strict=True):
        rows[at] |= {"is_edited": True, "ordinary": len(row) + len(covers), "answer": logits_of(answer)}
    return pa.Table.from_pylist(rows, schema=_FIRST)


def ordinary_weights(context: TextContext, labels: Collection[int]) -> Mapping[int, Mapping[str, float]]:
    """Return by how much words in lower case speak for some classes, by the answers to the first ordinary texts.

    Args:
        context: The shard's.
        labels: Those classes.
    """
    # The rows of an audit that began with an older version have none.
    rows = [row for row in recorded(context, FIRST) or [] if row.get("row_logits")]
    answers = [torch.tensor(row["row_logits"], dtype=torch.float64) for row in rows]
    return weigh_words(labels, [text_of(row["row_parts"]) for row in rows], answers)


def spare_covers(context: TextContext) -> list[Text]:
    """Return ordinary texts that were put aside for edited ones of the next stage."""
    return [text_of(row["spare"]) for row in recorded(context, FIRST) or [] if row.get("spare")]


def rows_of(examples: Sequence[TextExample]) -> list[dict[str, Any]]:
    """Return a row for each example, of which nothing is known."""
    return [{"example_id": one.example_id, "label": one.label, "errored": False} for one in examples]


def asked_by(context: TextContext, stage: str) -> dict[int, dict[str, Any]]:
    """Return the rows of what a stage asks about, or one behind it, by example; none where it was not run."""
    return {
        row["example_id"]: row
        for row in recorded(context, stage) or []
        if row.get("is_edited") is not None or row.get("unmet") is not None
    }


def left_over(context: TextContext, examples: Sequence[TextExample], others: int) -> list[int]:
    """Return the places of ordinary texts that neither validation nor attacks on further texts are about.

    Args:
        context: The shard's.
        examples: All further texts of a stage.
        others: Those, at most.
    """
    return [at for at in range(_left_alone(others), len(examples)) if is_ordinary(context, examples[at].text)]
