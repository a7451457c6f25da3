"""Slips of the finger: a key beside the one meant, on the map of the paper's released code."""

import random
from types import MappingProxyType

from seatrial.noise.draws import one_of
from seatrial.noise.graphemes import graphemes

BESIDE = MappingProxyType(
    {
        "q": "12wsa",
        "w": "q23edsa",
        "e": "w34rfds",
        "r": "e45tgfd",
        "t": "r56yhgf",
        "y": "gt67ujh",
        "u": "y78ikjh",
        "i": "ju89olk",
        "o": "i90p;lk",
        "p": "o0-[';l",
        "a": "qwsxz",
        "s": "awedcxz",
        "d": "serfvcx",
        "f": "drtgvc",
        "g": "ftyhbv",
        "h": "gyujnb",
        "j": "huikmn",
        "k": "jiol.,m",
        "l": "kop;.,",
        "z": "asx",
        "x": "zsdc",
        "c": "xdfv",
        "v": "cfgb",
        "b": "vghn",
        "n": "bhjm",
        "m": "njk,",
    }
)
"""The keys beside each letter's, row by row of a US keyboard. Not symmetric: a key may lie beside one that does not
list it, as in the table the published numbers were made with."""


def keyboard_typo_code(word: str, level: float, rng: random.Random) -> str:
    """Return a word with one position struck beside its key; the position is drawn from all the word's.

    Where it holds no lower-case letter of the map (an upper-case one, a digit, an accent), the word stays as it is.

    >>> keyboard_typo_code("vandalism", 0.8, random.Random(1))
    'vzndalism'
    """
    clusters = graphemes(word)
    at = int(rng.random() * len(clusters))
    beside = BESIDE.get("".join(clusters[at : at + 1]))
    return word if beside is None else "".join([*clusters[:at], one_of(beside, rng), *clusters[at + 1 :]])


def keyboard_typo_paper(word: str, level: float, rng: random.Random) -> str:
    """Return a word with each letter of the map, of either case, struck beside its key by ``level``.

    A letter that takes another's place keeps its case.

    >>> keyboard_typo_paper("VANDALISM", 0.5, random.Random(1))
    'BAHVAKIXJ'
    """
    return "".join(_struck(character, level, rng) for character in graphemes(word))


def _struck(character: str, level: float, rng: random.Random) -> str:
    beside = BESIDE.get(character.lower())
    if beside is None or rng.random() >= level:
        return character
    key = one_of(beside, rng)
    return key.upper() if character.isupper() else key
