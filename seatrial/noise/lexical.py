"""Attackers that look things up: misspellings people make, spellings that sound alike, characters that look alike.

As those of :mod:`seatrial.noise.words`, each returns the word itself where it has nothing to change.
"""

import random
from collections.abc import Mapping, Set
from itertools import accumulate

from seatrial.noise.draws import by_weight, one_of
from seatrial.noise.graphemes import graphemes

Wheel = tuple[tuple[str, ...], tuple[float, ...]]
"""Items and the sums of their weights up to each."""


def natural_typo(
    word: str, level: float, rng: random.Random, *, typos: Mapping[str, tuple[str, ...]], any_case: bool
) -> str:
    """Return a misspelling of a word, each that is listed as likely as another; the word itself may be among them.

    Args:
        word: Looked up as it stands.
        level: Not used.
        rng: Where the draw comes from.
        typos: Misspellings by word.
        any_case: Whether it is looked up in lower case first; the misspelling then begins with a capital where the word
            does.

    >>> natural_typo("Sea", 0.8, random.Random(0), typos={"sea": ("see",)}, any_case=True)
    'See'
    """
    listed = (any_case and typos.get(word.lower())) or typos.get(word)
    if not listed:
        return word
    typo = one_of(listed, rng)
    return _begun_as(word, typo) if any_case else typo


def phonetic(
    word: str,
    level: float,
    rng: random.Random,
    *,
    respellings: Mapping[str, tuple[tuple[str, float], ...]],
    stopwords: Set[str],
) -> str:
    """Return another spelling of a word that sounds alike, drawn by weight, with a capital where the word has one.

    Stopwords, words that hold anything but letters and words that are not listed are left alone. The released code
    counts those as changed, and so changes far fewer words than the level says; here only what changed is counted.

    >>> phonetic("Phone", 0.8, random.Random(0), respellings={"phone": (("fone", 1.0),)}, stopwords=set())
    'Fone'
    """
    lower = word.lower()
    if not word.isalpha() or lower in stopwords:
        return word
    listed = respellings.get(lower)
    return _begun_as(word, by_weight(*_wheel(listed), rng)) if listed else word


def _begun_as(word: str, spelling: str) -> str:
    """Return a spelling with a capital first letter where the word has one."""
    return spelling[:1].upper() + spelling[1:] if word[:1].isupper() else spelling


def _wheel(listed: tuple[tuple[str, float], ...]) -> Wheel:
    items, weights = zip(*listed, strict=True)
    return items, tuple(accumulate(weights))


class LookAlikes:
    """Look-alikes of characters, ready to be drawn from.

    Args:
        glyphs: Look-alikes by character, with weights.
        even: Whether each is as likely as another, whatever its weight.
    """

    def __init__(self, glyphs: Mapping[str, tuple[tuple[str, float], ...]], *, even: bool) -> None:
        self._glyphs = glyphs
        self._even = even
        self._wheels: dict[str, Wheel | None] = {}

    def wheel(self, character: str) -> Wheel | None:
        """Return what stands for a character and the sums of the weights; None where nothing looks like it."""
        if character not in self._wheels:
            listed = self._glyphs.get(character)
            even = self._even
            self._wheels[character] = _wheel(tuple((e, 1.0 if even else w) for e, w in listed)) if listed else None
        return self._wheels[character]


def visual(word: str, level: float, rng: random.Random, *, look_alikes: LookAlikes) -> str:
    """Return a word with each character that has look-alikes put for one of them by ``level``, each on its own.

    >>> three = LookAlikes({"e": (("3", 1.0),)}, even=False)
    >>> visual("seventeen", 0.5, random.Random(0), look_alikes=three)
    'sevent3en'
    """
    attacked = list(graphemes(word))
    for at, character in enumerate(attacked):
        # The table has single characters: a letter with its accent beside it has no look-alike.
        wheel = look_alikes.wheel(character) if len(character) == 1 else None
        if wheel is not None and rng.random() < level:
            attacked[at] = by_weight(*wheel, rng)
    return "".join(attacked)
