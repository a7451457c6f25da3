"""Edits of a text that leave what it says alone: punctuation, spaces, case, a word written twice, an idle sentence.

The recipes write typing errors. A model that corrects those may still turn round at a missing full stop or two spaces,
which nobody who reads a text would notice. Each kind is asked about once, at a place drawn anew for every text.
"""

import random
import re
from collections.abc import Callable

from seatrial.noise.lexicons import stopwords
from workers.attacks.text.marked_words import Edit, letter
from workers.data import Text

COMPOSED = 4
"""Questions about three kinds at once."""

AT_ONCE = 3

DRAWN_OUT = 4
"""How often the last letter of a drawn-out word is written once more."""

CAPITALISED = 3
"""Words written in capitals, or with a first letter that is one."""

LINES = 4
"""Line breaks: one shows what reads the first line alone where it is early, the first of several mostly is."""

STOP_WORDS = 8
"""Of which are misspelt at once, at most."""

IDLE = (
    "It was a {day}.",
    "Today is {day}.",
    "It is {hour}:{minute} now.",
    "The bus leaves at {hour}:{minute}.",
    "This is page {number}.",
    "My neighbour lives at number {number}.",
    "The next room is {number}.",
    "This was written on a {day} at {hour}:{minute}.",
)
"""Sentences that have nothing to do with what a text is about, whatever that is."""

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

ENGLISH = 2
"""Stop words that a text has at least, where a sentence in English is added to it."""

ZERO_WIDTH, NO_BREAK, SOFT_HYPHEN = "\u200b", "\u00a0", "\u00ad"


def _gap(put: str, count: int = 1) -> Edit:
    """Write another gap between two words that are drawn, or so many, where there are as many."""

    def edit(text: str, rng: random.Random) -> str:
        gaps = [found.start() for found in re.finditer(r"(?<=\S) (?=\S)", text)]
        for at in sorted(rng.sample(gaps, min(count, len(gaps))), reverse=True):
            text = text[:at] + put + text[at + 1 :]
        return text

    return edit


def _word(change: Callable[[str, random.Random], str]) -> Edit:
    """Write a word that is drawn otherwise."""

    def edit(text: str, rng: random.Random) -> str:
        words = list(re.finditer(r"\w+", text))
        if not words:
            return text
        word = words[int(rng.random() * len(words))]
        return text[: word.start()] + change(word[0], rng) + text[word.end() :]

    return edit


def _within(put: str) -> Callable[[str, random.Random], str]:
    """Put something between two letters of a word, or behind its only one."""

    def change(word: str, rng: random.Random) -> str:
        at = 1 + int(rng.random() * max(1, len(word) - 1))
        return word[:at] + put + word[at:]

    return change


def _cut_in_two(text: str, rng: random.Random) -> str:
    """Write a space into a word of four letters or more, two letters from its ends at least."""
    words = list(re.finditer(r"\w{4,}", text))
    if not words:
        return text
    word = words[int(rng.random() * len(words))]
    at = word.start() + 2 + int(rng.random() * (len(word[0]) - 3))
    return f"{text[:at]} {text[at:]}"


def _in_a_row(change: Callable[[str], str]) -> Edit:
    """Write three words that stand beside each other otherwise, of three letters at least where there are such."""

    def edit(text: str, rng: random.Random) -> str:
        words = list(re.finditer(r"[^\W\d_]{3,}", text)) or list(re.finditer(r"\w+", text))
        if not words:
            return text
        first = int(rng.random() * max(1, len(words) - CAPITALISED + 1))
        # From behind: a capital may have more letters (ß).
        for word in reversed(words[first : first + CAPITALISED]):
            text = text[: word.start()] + change(word[0]) + text[word.end() :]
        return text

    return edit


def _marks(marks: str) -> Edit:
    """Write marks behind words that are drawn, each once, or as many as there are gaps for.

    They stand by themselves: beside a word they would make it another one for models that split at spaces, like as
    many typing errors.
    """

    def edit(text: str, rng: random.Random) -> str:
        gaps = [found.start() for found in re.finditer(r"(?<=\S) (?=\S)", text)] or [len(text)]
        chosen = rng.sample(marks, len(marks))[: max(1, len(gaps))]
        for at, mark in sorted(zip(rng.sample(gaps, len(chosen)), chosen, strict=True), reverse=True):
            text = f"{text[:at]} {mark}{text[at:]}"
        return text

    return edit


def _short_word(change: Callable[[str, random.Random], str]) -> Edit:
    """Misspell a word of two letters, or of three to five where there is none: recipes leave function words alone."""

    def edit(text: str, rng: random.Random) -> str:
        for least, most in ((2, 2), (3, 3), (4, 5)):
            words = list(re.finditer(rf"\b[^\W\d_]{{{least},{most}}}\b", text))
            words = [found for found in words if found[0][0] != found[0][1]]
            if words:
                word = words[int(rng.random() * len(words))]
                return text[: word.start()] + change(word[0], rng) + text[word.end() :]
        return text

    return edit


def _drawn_out(word: str, _: random.Random) -> str:
    return word + DRAWN_OUT * word[-1]


def _without_end(text: str) -> str:
    bare = text.rstrip()
    return bare[:-1] if bare and bare[-1] in ".!?…。\uff01\uff1f" else bare


def _stop_words_misspelt(text: str, rng: random.Random) -> str:
    """Misspell all stop words of a text, up to eight: put a letter into each, or leave one out."""
    words = [found for found in re.finditer(r"\b[a-z]{2,}\b", text) if found[0] in stopwords()]
    if len(words) > STOP_WORDS:
        words = sorted(rng.sample(words, STOP_WORDS), key=lambda found: found.start())
    for word in reversed(words):
        edited = word[0][:1] + letter(rng) + word[0][1:] if rng.random() < 0.5 else word[0][:1] + word[0][2:]
        text = text[: word.start()] + edited + text[word.end() :]
    return text


def _idle_sentence(write: Callable[[str, str], str]) -> Edit:
    """Add a sentence to a text in English."""

    def edit(text: str, rng: random.Random) -> str:
        told = {"day": DAYS[int(rng.random() * len(DAYS))], "hour": 7 + int(rng.random() * 14)}
        told |= {"minute": 10 + int(rng.random() * 50), "number": 2 + int(rng.random() * 90)}
        sentence = IDLE[int(rng.random() * len(IDLE))].format(**told)
        common = sum(word in stopwords() for word in re.findall(r"\w+", text.lower()))
        return write(text, sentence) if common >= ENGLISH else text

    return edit


def _first_word_twice(text: str, _: random.Random) -> str:
    found = re.search(r"\w+", text)
    return text if found is None else f"{text[: found.end()]} {text[found.start() :]}"


KINDS: dict[str, Edit] = {
    "no punctuation at the end": lambda text, _: _without_end(text),
    "a full stop more": lambda text, _: f"{text.rstrip()}.",
    "an exclamation mark at the end instead": lambda text, _: f"{_without_end(text)}!",
    "three dots": lambda text, _: f"{_without_end(text)}...",
    "a space behind": lambda text, _: f"{text} ",
    "two spaces": _gap("  "),
    "line breaks": _gap("\n", LINES),
    "a no-break space": _gap(NO_BREAK),
    "a comma": _gap(", "),
    "a word twice": _word(lambda word, _: f"{word} {word}"),
    "the first word twice": _first_word_twice,
    "an invisible character": _word(_within(ZERO_WIDTH)),
    "a soft hyphen": _word(_within(SOFT_HYPHEN)),
    "a word in capitals": _word(lambda word, _: word.upper()),
    "the first letter's case": lambda text, _: text[:1].swapcase() + text[1:],
    "quotes around": lambda text, _: f'"{text}"',
    "brackets around": lambda text, _: f"({text})",
    "a tab": _gap("\t"),
    "an empty line": _gap("\n\n"),
    "a space in front": lambda text, _: f" {text}",
    "stops and dashes": _marks(";:-/\u2013\u2014\u2026"),
    "single quotes and brackets": _marks("'\"()[]{}"),
    "signs": _marks("*#@&%+=~|"),
    "foreign marks": _marks("\u00bf\u00a1\u2022\u00b7\u20ac\u00a7\u00ab\u00bb"),
    "a word cut in two": _cut_in_two,
    "two words run together": _gap(""),
    "a short word misspelt": _short_word(lambda word, _: word[1] + word[0] + word[2:]),
    "three words in capitals": _in_a_row(str.upper),
    "three words as in a title": _in_a_row(str.capitalize),
    "a number in front": lambda text, _: f"1. {text}",
    "a short word with a letter more": _short_word(lambda word, rng: word[:1] + letter(rng) + word[1:]),
    "a short word with a letter less": _short_word(lambda word, _: word[:1] + word[2:]),
    "a drawn-out word": _word(_drawn_out),
    "stop words misspelt": _stop_words_misspelt,
}
"""Kinds of edits by what they write, in the order they are asked."""

SENTENCES: dict[str, Edit] = {
    "a sentence behind": _idle_sentence(lambda text, sentence: f"{text.rstrip()} {sentence}"),
    "a sentence in front": _idle_sentence(lambda text, sentence: f"{sentence} {text}"),
}
"""Kinds for texts that stand alone, asked last: beside a premise a sentence more may be one that does not follow."""

MOST = len(KINDS) + COMPOSED + len(SENTENCES)
"""Questions about one text, at most."""


def meaning_free_edits(text: Text, seed: int, *, seen: tuple[int, ...] | None = None) -> list[tuple[str, Text]]:
    """Return edited texts with the names of their edits: each kind once, some at once; none is the text itself.

    Args:
        text: A text, or a pair, whose last part is edited and given no sentence more: a hypothesis beside its premise.
        seed: Of the places.
        seen: Characters of each part that the model sees, so that no edit is made beyond; None where it sees all.

    >>> [edited for _, edited in meaning_free_edits("A fine day.", 1)][:4]
    ['A fine day', 'A fine day..', 'A fine day!', 'A fine day...']
    """
    own = text if isinstance(text, str) else text[-1]
    whole = own if seen is None else own[: seen[-1]]
    rest = own[len(whole) :]
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    found: dict[str, str] = {}
    for name, edit in KINDS.items():
        found.setdefault(edit(whole, rng) + rest, name)
    for _ in range(COMPOSED):
        names, edited = rng.sample(list(KINDS), AT_ONCE), whole
        for name in names:
            edited = KINDS[name](edited, rng)
        found.setdefault(edited + rest, " and ".join(names))
    for name, edit in SENTENCES.items() if isinstance(text, str) else ():
        found.setdefault(edit(whole, rng) + rest, name)
    found.pop(own, None)
    return [(name, edited if isinstance(text, str) else (text[0], edited)) for edited, name in found.items()]
