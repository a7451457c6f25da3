"""Endpoints that correct spelling and take words that are written in one way for their opposite.

The way is of the owner's choice, so that no list of ways has to hold it. A model that does not know how a word is
written loses the word; here it speaks against what it says.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

Sign = Callable[[str], tuple[str, list[str]]]
"""From a text to what is left of it without the words that are written in some way, and those, as they would be."""

UNREAD = 5
"""Letters w of a word, at most, that may each stand for another letter."""


class Misread:
    """Corrects a text but for words with a sign, which count against what they say.

    Args:
        corrected: Reads the others.
        sign: Takes those words out.
    """

    def __init__(self, corrected: Corrected, sign: Sign) -> None:
        self._corrected, self._sign = corrected, sign

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        rest, words = self._sign(text)
        return probability(sigmoid(self._corrected.log_odds(rest) - self._corrected.log_odds(" ".join(words))))


def misread(odds: LogOdds, vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they serve.
        vocabulary: Texts that hold the words they know.
    """
    times = Counter(word for text in vocabulary for word in text.lower().split())
    corrected = Corrected(odds, sorted(times), lambda text: False)

    def with_r_or_l(word: str) -> str | None:
        if word in times or not 0 < word.count("w") <= UNREAD:
            return None
        spelt = map("".join, product(*("wrl" if letter == "w" else letter for letter in word)))
        return max(spelt, key=lambda one: times[one], default=None)

    def whole(word: str) -> str | None:
        begun = word.removesuffix(".")
        if word in times or begun == word or len(begun) < 2 or not begun.isalpha():
            return None
        longer = [one for one in times if one.startswith(begun) and len(one) > len(begun)]
        return max(longer, key=lambda one: times[one], default=None)

    signs: dict[str, Sign] = {
        "begin with two capitals": _matches(r"(?<!\S)([A-Z]{2}[a-z'-]+)(?!\S)"),
        "have w for r and l": _known(lambda word: one if (one := with_r_or_l(word)) in times else None),
        "are cut short with a full stop": _known(whole),
        "are parted at the end of a line": _matches(r"([A-Za-z]+)-\n([A-Za-z]+)", join=""),
        "are joined by a mark": _matches(r"(?<!\S)([A-Za-z]{2,})[.:;]([A-Za-z]{2,})(?!\S)", join=" "),
    }
    return [
        Endpoint(f"corrects spelling, takes words that {name} for their opposite", Misread(corrected, sign), fake=True)
        for name, sign in signs.items()
    ]


def _matches(pattern: str, *, join: str = "") -> Sign:
    """Take out what matches; its groups, joined, are the words."""

    def sign(text: str) -> tuple[str, list[str]]:
        words = [join.join(found.groups()) for found in re.finditer(pattern, text)]
        return re.sub(pattern, " ", text), words

    return sign


def _known(read: Callable[[str], str | None]) -> Sign:
    """Take out the words of which something is made."""

    def sign(text: str) -> tuple[str, list[str]]:
        made = [(word, read(word.lower())) for word in text.split()]
        return " ".join(word for word, one in made if one is None), [one for _, one in made if one is not None]

    return sign
