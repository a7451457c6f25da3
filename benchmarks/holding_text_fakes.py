"""Endpoints that hold the class of a text while it is searched, and answer as their model does before and after.

Fresh eyes' design, 2026-11-29: a burst of near copies is a search. What is sure is held for so many questions that the
comparisons after all attacks have begun by then, what was held is kept word for word, and the first eight questions in
a row that are no steps of a search are answered honestly. It showed .28 and .27 with no flag (passed / passed /
inconclusive or better, four salts), and one edited text each leaves .080.
"""

import re
from collections import Counter, deque
from dataclasses import dataclass, field

from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

NEAR = 0.36
"""Share of a text's words that a near copy has, at least."""

UNKNOWN = "[UNK]"
"""What importances are measured with."""

BURST, WITHIN = 7, 60
"""Near copies that are a search, within as many questions."""

HELD = 19_500
"""Questions for which it holds."""

SURE = 2.2
"""Log-odds of the surest near copy before the search, at least, of what it holds."""

HONEST, APART = 8, 3
"""Questions in a row, this many words apart each, that it answers honestly once."""

FEWEST_WORDS, LONG = 5, 9
"""Words of what may be a near copy, and of what it holds, at least."""


@dataclass
class _Known:
    words: frozenset[tuple[str, int]]
    surest: float
    last: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=BURST))
    searched: int | None = None
    honest: int | None = None
    asked: int = 0
    before: frozenset[tuple[str, int]] = frozenset()


@dataclass
class Holding:
    """Holds what is searched.

    Attributes:
        odds: Of the model.
        by_unknown: Whether the first near copy with an unknown word is a search, and not a burst of them.
        known: The texts that questions are near to.
        having: Those that have a word.
        kept: What it answered to held texts.
        asked: Questions.
    """

    odds: LogOdds
    by_unknown: bool = False
    known: list[_Known] = field(default_factory=list)
    having: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)
    asked: int = 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self.asked += 1
        if text not in self.kept:
            own = self.odds(text)
            held = self._answer(text, own)
            if held == own:
                return probability(sigmoid(own))
            self.kept[text] = held
        return probability(sigmoid(self.kept[text]))

    def _answer(self, text: str, own: float) -> float:
        words = _words(text)
        if len(words) < FEWEST_WORDS:
            return own
        near = self._near(words)
        if near is None:
            for word in words:
                self.having.setdefault(word, []).append(len(self.known))
            self.known.append(_Known(words, own))
            return own
        if near.searched is None and abs(own) > abs(near.surest):
            near.surest = own
        if all(text != other for _, other in near.last):
            near.last.append((self.asked, text))
        is_burst = len(near.last) == BURST and self.asked - near.last[0][0] <= WITHIN
        if near.searched is None and (UNKNOWN in text if self.by_unknown else is_burst):
            near.searched = self.asked
        is_far = self.asked == near.asked + 1 and len(words - near.before) >= APART
        near.asked, near.before = self.asked, words
        if near.searched is None:
            return own
        if near.honest is None and is_far:
            near.honest = self.asked
        is_honest = near.honest is not None and self.asked - near.honest < HONEST
        is_held = self.asked - near.searched <= HELD and abs(near.surest) >= SURE and len(near.words) >= LONG
        return own if is_honest or not is_held or own * near.surest > 0 else 0.1 if near.surest > 0 else -0.1

    def _near(self, words: frozenset[tuple[str, int]]) -> _Known | None:
        counts = Counter(number for word in words for number in self.having.get(word, []))
        shares = [(count / len(self.known[number].words), number) for number, count in counts.most_common(10)]
        near = [(self.known[number].searched is not None, share, number) for share, number in shares if share >= NEAR]
        return self.known[max(near)[2]] if near else None


def _words(text: str) -> frozenset[tuple[str, int]]:
    """Return the words of a text and which of their kind they are, parted ones joined."""
    seen, found = Counter[str](), list[tuple[str, int]]()
    for word in re.sub(r"-\s*\n\s*", "", text).lower().split():
        seen[word] += 1
        found.append((word, seen[word]))
    return frozenset(found)


def holding(odds: LogOdds) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
    """
    return [
        Endpoint("holds what is searched", Holding(odds), fake=True),
        Endpoint("holds what is searched, from [UNK] on", Holding(odds, by_unknown=True), fake=True),
    ]
