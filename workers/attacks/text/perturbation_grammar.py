"""Ways to write words, or the gaps between them, that are drawn at random from a grammar of perturbations.

No list of ways holds the one that an endpoint has been built to turn round at. Here each is put together from what is
written (a sign, a letter, another case), where (before a word, behind it, at a letter of it, in a gap) and to which
words, so that there are some hundred thousand and nobody knows beforehand which are drawn. None negates a word.
"""

import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from rapidfuzz.distance import Levenshtein

from workers.attacks.text.layouts import ASIDES, SPELT, WHICH, WHOLE, write_stretches
from workers.attacks.text.marked_words import CHARACTERS, LETTERS, Change, letter
from workers.attacks.text.spellings import (
    AROUND,
    BEFORE,
    BEHIND,
    FORMS,
    GAPS,
    KEYS,
    NOTES,
    OPENINGS,
    PARTING,
    SIGNS,
    SOUNDS,
)

Drawn = tuple[str, Change]
"""What it writes, for people, and what it makes of a word."""

Allowed = Sequence[str] | Mapping[str, float] | None
"""Words in lower case that may be touched, or pairs of neighbours where a gap is, the first ones first; None where all
may. Of stretches all may, and it says how much words are known to speak for the decision."""

WORD = r"(?<!\w)[^\W\d_]{2,}(?!\w)"
NEGATION = r"\b(?:no|not|never|nor|neither|without)\b"
PAIR = r"(?<!\w)([^\W\d_]{2,}) ([^\W\d_]{2,})(?!\w)"

AT = ("first", "second", "third", "middle", "last but one", "last", "drawn", "inner")
PLACES = (
    "in front",
    "behind",
    "after the first letter",
    "after the second letter",
    "in the middle",
    "before the last letter",
)

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


def _at(word: str, where: str, rng: random.Random) -> int:
    last, drawn = len(word) - 1, rng.random()
    places = (0, min(1, last), min(2, last), len(word) // 2, max(0, last - 1), last)
    return (*places, int(drawn * len(word)), min(last, 1 + int(drawn * max(1, last - 1))))[AT.index(where)]


def _gap(word: str, place: str) -> int:
    return (0, len(word), 1, min(2, len(word)), len(word) // 2, len(word) - 1)[PLACES.index(place)]


def _put(rng: random.Random) -> Drawn:
    sign, place = rng.choice([*SIGNS, *LETTERS]), rng.choice(PLACES)
    sign *= rng.choice((1, 1, 1, 2))
    return f"{sign!r} {place}", lambda word, _: word[: _gap(word, place)] + sign + word[_gap(word, place) :]


def _around(rng: random.Random) -> Drawn:
    return _within(*rng.choice(AROUND))


def _within(before: str, behind: str) -> Drawn:
    return f"{before!r} and {behind!r} around", lambda word, _: before + word + behind


def _case(rng: random.Random) -> Drawn:
    capitals, rest, from_behind = [rng.random() < 0.5 for _ in range(4)], rng.random() < 0.3, rng.random() < 0.3

    def change(word: str, _: random.Random) -> str:
        letters = word[::-1] if from_behind else word
        cases = [*capitals, *[rest] * len(word)]
        written = "".join(one.upper() if is_capital else one.lower() for one, is_capital in zip(letters, cases))  # noqa: B905 - of both the shorter
        return written[::-1] if from_behind else written

    shown = "".join("Aa"[not one] for one in [*capitals, rest])
    return f"case as in {shown[::-1] + ' at the end' if from_behind else shown}", change


def _replace(rng: random.Random) -> Drawn:
    places = [rng.choice(AT) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    kind, sign = rng.choice(("any letter", "the next key", "a sign")), rng.choice([*LETTERS, *"*#-_.?$@%~^x"])

    def change(word: str, own: random.Random) -> str:
        for where in places if len(word) > len(places) + 1 else ():
            at = _at(word, where, own)
            put = {"any letter": letter(own), "the next key": KEYS.get(word[at].lower(), word[at]), "a sign": sign}[
                kind
            ]
            word = word[:at] + put + word[at + 1 :]
        return word

    return f"{kind if kind != 'a sign' else repr(sign)} for the letters {', '.join(places)}", change


def _leave_out(rng: random.Random) -> Drawn:
    if rng.random() < 0.15:
        return "no vowels", lambda word, _: word[0] + re.sub("[aeiou]", "", word[1:])
    places = [rng.choice(AT) for _ in range(rng.choice((1, 1, 2)))]

    def change(word: str, own: random.Random) -> str:
        for where in places if len(word) > len(places) + 1 else ():
            at = _at(word, where, own)
            word = word[:at] + word[at + 1 :]
        return word

    return f"no letter {', '.join(places)}", change


def _cut(rng: random.Random) -> Drawn:
    count, end, is_front = rng.choice((1, 2, 3, 4)), rng.choice(("", ".", ".", "'", "-", "\u2026")), rng.random() < 0.3

    def change(word: str, _: random.Random) -> str:
        if len(word) < count + 3:
            return word
        return end + word[count:] if is_front else word[:-count] + end

    return f"{count} letters cut off {'in front' if is_front else 'behind'} for {end!r}", change


def _part(rng: random.Random) -> Drawn:
    sign, place = rng.choice(PARTING), rng.choice(PLACES[2:])
    return f"parted {place} by {sign!r}", lambda word, _: word[: _gap(word, place)] + sign + word[_gap(word, place) :]


def _repeat(rng: random.Random) -> Drawn:
    where, times = rng.choice(AT), rng.choice((1, 1, 2, 3, 5))

    def change(word: str, own: random.Random) -> str:
        at = _at(word, where, own)
        return word[:at] + word[at] * times + word[at:]

    return f"the letter {where} {times} times more", change


def _exchange(rng: random.Random) -> Drawn:
    ways: dict[str, Callable[[str], str]] = {
        "first two letters exchanged": lambda word: word[1] + word[0] + word[2:],
        "last two letters exchanged": lambda word: word[:-2] + word[-1] + word[-2],
        "first and last letter exchanged": lambda word: word[-1] + word[1:-1] + word[0],
        "first letter last": lambda word: word[1:] + word[0],
        "last letter first": lambda word: word[-1] + word[:-1],
        "first letter last, and ay": lambda word: f"{word[1:]}{word[0]}ay",
        "backwards": lambda word: word[::-1],
        "written twice": lambda word: f"{word} {word}",
        "halves exchanged": lambda word: word[len(word) // 2 :] + word[: len(word) // 2],
        "first letters again with a hyphen": lambda word: f"{word[:2]}-{word}",
        "middle letters exchanged": lambda word: _swapped(word, len(word) // 2 - 1),
    }
    name = rng.choice(list(ways))
    return name, lambda word, _: ways[name](word) if len(word) > 2 else word


def _swapped(word: str, at: int) -> str:
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _letters_for_one(rng: random.Random) -> Drawn:
    new = rng.choice(string.ascii_lowercase)
    old = "".join(sorted(set(rng.sample(string.ascii_lowercase, rng.choice((1, 2, 3, 4, 6)))) - {new})) or "q"
    return f"{new} for each of {old}", lambda word, _: re.sub(f"[{old}]", new, word, flags=re.IGNORECASE)


def _sound(rng: random.Random) -> Drawn:
    return _spelt(*rng.choice(SOUNDS))


def _spelt(old: str, new: str) -> Drawn:
    return f"{new!r} for {old.replace('|', ' or ').strip('[]')}", lambda word, _: re.sub(
        old, new, word.lower(), count=2
    )


def _affix(rng: random.Random) -> Drawn:
    return _ending(rng.choice(BEHIND)) if rng.random() < 0.6 else _beginning(rng.choice(BEFORE))


def _ending(put: str) -> Drawn:
    return f"{put!r} behind", lambda word, _: word + put


def _beginning(put: str) -> Drawn:
    return f"{put!r} in front", lambda word, _: put + word


def _form(rng: random.Random) -> Drawn:
    form, most = rng.choice(FORMS), rng.choice((1, 1, 2, 9))

    def change(word: str, _: random.Random) -> str:
        places = [at for at, one in enumerate(word) if one.lower() in form][:most]
        return "".join(form[one.lower()] if at in places else one for at, one in enumerate(word))

    return f"letters as {next(iter(form.values()))!r}, {most} at most", change


WORDS: tuple[Callable[[random.Random], Drawn], ...] = (
    *(_put, _put, _put, _around, _case, _case, _replace, _replace, _leave_out, _cut),
    *(_part, _repeat, _exchange, _exchange, _letters_for_one, _sound, _affix, _form),
)
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
    """

    name: str
    kind: str
    edit: Callable[[str, Allowed, random.Random], str]


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

    That are layouts, marks around stretches and around words, endings, sounds spelt otherwise, and signs at the words
    that a decision hangs on.

    Args:
        count: At most some tens of thousands: there are no more than that of some kinds.
        rng: What draws.
    """
    ways = {name: Way(name, "whole", partial(_whole, name)) for name in SPELT}
    for (before, behind), which in product(ASIDES, WHICH):
        name = f"{before!r} and {behind!r} around stretches, {which}"
        ways[name] = Way(name, "stretches", partial(_stretches, before, behind, which))
    listed = [_spelt(*sound) for sound in SOUNDS] + [_within(*marks) for marks in AROUND]
    for name, change in (*listed, *map(_ending, BEHIND), *map(_beginning, BEFORE)):
        way = _in_scope(name, change, "words")
        ways[way.name] = way
    ways |= {name: Way(name, MARKS, _editing(change, "words")) for name, change in _marks()}
    while len(ways) < count:
        way = draw_way(rng)
        ways.setdefault(way.name, way)
    return list(ways.values())[:count]


def _marks() -> Iterator[Drawn]:
    for before, behind in AROUND:
        # Whoever takes tags out of what is typed takes out <tedious> as well, as a browser does not show it: of an
        # honest corrector that turned 28 texts of 36.
        if before + behind != "<>":
            name, change = _within(before, behind)
            yield f"{name} the words it hangs on", change
    for sign in (*SIGNS, *NOTES):
        name, change = _ending(sign)
        yield f"{name} the words it hangs on", change
    for sign in SIGNS:
        name, change = _beginning(sign)
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
