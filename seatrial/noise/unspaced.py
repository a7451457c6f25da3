"""Words of scripts that put no space between them, told by script alone: Chinese, Japanese, Thai and its neighbours.

No dictionary: the same text is cut alike wherever it is. Pieces are as long as words are in the mean, not words.
"""

import regex  # type: ignore[import-untyped]

_HAN, _HIRAGANA, _KATAKANA = (rf"\p{{Script={name}}}" for name in ("Han", "Hiragana", "Katakana"))
# The marks of long vowels and of voice belong to neither of the two kana.
_LONG = "\u30fc\uff70\uff9e\uff9f"
_SYLLABLES = "".join(rf"\p{{Script={name}}}" for name in ("Thai", "Lao", "Khmer", "Myanmar"))
# Vowels that are written before their consonant: no syllable goes on at one (Thai, Lao).
_LEADING = "\u0e40-\u0e44\u0ec0-\u0ec4"
_CLUSTER = rf"(?=[{_SYLLABLES}])(?![{_LEADING}])\X"
_ANY = rf"{_HAN}{_HIRAGANA}{_KATAKANA}{_SYLLABLES}"
# Forms of punctuation and symbols for these scripts; what is a letter among them is met before.
_MARK = "\u2026\u3000-\u303f\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"

_UNSPACED = regex.compile(rf"[{_ANY}]")
_KANA = regex.compile(rf"[{_HIRAGANA}{_KATAKANA}]")
_HAN_RUN = rf"(?:(?={_HAN})\X)"
_LEADING_CLUSTER = rf"(?=[{_LEADING}])\X"
_SYLLABLE_RUN = rf"(?:{_LEADING_CLUSTER})?(?:{_CLUSTER}){{1,3}}|{_LEADING_CLUSTER}"
_OTHERS = (
    rf"(?:(?=[{_HIRAGANA}{_LONG}])\X){{1,3}}",
    rf"(?:(?=[{_KATAKANA}{_LONG}])\X)++",
    _SYLLABLE_RUN,
    rf"(?=[{_MARK}])\X",
    rf"(?:(?![{_ANY}{_LONG}{_MARK}])\X)++",
    r"\X",
)
_PIECE = regex.compile("|".join([rf"{_HAN_RUN}{{1,2}}", *_OTHERS]))
_PIECE_OR_RUN = regex.compile("|".join([rf"{_HAN_RUN}++", *_OTHERS]))


def is_unspaced(text: str) -> bool:
    """Return whether a text holds a character of a script without spaces.

    >>> is_unspaced("a film"), is_unspaced("a 電影"), is_unspaced("영화 한 편")
    (False, True, False)
    """
    return not text.isascii() and _UNSPACED.search(text) is not None


def count_words(text: str) -> int:
    """Return how many words a text has, between white space and, in scripts without spaces, as they are cut.

    >>> count_words("It's a film."), count_words("这部电影 ok")
    (3, 3)
    """
    chunks = text.split()
    return sum(len(pieces(chunk)) for chunk in chunks) if is_unspaced(text) else len(chunks)


def is_japanese(text: str) -> bool:
    """Return whether a text holds kana.

    >>> is_japanese("映画"), is_japanese("この映画")
    (False, True)
    """
    return _KANA.search(text) is not None


def pieces(text: str, *, keeps_han: bool = False) -> list[str]:
    """Return a text without white space in pieces, of which each joins on to the next.

    Chinese characters stand two and two, hiragana by three at most, katakana as long as they go on; Thai, Lao, Khmer
    and Burmese by three grapheme clusters at most, beginning anew at a vowel written before its consonant. Marks of
    punctuation of these scripts stand alone; what is of other scripts goes on until one of them comes.

    Args:
        text: Without white space.
        keeps_han: Leave runs of Chinese characters whole.

    >>> pieces("この映画はABCより良い。")
    ['この', '映画', 'は', 'ABC', 'より', '良', 'い', '。']
    >>> pieces("นักแสดง"), pieces("这部电影"), pieces("这部电影", keeps_han=True)
    (['นัก', 'แสดง'], ['这部', '电影'], ['这部电影'])
    """
    found: list[str] = (_PIECE_OR_RUN if keeps_han else _PIECE).findall(text)
    return found
