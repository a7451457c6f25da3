"""Ways to write a word, drawn at random: signs in it, another case, letters replaced, left out or exchanged."""

import random
import re
import string
from collections.abc import Callable

from workers.attacks.text.marked_words import LETTERS, Change, letter
from workers.attacks.text.spellings import AROUND, BEFORE, BEHIND, FORMS, KEYS, PARTING, SIGNS, SOUNDS

Drawn = tuple[str, Change]
"""What it writes, for people, and what it makes of a word."""

AT = ("first", "second", "third", "middle", "last but one", "last", "drawn", "inner")
PLACES = (
    "in front",
    "behind",
    "after the first letter",
    "after the second letter",
    "in the middle",
    "before the last letter",
)


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
    return within(*rng.choice(AROUND))


def within(before: str, behind: str) -> Drawn:
    """Return how to put marks around a word, with its name."""
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
    return spelt(*rng.choice(SOUNDS))


def spelt(old: str, new: str) -> Drawn:
    """Return how to spell a sound otherwise, with its name."""
    return f"{new!r} for {old.replace('|', ' or ').strip('[]')}", lambda word, _: re.sub(
        old, new, word.lower(), count=2
    )


def _affix(rng: random.Random) -> Drawn:
    return ending(rng.choice(BEHIND)) if rng.random() < 0.6 else beginning(rng.choice(BEFORE))


def ending(put: str) -> Drawn:
    """Return how to put something behind a word, with its name."""
    return f"{put!r} behind", lambda word, _: word + put


def beginning(put: str) -> Drawn:
    """Return how to put something in front of a word, with its name."""
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
"""Of which one is drawn."""
