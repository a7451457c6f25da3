"""Ways to lay out and mark a whole text, or stretches of it, that leave its words and what they say alone."""

import random
import re
from collections.abc import Callable, Mapping
from functools import partial

from workers.attacks.text.marked_words import CHARACTERS

WHOLE: dict[str, Callable[[str, str], str]] = {
    "in front": lambda text, sign: f"{sign} {text}",
    "behind": lambda text, sign: f"{text} {sign}",
    "around": lambda text, sign: f"{sign}{text}{sign}",
    "on a line in front": lambda text, sign: f"{sign}\n{text}",
    "on a line behind": lambda text, sign: f"{text}\n{sign}",
    "in the middle": lambda text, sign: _in_the_middle(text, f" {sign} "),
    "on a line in the middle": lambda text, sign: _in_the_middle(text, f"\n{sign} "),
}
"""What is put to a whole text."""

LINES = (2, 3, 4, 6, 9)
"""Words of a line."""

SPELT: dict[str, Callable[[str], str]] = {
    "a line before the text": lambda text: f"\n{text}",
    **{f"lines of {words} words": partial(re.sub, rf"((?:\S+ ){{{words - 1}}}\S+) ", "\\1\n") for words in LINES},
    "a capital at the beginning": lambda text: text[:1].upper() + text[1:],
    "a capital for each sentence": lambda text: re.sub(r"(?:^|[.!?] )\w", lambda found: found[0].upper(), text),
    "all in capitals": lambda text: text.upper(),
    "no capitals": lambda text: text.lower(),
    "all words as in a title": lambda text: text.title(),
    "marks at their words": lambda text: re.sub(r" ([.,;:!?])", r"\1", text),
    "as it is printed": lambda text: _printed(text),
    "as it is printed, with a capital and a full stop": lambda text: _sentence(_printed(text)),
    "marks apart from words": lambda text: re.sub(r"(?<=\w)([.,;:!?])", r" \1", text),
    "no marks": lambda text: re.sub(r"[^\w\s]", "", text),
    "spaces in front": lambda text: f"   {text}",
    "spaces behind": lambda text: f"{text}   ",
    "typographic apostrophes": lambda text: text.replace("'", "\u2019"),
    "and as a sign": lambda text: re.sub(r"\band\b", "&", text),
    "all stops as exclamation marks": lambda text: re.sub(r"\.", "!", text),
}
"""How a whole text is written otherwise."""

STRETCHES = (2, 3, 4, 5, 6)
"""Words of a stretch of a text that is put in brackets, quotes or other marks, or on a line of its own."""

ASIDES = (
    *(('"', '"'), ("\u201c", "\u201d"), ("'", "'"), ("(", ")"), ("[", "]"), ("-- ", " --"), ("\n", "\n")),
    *(("*", "*"), ("**", "**"), ("_", "_"), ("~~", "~~"), ("`", "`"), ("<b>", "</b>"), ("<i>", "</i>")),
    ("\n\n", "\n\n"),
)
"""Those marks."""

WHICH = ("those most for", "those most against", "the one most for", "the one most against")
"""Stretches that are put in them: one, or as many as may be, whose words speak most for the decision or against it."""


def _in_the_middle(text: str, put: str) -> str:
    at = text.find(" ", len(text) // 2)
    return text if at < 0 else text[:at] + put + text[at + 1 :]


def _printed(text: str) -> str:
    """Return a text that was cut into words and marks as books print it.

    >>> _printed("it 's a film ( of sorts ) , is n't it ?")
    "it's a film (of sorts), isn't it?"
    """
    joined = re.sub(r" (?=[.,;:!?%)\]}\u2019\u201d]|n't\b|'\w)|(?<=[(\[{\u2018\u201c]) ", "", text)
    return re.sub(r" (--|-|/) ", r"\1", re.sub(r'" ([^"]*[^" ]) "', r'"\1"', joined))


def _sentence(text: str) -> str:
    bare = text.rstrip()
    return bare[:1].upper() + bare[1:] + ("" if bare.endswith((".", "!", "?")) else ".")


def write_stretches(
    before: str, behind: str, which: str, text: str, gains: Mapping[str, float], rng: random.Random
) -> str:
    """Return a text with marks around stretches of it, with a word at least between two.

    Args:
        before: The mark in front of a stretch.
        behind: That after it.
        which: One of ``WHICH``; no more than thirty characters are written.
        text: A text.
        gains: By how much words, in lower case, speak for the decision; of others nothing is known.
        rng: What draws among stretches that speak as much for it.

    >>> write_stretches("(", ")", "those most for", "A dull and tedious film.", {"tedious": 1.0}, random.Random(1))
    'A dull (and tedious) film.'
    """
    told = [found for found in re.finditer(r"\S+", text) if re.search(r"\w", found[0])]
    sign = 1.0 if which.endswith("for") else -1.0
    said = [sign * gains.get(re.sub(r"^\W+|\W+$", "", found[0].lower()), 0.0) for found in told]
    sizes = [size for size in STRETCHES if size <= len(told)] or [len(told)]
    spans = [(start, start + size) for size in sizes for start in range(len(told) - size + 1) if size]
    worth = {(start, stop): sum(said[start:stop]) for start, stop in rng.sample(spans, len(spans))}
    most = 1 if which.startswith("the one") else max(1, CHARACTERS // max(1, len(before) + len(behind)))
    kept = list[tuple[int, int]]()
    for start, stop in sorted(worth, key=lambda span: -worth[span]):
        # The first is put in marks in any case, others where they help, or nothing is known.
        helps = not kept or worth[start, stop] > 0 or not gains
        if len(kept) < most and helps and all(stop < begin or end < start for begin, end in kept):
            kept.append((start, stop))
    for start, stop in sorted(kept, reverse=True):
        begin, end = told[start].start(), told[stop - 1].end()
        text = text[:begin] + before + text[begin:end] + behind + text[end:]
    return text
