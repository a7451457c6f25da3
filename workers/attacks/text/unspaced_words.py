"""Words of texts in scripts without spaces, for TextAttack, which has them for Chinese alone and at one moment alone.

TextAttack cuts a text anew after every edit. In a spaced text words keep their places; in a Chinese one a letter that
is changed in one word moves the ends of its neighbours, so that a search edits other words than it ranked. Here a text
is cut once, and what becomes of a word is the word in its place.
"""

import logging
from collections.abc import Callable
from functools import cache

from seatrial.noise.graphemes import graphemes
from seatrial.noise.unspaced import is_japanese, is_unspaced, pieces

STAND_IN = "\ua66e"
"""A letter no language uses: it stands for others while words are told, for what TextAttack takes for no letter, or for
Chinese."""


def first_words(text: str, words_from_text: Callable[[str], list[str]]) -> list[str]:
    """Return the words of a text that holds a script without spaces, before anything is edited.

    Chinese characters are cut by jieba's dictionary, as TextAttack has them cut; beside kana, where they are Japanese,
    and in all other scripts words are the pieces of :func:`seatrial.noise.unspaced.pieces`.

    Args:
        text: Of any scripts.
        words_from_text: TextAttack's.
    """
    is_chinese = not is_japanese(text)
    words: list[str] = []
    for chunk in text.split():
        for piece in pieces(chunk, keeps_han=is_chinese):
            if is_chinese and is_unspaced(piece[0]):
                words += _chinese(piece)
            else:
                words += whole_words(piece, words_from_text)
    return words


def whole_words(text: str, words_from_text: Callable[[str], list[str]]) -> list[str]:
    """Return the words of a text as TextAttack tells them by white space and punctuation alone.

    A letter with its combining marks is one letter: TextAttack's words end before a mark. Of a text without such
    letters and without Chinese characters they are TextAttack's.
    """
    clusters = graphemes(text)
    if len(clusters) == len(text) and not is_unspaced(text):
        return words_from_text(text)
    stands = "".join(_standing(cluster) for cluster in clusters)
    words, end = [], 0
    for word in words_from_text(stands):
        start = stands.index(word, end)
        end = start + len(word)
        words.append("".join(clusters[start:end]))
    return words


def _standing(cluster: str) -> str:
    is_letter = cluster[0].isalnum() and (len(cluster) > 1 or is_unspaced(cluster))
    return STAND_IN if is_letter else cluster[0]


def _chinese(run: str) -> list[str]:
    if not is_unspaced(run) or run[0] < "\u2e80":
        # Thai and its neighbours: no Chinese characters, although there is no kana.
        return [run]
    return [word for word in _jieba()(run) if word]


@cache
def _jieba() -> Callable[[str], list[str]]:
    import jieba  # type: ignore[import-untyped]

    # It tells how long its dictionary took to load.
    jieba.setLogLevel(logging.WARNING)
    cut: Callable[[str], list[str]] = jieba.lcut
    return cut
