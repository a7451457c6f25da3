"""Further texts of the data as users ask them: as they are, put together from others, or edited and sent once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import LATER
from workers.attacks.text.word_edits import WordsOf
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.insisting import much_misspelt
from workers.models import Answer

WORDS, CONTENT = 8, 3
"""Words of an ordinary text, at least, and those of them that are no stop words."""

AT_ONCE = 8
"""Texts asked together."""


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


def ask_in_turn(context: TextContext, texts: Sequence[Text]) -> list[Answer]:
    """Ask about texts, a few at once, and return the answers."""
    answers = list[Answer]()
    for start in range(0, len(texts), AT_ONCE):
        context.check_cancelled()
        answers += context.scoring().ask_anew(texts[start : start + AT_ONCE])
    return answers


def misspelt_alike(
    params: TemperatureAttackParams, context: TextContext, example: TextExample
) -> tuple[list[Text], list[Text]]:
    """Return a text misspelt in the same words each time, the first of which is sent once, and in others."""
    return (
        much_misspelt(params, context, example, "quiet", 2 + LATER, same_words=True),
        much_misspelt(params, context, example, "quiet, other words", 1 + LATER),
    )


def ask_among(context: TextContext, plain: Sequence[Text], edited: Sequence[Text]) -> list[Answer]:
    """Ask about edited texts between ordinary ones, and return the answers to those."""
    answers = list[Answer]()
    for between, text in zip(np.array_split(range(len(plain)), len(edited)), edited, strict=True):
        # Who takes several edited texts for an audit sees one among ordinary ones.
        *_, answer = ask_in_turn(context, [*(plain[number] for number in between), text])
        answers.append(answer)
    return answers


def put_together(texts: Sequence[Text]) -> list[Text]:
    """Return as many texts, each of the first third of one, the second of another and the last of a third one."""
    count, cuts = len(texts), [cut_up(text) for text in texts]
    found = list[Text]()
    for number in range(count):
        three = [cuts[(number + of * count // 3) % count][of] for of in range(3)]
        found.append(joined(three))
    return found


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
