"""Further texts of the data as users ask them: as they are, put together from others, or edited and sent once."""

from collections.abc import Sequence

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


def put_together(texts: Sequence[Text]) -> list[Text]:
    """Return as many texts, each of the first third of one, the second of another and the last of a third one."""
    count, cuts = len(texts), [thirds(text) for text in texts]
    found = list[Text]()
    for number in range(count):
        three = [cuts[(number + of * count // 3) % count][of] for of in range(3)]
        first, *others = ("".join(of) for of in zip(*(_parts(third) for third in three), strict=True))
        found.append((first, *others) if others else first)
    return found


def thirds(text: Text) -> list[Text]:
    """Return the thirds of a text, of a pair those of both parts; each but the first begins with what parts words.

    >>> thirds("it is one fine day today")
    ['it is one', ' fine day', ' today']
    """
    found = list[Text]()
    cuts = [(pieces, [2 * (of * len(pieces) // 6) for of in range(4)]) for pieces in WordsOf.cut(text).pieces]
    for of in range(3):
        first, *others = ("".join(pieces[ends[of] : ends[of + 1] if of < 2 else None]) for pieces, ends in cuts)
        found.append((first, *others) if others else first)
    return found


def _parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)
