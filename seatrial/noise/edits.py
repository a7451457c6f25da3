"""How far a text is from what became of it."""

from rapidfuzz.distance import Levenshtein


def levenshtein(before: str, after: str) -> int:
    """Return the least number of characters inserted, deleted or put for another that make one text of the other.

    >>> levenshtein("vandalism", "vndlsm"), levenshtein("", "abc")
    (3, 3)
    """
    return Levenshtein.distance(before, after)
