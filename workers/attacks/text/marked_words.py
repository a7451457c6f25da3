"""Edits of words of a text in some way: marks around them, within them or between, or letters that look alike.

A search that writes one error a word, each of another kind, tells little of a model that reads those and turns round at
a mark it has been taught, or has been built to drop. A reader is not misled by any of these. One that drops marked
words decides where all are marked by what any text has, and otherwise where those are that speak for its decision: of
each way the words that an attack changed are marked too. And one that undoes what many words have may turn at two of
them, or at two ways in one text: which words, and how many, is drawn for a number of questions more.
"""

import math
import random
import re
from collections.abc import Callable, Collection
from functools import partial

from seatrial.noise.lexicons import stopwords
from workers.data import Text

Places = list[re.Match[str]]
"""Words of a text, each the first group of its match."""

Choice = Callable[[Places, random.Random], Places]
"""Which of them are written otherwise, in an order drawn at random."""

Edit = Callable[[str, random.Random], str]
Marking = Callable[[str, random.Random, Choice, int], str]
"""Of a text, by some of its words, within so many characters."""

Change = Callable[[str, random.Random], str]
"""A word of three letters or more to how it is written."""

CHARACTERS = 30
"""That are edited in all, at most, as DeepWordBug may; a word in capitals counts as one."""

GAPS = 12
"""Gaps between words, at most: with none left a text is hard to read."""

DRAWN = 45
"""Questions whose ways, words and how many of them are drawn."""

AT_ONCE, TWO_OF = 2, 0.4
"""Ways in one text, and share of those questions that have both."""

PAIRS = ("**", "__", '""', "()", "[]")
"""Marks before and behind some words."""

PHRASE = (2, 4)
"""Words between two of them, at least and at most."""

LETTERS = "bcdfghjklmnpqrstvwxz"
"""Of which one is put into a word: hardly any of these makes another word of it."""

DIGITS = str.maketrans("aeiost", "431057")
ACCENTED = dict(zip("aeiou", "\u00e1\u00e9\u00ef\u00f3\u00fa", strict=True))
SIGNS: tuple[str, ...] = (*".,;:|/+=~^_-", "-\n")
"""Of which one is put into a word, or between two."""

WIDE = 0xFEE0
"""From a character of ASCII to its wide form, in Unicode."""


def all_of(places: Places, rng: random.Random) -> Places:
    """Choose all words, in a random order.

    Args:
        places: All of them.
        rng: What draws.
    """
    return rng.sample(places, len(places))


def those_of(words: Collection[str], places: Places, rng: random.Random) -> Places:
    """Choose words by themselves.

    Args:
        words: Them, in lower case.
        places: All of them.
        rng: What draws.
    """
    return [place for place in all_of(places, rng) if place[1].lower() in words]


def some_of(words: Collection[str], places: Places, rng: random.Random) -> Places:
    """Choose a number of words, few more often than many: certain ones first, any, the first, the last, or in a row.

    Args:
        words: The certain ones, in lower case.
        places: All of them.
        rng: What draws.
    """
    count = int(math.exp(rng.random() * math.log(len(places) + 1)))
    begin = int(rng.random() * max(1, len(places) - count + 1))
    drawn = all_of(places, rng)
    orders = [sorted(drawn, key=lambda place: place[1].lower() not in words), drawn]
    orders += [places, places[::-1], places[begin : begin + count]]
    return orders[int(rng.random() * len(orders))][:count]


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

    def edit(text: str, rng: random.Random, choose: Choice, most: int) -> str:
        words = [
            found
            for found in re.finditer(r"(?<!\w)([A-Za-z]{2,})(?!\w)", text)
            if (found[0].lower() in stopwords()) == stop and len(found[0]) > 2 - stop
        ]
        chosen = choose(words, rng)[: most // each]
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


def _any_case(word: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        at = 1 + int(rng.random() * (len(word) - 1))
        return word[:at] + word[at].upper() + word[at + 1 :]
    return "".join(one.upper() if rng.random() < 0.4 else one.lower() for one in word)


def _with_a_mark(word: str, rng: random.Random) -> str:
    at = 1 + int(rng.random() * (len(word) - 1))
    return word[:at] + rng.choice(SIGNS) + word[at:]


def _decoded_wrongly(word: str, _: random.Random) -> str:
    at = next((at for at, one in enumerate(word) if one in ACCENTED), None)
    return word if at is None else word[:at] + ACCENTED[word[at]].encode().decode("cp1252") + word[at + 1 :]


def _slip(word: str, rng: random.Random) -> str:
    at = 1 + int(rng.random() * (len(word) - 2))
    return f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]} {word}"


def _gaps(put: str | None) -> Marking:
    def edit(text: str, rng: random.Random, choose: Choice, most: int) -> str:
        gaps = list(re.finditer(r"(?<=[A-Za-z]) (?=([A-Za-z]+))", text))
        for gap in sorted(choose(gaps, rng)[: min(GAPS, most)], key=lambda found: found.start(), reverse=True):
            text = text[: gap.start()] + (rng.choice(SIGNS) if put is None else put) + text[gap.end() :]
        return text

    return edit


def _shifted(text: str, rng: random.Random, choose: Choice, most: int) -> str:
    gaps = list(re.finditer(r"(?<=[A-Za-z]{2}) (?=([A-Za-z]{2,}))", text))
    for gap in sorted(choose(gaps, rng)[: most // 2], key=lambda found: found.start(), reverse=True):
        at = gap.start()
        if rng.random() < 0.5:
            text = f"{text[: at - 1]} {text[at - 1]}{text[at + 1 :]}"
        else:
            text = f"{text[:at]}{text[at + 1]} {text[at + 2 :]}"
    return text


def _neighbours(swap: Callable[[str, str], tuple[str, str]], each: int | None = None) -> Marking:
    def edit(text: str, rng: random.Random, choose: Choice, most: int) -> str:
        chosen = []
        for pair in choose(list(re.finditer(r"(?<!\w)([A-Za-z]{2,}) ([A-Za-z]{2,})(?!\w)", text)), rng):
            # Words that are exchanged are each written anew.
            cost = len(pair[0]) if each is None else each
            if cost <= most:
                most -= cost
                chosen.append(pair)
        for pair in sorted(chosen, key=lambda found: found.start(), reverse=True):
            text = text[: pair.start()] + " ".join(swap(pair[1], pair[2])) + text[pair.end() :]
        return text

    return edit


def _one_for_another(text: str, rng: random.Random, choose: Choice, most: int) -> str:
    words = list(re.finditer(r"(?<!\w)([A-Za-z]{3,})(?!\w)", text))
    letters = sorted({one for word in words for one in word[1].lower()})
    if not letters:
        return text
    old, new = rng.sample(letters, min(2, len(letters)))[0], letter(rng)
    for word in sorted(choose(words, rng), key=lambda found: found.start(), reverse=True):
        count = word[1].lower().count(old)
        if count <= most:
            most -= count
            text = text[: word.start()] + re.sub(old, new, word[1], flags=re.IGNORECASE) + text[word.end() :]
    return text


def _phrases(text: str, rng: random.Random, choose: Choice, most: int) -> str:
    words = list(re.finditer(r"(?<!\w)([A-Za-z]+)(?!\w)", text))
    number = {word.start(): at for at, word in enumerate(words)}
    pair = PAIRS[int(rng.random() * len(PAIRS))]
    taken, spans = set[int](), list[tuple[int, int]]()
    for word in choose(words, rng):
        first = number[word.start()]
        count = PHRASE[0] + int(rng.random() * (PHRASE[1] - PHRASE[0] + 1))
        own = set(range(first, min(first + count, len(words))))
        if len(own) >= PHRASE[0] and not own & taken and 2 * len(spans) + 2 <= most:
            taken |= own
            spans.append((word.start(), words[max(own)].end()))
    for begin, end in sorted(spans, reverse=True):
        text = text[:begin] + pair[0] + text[begin:end] + pair[1] + text[end:]
    return text


MARKED: dict[str, Marking] = {
    "words in quotes": written(_around("'", "'"), 2),
    "words in brackets": written(_around("[", "]"), 2),
    "words in round brackets": written(_around("(", ")"), 2),
    "open brackets": written(_around("(")),
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
    "letters drawn out": written(lambda word, _: word[:2] + 5 * word[1] + word[2:], 5),
    "first letters stuttered": written(lambda word, _: f"{word[0]}-{word}", 2),
    "slips corrected at once": written(_slip, 8),
    "three letters more a word": written(_letters_more, 3),
    "stars for letters": written(lambda word, _: f"{word[0]}*{word[2:]}"),
    "digits for letters": written(_with_a_digit),
    "wide letters": written(_wide, 2),
    "capital first letters": written(lambda word, _: word.capitalize()),
    "words in capitals": written(lambda word, _: word.upper()),
    "stop words in capitals": written(lambda word, _: word.upper(), stop=True),
    "capitals anywhere in words": written(_any_case),
    "first letters last": written(lambda word, _: word[1:] + word[0], 2),
    "marks in words": written(_with_a_mark, 2),
    "endings in brackets": written(lambda word, _: f"{word[:-1]}({word[-1]})", 2),
    "accents decoded wrongly": written(_decoded_wrongly, 2),
    "one letter for another": _one_for_another,
    "first letters exchanged": _neighbours(lambda one, other: (other[0] + one[1:], one[0] + other[1:]), 2),
    "words exchanged": _neighbours(lambda one, other: (other, one)),
    "marks between words": _gaps(None),
    "words run together": _gaps(""),
    "slashes between words": _gaps("/"),
    "hyphens between words": _gaps("-"),
    "two spaces between words": _gaps("  "),
    "commas between words": _gaps(", "),
    "words on lines of their own": _gaps("\n"),
    "spaces a letter off": _shifted,
    "marks around phrases": _phrases,
    "notes at words": written(_around("", "[1]"), 3),
    "raised figures at words": written(_around("", "\u00b9")),
}
"""By what they write, in the order they are asked."""


SEVERAL = "two of these at once"


def marked_texts(
    text: Text, seed: int, *, seen: tuple[int, ...] | None = None, weak: Collection[str] = ()
) -> list[tuple[str, Text]]:
    """Return a text with words written otherwise, in each way some times, by name; none is the text itself.

    All ways come with as many words as may be, and with weak ones, before ways, words and how many of either are drawn.

    Args:
        text: A text, or a pair, whose last part is edited.
        seed: Of the draws.
        seen: Characters of each part that the model sees, so that no edit is made beyond; None where it sees all.
        weak: Words in lower case.

    >>> [text for way, text in marked_texts("A long, dull and silly thriller.", 1) if way == "words as tags"][0]
    'A #long, #dull and #silly #thriller.'
    """
    own = text if isinstance(text, str) else text[-1]
    whole = own if seen is None else own[: seen[-1]]
    rest = own[len(whole) :]
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    edited = dict[str, str]()
    choices: list[Choice] = [all_of, *([partial(those_of, weak)] if weak else [])]
    for choose in choices:
        for name, edit in MARKED.items():
            edited.setdefault(edit(whole, rng, choose, CHARACTERS), name)
    for _ in range(DRAWN):
        names = rng.sample(list(MARKED), AT_ONCE if rng.random() < TWO_OF else 1)
        marked = whole
        for name in names:
            marked = MARKED[name](marked, rng, partial(some_of, weak), CHARACTERS // len(names))
        edited.setdefault(marked, names[0] if len(names) == 1 else SEVERAL)
    edited.pop(whole, None)
    return [(name, one + rest if isinstance(text, str) else (text[0], one + rest)) for one, name in edited.items()]
