"""Whether edited texts are answered alike after ordinary texts in a row and among others that are like them.

An audit asks about fragments, and about many texts that are nearly alike. An endpoint may tell it by how much of what
it is asked is like that, whatever its fill of it, and answer with another model for as long as much is: every
comparison of the attacks is then of that model with itself. So near the end further texts of the data, which were
asked in no form, are asked as they are, some hundreds in a row from another session, and others with words misspelt,
once each. Then those are asked again, after pieces of them and others like them, and misspelt anew in the same words
and in others: a function gives the same answers, none of which stands apart from those about texts drawn alike.

Texts that were edited before all else (:mod:`workers.families.temperature_attack.quiet_first`) are asked so as soon as
the attacks have ended, before anything ordinary comes in a row. And both are compared with others that are edited once
there: who goes on as it began, with whatever is like a text that it met as a user's, moves otherwise on these.
"""

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.special import softmax

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import FEWEST_EDITED, LATER, amid_texts, quiet_texts
from seatrial.statistics.arrays import Floats
from seatrial.statistics.exact import first_p
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import HELD_OUT, Stage
from workers.families.temperature_attack.displaced import lead
from workers.families.temperature_attack.ordinary import (
    ask_in_turn,
    cut_up,
    ids_of,
    is_ordinary,
    misspelt_alike,
    parts_of,
    put_together,
    text_of,
)
from workers.families.temperature_attack.probe import MOVED, OPENING
from workers.families.temperature_attack.quiet_first import (
    FIRST,
    ask_first,
    asked_by,
    first_stage,
    left_over,
    ordinary_weights,
    rows_of,
)
from workers.families.temperature_attack.sent_once import ONCE
from workers.families.temperature_attack.shares import DIGITS, differing_p, share_taken, taken_of
from workers.models import Answer

AMID, QUIET = "quiet_amid", "quiet"
"""The stages: behind the attacks, and the last."""

QUIETLY = (FIRST, AMID, QUIET)
"""All three."""

PIECE = 3
"""Words of the pieces that are asked about before the texts are asked again."""

NOTHING, WHOLE, PIECES = "nothing", "the text", "pieces"
"""What of a text is asked before it is edited behind the attacks."""

KINDS = (NOTHING, PIECES, WHOLE, PIECES)
"""Of those texts, in shares."""

_TABLE = pa.schema(
    [
        *EXAMPLE,
        # Null where it is not asked. Not the others: without an answer they say nothing, and spoil no number.
        ("is_edited", pa.bool_()),
        ("ordinary", pa.int64()),
        ("quiet", pa.list_(pa.float64())),
        ("again", pa.list_(pa.float64())),
        ("quiet_lead", pa.float64()),
        ("same_leads", pa.list_(pa.float64())),
        ("other_leads", pa.list_(pa.float64())),
        # Share of its lead as it is that misspelling takes, where it is sent once.
        ("taken", pa.float64()),
        # What of it was asked before, of texts that are edited behind the attacks.
        ("asked_before", pa.string()),
    ]
)


def quiet_stage(done: Mapping[str, Records], most_others: int, others: int) -> Stage:
    """Return the last stage: over further texts that other stages ask about, and as many more as it may ask about.

    Args:
        done: Records by stage.
        most_others: Further texts that are validated or attacked in an audit of any size, at most.
        others: In this one.
    """
    if FIRST in done:
        # The same draw, so that what was asked before is known in it.
        return replace(first_stage(most_others), name=QUIET, is_whole=False, is_closing=True)
    asked = max(others, done[ONCE].num_rows if ONCE in done else 0)
    limit = asked + sum(quiet_texts(done[OPENING].num_rows))
    # One shard: they come after each other.
    return Stage(QUIET, HELD_OUT, limit, grain=limit, is_closing=True)


def amid_stage(others: int) -> Stage:
    """Return the stage behind the attacks: over the texts of the one before all others.

    Args:
        others: Further texts that are validated or attacked, at most.
    """
    return replace(first_stage(others), name=AMID, is_whole=False, is_closing=True)


def ask_among_ordinary(
    params: TemperatureAttackParams,
    stage: str,
    context: TextContext,
    examples: Sequence[TextExample],
    others: int,
    asking: Sequence[str],
) -> Records:
    """Run one of the three stages, and return a row for each of its texts.

    Args:
        params: Of the check.
        stage: Which.
        context: The shard's.
        examples: All of the stage.
        others: Further texts that are validated or attacked, at most.
        asking: Stages that have asked about further texts by the last one.
    """
    if stage == FIRST:
        return ask_first(params, context, examples, others)
    probed = context.records(OPENING).num_rows
    if stage == AMID:
        return ask_amid(params, context, examples, others, amid_texts(probed))
    return ask_quietly(params, context, examples, ids_of(context, *asking), quiet_texts(probed))


def ask_amid(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    others: int,
    most: tuple[int, int],
) -> Records:
    """Edit further texts once behind the attacks, ask again about those of the beginning, and return a row for each.

    Args:
        params: Of the check.
        context: The shard's.
        examples: All of the stage.
        others: Further texts that are validated or attacked, at most.
        most: Texts that are edited once, and those of the beginning, at most.
    """
    rows, begun = rows_of(examples), asked_by(context, FIRST)
    fresh = [at for at in left_over(context, examples, others) if examples[at].example_id not in begun]
    first = [at for at, one in enumerate(examples) if begun.get(one.example_id, {}).get("answer")][: most[1]]
    # A quarter is left for the last stage. Half of them are behind pieces.
    count = min(most[0], 3 * len(fresh) // 4)
    amid = fresh[len(fresh) - count :] if first and count >= 2 * FEWEST_EDITED else []
    for at, cells in zip(amid, _sent(params, context, [examples[at] for at in amid]), strict=True):
        rows[at] |= cells
    given = [torch.tensor(begun[examples[at].example_id]["answer"]) for at in first]
    for at, cells in zip(first, _compared(params, context, [examples[at] for at in first], given), strict=True):
        rows[at] |= cells | {"ordinary": begun[examples[at].example_id]["ordinary"]}
    return pa.Table.from_pylist(rows, schema=_TABLE)


def ask_quietly(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    asked: AbstractSet[int],
    most: tuple[int, int],
) -> Records:
    """Ask about further texts, ordinary ones and then edited ones, and return a row for each.

    Args:
        params: Of the check.
        context: The shard's.
        examples: All of the stage.
        asked: Ids of those that other stages have asked about, which are left alone.
        most: Ordinary ones and edited ones, at most.
    """
    rows, begun = rows_of(examples), asked_by(context, FIRST) | asked_by(context, AMID)
    fresh = [
        at
        for at, one in enumerate(examples)
        if one.example_id not in asked and one.example_id not in begun and is_ordinary(context, one.text)
    ]
    met = [one for one in examples if begun.get(one.example_id, {}).get("is_edited") is False]
    # With those of the beginning there are enough ordinary ones.
    count = min(most[1], len(fresh) if met else len(fresh) // 3)
    if count < FEWEST_EDITED:
        return pa.Table.from_pylist(rows, schema=_TABLE)
    plain, last = fresh[:-count][-most[0] :], fresh[-count:]
    rng = random.Random(context.salted_seed("quiet, put together again", 0))  # noqa: S311 - not for secrets
    made = put_together(met, rng)[: most[0] - len(plain)]
    context.scoring().begin_session()
    ask_in_turn(context, [*made, *(examples[at].text for at in plain)])
    for at in plain:
        rows[at]["is_edited"] = False
    for at, cells in zip(last, _compared(params, context, [examples[at] for at in last]), strict=True):
        rows[at] |= cells | {"ordinary": len(made) + len(plain)}
    return pa.Table.from_pylist(rows, schema=_TABLE)


def _compared(
    params: TemperatureAttackParams,
    context: TextContext,
    some: Sequence[TextExample],
    before: Sequence[Answer] | None = None,
) -> list[dict[str, Any]]:
    """Ask about edited texts again, among others that are like them, and return the cells of each.

    Args:
        params: Of the check.
        context: The shard's.
        some: Texts.
        before: What was answered to each with words misspelt, which is asked here where it was not.
    """
    weights = ordinary_weights(context, {one.label for one in some})
    both = [misspelt_alike(params, context, one, weights.get(one.label)) for one in some]
    same, other = [one for one, _ in both], [one for _, one in both]
    once = [texts[0] for texts in same]
    if before is None:
        before = ask_in_turn(context, once)
    ask_in_turn(context, [_piece(text) for text in once])
    for texts in (same, other):
        ask_in_turn(context, [one[-1] for one in texts])
    again = ask_in_turn(context, once)
    later = [ask_in_turn(context, [one[number] for one in same]) for number in range(1, 1 + LATER)]
    later += [ask_in_turn(context, [one[number] for one in other]) for number in range(LATER)]
    clean = ask_in_turn(context, [one.text for one in some])
    found = []
    for example, *answers in zip(some, clean, before, again, *later, strict=True):
        cells: dict[str, Any] = {"is_edited": True}
        unedited, *leads = [lead(answer, example.label) for answer in answers]
        if unedited is not None and leads[0] is not None and None not in leads:
            cells |= {
                "quiet": answers[1].tolist(),
                "again": answers[2].tolist(),
                "quiet_lead": leads[0],
                "same_leads": leads[2 : 2 + LATER],
                "other_leads": leads[2 + LATER :],
                "taken": share_taken(leads[0], unedited),
            }
        found.append(cells)
    return found


def _sent(params: TemperatureAttackParams, context: TextContext, some: Sequence[TextExample]) -> list[dict[str, Any]]:
    """Send edited texts once, ask about them as they are, and return the cells of each.

    Of a quarter nothing was asked before, of a quarter they themselves, and of half of them pieces: who knows a text
    that was asked, and is another model to edits of it, shows. The first begin a session, as no search does.
    """
    kinds = [KINDS[number % len(KINDS)] for number in range(len(some))]
    # In no order that the data may have: edits take other shares of one class than of another.
    random.Random(context.salted_seed("quiet, asked before", 0)).shuffle(kinds)  # noqa: S311 - not for secrets
    weights = ordinary_weights(context, {one.label for one in some})
    edited = [misspelt_alike(params, context, one, weights.get(one.label))[0][0] for one in some]
    sent, clean = dict[int, Answer](), dict[int, Answer]()

    def ask(found: dict[int, Answer], asked: Sequence[Text], *of: str) -> None:
        places = [at for at, kind in enumerate(kinds) if kind in of]
        found |= dict(zip(places, ask_in_turn(context, [asked[at] for at in places]), strict=True))

    unedited = [one.text for one in some]
    context.scoring().begin_session()
    ask(sent, edited, NOTHING)
    context.scoring().begin_session()
    ask_in_turn(
        context, [part for one, kind in zip(some, kinds, strict=True) if kind == PIECES for part in cut_up(one.text)]
    )
    ask(clean, unedited, WHOLE)
    ask(sent, edited, WHOLE, PIECES)
    ask(clean, unedited, NOTHING, PIECES)
    cells = list[dict[str, Any]]()
    for at, one in enumerate(some):
        cells.append({"is_edited": True, "taken": taken_of(sent[at], clean[at], one.label), "asked_before": kinds[at]})
    return cells


def _piece(text: Text) -> Text:
    """Return the first words of a text, of each part of it."""
    return text_of([" ".join(part.split()[:PIECE]) for part in parts_of(text)])


@dataclass(frozen=True)
class Quiet:
    """What was answered to edited texts after ordinary ones in a row, and among others that are like them.

    Attributes:
        plain: Ordinary texts asked.
        changed: Of the edited ones, those that were given another answer when they were asked again.
        leads: (n, 1 + m) by how much each spoke for its class, in logits, and then others with the same words misspelt.
        others: (n, 1 + m) the same, and then others with other words misspelt.
        taken: (k,) share of its lead that misspelling took from each, where it has one.
        amid: (m,) the same of other texts that were edited once amid the audit.
    """

    plain: int
    changed: int
    leads: Floats
    others: Floats
    taken: Floats
    amid: Floats

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

    @property
    def amid_p(self) -> float:
        """Two-sided p of so other shares than of those texts."""
        return differing_p(self.taken, self.amid)


def read_quiet(records: Records | None, amid: Records | None) -> Quiet | None:
    """Return what was measured; None where it was not asked, or about too few texts.

    Args:
        records: Of a stage.
        amid: Of the stage that edits texts once behind the attacks; None in audits from before it.
    """
    rows = [] if records is None else records.to_pylist()
    edited = [row for row in rows if row["quiet"] is not None]
    if len(edited) < FEWEST_EDITED:
        return None
    before, after = (softmax(np.array([row[name] for row in edited]), axis=1) for name in ("quiet", "again"))
    leads, others = (
        np.array([[row["quiet_lead"], *row[name]] for row in edited]) for name in ("same_leads", "other_leads")
    )
    changed = int((np.abs(before - after).max(axis=1) > MOVED).sum())
    # Records from before the stage that comes first have no number of them.
    plain = edited[0].get("ordinary") or sum(row["is_edited"] is False for row in rows)
    taken = [row["taken"] for row in edited if row.get("taken") is not None]
    return Quiet(plain, changed, leads, others, np.array(taken), read_amid(amid)[NOTHING])


def read_amid(records: Records | None) -> dict[str, Floats]:
    """Return the shares of leads taken from texts that are edited behind the attacks, by what was asked before.

    Args:
        records: Of the stage; None in audits from before it.
    """
    rows = [] if records is None else records.to_pylist()
    return {
        kind: np.array([row["taken"] for row in rows if row["asked_before"] == kind and row["taken"] is not None])
        for kind in sorted(set(KINDS))
    }
