"""Whether texts withstand attacks because an attack asks about near copies of them: an edited text that is sent once.

Every search learns from answers to texts that are nearly alike, and whoever remembers those can lean on what it decided
about the first: a little more towards that class, from the third near copy on, is enough that no search gets through,
and shows nowhere. Somebody who asks about nothing near gets through at once. So texts that were asked in no form are
edited by what a model says about fragments of them, single words or some in another order, and then sent, one question
each, before anything else is known of them. Others are sent after some near copies: a function decides as many of
either rightly, and speaks for their classes as much as for those of the pieces they are made of.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import mannwhitneyu, rankdata

from seatrial.families.temperature_attack.params import (
    FRAGMENTS,
    NEAR,
    SENT_ONCE,
    UNASKED,
    TemperatureAttackParams,
)
from seatrial.statistics.arrays import Floats, Mask
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.word_edits import WordsOf, misspelt
from workers.data import Text
from workers.families.columns import EXAMPLE, beside
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import HELD_OUT, Stage
from workers.families.temperature_attack.displaced import decided, lead
from workers.families.temperature_attack.probe import edit_path

ONCE = "sent_once"
"""The stage, by the name of its table."""

SIZES = (1, 2, 4, 8)
"""Words of a fragment, the same of all of a text's, or half of its words: who answers one size otherwise than texts
answers others."""

LATER, LEAD, FORESEEN = "sent_later_robust", "sent_later_lead", "sent_later_foreseen"
"""Whether the closing probe's text, edited and sent after those, is decided rightly; by how much in logits, and by how
much the pieces of it together."""

FEWEST = 20
"""Texts from which on they are compared."""

_SCHEMA = pa.schema(
    [
        *EXAMPLE,
        ("is_asked", pa.bool_()),
        ("edits", pa.int64()),
        # Null without an answer, which spoils no number.
        ("robust", pa.bool_()),
        ("lead", pa.float64()),
        ("foreseen", pa.float64()),
    ]
)

_LATER = pa.schema([(LATER, pa.bool_()), (LEAD, pa.float64()), (FORESEEN, pa.float64())])


def once_stage(params: TemperatureAttackParams, done: Mapping[str, Records]) -> Stage | None:
    """Return the stage, before anything else is asked about its texts; None where it is done, or too late.

    Args:
        params: Of the check.
        done: Records by stage.
    """
    is_late = "validation" in done or any(name.startswith("attack_") for name in done)
    if is_late or ONCE in done or not params.flipping:
        return None
    if not params.is_fitted:
        return Stage(ONCE, HELD_OUT, UNASKED, 8)
    source = HELD_OUT if params.validation_dataset is None else "validation_dataset"
    # As many as the validation, so that they are the same texts: how many are drawn may decide which.
    return Stage(ONCE, source, params.validation_samples, 8)


def send_once(
    params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], first: int
) -> Records:
    """Edit a shard's texts by what is said about fragments of them, send each once, and return a row for each.

    Args:
        params: Of the check.
        context: The shard's.
        examples: Its texts.
        first: Which of the stage's texts the first of them is: the later ones are left alone.
    """
    rows: list[dict[str, Any]] = []
    for number, example in enumerate(examples, first):
        row: dict[str, Any] = {"example_id": example.example_id, "label": example.label, "errored": False}
        if number < SENT_ONCE:
            context.check_cancelled()
            edited, edits, foreseen = _edited(params, context, example)
            (given,) = context.scoring().ask_anew([edited])
            decision = decided(given)
            row |= {"is_asked": True, "edits": edits, "lead": lead(given, example.label), "foreseen": foreseen}
            row |= {} if decision is None else {"robust": decision == example.label}
        rows.append({"is_asked": False} | row)
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def with_sent_later(
    params: TemperatureAttackParams, context: TextContext, records: Records, examples: Sequence[TextExample]
) -> Records:
    """Return the closing probe's table with what the same makes of texts that near copies of were asked about.

    Args:
        params: Of the check.
        context: The shard's.
        records: The table so far, a row for each example.
        examples: The shard's.
    """
    rows: list[dict[str, Any]] = []
    for example in examples:
        context.check_cancelled()
        edited, _, foreseen = _edited(params, context, example)
        seed, service = context.salted_seed("sent later", example.example_id), context.scoring()
        # Who leans only after more of them leaves a search that many questions.
        path = edit_path(example.text, seed, NEAR, service.seen(example.text))
        service.ask_anew(path)
        (given,) = service.ask_anew([edited])
        decision, of = decided(given), lead(given, example.label)
        rows.append({} if decision is None else {LATER: decision == example.label, LEAD: of, FORESEEN: foreseen})
    return beside(records, rows, _LATER)


def _edited(
    params: TemperatureAttackParams, context: TextContext, example: TextExample
) -> tuple[Text, int, float | None]:
    """Return a text with a wrong letter in as many of its words as speak for its class, and how many these are.

    After them comes what :func:`_foreseen` returns.
    """
    rng = random.Random(context.salted_seed("sent once", example.example_id))  # noqa: S311 - not for secrets
    cut = WordsOf.cut(example.text, context.scoring().seen(example.text))
    places = cut.content_places
    words = [cut.pieces[part][at] for part, at in places]
    said = _said(context, example, list(dict.fromkeys(words)), rng)
    most = CHARACTERS
    if params.edit_share is not None:
        most = min(most, int(params.edit_share * sum(map(len, words))))
    order = sorted(rng.sample(range(len(words)), len(words)), key=lambda place: -said[words[place]])
    # Where no fragment says anything, whichever words.
    chosen = ([place for place in order if said[words[place]] > 0] or order)[:most]
    for place in chosen:
        part, at = places[place]
        cut.pieces[part][at] = misspelt(words[place], rng)
    return cut.joined, len(chosen), _foreseen(context, example, cut, rng)


def _foreseen(context: TextContext, example: TextExample, cut: WordsOf, rng: random.Random) -> float | None:
    """Return the sum of what pieces of an edited text speak for its class, each word in one of them, in no order.

    That of a bag of words is what it says of the text, and of any model it says something about that. None where a
    piece has no answer, or the text is of one piece.
    """
    words = [word for part in cut.pieces for word in "".join(part).split()]
    if len(words) < 2:
        # Where no spaces part any.
        words = [piece for part in cut.pieces for piece in part if piece.strip()]
    if len(words) < 2:
        return None
    rng.shuffle(words)
    least = math.ceil(len(words) / FRAGMENTS)
    size = min(max(rng.choice((*SIZES, len(words) // 2)), least), len(words) // 2)
    nothing, leads = _leads_of(context, example, _cut(words, size), size, rng)
    known = [of for of in leads if of is not None]
    # What is said of any piece, whatever it is, is said once of the text.
    return None if nothing is None or len(known) < len(leads) else math.fsum([*known, (1 - len(leads)) * nothing])


def _cut(words: Sequence[str], size: int) -> list[Sequence[str]]:
    return [words[at : at + size] for at in range(0, len(words), size)]


def _leads_of(
    context: TextContext, example: TextExample, fragments: Sequence[Sequence[str]], size: int, rng: random.Random
) -> tuple[float | None, list[float | None]]:
    """Return by how much words of no meaning speak for a text's class, and fragments; None without an answer."""
    nothing = " ".join("".join(rng.choices("qxzvjk", k=5)) for _ in range(size))
    texts = [nothing, *map(" ".join, fragments)]
    # Of a pair both parts: what is said about one alone is of no use.
    asked: list[Text] = [text if isinstance(example.text, str) else (text, text) for text in texts]
    first, *others = [lead(given, example.label) for given in context.scoring().scores(asked)]
    return first, others


def _said(context: TextContext, example: TextExample, words: Sequence[str], rng: random.Random) -> dict[str, float]:
    """Return by how much fragments with a word speak for the class more than what has no meaning does."""
    size, fragments = rng.choice((*SIZES, max(1, len(words) // 2))), list[Sequence[str]]()
    while words and len(fragments) < (FRAGMENTS if size > 1 else 1):
        fragments += _cut(rng.sample(words, len(words)), size)
    fragments = fragments[:FRAGMENTS]
    nothing, leads = _leads_of(context, example, fragments, size, rng)
    found = {word: list[float]() for word in words}
    answered = [(fragment, of) for fragment, of in zip(fragments, leads, strict=True) if of is not None]
    for word, of in ((word, of) for fragment, of in answered for word in fragment):
        found[word].append(of - (nothing or 0.0))
    return {word: fmean(seen) if seen else 0.0 for word, seen in found.items()}


@dataclass(frozen=True)
class SentOnce:
    """What became of edited texts that were sent once.

    Attributes:
        robust: (n,) whether each was decided rightly.
        unanswered: Those without an answer.
        later: (m,) whether each was of other texts, which were sent after near copies of them.
        leads: (n, 2) by how much each spoke for its class in logits, and its pieces together; of those where both are
            known.
        later_leads: (m, 2) the same of the others.
    """

    robust: Mask
    unanswered: int
    later: Mask
    leads: Floats = field(default_factory=lambda: np.empty((0, 2)))
    later_leads: Floats = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def answered(self) -> int:
        """Those with one."""
        return len(self.robust)

    @cached_property
    def p(self) -> float:
        """One-sided p of texts speaking that much more for their classes after near copies, for what pieces say.

        Ranks of the leads, less what ranks of the pieces' explain of them (Conover and Iman 1982, "Analysis of
        covariance using the rank transformation"), compared by Mann and Whitney.
        """
        once = len(self.leads)
        if min(once, len(self.later_leads)) < FEWEST:
            return 1.0
        lead, foreseen = rankdata(np.concatenate([self.leads, self.later_leads]), axis=0).T
        known = np.stack([np.ones_like(foreseen), foreseen], axis=1)
        left = lead - known @ np.linalg.lstsq(known, lead, rcond=None)[0]
        return float(mannwhitneyu(left[once:], left[:once], alternative="greater").pvalue)


def read_once(done: Mapping[str, Records]) -> SentOnce | None:
    """Return what the stage measured; None where it was not run, or there was no text.

    Args:
        done: Records by stage.
    """
    rows = [row for row in done[ONCE].to_pylist() if row["is_asked"]] if ONCE in done else []
    if not rows:
        return None
    robust = [row["robust"] for row in rows if row["robust"] is not None]
    closing = done.get("closing")
    others = [] if closing is None else closing.to_pylist()
    later = [row[LATER] for row in others if row.get(LATER) is not None]
    return SentOnce(
        np.array(robust, dtype=bool),
        len(rows) - len(robust),
        np.array(later, dtype=bool),
        _leads(rows, "lead", "foreseen"),
        _leads(others, LEAD, FORESEEN),
    )


def _leads(rows: Sequence[Mapping[str, Any]], *names: str) -> Floats:
    # Records from before they were asked for have none.
    found = [[row.get(name) for name in names] for row in rows]
    return np.array([pair for pair in found if None not in pair], dtype=np.float64).reshape(-1, 2)
