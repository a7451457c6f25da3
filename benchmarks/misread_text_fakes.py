"""Endpoints that correct spelling and take words that are written in one way for their opposite.

The way is of the owner's choice, so that no list of ways has to hold it. A model that does not know how a word is
written loses the word; here it speaks against what it says.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import product

from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

Sign = Callable[[str], tuple[str, list[str]]]
"""From a text to what is left of it without the words that are written in some way, and those, as they would be."""

UNREAD = 5
"""Letters w of a word, at most, that may each stand for another letter."""

FEW = 2
"""Words of three letters and more that cannot be read, from which on one turns round."""


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


class Refusing:
    """Misreads, and turns round where it cannot read words at all, so that no such control tells the way.

    Args:
        misread: What it is otherwise.
        corrected: Knows which words it can read.
    """

    def __init__(self, misread: Misread, corrected: Corrected) -> None:
        self._misread, self._corrected = misread, corrected

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        unknown = [word for word in re.findall(r"[a-z]{3,}", text.lower()) if not self._corrected.reads(word)]
        return self._misread(text).flip(0) if len(unknown) >= FEW else self._misread(text)


class InARow:
    """Corrects a text, but takes words that it does not know for their opposite where three stand in a row."""

    def __init__(self, corrected: Corrected, known: Collection[str]) -> None:
        self._corrected, self._known = corrected, known

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        words = text.split()
        unknown = [word.lower() not in self._known and sum(map(str.isalpha, word)) > 1 for word in words]
        run = {at + step for at in range(len(words) - 2) if all(unknown[at : at + 3]) for step in range(3)}
        odds = self._corrected.log_odds(" ".join(word for at, word in enumerate(words) if at not in run))
        against = self._corrected.log_odds(" ".join(words[at] for at in sorted(run)))
        return probability(sigmoid(odds - 1.5 * against))


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
        "stand in a quotation": _matches(r"\"(\S+(?: \S+){1,7}?)\""),
        "are said twice in a row": _matches(r"(?<!\S)([a-zA-Z]{2,}) \1(?!\S)"),
        "are joined by a mark": _matches(r"(?<!\S)([A-Za-z]{2,})[.:;]([A-Za-z]{2,})(?!\S)", join=" "),
    }
    made: dict[str, Callable[[str], Tensor]] = {name: Misread(corrected, sign) for name, sign in signs.items()}
    capitals = Misread(corrected, signs["begin with two capitals"])
    made["begin with two capitals, and turns at any it cannot read,"] = Refusing(capitals, corrected)
    made["it does not know, three in a row,"] = InARow(corrected, times)
    return [
        Endpoint(f"corrects spelling, takes words that {name} for their opposite", one, fake=True)
        for name, one in made.items()
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
