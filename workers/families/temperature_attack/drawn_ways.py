"""What becomes of texts that withstood all attacks in ways to write words that nobody can have foreseen.

A thousand ways are drawn from a grammar, and each is asked of four texts. Those that turn most are asked again of all
the others, so that what is counted was not what they were chosen by. What counts is a decision that turns round where
words are written in a way, and stands where the same words are letters drawn at random: who does not understand how
words are written decides as if they were not there. So nobody is blamed for what it cannot read, and each text lends
only words that it can do without; those are looked for first.

That would clear whoever turns round, or gives no answer, at unreadable words themselves. So some of a text's words are
left out, and made unreadable: a decision that stands without them hangs on none.

Who leaves out every word at which a certain sign stands takes it for nothing, and escapes all that, but an attacker
puts the sign where it counts. So some ways put signs to the very words that a decision hangs on. There what counts is a
decision that turns round, and stands with a typing error in each of the same words: who reads them misspelt, and not
with a sign behind, has been taught, or built for, the errors of recipes alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from seatrial.families.temperature_attack.params import (
    AS_SERVED,
    CONFIRMED_WAYS,
    DRAWN_WAYS,
    FEWEST_WITHSTANDING,
    LABEL_ONLY,
    TEXTS_A_WAY,
    TemperatureAttackParams,
)
from seatrial.families.temperature_attack.records import stays_right
from workers.attacks.text.perturbation_grammar import MARKS, draw_ways
from workers.attacks.text.unreadable import SHARES
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import Stage
from workers.families.temperature_attack.marking import changed_words
from workers.families.temperature_attack.probe import GRAIN
from workers.families.temperature_attack.way_questions import Asked, salted

DRAWN, CONFIRMED = "ways", "ways_confirmed"
"""Stages, by the names of their tables."""

PROMISING = 0.5
"""Share of its first texts that a way has to turn to be asked again."""

LOSING = 0.15
"""Share of their lead that the decisions about its first texts have to lose by a way, on average, to be asked again;
by signs at the words they hang on, beyond what half of all such signs do."""

SCHEMA = pa.schema(
    [
        *EXAMPLE,
        # That may be unreadable.
        ("words", pa.list_(pa.string())),
        ("pairs", pa.list_(pa.string())),
        # By how much they speak for the decision: of the text's lead in logits, what it loses without each.
        ("ranked", pa.list_(pa.string())),
        ("gains", pa.list_(pa.float64())),
        ("ways", pa.list_(pa.int64())),
        ("names", pa.list_(pa.string())),
        ("kinds", pa.list_(pa.string())),
        ("turning", pa.list_(pa.int64())),
        # Of each way, what the lead loses beyond what it does without the words that are written otherwise; of signs at
        # the words it hangs on all that it loses.
        ("losses", pa.list_(pa.float64())),
        # Of the first stage, by share: it stands without some of its words, and turns where those are unreadable.
        ("is_left_out", pa.list_(pa.bool_())),
        ("is_unread", pa.list_(pa.bool_())),
    ]
)
"""Of either stage's table; the lists are null where a text did not withstand."""


def withstanding(params: TemperatureAttackParams, done: Mapping[str, Records]) -> dict[int, Text]:
    """Return what an attack on scores ended with, by the examples that no recipe turned, with scores or labels alone.

    Args:
        params: Of the check.
        done: Records of its attacks, by stage.
    """
    ended, turned = dict[int, Text](), set[int]()
    for recipe in params.flipping:
        table = done[f"attack_{recipe}"]
        if f"{LABEL_ONLY}.prediction" not in table.column_names:
            return {}
        ids = table["example_id"].to_pylist()
        for arm in (AS_SERVED, LABEL_ONLY):
            columns = ("prediction", f"{arm}.prediction", "label")
            stands = stays_right(*(table[name].fill_null(-1).to_numpy() for name in columns))
            turned |= {one for one, is_standing in zip(ids, stands, strict=True) if not is_standing}
        texts = zip(*(table[f"{AS_SERVED}.{name}"].to_pylist() for name in ("text", "second_text")), strict=True)
        for one, (text, second) in zip(ids, texts, strict=True):
            ended.setdefault(one, text if second is None else (text, second))
    return {one: text for one, text in ended.items() if one not in turned}


def ways_stage(params: TemperatureAttackParams, done: Mapping[str, Records]) -> Stage | None:
    """Return the next of the two stages; None where both are done, or too few texts withstood.

    Args:
        params: Of the check.
        done: Records by stage, all attacks among them.
    """
    if not params.flipping or CONFIRMED in done:
        return None
    rows = max(done[f"attack_{recipe}"].num_rows for recipe in params.flipping)
    if DRAWN not in done:
        enough = len(withstanding(params, done)) >= FEWEST_WITHSTANDING
        return Stage(DRAWN, limit=rows, grain=GRAIN, is_closing=True) if enough else None
    return Stage(CONFIRMED, limit=rows, grain=GRAIN, is_closing=True) if promising(done[DRAWN]) else None


def ask_ways(
    params: TemperatureAttackParams, stage: str, context: TextContext, examples: Sequence[TextExample]
) -> Records:
    """Ask about a shard's texts in ways that are drawn, or in those of them that turned most of their first texts.

    Args:
        params: Of the check.
        stage: Which of the two.
        context: The shard's.
        examples: Its texts.
    """
    ended = withstanding(params, {name: context.records(name) for name in map("attack_{}".format, params.flipping)})
    ways = draw_ways(DRAWN_WAYS, salted(context, "ways", 0))
    drawn = None if stage == DRAWN else context.records(DRAWN)
    before = {} if drawn is None else {row["example_id"]: row for row in drawn.to_pylist()}
    chosen = _drawn(context, list(ended)) if drawn is None else _left(before, promising(drawn))
    rows: list[dict[str, Any]] = []
    for example in examples:
        row: dict[str, Any] = {"example_id": example.example_id, "label": example.label, "errored": False}
        if example.example_id in ended:
            context.check_cancelled()
            asked = Asked(context, example)
            if drawn is None:
                weak = changed_words(example.text, ended[example.example_id])
                row |= asked.needless(weak) | asked.missing()
            words = row if drawn is None else before[example.example_id]
            numbers = chosen[example.example_id][: params.query_budget]
            row |= asked.about({number: ways[number] for number in numbers}, words)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def promising(records: Records) -> list[int]:
    """Return ways that turned most of the texts they were first asked of, the surest first.

    After them come those by which decisions lose most of their lead, beyond what they do without the words: what turns
    few of four texts may turn many of all. Where a lead shrinks at any sign, these would take all places,
    so that a sign has to stand out among signs.

    Args:
        records: Of the first stage.
    """
    rows = [row for row in records.to_pylist() if row["ways"] is not None]
    asked = Counter(way for row in rows for way in row["ways"])
    turned = Counter(way for row in rows for way in row["turning"])
    ordered = sorted(turned, key=lambda way: (-turned[way] / asked[way], -asked[way], way))
    sure = [way for way in ordered if turned[way] >= max(2, PROMISING * asked[way])]
    # Records from before leads were kept have none.
    losses: dict[int, list[float]] = {way: [] for way in asked}
    for row in rows:
        for way, loss in zip(row["ways"], row.get("losses") or (), strict=False):
            if loss is not None:
                # One text's decision may have led by next to nothing.
                losses[way].append(min(loss, 1.0))
    means = {way: sum(found) / len(found) for way, found in losses.items() if len(found) > 1}
    marks = _marks(rows) & means.keys()
    usual = median(means[way] for way in marks) if marks else 0.0
    beyond = {way: mean - usual if way in marks else mean for way, mean in means.items() if way not in sure}
    losing = sorted((way for way, loss in beyond.items() if loss >= LOSING), key=lambda way: (-beyond[way], way))
    return [*sure, *losing][:CONFIRMED_WAYS]


def _marks(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the ways that put signs to words a decision hangs on; records from before kinds were kept have none."""
    kinds = (zip(row["ways"], row.get("kinds") or (), strict=False) for row in rows)
    return {way for row in kinds for way, kind in row if kind == MARKS}


@dataclass(frozen=True)
class WaySample:
    """Ways that were asked of texts they had not been chosen by.

    Attributes:
        texts: That withstood all attacks.
        asked: By way, of how many.
        turned: By way, how many turned round that stand where the same words are unreadable, or, of signs at the words
            that a decision hangs on, have a typing error each.
    """

    texts: int
    asked: Counter[str]
    turned: Counter[str]


def read_ways(done: Mapping[str, Records]) -> WaySample | None:
    """Return what the ways that were asked again turned, other than signs at decisive words; None where none was.

    Args:
        done: Records by stage.
    """
    return _read(done, of_marks=False)


def read_marks(done: Mapping[str, Records]) -> WaySample | None:
    """Return what signs at the words that a decision hangs on turned when they were asked again; None where none was.

    Args:
        done: Records by stage.
    """
    return _read(done, of_marks=True)


def _read(done: Mapping[str, Records], *, of_marks: bool) -> WaySample | None:
    if CONFIRMED not in done:
        return None
    asked, turned = Counter[str](), Counter[str]()
    rows = [row for row in done[CONFIRMED].to_pylist() if row["ways"] is not None]
    marks = _marks(rows)
    for row in rows:
        names = dict(zip(row["ways"], row["names"], strict=True))
        asked.update(name for number, name in names.items() if (number in marks) is of_marks)
        turned.update(names[number] for number in row["turning"] if (number in marks) is of_marks)
    return WaySample(len(rows), asked, turned)


@dataclass(frozen=True)
class MissingSample:
    """Texts that withstood all attacks, and stand without some of their words.

    Attributes:
        texts: How many, by the share of the words.
        unread: How many of them turn where those words are letters drawn at random.
    """

    texts: Counter[str]
    unread: Counter[str]


def read_missing(done: Mapping[str, Records]) -> MissingSample | None:
    """Return what unreadable words turn that texts can do without; None where none was asked so.

    Args:
        done: Records by stage.
    """
    if DRAWN not in done or "is_unread" not in done[DRAWN].column_names:
        return None
    stand, unread = Counter[str](), Counter[str]()
    for row in done[DRAWN].to_pylist():
        for share, is_left_out, is_unread in zip(
            SHARES, row["is_left_out"] or (), row["is_unread"] or (), strict=False
        ):
            stand[share] += is_left_out
            unread[share] += is_unread
    return MissingSample(stand, unread)


def _drawn(context: TextContext, examples: Sequence[int]) -> dict[int, list[int]]:
    """Return by example the ways that are asked of it first."""
    chosen: dict[int, list[int]] = {example: [] for example in examples}
    for number in range(DRAWN_WAYS):
        for example in salted(context, f"texts {number}", 0).sample(examples, min(TEXTS_A_WAY, len(examples))):
            chosen[example].append(number)
    return chosen


def _left(before: Mapping[int, Mapping[str, Any]], ways: Sequence[int]) -> dict[int, list[int]]:
    """Return by example those of some ways that it was not asked in."""
    return {example: [way for way in ways if way not in (row["ways"] or ())] for example, row in before.items()}
