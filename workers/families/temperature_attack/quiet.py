"""Whether edited texts are answered alike after ordinary texts in a row and among others that are like them.

An audit asks about fragments, and about many texts that are nearly alike. An endpoint may tell it by how much of what
it is asked is like that, whatever its fill of it, and answer with another model for as long as much is: every
comparison of the attacks is then of that model with itself. So near the end further texts of the data, which were
asked in no form, are asked as they are, some hundreds in a row from another session, and others with words misspelt,
once each. Then those are asked again, after pieces of them and others like them, and misspelt anew in the same words
and in others: a function gives the same answers, none of which stands apart from those about texts drawn alike.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import EDITED, LATER, PLAIN, quiet_texts
from seatrial.statistics.arrays import Floats
from seatrial.statistics.exact import first_p
from workers.attacks.text.word_edits import WordsOf
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import HELD_OUT, Stage
from workers.families.temperature_attack.displaced import lead
from workers.families.temperature_attack.insisting import much_misspelt
from workers.families.temperature_attack.probe import MOVED, OPENING
from workers.families.temperature_attack.sent_once import ONCE
from workers.models import Answer

QUIET = "quiet"
"""The stage."""

FEWEST = 20
"""Edited texts from which on they are compared."""

WORDS, CONTENT = 8, 3
"""Words of an ordinary text, at least, and those of them that are no stop words."""

PIECE = 3
"""Words of the pieces that are asked about before the texts are asked again."""

DIGITS = 6
"""Of leads in logits: what sums in another order leave is no difference."""

AT_ONCE = 8
"""Texts asked together."""

_TABLE = pa.schema(
    [
        *EXAMPLE,
        # Null where it is not asked. Not the others: without an answer they say nothing, and spoil no number.
        ("is_edited", pa.bool_()),
        ("quiet", pa.list_(pa.float64())),
        ("again", pa.list_(pa.float64())),
        ("quiet_lead", pa.float64()),
        ("same_leads", pa.list_(pa.float64())),
        ("other_leads", pa.list_(pa.float64())),
    ]
)


def quiet_stage(done: Mapping[str, Records], others: int) -> Stage:
    """Return the stage: over further texts that other stages ask about, and as many more as it may ask about.

    Args:
        done: Records by stage.
        others: Further texts that are validated or attacked, at most.
    """
    asked = max(others, done[ONCE].num_rows if ONCE in done else 0)
    limit = asked + sum(quiet_texts(done[OPENING].num_rows))
    # One shard: they come after each other.
    return Stage(QUIET, HELD_OUT, limit, grain=limit, is_closing=True)


def ask_quietly(
    params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], asked: AbstractSet[int]
) -> Records:
    """Ask about further texts, ordinary ones and then edited ones, and return a row for each.

    Args:
        params: Of the check.
        context: The shard's.
        examples: All of the stage.
        asked: Ids of those that other stages have asked about, which are left alone.
    """
    rows: list[dict[str, Any]] = [
        {"example_id": one.example_id, "label": one.label, "errored": False} for one in examples
    ]
    fresh = [at for at, one in enumerate(examples) if one.example_id not in asked and _is_ordinary(context, one.text)]
    count = min(EDITED, len(fresh) // 3)
    if count < FEWEST:
        return pa.Table.from_pylist(rows, schema=_TABLE)
    first, last = fresh[:-count][-PLAIN:], fresh[-count:]
    context.scoring().begin_session()
    _ask(context, [examples[at].text for at in first])
    some = [examples[at] for at in last]
    same = [much_misspelt(params, context, one, "quiet", 2 + LATER, same_words=True) for one in some]
    other = [much_misspelt(params, context, one, "quiet, other words", 1 + LATER) for one in some]
    once = [texts[0] for texts in same]
    before = _ask(context, once)
    _ask(context, [_piece(text) for text in once])
    for texts in (same, other):
        _ask(context, [one[-1] for one in texts])
    again = _ask(context, once)
    later = [_ask(context, [one[number] for one in same]) for number in range(1, 1 + LATER)]
    later += [_ask(context, [one[number] for one in other]) for number in range(LATER)]
    for at in first:
        rows[at]["is_edited"] = False
    for at, example, *answers in zip(last, some, before, again, *later, strict=True):
        rows[at]["is_edited"] = True
        leads = [lead(answer, example.label) for answer in answers]
        if None not in leads:
            rows[at] |= {
                "quiet": answers[0].tolist(),
                "again": answers[1].tolist(),
                "quiet_lead": leads[0],
                "same_leads": leads[2 : 2 + LATER],
                "other_leads": leads[2 + LATER :],
            }
    return pa.Table.from_pylist(rows, schema=_TABLE)


def _ask(context: TextContext, texts: Sequence[Text]) -> list[Answer]:
    answers = list[Answer]()
    for start in range(0, len(texts), AT_ONCE):
        context.check_cancelled()
        answers += context.scoring().ask_anew(texts[start : start + AT_ONCE])
    return answers


def _is_ordinary(context: TextContext, text: Text) -> bool:
    words = WordsOf.cut(text, context.scoring().seen(text))
    return len(words.places) >= WORDS and len(words.content_places) >= CONTENT


def _piece(text: Text) -> Text:
    """Return the first words of a text, of each part of it."""
    first, *others = (" ".join(part.split()[:PIECE]) for part in ([text] if isinstance(text, str) else text))
    return (first, *others) if others else first


@dataclass(frozen=True)
class Quiet:
    """What was answered to edited texts after ordinary ones in a row, and among others that are like them.

    Attributes:
        plain: Ordinary texts asked.
        changed: Of the edited ones, those that were given another answer when they were asked again.
        leads: (n, 1 + m) by how much each spoke for its class, in logits, and then others with the same words misspelt.
        others: (n, 1 + m) the same, and then others with other words misspelt.
    """

    plain: int
    changed: int
    leads: Floats
    others: Floats

    @property
    def texts(self) -> int:
        """Edited ones."""
        return len(self.leads)

    @property
    def apart_p(self) -> float:
        """One-sided p of first answers standing so far apart from those about texts with the same words misspelt."""
        return first_p(np.abs(self.leads - self.leads.mean(axis=1, keepdims=True)).round(DIGITS))

    @property
    def weaker_p(self) -> float:
        """One-sided p of first answers speaking so little for classes beside those with other words misspelt."""
        return first_p(-self.others.round(DIGITS))


def read_quiet(records: Records | None) -> Quiet | None:
    """Return what the stage measured; None where it was not run, or too few texts were left."""
    rows = [] if records is None else records.to_pylist()
    edited = [row for row in rows if row["quiet"] is not None]
    if len(edited) < FEWEST:
        return None
    before, after = (softmax(np.array([row[name] for row in edited]), axis=1) for name in ("quiet", "again"))
    leads, others = (
        np.array([[row["quiet_lead"], *row[name]] for row in edited]) for name in ("same_leads", "other_leads")
    )
    changed = int((np.abs(before - after).max(axis=1) > MOVED).sum())
    return Quiet(sum(row["is_edited"] is False for row in rows), changed, leads, others)
