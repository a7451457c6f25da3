"""Further texts of the data as users ask them: as they are, put together from others, or edited and sent once."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import LATER
from workers.attacks.text.word_edits import TYPED, WordsOf
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.insisting import much_misspelt
from workers.models import Answer

WORDS, CONTENT = 8, 3
"""Words of an ordinary text, at least, and those of them that are no stop words."""

AT_ONCE = 8
"""Texts asked together."""

MEETING = (0.35, 0.65)
"""Between which shares of a text's words the parts meet that others are put together from."""

OPENING_MARKS, CLOSING_MARKS = "([{«“", ")]}»”"
"""Brackets, and quotation marks that are of two kinds."""

NEXT = 12
"""Texts of about the same length that one may be put together with."""

SHARE = 0.6
"""Of the words of a text that are misspelt where it is sent edited, at least."""


def ids_of(context: TextContext, *stages: str) -> set[int]:
    """Return the ids of the examples of some stages."""
    return {example for stage in stages for example in context.records(stage)["example_id"].to_pylist()}


def recorded(context: TextContext, stage: str) -> list[dict[str, Any]] | None:
    """Return the rows of a stage; None where it was not run, as in an audit that began before there was it."""
    try:
        rows: list[dict[str, Any]] = context.records(stage).to_pylist()
    except KeyError:
        return None
    return rows


def is_ordinary(context: TextContext, text: Text) -> bool:
    """Return whether a text has as many words as users' questions mostly have."""
    words = WordsOf.cut(text, context.scoring().seen(text))
    return len(words.places) >= WORDS and len(words.content_places) >= CONTENT


def content_words(context: TextContext, text: Text) -> list[str]:
    """Return the words of a text that may be edited, each once."""
    cut = WordsOf.cut(text, context.scoring().seen(text))
    return list(dict.fromkeys(cut.pieces[part][at] for part, at in cut.content_places))


def ask_in_turn(context: TextContext, texts: Sequence[Text]) -> list[Answer]:
    """Ask about texts, a few at once, and return the answers."""
    answers = list[Answer]()
    for start in range(0, len(texts), AT_ONCE):
        context.check_cancelled()
        answers += context.scoring().ask_anew(texts[start : start + AT_ONCE])
    return answers


def misspelt_alike(
    params: TemperatureAttackParams, context: TextContext, example: TextExample, weights: Mapping[str, float] | None
) -> tuple[list[Text], list[Text]]:
    """Return a text misspelt in the same words each time, the first of which is sent once, and in others.

    As people mistype words: whoever knows an audit by capitals or look-alikes within words sees none.

    Args:
        params: Of the check.
        context: The shard's.
        example: The text.
        weights: By how much its words in lower case speak for its class, where that is known.
    """
    edit = partial(much_misspelt, params, context, example, share=SHARE, weights=weights, kinds=[TYPED])
    return edit("quiet", 2 + LATER, same_words=True), edit("quiet, other words", 1 + LATER)


def ask_among(context: TextContext, plain: Sequence[Text], edited: Sequence[Text]) -> list[Answer]:
    """Ask about edited texts between ordinary ones, and return the answers to those."""
    answers = list[Answer]()
    for between, text in zip(np.array_split(range(len(plain)), len(edited)), edited, strict=True):
        # Who takes several edited texts for an audit sees one among ordinary ones.
        *_, answer = ask_in_turn(context, [*(plain[number] for number in between), text])
        answers.append(answer)
    return answers


def put_together(examples: Sequence[TextExample], rng: random.Random) -> list[Text]:
    """Return as many texts, each of the first part of one and the second of another of the same class.

    Parts meet behind a word that both texts have there, where any two do, so that neighbouring words are neighbours in
    some text: nobody tells these from texts as they are by pairs of words that people hardly write. Of one class they
    say the same, as parts of one text do. A classifier trained for it tells one of three such parts from a text as it
    is with an AUC of .62, one of two of the same class with .54 (film reviews).

    Args:
        examples: Of whose texts parts are taken, each part once; of pairs thirds.
        rng: Of who goes with whom.
    """
    if not all(isinstance(one.text, str) for one in examples):
        count, cuts = len(examples), [cut_up(one.text) for one in examples]
        return [joined([cuts[(at + of * count // 3) % count][of] for of in range(3)]) for at in range(count)]
    found = list[_Made]()
    for label in sorted({one.label for one in examples}):
        of_class = [_Made(str(one.text).split(" ")) for one in examples if one.label == label]
        found += _crossed(of_class, *MEETING, rng)
    return [" ".join(made.words) for made in rng.sample(found, len(found))]


@dataclass(frozen=True)
class _Made:
    """Words of a text."""

    words: list[str]

    def places(self, low: float, high: float) -> dict[str, int]:
        """Return by word how many of the words come up to it, of those between two shares of the length.

        Not within brackets or quotation marks, of which each that is opened is closed by people.
        """
        count = len(self.words)
        between = range(max(1, math.ceil(low * count)), int(high * count) + 1)
        return {self.words[at - 1].lower(): at for at in between if not _is_within(" ".join(self.words[:at]))}

    def cut(self, share: float) -> int:
        """Return behind how many words it is cut about there, where no other place is better."""
        at = max(1, int(share * len(self.words)))
        places = sorted(range(1, len(self.words)), key=lambda one: abs(one - at))
        return next((one for one in places if not _is_within(" ".join(self.words[:one]))), at)

    def exchanged(self, at: int, other: "_Made", there: int) -> list["_Made"]:
        """Return both with their ends exchanged."""
        return [_Made(self.words[:at] + other.words[there:]), _Made(other.words[:there] + self.words[at:])]


def _is_within(text: str) -> bool:
    """Return whether the end of a text is within brackets or quotation marks.

    >>> _is_within('it is (as "they"'), _is_within('it is (as "they" say)')
    (True, False)
    """
    opened = sum(text.count(one) for one in OPENING_MARKS) - sum(text.count(one) for one in CLOSING_MARKS)
    return opened != 0 or text.count('"') % 2 == 1


def _crossed(texts: Sequence[_Made], low: float, high: float, rng: random.Random) -> list[_Made]:
    """Return texts in pairs whose ends are exchanged, between two shares of the length of each.

    Behind a word that both have there, next to as many words, and of about the same length, so that lengths stay as
    they are. Those that share no word with any left are cut between.
    """
    order = sorted(rng.sample(texts, len(texts)), key=lambda made: len(made.words))
    alone, found = list[_Made](), list[_Made]()
    of_alone = list[dict[str, int]]()
    for one in order:
        places = one.places(low, high)
        best: tuple[int, int, int, int] | None = None
        # The last ones are of the next length.
        for at in range(len(alone) - 1, max(-1, len(alone) - NEXT - 1), -1):
            for word, there in of_alone[at].items():
                if word in places and (best is None or abs(places[word] - there) < best[0]):
                    best = abs(places[word] - there), at, places[word], there
        if best is None:
            alone.append(one)
            of_alone.append(places)
        else:
            del of_alone[best[1]]
            found += one.exchanged(best[2], alone.pop(best[1]), best[3])
    for first, second in zip(alone[::2], alone[1::2], strict=False):
        found += first.exchanged(first.cut(high), second, second.cut(high))
    if len(alone) % 2 == 0:
        return found
    last = alone[-1]
    if not found:
        return [last]
    other = found.pop()
    return [*found, *last.exchanged(last.cut(high), other, other.cut(high))]


def joined(texts: Sequence[Text]) -> Text:
    """Return texts, or pairs, behind each other."""
    return text_of(["".join(of) for of in zip(*map(parts_of, texts), strict=True)])


def cut_up(text: Text, count: int = 3) -> list[Text]:
    """Return thirds of a text, or other parts, of a pair those of both; each but the first begins with a space.

    >>> cut_up("it is one fine day today")
    ['it is one', ' fine day', ' today']
    """
    found = list[Text]()
    cuts = [
        (pieces, [2 * (of * len(pieces) // (2 * count)) for of in range(count)]) for pieces in WordsOf.cut(text).pieces
    ]
    for of in range(count):
        last = of + 1 == count
        found.append(text_of(["".join(pieces[ends[of] : None if last else ends[of + 1]]) for pieces, ends in cuts]))
    return found


def parts_of(text: Text) -> list[str]:
    """Return the parts of a text, as rows have them: itself, or those of a pair."""
    return [text] if isinstance(text, str) else list(text)


def text_of(parts: Sequence[str]) -> Text:
    """Return a text, or a pair, of its parts."""
    first, *others = parts
    return (first, *others) if others else first
