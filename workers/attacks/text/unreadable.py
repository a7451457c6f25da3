"""Words of a text made unreadable, by letters drawn in their place: what a model decides that does not know them.

Whoever does not understand how some words are written loses them, and no more. A decision that stands where they are
letters drawn at random, and turns round where they are written in some way, is made by one that reads that way for the
opposite.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from workers.attacks.text.marked_words import letter
from workers.attacks.text.perturbation_grammar import PAIR
from workers.attacks.text.spellings import WORD
from workers.attacks.text.word_edits import misspellings

PARTED = 2
"""Letters of what an edit parts from a word that stay as they are, at most. Of eleven texts that withstood all attacks
log-odds turned six where words were parted before the last letter, and stood with other letters in their place."""

SHARES = ("half", "a quarter", "a quarter in a row")
"""Of a text's words that are left out."""


def words_of(text: str) -> list[str]:
    """Return the words of two letters and more, in lower case, each once, in the order of the text."""
    return list(dict.fromkeys(word.lower() for word in re.findall(WORD, text)))


def pairs_of(text: str) -> list[str]:
    """Return neighbours, in lower case, no word of the text in two of them.

    >>> pairs_of("A dull and tedious film.")
    ['dull and', 'tedious film']
    """
    return list(dict.fromkeys(found[0].lower() for found in re.finditer(PAIR, text)))


def unreadable(text: str, words: Collection[str], rng: random.Random) -> str:
    """Return a text with other letters in the place of some words.

    Args:
        text: A text.
        words: In lower case.
        rng: What draws the letters.

    >>> unreadable("A dull film.", {"dull"}, random.Random(1))
    'A dvth film.'
    """
    return re.sub(WORD, lambda word: _drawn(word[0], rng) if word[0].lower() in words else word[0], text)


def some_of(text: str, rng: random.Random) -> dict[str, list[str]]:
    """Return some of a text's words, in lower case, by each of ``SHARES``.

    >>> some_of("A dull and tedious film.", random.Random(0))
    {'half': ['film', 'dull'], 'a quarter': ['film'], 'a quarter in a row': ['film']}
    """
    words, told = words_of(text), [word.lower() for word in re.findall(WORD, text)]
    few = max(1, len(told) // 4)
    start = rng.randrange(max(1, len(told) - few + 1))
    half = rng.sample(words, (len(words) + 1) // 2)
    return dict(zip(SHARES, (half, half[:few], told[start : start + few]), strict=True))


def without(text: str, words: Collection[str]) -> str:
    """Return a text without some words, which are in lower case.

    >>> without("A dull film.", {"dull"})
    'A film.'
    """
    return re.sub(r" +", " ", re.sub(WORD, lambda word: "" if word[0].lower() in words else word[0], text)).strip(" ")


def unreadable_where(text: str, edited: str, rng: random.Random) -> str:
    r"""Return a text with other letters in the place of whatever an edit of it does not have as it stands there.

    What the edit parts from words, of one or two letters, stands behind them: a model that knows an "s" by itself reads
    no word for something else where it is asked about one.

    >>> unreadable_where("A dull film.", "A du*ll film.", random.Random(1))
    'A dvth film.'
    >>> unreadable_where("A dull film.", "A dul-\nl film.", random.Random(1))
    'A dvth film. l'
    """
    kept = set(edited.split())
    found = re.sub(r"\S+", lambda piece: piece[0] if piece[0] in kept else _drawn(piece[0], rng), text)
    new, old = edited.split(), text.split()
    # As many pieces as before are words written otherwise, however short.
    parted = Counter(piece for piece in new if piece.isalpha() and len(piece) <= PARTED) if len(new) > len(old) else {}
    return " ".join([found, *(Counter(parted) - Counter(old)).elements()])


def written_otherwise(text: str, edited: str) -> list[str]:
    """Return the words of a text, in lower case, of whatever an edit of it does not have as it stands there.

    >>> written_otherwise("A dull film.", "A du*ll film.")
    ['dull']
    """
    kept = set(edited.split())
    return words_of(" ".join(piece for piece in text.split() if piece not in kept))


def mistyped_where(text: str, edited: str, rng: random.Random) -> str:
    """Return a text with one typing error in each word of whatever an edit of it does not have as it stands there.

    Two letters are exchanged, or one is put in, left out, or another one, as a recipe writes them.

    >>> mistyped_where("A dull film.", "A #dull #film.", random.Random(1))
    'A dll fmlm.'
    """
    kept = set(edited.split())
    return re.sub(
        r"\S+",
        lambda piece: piece[0] if piece[0] in kept else re.sub(WORD, lambda word: _mistyped(word[0], rng), piece[0]),
        text,
    )


def _mistyped(word: str, rng: random.Random) -> str:
    at = 1 + int(rng.random() * max(1, len(word) - 2))
    left_out, put_in, replaced, exchanged = misspellings(word, at, letter(rng), letter(rng))
    return rng.choice([exchanged, put_in, left_out, replaced])


def most_tolerated(order: Sequence[str], keeps: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """Return the longest beginning of some words that may be unreadable, by bisection.

    Args:
        order: Words.
        keeps: Whether the decision stands where these are; the more of them, the less it should.
    """
    if keeps(order):
        return order
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(order[:middle]) else (low, middle)
    return order[:low]


def _drawn(word: str, rng: random.Random) -> str:
    return re.sub(r"[^\W\d_]", lambda _: letter(rng), word)
