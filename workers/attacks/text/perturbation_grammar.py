"""Ways to write words, or the gaps between them, that are drawn at random from a grammar of perturbations.

No list of ways holds the one that an endpoint has been built to turn round at. Here each is put together from what is
written (a sign, a letter, another case), where (before a word, behind it, at a letter of it, in a gap) and to which
words, so that there are some hundred thousand and nobody knows beforehand which are drawn. None negates a word.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from rapidfuzz.distance import Levenshtein

from workers.attacks.text.insertions import (
    HESITATIONS,
    LABELS,
    REGISTERS,
    STRESSES,
    hesitating,
    listed,
    registered,
    said_again,
)
from workers.attacks.text.layouts import ASIDES, SPELT, WHICH, WHOLE, write_stretches
from workers.attacks.text.marked_words import CHARACTERS, Change
from workers.attacks.text.spellings import (
    AROUND,
    BEFORE,
    BEHIND,
    GAPS,
    NOTES,
    OPENINGS,
    SIGNS,
    SOUNDS,
    WORD,
)
from workers.attacks.text.word_changes import WORDS, Drawn, beginning, ending, spelt, within

Allowed = Sequence[str] | Mapping[str, float] | None
"""Words in lower case that may be touched, or pairs of neighbours where a gap is, the first ones first; None where all
may. Of stretches all may, and it says how much words are known to speak for the decision."""

NEGATION = r"\b(?:no|not|never|nor|neither|without)\b"
PAIR = r"(?<!\w)([^\W\d_]{2,}) ([^\W\d_]{2,})(?!\w)"

SCOPES: dict[str, Callable[[str], bool]] = {
    "words": lambda word: len(word) > 2,
    "long words": lambda word: len(word) > 5,
    "short words": lambda word: 2 < len(word) < 6,
}
OF_SCOPES = ("words", "words", "words", "long words", "short words")

TWO_AT_ONCE = 0.12
"""Share of the ways that write a word otherwise twice."""

MARKS = "marks"
"""The kind of way that leaves words whole, and puts signs to those that a decision hangs on."""

HESITATING, STRESSING, AGAIN = "hesitations", "stresses", "again"
"""Kinds that put words before those a text can do without, or those that speak against its decision; or say some
again."""


NEIGHBOURS: dict[str, Callable[[str, str], str]] = {
    "first letters of neighbours exchanged": lambda one, other: f"{other[0]}{one[1:]} {one[0]}{other[1:]}",
    "last letters of neighbours exchanged": lambda one, other: f"{one[:-1]}{other[-1]} {other[:-1]}{one[-1]}",
    "neighbours exchanged": lambda one, other: f"{other} {one}",
    "spaces a letter late": lambda one, other: f"{one}{other[0]} {other[1:]}",
    "spaces a letter early": lambda one, other: f"{one[:-1]} {one[-1]}{other}",
    "words twice": lambda one, other: f"{one} {one} {other}",
    "words begun twice": lambda one, other: f"{one} {other[:2]}- {other}",
    "a letter over the space": lambda one, other: f"{one}{other[0]} {other}",
    "spaces twice": lambda one, other: f"{one} . {other}",
}


@dataclass(frozen=True)
class Way:
    """One way to write a text otherwise.

    Attributes:
        name: What it writes, for people.
        kind: ``words``, ``gaps`` (also what neighbours exchange over one), ``stretches``, ``whole`` or ``marks``.
        edit: A text, by words or pairs that may be touched, with draws of its own.
        put: What it puts before words, of those that do.
    """

    name: str
    kind: str
    edit: Callable[[str, Allowed, random.Random], str]
    put: str = ""


def draw_way(rng: random.Random) -> Way:
    """Return a way that is drawn.

    It edits thirty characters at most, but where it writes all of a text's capitals or marks otherwise.

    >>> way = draw_way(random.Random(4))
    >>> way.name, way.edit("A dull and tedious film.", None, random.Random(0))
    ("'“' and '”' around (words)", 'A “dull” “and” “tedious” “film”.')
    """
    kind = rng.random()
    if kind < 0.7:
        return _of_words(rng)
    if kind < 0.85:
        return _of_gaps(rng)
    if kind < 0.94:
        name = rng.choice(list(NEIGHBOURS))
        return Way(name, "gaps", _between(NEIGHBOURS[name]))
    name, sign = rng.choice(list(WHOLE)), rng.choice(OPENINGS)
    return Way(f"{sign!r} {name}", "whole", lambda text, allowed, own: WHOLE[name](text, sign))


def draw_ways(count: int, rng: random.Random) -> list[Way]:
    """Return so many ways, each once: what there is little of first, then others as drawn.

    That are layouts, marks around stretches and around words, endings, sounds spelt otherwise, signs at the words that
    a decision hangs on, and words that say nothing, or nothing new.

    Args:
        count: At most some tens of thousands: there are no more than that of some kinds.
        rng: What draws.
    """
    ways = {name: Way(name, "whole", partial(_whole, name)) for name in SPELT}
    for (before, behind), which in product(ASIDES, WHICH):
        name = f"{before!r} and {behind!r} around stretches, {which}"
        ways[name] = Way(name, "stretches", partial(_stretches, before, behind, which))
    few = [spelt(*sound) for sound in SOUNDS] + [within(*marks) for marks in AROUND]
    for name, change in (*few, *map(ending, BEHIND), *map(beginning, BEFORE)):
        way = _in_scope(name, change, "words")
        ways[way.name] = way
    ways |= {name: Way(name, MARKS, _editing(change, "words")) for name, change in _marks()}
    ways |= {way.name: way for way in _insertions()}
    while len(ways) < count:
        way = draw_way(rng)
        ways.setdefault(way.name, way)
    return list(ways.values())[:count]


def _insertions() -> Iterator[Way]:
    for kind, puts in ((HESITATING, HESITATIONS), (STRESSING, STRESSES)):
        for put in puts:
            yield Way(f"{put!r} before words", kind, partial(_put_before, put), put)
    for labels in LABELS:
        yield Way(f"{labels[0]!r} and so on before words", AGAIN, partial(_listing, labels))
    yield Way("words said again at the end", AGAIN, lambda text, allowed, _: said_again(text, list(allowed or ())))
    for register in REGISTERS:
        yield Way(f"written as in {register}", "whole", partial(_as_in, register))


def _put_before(put: str, text: str, allowed: Allowed, _: random.Random) -> str:
    return hesitating(text, list(allowed or ()), put)


def _listing(labels: Sequence[str], text: str, allowed: Allowed, _: random.Random) -> str:
    return listed(text, list(allowed or ()), labels)


def _as_in(register: str, text: str, _: Allowed, __: random.Random) -> str:
    return registered(text, register)


def _marks() -> Iterator[Drawn]:
    for before, behind in AROUND:
        # Whoever takes tags out of what is typed takes out <tedious> as well, as a browser does not show it: of an
        # honest corrector that turned 28 texts of 36.
        if before + behind != "<>":
            name, change = within(before, behind)
            yield f"{name} the words it hangs on", change
    for sign in (*SIGNS, *NOTES):
        name, change = ending(sign)
        yield f"{name} the words it hangs on", change
    for sign in SIGNS:
        name, change = beginning(sign)
        yield f"{name} of the words it hangs on", change


def _stretches(before: str, behind: str, which: str, text: str, allowed: Allowed, own: random.Random) -> str:
    return write_stretches(before, behind, which, text, allowed if isinstance(allowed, Mapping) else {}, own)


def _whole(name: str, text: str, _: Allowed, __: random.Random) -> str:
    return SPELT[name](text)


def _of_words(rng: random.Random) -> Way:
    name, change = rng.choice(WORDS)(rng)
    if rng.random() < TWO_AT_ONCE:
        second, then = rng.choice(WORDS)(rng)
        name = f"{name} and {second}"
        change = _both(change, then)
    return _in_scope(name, change, rng.choice(OF_SCOPES))


def _in_scope(name: str, change: Change, scope: str) -> Way:
    return Way(f"{name} ({scope})", "words", _editing(change, scope))


def _editing(change: Change, scope: str) -> Callable[[str, Allowed, random.Random], str]:
    def edit(text: str, allowed: Allowed, own: random.Random) -> str:
        words = [
            found
            for found in re.finditer(WORD, text)
            if SCOPES[scope](found[0]) and (allowed is None or found[0].lower() in allowed)
        ]
        edits = [(found, change(found[0], own)) for found in _in_order(words, allowed, own)]
        return _written(text, [(found, put) for found, put in edits if not re.search(NEGATION, put.lower())])

    return edit


def _both(first: Change, then: Change) -> Change:
    def change(word: str, own: random.Random) -> str:
        once = first(word, own)
        return then(once, own) if len(once) > 2 else once

    return change


def _of_gaps(rng: random.Random) -> Way:
    sign, most = rng.choice(GAPS), rng.choice((2, 12, 12))
    put = rng.choice((sign, sign, f"{sign} ", f" {sign}"))

    def swap(one: str, other: str) -> str:
        return one + put + other

    return Way(f"{put!r} for {most} spaces at most", "gaps", _between(swap, most))


def _between(swap: Callable[[str, str], str], most: int = CHARACTERS) -> Callable[[str, Allowed, random.Random], str]:
    def edit(text: str, allowed: Allowed, own: random.Random) -> str:
        pairs = [found for found in re.finditer(PAIR, text) if allowed is None or found[0].lower() in allowed]
        chosen = _in_order(pairs, allowed, own)[:most]
        return _written(text, [(found, swap(found[1], found[2])) for found in chosen])

    return edit


def _in_order(found: list[re.Match[str]], allowed: Allowed, own: random.Random) -> list[re.Match[str]]:
    """Return what is edited in the order of what may be, as far as that goes; in one that is drawn otherwise."""
    ranks = {} if allowed is None else {unit: rank for rank, unit in enumerate(allowed)}
    return sorted(own.sample(found, len(found)), key=lambda one: ranks.get(one[0].lower(), 0))


def _written(text: str, edits: list[tuple[re.Match[str], str]]) -> str:
    """Return a text with as many of its edits, from the first on, as thirty characters allow."""
    left, kept = CHARACTERS, []
    for found, put in edits:
        cost = int(Levenshtein.distance(found[0], put))
        if cost <= left:
            left -= cost
            kept.append((found, put))
    for found, put in sorted(kept, key=lambda one: one[0].start(), reverse=True):
        text = text[: found.start()] + put + text[found.end() :]
    return text
