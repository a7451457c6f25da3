"""Tables of the family's stages: the only place that names their columns, for writing.

Every table begins with ``example_id``, ``label`` (the class; -1 where there is no single one), ``errored`` and
``error``. An example that errored at any level of an attacker is errored in that attacker's table, so that levels are
compared on the same examples; of one that errored, its text stays and no number does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from seatrial.contracts.models import SINGLE_LABEL_TEXTS, TAGGING
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import LabelledText, Records
from workers.families.low_level_attack.answers import Answer, columns_of, decisions
from workers.families.low_level_attack.names import column

_INTS, _FLOATS, _STRINGS = pa.list_(pa.int64()), pa.list_(pa.float64()), pa.list_(pa.string())
_ALWAYS = [*EXAMPLE, ("error", pa.string())]
_TEXTS = [("text", pa.string()), ("second_text", pa.string()), ("tokens", _STRINGS)]
_ANSWER = [
    ("predictions", _INTS),
    ("confidences", _FLOATS),
    ("probabilities", _FLOATS),
    ("logits", _FLOATS),
    ("loss", pa.float64()),
    ("scores_digest", pa.int64()),
    ("mean_confidence", pa.float64()),
    ("correct", pa.int64()),
]
_CLEAN = [
    *_ALWAYS,
    ("task", pa.string()),
    *_TEXTS,
    ("truths", _INTS),
    *_ANSWER,
    ("decisions", pa.int64()),
    ("classes", pa.int64()),
    ("characters", pa.int64()),
]
_ATTACKED = [
    *_TEXTS,
    *_ANSWER,
    ("flipped", pa.int64()),
    ("characters_changed", pa.float64()),
    ("tokens_changed", pa.float64()),
]


def clean_records(task: str, examples: Sequence[LabelledText], answers: Sequence[Answer | str]) -> Records:
    """Return the table of stage ``clean``.

    Args:
        task: What the model does.
        examples: The shard's.
        answers: What the model says to each, or why there is no answer.

    Raises:
        ValueError: There is not one answer for each example.
    """
    rows = []
    for example, answer in zip(examples, answers, strict=True):
        row = begin(task, example) | {"task": task, "truths": list(example.truths)} | text_cells(task, example.text)
        row["characters"] = sum(map(len, parts_of(task, example.text)))
        if isinstance(answer, str):
            rows.append(row | {"errored": True, "error": answer})
            continue
        decided = decisions(answer.predictions, example.truths)
        counts = {"decisions": sum(decided), "correct": answer.correct(example.truths, decided)}
        counts["classes"] = answer.classes
        rows.append(row | {"errored": False} | columns_of(answer) | counts)
    return pa.Table.from_pylist(rows, schema=pa.schema(_CLEAN))


def attack_records(params: LowLevelAttackParams, rows: Sequence[Mapping[str, Any]]) -> Records:
    """Return the table of one attacker from its rows: cells of :func:`begin` and of each level."""
    columns = list(_ALWAYS)
    for level in params.levels:
        columns += [(column(name, level), kind) for name, kind in _ATTACKED]
        if params.draws > 1:
            columns += [(column(name, level, is_worst=True), kind) for name, kind in (("draw", pa.int64()), *_ATTACKED)]
    return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(columns))


def begin(task: str, example: LabelledText) -> dict[str, Any]:
    """Return the first cells of an example's row, whatever the stage."""
    label = example.truths[0] if task in SINGLE_LABEL_TEXTS else -1
    return {"example_id": example.example_id, "label": label}


def text_cells(task: str, text: Text) -> dict[str, Any]:
    """Return a text as cells: one column for a text, two for a pair, the tokens of a tagged sentence."""
    if task == TAGGING:
        return {"text": None, "second_text": None, "tokens": list(text)}
    first, second = (text, None) if isinstance(text, str) else (text[0], text[1])
    return {"text": first, "second_text": second, "tokens": None}


def parts_of(task: str, text: Text) -> tuple[str, ...]:
    """Return what people read: the text; premise and hypothesis; the tokens of a sentence joined by spaces."""
    if task == TAGGING:
        return (" ".join(text),)
    return (text,) if isinstance(text, str) else tuple(text)
