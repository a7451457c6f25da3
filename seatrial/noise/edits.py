"""How far a text is from what became of it."""

from rapidfuzz.distance import Levenshtein

from seatrial.noise.graphemes import graphemes


def levenshtein(before: str, after: str) -> int:
    r"""Return the least number of characters inserted, deleted or put for another that make one text of the other.

    A character is a grapheme cluster: a letter with its accents counts once.

    >>> levenshtein("vandalism", "vndlsm"), levenshtein("", "abc"), levenshtein("cafe\u0301", "cafes\u0301")
    (3, 3, 2)
    """
    return Levenshtein.distance(graphemes(before), graphemes(after))
