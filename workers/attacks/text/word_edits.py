"""Words of a text edited at random, without a search: what anybody's typing errors look like."""

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from rapidfuzz.distance import OSA

from seatrial.contracts.noise import Noise
from seatrial.noise.attackers import Attack, attack
from seatrial.noise.lexicons import Lexicons, stopwords
from seatrial.noise.unspaced import is_unspaced
from workers.data import Text

LEVEL = 0.5
"""How hard an edited word is hit by Zéroe's attackers."""

LETTERS = 2
"""Of a misspelt word that are otherwise, at most."""

ZEROE = ("inner_shuffle", "keyboard_typo", "phonetic", "visual")
"""Zéroe's attackers of words that leave a word readable at any level."""

LETTER = "a letter less"
KINDS = (LETTER, *ZEROE)
"""Ways to write a word: without one of its inner letters, and Zéroe's."""

LEFT_OUT, PUT_IN, REPLACED, EXCHANGED, SEARCHED, TYPED = range(6)
"""What is done with one letter; two of them are exchanged; or any of it, and what Zéroe's attackers write, as often as
the search by labels does either; or any of it with a letter in lower case, as people mistype."""

_WORD = re.compile(r"(\w{3,})")
# Where no spaces part words, a sentence is one: what stands for its words are some letters after another.
_WINDOW = re.compile(r"(\w{3,4})")


@dataclass
class WordsOf:
    """A text cut into what may be edited and what stands between.

    Attributes:
        pieces: Of each part of the text; every other one is a word, from the second on.
        places: Part and piece of the words that may be edited, in reading order.
    """

    pieces: list[list[str]]
    places: list[tuple[int, int]]

    @classmethod
    def cut(cls, text: Text, seen: tuple[int, ...] | None = None) -> "WordsOf":
        """Return the words of three letters and more.

        Args:
            text: A text or a pair.
            seen: Characters of each part that the model sees; no word may be edited that goes on behind them.
        """
        parts = [text] if isinstance(text, str) else list(text)
        pieces = [(_WINDOW if is_unspaced(part) else _WORD).split(part) for part in parts]
        ends = [list(accumulate(map(len, cut))) for cut in pieces]
        places = [
            (part, at)
            for part, cut in enumerate(pieces)
            for at in range(1, len(cut), 2)
            if seen is None or ends[part][at] <= seen[part]
        ]
        return cls(pieces, places)

    @property
    def content_places(self) -> list[tuple[int, int]]:
        """Those that recipes edit, which leave stopwords alone; all where there are no others."""
        left_alone = stopwords()
        return [
            (part, at) for part, at in self.places if self.pieces[part][at].lower() not in left_alone
        ] or self.places

    @property
    def joined(self) -> Text:
        """The text as its pieces are now."""
        parts = ["".join(cut) for cut in self.pieces]
        return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def without_a_letter(word: str, rng: random.Random) -> str:
    """Return a word of three letters or more without one inside it."""
    inside = rng.randrange(1, len(word) - 1)
    return word[:inside] + word[inside + 1 :]


def misspellings(word: str, at: int, put: str, other: str) -> tuple[str, str, str, str]:
    """Return what DeepWordBug's edits make of a word: ``LEFT_OUT``, ``PUT_IN``, ``REPLACED`` and ``EXCHANGED``.

    >>> misspellings("film", 1, "x", "y")
    ('flm', 'fxilm', 'fylm', 'flim')
    """
    before, here, behind = word[:at], word[at : at + 1], word[at + 1 :]
    return (
        before + behind,
        before + put + here + behind,
        before + other + behind,
        before + behind[:1] + here + behind[1:],
    )


def misspelt(word: str, rng: random.Random, kind: int | None = None) -> str:
    """Return a word with one of DeepWordBug's edits behind its first letter; of less than three with a letter put in.

    Args:
        word: Of any length but 0.
        rng: Of the draws.
        kind: Which of :func:`misspellings`, ``SEARCHED`` or ``TYPED``; None: any of the former.
    """
    letters = string.ascii_letters
    if kind == TYPED:
        kind, letters = None, string.ascii_lowercase
    if kind == SEARCHED:
        kind, written = None, _by_zeroe(word, rng) if rng.random() < 0.5 else word
        if written != word:
            return written
    at = rng.randrange(1, max(2, len(word) - 1))
    other = rng.choice(letters if word.isascii() else word)
    edited = misspellings(word, at, other, other)
    if len(word) < 3:
        return edited[PUT_IN]
    drawn = edited[rng.randrange(len(edited)) if kind is None else kind]
    # The letter itself in its place, or two alike exchanged.
    return edited[LEFT_OUT] if drawn == word else drawn


def _by_zeroe(word: str, rng: random.Random) -> str:
    """Return what the first of Zéroe's attackers to change a letter or two of a word makes of it; else the word."""
    written = (attack(word, LEVEL, rng) for attack in rng.sample(zeroe_attackers(), len(ZEROE)))
    # One that falls apart is no word.
    return next((one for one in written if 0 < OSA.distance(word, one) <= LETTERS and len(one.split()) == 1), word)


def edit_words(
    text: Text, kind: str, share: float, least: int, seed: int, seen: tuple[int, ...] | None = None
) -> tuple[Text, int]:
    """Return a text some of whose words are written otherwise, and how many are.

    Args:
        text: A text or a pair.
        kind: One of :data:`KINDS`.
        share: Of the words that may be edited.
        least: Words, where there are as many.
        seed: Of the draws.
        seen: As :meth:`WordsOf.cut` has it.

    >>> edit_words("a fine day for all of them", "a letter less", 0.2, 2, 1)
    ('a fie dy for all of them', 2)
    """
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    words, edit, done = WordsOf.cut(text, seen), _edits()[kind], 0
    wanted = max(least, round(share * len(words.places)))
    for part, at in rng.sample(words.places, len(words.places)):
        if done == wanted:
            break
        edited = edit(words.pieces[part][at], rng)
        done += edited != words.pieces[part][at]
        words.pieces[part][at] = edited
    return words.joined, done


@cache
def zeroe_attackers() -> tuple[Attack, ...]:
    """Return Zéroe's attackers, in the order of their names."""
    noise, lexicons = Noise(), Lexicons(None)
    return tuple(attack(name, noise, lexicons) for name in ZEROE)


@cache
def _edits() -> dict[str, Callable[[str, random.Random], str]]:
    def hitting(attacker: Attack) -> Callable[[str, random.Random], str]:
        return lambda word, rng: attacker(word, LEVEL, rng)

    return {LETTER: without_a_letter} | dict(zip(ZEROE, map(hitting, zeroe_attackers()), strict=True))
