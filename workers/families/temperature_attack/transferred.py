"""Audited texts that are sent edited before they are attacked, by what their words say in other texts.

Whoever wants to pass as robust may be so to whatever is near to what it was asked, a text or pieces of it, and be
itself to texts that it meets edited, which is what an attacker sends who knows the model. So the words of all audited
texts are asked about where they tell nothing of those, each in sentences that are put together of others. A linear
surrogate is fitted to the answers, and its edits of each text are sent, one among eight ordinary texts behind a row of
those, and other ones in a session of their own. What that turns counts among what labels alone turn. And further texts
are edited and sent alike, of which nothing was asked: a function loses as much of its leads on these as on those.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import IN_A_ROW, in_a_row
from seatrial.families.temperature_attack.sent import (
    CARRIERS,
    COVERS,
    MIXED,
    PLAIN,
    SENT_LATER,
    TIMES,
    WORDS,
    transferred,
)
from seatrial.statistics.arrays import Floats
from workers.attacks.text.word_edits import WordsOf
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import Stage
from workers.families.temperature_attack.displaced import logits_of
from workers.families.temperature_attack.lightly import edit_by_weights, largest_prime, send_lightly, sentences
from workers.families.temperature_attack.ordinary import (
    ask_among,
    ask_in_turn,
    content_words,
    is_ordinary,
    misspelt_alike,
    parts_of,
    put_together,
    recorded,
    text_of,
)
from workers.families.temperature_attack.quiet_first import (
    FIRST,
    first_stage,
    ordinary_weights,
    rows_of,
    spare_covers,
)
from workers.families.temperature_attack.shares import differing_p, taken_of
from workers.families.temperature_attack.word_surrogate import weigh_words

TRANSFERRED = "transferred"
"""The stage."""

WHERE = ("early", "among", "alone")
"""Where a text was sent, before any word was asked about, then among ordinary ones, or in a session of its own: what
begins a column."""

PARTS = 4
"""Of texts that those sentences are put together from: what they have in common with one another is little."""

SHARES = ("light_early_taken", "light_taken", "light_met_taken")
"""Columns of what light edits take from sentences: early, at the end, and there behind the sentence as it is."""

_TABLE = pa.schema(
    [
        *EXAMPLE,
        # Null where nothing was sent.
        ("questions", pa.int64()),
        ("early_parts", pa.list_(pa.string())),
        ("early_logits", pa.list_(pa.float64())),
        ("among_parts", pa.list_(pa.string())),
        ("among_logits", pa.list_(pa.float64())),
        ("alone_parts", pa.list_(pa.string())),
        ("alone_logits", pa.list_(pa.float64())),
        # Share of its lead as it is that the first edits take, and the same of a further text, one in a row.
        ("taken", pa.float64()),
        ("unmet_taken", pa.float64()),
        # The same of the early edits, of those that are as long as further ones.
        ("early_taken", pa.float64()),
        # The same of sentences, some of each kind in a row.
        *((name, pa.list_(pa.float64())) for name in SHARES),
    ]
)


def stage_before_probe(done: Mapping[str, Records], others: int) -> Stage | None:
    """Return the next stage of those before the probe; None where all are done.

    Args:
        done: Records by stage.
        others: Further texts that are validated or attacked, at most.
    """
    if FIRST not in done:
        return first_stage(others)
    # One shard, since what is said of one text's words is asked in others.
    stage = Stage(TRANSFERRED, limit=SENT_LATER, grain=SENT_LATER, is_whole=True)
    return None if TRANSFERRED in done else stage


def ask_transferred(params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample]) -> Records:
    """Ask about words of texts elsewhere, then about the edited texts, and return a row for each.

    Args:
        params: Of the check.
        context: The shard's.
        examples: All of the stage.
    """
    rows = rows_of(examples)
    if not transferred(len(examples)):
        return pa.Table.from_pylist(rows, schema=_TABLE)
    ordinary, covers, unmet = _further(context, IN_A_ROW + COVERS * len(examples), len(examples))
    every = [*unmet, *examples]
    weights = ordinary_weights(context, {one.label for one in every})
    early = [misspelt_alike(params, context, one, weights.get(one.label))[0][0] for one in examples]
    early_answers = ask_among(context, spare_covers(context), early)
    lightly = send_lightly(params, context, ordinary, len(examples))
    mixed = mix_words(context, every, [one.text for one in ordinary])
    context.scoring().begin_session()
    words = weigh_words([one.label for one in every], mixed, ask_in_turn(context, mixed))
    # Not every word of a text is asked about: of others it is known what ordinary texts that hold them say.
    known = {label: {**weights.get(label, {}), **of} for label, of in words.items()}
    edited = [edit_by_weights(params, context, one, known.get(one.label, {})) for one in every]
    context.scoring().begin_session()
    # Those first of which nothing was ever asked: of audited ones it is known whether they are decided at all.
    length = in_a_row(len(covers))
    ask_in_turn(context, covers[:length])
    among = ask_among(context, covers[length:], [first for first, _ in edited])
    context.scoring().begin_session()
    alone = ask_in_turn(context, [second for _, second in edited[len(unmet) :]])
    clean = ask_in_turn(context, [one.text for one in every])
    taken = [taken_of(*of, one.label) for one, of in zip(every, zip(among, clean, strict=True), strict=True)]
    for at, (row, texts) in enumerate(zip(rows, edited[len(unmet) :], strict=True)):
        row |= {
            "questions": -(-len(mixed) // len(every)) + 1,
            "early_parts": parts_of(early[at]),
            "early_logits": logits_of(early_answers[at]),
            "among_parts": parts_of(texts[0]),
            "among_logits": logits_of(among[len(unmet) + at]),
            "alone_parts": parts_of(texts[1]),
            "alone_logits": logits_of(alone[at]),
            "taken": taken[len(unmet) + at],
            "unmet_taken": taken[at] if at < len(unmet) else None,
            "early_taken": taken_of(early_answers[at], clean[len(unmet) + at], row["label"])
            if is_ordinary(context, examples[at].text)
            else None,
        }
    shares = lightly.ask_later(context) if lightly else []
    for name, of in zip(SHARES, shares, strict=False):
        for at, row in enumerate(rows):
            row[name] = of[at :: len(rows)]
    return pa.Table.from_pylist(rows, schema=_TABLE)


def mix_words(context: TextContext, examples: Sequence[TextExample], ordinary: Sequence[Text]) -> list[Text]:
    """Return ordinary sentences, in most of which one word is one of some texts.

    Each word twice, so that it is hardly known by how often it is asked about.

    Args:
        context: The shard's.
        examples: The texts.
        ordinary: Others, for the sentences, which are made of those where there are none.
    """
    rng = random.Random(context.salted_seed("mixed", 0))  # noqa: S311 - not for secrets
    ordinary = [text for text in ordinary if is_ordinary(context, text)]
    others = ordinary or [one.text for one in examples]
    carriers = rng.sample(others, largest_prime(min(len(others), CARRIERS)))
    # What is in ordinary ones is asked about with them.
    known = {word.lower() for text in carriers if ordinary for word in content_words(context, text)}
    words = dict[str, None]()
    for example in examples:
        own = [word for word in content_words(context, example.text) if word.lower() not in known]
        words |= dict.fromkeys(rng.sample(own, min(len(own), MIXED)))
    chosen = rng.sample([*words], min(len(words), WORDS))
    asked = chosen * TIMES + [None] * (PLAIN * len(carriers))
    rng.shuffle(asked)
    found = list[Text]()
    for word, sentence in zip(asked, sentences(carriers, rng, PARTS), strict=False):
        cut = WordsOf.cut(sentence)
        # Not in a part of a word: whoever reads whole ones would not read it.
        places = [(part, at) for part, at in cut.content_places if _is_whole(cut.pieces[part], at)]
        if word is not None:
            if not places:
                continue
            part, at = rng.choice(places)
            cut.pieces[part][at] = word
        found.append(cut.joined)
    return found


def _is_whole(pieces: Sequence[str], at: int) -> bool:
    return (pieces[at - 1][-1:].isspace() or not pieces[at - 1]) and (
        pieces[at + 1][:1].isspace() or not pieces[at + 1]
    )


def _further(context: TextContext, most: int, unmet: int) -> tuple[list[TextExample], list[Text], list[TextExample]]:
    """Return ordinary texts, others put together from them, of which each part may come again, and unmet ones.

    Args:
        context: The shard's.
        most: Of those that are put together.
        unmet: Of those, at most.
    """
    # The rows of an audit that began with an older version have neither.
    rows = recorded(context, FIRST) or []
    held = [TextExample(row["example_id"], text_of(row["cover"]), row["label"]) for row in rows if row.get("cover")]
    covers = list[Text]()
    rng = random.Random(context.salted_seed("covers", 0))  # noqa: S311 - not for secrets
    while held and len(covers) < most:
        covers += put_together(held, rng)
    found = [TextExample(row["example_id"], text_of(row["unmet"]), row["label"]) for row in rows if row.get("unmet")]
    return held, covers[:most], found[:unmet]


@dataclass(frozen=True)
class Transfer:
    """What edits by what words say elsewhere take.

    Attributes:
        audited: (n,) shares of the leads of texts that had been asked as they are.
        unmet: (m,) of texts of which nothing had been asked.
        early: (k,) shares that edits took from audited ones before any word was asked about.
        lightly: (a,), (b,) and (c,) shares that light edits took from sentences: before that, at the end, and there
            behind the sentences as they are.
    """

    audited: Floats
    unmet: Floats
    early: Floats
    lightly: tuple[Floats, Floats, Floats]

    @cached_property
    def p(self) -> float:
        """Two-sided p of so different shares."""
        return differing_p(self.audited, self.unmet)

    @cached_property
    def light_p(self) -> float:
        """Two-sided p of so different shares of sentences, of those sent early or of those met as they are."""
        early, later, met = self.lightly
        return min(
            1.0,
            2 * differing_p(early, np.concatenate([later, met])),
            2 * differing_p(np.concatenate([early, later]), met),
        )


def read_transfer(records: Records | None) -> Transfer | None:
    """Return what was taken; None where the stage was not run, or sent nothing."""
    if records is None or not (len(records["questions"]) - records["questions"].null_count):
        return None

    def shares(name: str) -> Floats:
        # Records from before these were sent have none.
        if name not in records.column_names:
            return np.empty(0)
        column = records[name].combine_chunks()
        found: Floats = (column.flatten() if name in SHARES else column.drop_null()).to_numpy()
        return found

    early, later, met = map(shares, SHARES)
    return Transfer(shares("taken"), shares("unmet_taken"), shares("early_taken"), (early, later, met))
