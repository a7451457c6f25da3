"""Attackers that need nothing but the word: shuffles, intruding symbols, missing vowels, a missing end.

Characters are grapheme clusters: an accent stays with its letter. Each takes a word, the level and a generator and
returns the word as attacked, or the word itself where it has nothing to change; never an empty one. Their keyword
arguments are what the paper's text and its code disagree about.
"""

import random
import string
from math import expm1, log1p

from seatrial.noise.draws import one_of, shuffled
from seatrial.noise.graphemes import graphemes

_VOWELS = frozenset("aeiouAEIOU")


def full_shuffle(word: str, level: float, rng: random.Random, *, shortest: int, tries: int) -> str:
    """Return a word with its characters in an order drawn uniformly.

    Args:
        word: Left alone when shorter than ``shortest``.
        level: Not used: a shuffle has no degrees.
        rng: Where the orders come from.
        shortest: Characters of the shortest word that is attacked.
        tries: Orders drawn at most, until one gives another word: 1 for a plain uniform permutation.

    >>> full_shuffle("vandalism", 0.8, random.Random(1), shortest=3, tries=10)
    'vadsnmlia'
    """
    clusters = graphemes(word)
    if len(clusters) < shortest:
        return word
    for _ in range(tries):
        attacked = "".join(shuffled(clusters, rng))
        if attacked != word:
            return attacked
    return word


def inner_shuffle(word: str, level: float, rng: random.Random, *, shortest: int, tries: int) -> str:
    """Return a word with all but its first and last character shuffled, otherwise as :func:`full_shuffle`.

    >>> inner_shuffle("vandalism", 0.8, random.Random(1), shortest=4, tries=10)
    'vdslnaiam'
    """
    first, *inner = graphemes(word) or ("",)
    if len(inner) + 1 < shortest:
        return word
    last = inner.pop()
    return first + full_shuffle("".join(inner), level, rng, shortest=2, tries=tries) + last


def intrude_code(word: str, level: float, rng: random.Random) -> str:
    """Return a word of two characters or more with one symbol in at least one of its inner gaps.

    Gaps are filled as independent coins of probability ``level`` fill them, given that one is at least: the number of
    symbols is a binomial without its zero. The released code draws all coins anew until one falls; this draws from the
    same law at once. Words that stand in ``string.punctuation`` as they are, such as a full stop, are left alone.

    >>> intrude_code("vandalism", 0.5, random.Random(1))
    'van%da%l%i%sm'
    """
    clusters = graphemes(word)
    if len(clusters) < 2 or word in string.punctuation:
        return word
    symbol = one_of(string.punctuation, rng)
    gaps = len(clusters) - 1
    first = _first(gaps, level, rng)
    attacked = [*clusters[: first + 1], symbol]
    for gap in range(first + 1, gaps):
        attacked.append(clusters[gap])
        if rng.random() < level:
            attacked.append(symbol)
    attacked.append(clusters[-1])
    return "".join(attacked)


def _first(gaps: int, level: float, rng: random.Random) -> int:
    """Draw which of several gaps is the first that is filled, given that one is; one draw."""
    if gaps == 1 or level == 1:
        rng.random()
        return 0
    # A geometric law cut off at the last gap, by its inverse; expm1 and log1p keep the digits of small levels.
    empty = log1p(-level)
    return min(int(log1p(rng.random() * expm1(gaps * empty)) / empty), gaps - 1)


def intrude_paper(word: str, level: float, rng: random.Random) -> str:
    """Return a word of three characters or more with one symbol, maybe a space, in each inner gap by ``level``.

    >>> intrude_paper("vandalism", 0.5, random.Random(4))
    'v(a(n(d(a(lism'
    """
    clusters = graphemes(word)
    if len(clusters) < 3:
        return word
    symbol = one_of(string.punctuation + " ", rng)
    attacked = [clusters[0]]
    for character in clusters[1:]:
        if rng.random() < level:
            attacked.append(symbol)
        attacked.append(character)
    return "".join(attacked)


def disemvowel(word: str, level: float, rng: random.Random, *, shortest: int) -> str:
    """Return a word without a, e, i, o and u of either case; y and letters with accents stay.

    Words shorter than ``shortest`` and words of nothing but vowels are left alone.

    >>> [disemvowel(word, 0.8, random.Random(), shortest=3) for word in ("are", "Ayes", "naïve", "aia", "is")]
    ['r', 'ys', 'nïv', 'aia', 'is']
    """
    clusters = graphemes(word)
    if len(clusters) < shortest:
        return word
    return "".join(cluster for cluster in clusters if cluster not in _VOWELS) or word


def truncate(word: str, level: float, rng: random.Random, *, shortest: int) -> str:
    """Return a word without its last character, unless it is shorter than ``shortest``.

    >>> [truncate(word, 0.8, random.Random(), shortest=4) for word in ("the", "ship", "vandalism")]
    ['the', 'shi', 'vandalis']
    """
    clusters = graphemes(word)
    return word if len(clusters) < shortest else "".join(clusters[:-1])
