"""Edits of many words of a text at once, all in one way: marks around them, within them, or letters that look alike.

A search that writes one error a word, each of another kind, tells little of a model that reads those and turns round at
a mark it has been taught, or has been built to drop. A reader is not misled by any of these. One that drops marked
words decides where all are marked by what any text has, and otherwise where those are that speak for its decision: of
each way the words that an attack changed are marked too, and some random halves.
"""

import random
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import ceil

from seatrial.noise.lexicons import stopwords
from workers.data import Text

Places = list[re.Match[str]]
"""Words of a text, each the first group of its match."""

Choice = Callable[[Places, random.Random], Places]
"""Which of them are written otherwise, in an order drawn at random."""

Edit = Callable[[str, random.Random], str]
Marking = Callable[[str, random.Random, Choice], str]

Change = Callable[[str, random.Random], str]
"""A word of three letters or more to how it is written."""

CHARACTERS = 30
"""That are edited in all, at most, as DeepWordBug may; a word in capitals counts as one."""

GAPS = 12
"""Gaps between words, at most: with none left a text is hard to read."""

HALVES = 3
"""Of a text's words, drawn at random, that each way writes beside all of them and those it is given."""

LETTERS = "bcdfghjklmnpqrstvwxz"
"""Of which one is put into a word: hardly any of these makes another word of it."""

DIGITS = str.maketrans("aeiost", "431057")
WIDE = 0xFEE0
"""From a character of ASCII to its wide form, in Unicode."""


def share_of(share: float, places: Places, rng: random.Random) -> Places:
    """Choose a share of the words at random.

    Args:
        share: In (0, 1].
        places: All of them.
        rng: What draws.
    """
    return rng.sample(places, ceil(share * len(places)))


def those_of(words: Collection[str], places: Places, rng: random.Random) -> Places:
    """Choose words by themselves.

    Args:
        words: Them, in lower case.
        places: All of them.
        rng: What draws.
    """
    found = [place for place in places if place[1].lower() in words]
    return rng.sample(found, len(found))


def letter(rng: random.Random) -> str:
    """Return a letter of which hardly any word is made by putting it in."""
    return LETTERS[int(rng.random() * len(LETTERS))]


def written(change: Change, each: int = 1, *, stop: bool = False) -> Marking:
    """Write as many words otherwise as there may be, of three letters of ASCII at least, stop words or all others.

    Args:
        change: What becomes of one.
        each: Characters that this edits.
        stop: Whether it is the stop words.
    """

    def edit(text: str, rng: random.Random, choose: Choice) -> str:
        words = [
            found
            for found in re.finditer(r"(?<!\w)([A-Za-z]{2,})(?!\w)", text)
            if (found[0].lower() in stopwords()) == stop and len(found[0]) > 2 - stop
        ]
        chosen = choose(words, rng)[: CHARACTERS // each]
        for word in sorted(chosen, key=lambda found: found.start(), reverse=True):
            text = text[: word.start()] + change(word[0], rng) + text[word.end() :]
        return text

    return edit


def _around(before: str, behind: str = "") -> Change:
    return lambda word, _: f"{before}{word}{behind}"


def _after(count: int, put: str) -> Change:
    return lambda word, _: word[:count] + put + word[count:]


def _letters_more(word: str, rng: random.Random) -> str:
    for _ in range(3):
        at = 1 + int(rng.random() * (len(word) - 1))
        word = word[:at] + letter(rng) + word[at:]
    return word


def _with_a_digit(word: str, _: random.Random) -> str:
    at = next((at for at, one in enumerate(word.lower()) if at and one in "aeiost"), None)
    return word if at is None else word[:at] + word[at].lower().translate(DIGITS) + word[at + 1 :]


def _wide(word: str, _: random.Random) -> str:
    return "".join(chr(ord(one) + WIDE) for one in word[:2]) + word[2:]


def _gaps(put: str) -> Marking:
    def edit(text: str, rng: random.Random, choose: Choice) -> str:
        gaps = list(re.finditer(r"(?<=[A-Za-z]) (?=([A-Za-z]+))", text))
        for gap in sorted(choose(gaps, rng)[:GAPS], key=lambda found: found.start(), reverse=True):
            text = text[: gap.start()] + put + text[gap.end() :]
        return text

    return edit


MARKED: dict[str, Marking] = {
    "words in quotes": written(_around("'", "'"), 2),
    "words in brackets": written(_around("[", "]"), 2),
    "words between stars": written(_around("*", "*"), 2),
    "words between underscores": written(_around("_", "_"), 2),
    "words as tags": written(_around("#")),
    "words as names": written(_around("@")),
    "dots between letters": written(lambda word, _: f"{word[0]}.{word[1]}.{word[2:]}", 2),
    "hyphens in words": written(_after(2, "-")),
    "apostrophes in words": written(_after(2, "'")),
    "invisible characters": written(_after(2, "\u200b")),
    "soft hyphens": written(_after(2, "\u00ad")),
    "accents on letters": written(_after(2, "\u0301")),
    "first letters twice": written(lambda word, _: word[0] + word),
    "letters thrice": written(lambda word, _: word[:2] + 2 * word[1] + word[2:], 2),
    "three letters more a word": written(_letters_more, 3),
    "stars for letters": written(lambda word, _: f"{word[0]}*{word[2:]}"),
    "digits for letters": written(_with_a_digit),
    "wide letters": written(_wide, 2),
    "capital first letters": written(lambda word, _: word.capitalize()),
    "words in capitals": written(lambda word, _: word.upper()),
    "stop words in capitals": written(lambda word, _: word.upper(), stop=True),
    "words run together": _gaps(""),
    "slashes between words": _gaps("/"),
}
"""By what they write, in the order they are asked."""


def marked_texts(
    text: Text, seed: int, *, seen: tuple[int, ...] | None = None, weak: Collection[str] = ()
) -> list[tuple[str, Text]]:
    """Return a text with many words written otherwise, in each way some times, by name; none is the text itself.

    All ways come once, with as many words as may be, before any comes again with fewer.

    Args:
        text: A text, or a pair, whose last part is edited.
        seed: Of the words.
        seen: Characters of each part that the model sees, so that no edit is made beyond; None where it sees all.
        weak: Words in lower case, for each way to write.

    >>> [text for way, text in marked_texts("A long, dull and silly thriller.", 1) if way == "words as tags"]
    ['A #long, #dull and #silly #thriller.']
    """
    own = text if isinstance(text, str) else text[-1]
    whole = own if seen is None else own[: seen[-1]]
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    choices: Sequence[Choice] = [
        partial(share_of, 1.0),
        *([partial(those_of, weak)] if weak else []),
        *[partial(share_of, 0.5)] * HALVES,
    ]
    edited = dict[tuple[str, str], None]()
    for choose in choices:
        edited |= {(name, edit(whole, rng, choose) + own[len(whole) :]): None for name, edit in MARKED.items()}
    return [(name, one if isinstance(text, str) else (text[0], one)) for name, one in edited if one != own]
