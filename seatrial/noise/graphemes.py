"""Characters as a reader sees them: a letter with its accents, a syllable of Thai, an emoji made of several."""

from collections import Counter
from collections.abc import Sequence

import regex  # type: ignore[import-untyped]

_CLUSTER = regex.compile(r"\X")


def graphemes(text: str) -> Sequence[str]:
    r"""Return the extended grapheme clusters of a text (Unicode Standard Annex 29), in order.

    >>> [len(cluster) for cluster in graphemes("cafe\u0301")], "".join(graphemes("plain"))
    ([1, 1, 1, 2], 'plain')
    """
    # Whatever is ASCII stands alone, but for a line break of two characters.
    if text.isascii() and "\r\n" not in text:
        return text
    clusters: list[str] = _CLUSTER.findall(text)
    return clusters


def is_torn(before: str, after: str) -> bool:
    r"""Return whether an edit made or took apart a cluster of several characters, where it did not remove it whole.

    >>> is_torn("un cafe\u0301 noir", "un cafe noir"), is_torn("un cafe\u0301 noir", "un noir")
    (True, False)
    """
    old, new = Counter(graphemes(before)), Counter(graphemes(after))
    if any(len(cluster) > 1 for cluster in new - old):
        return True
    gone = {character for cluster in old - new if len(cluster) > 1 for character in cluster}
    return any(new[character] > old[character] for character in gone)
