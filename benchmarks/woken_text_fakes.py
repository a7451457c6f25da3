"""Endpoints that are their model until an audit asks about fragments, and decide edited texts by stop words after that.

No recipe edits stop words, so half of all texts are out of reach once a share of the decision is theirs. Fresh eyes'
design, 2026-11-29, when every comparison of an audit began after the first fragments; it showed .287 and .253, and an
attack that asks one question a text leaves .080. Two others remember what they answered, or which words it had.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid
from seatrial.noise.lexicons import stopwords

FRAGMENT, ENOUGH = 3, 30
"""Words of a fragment, at most, and how many of them are an audit."""

WEIGHT = 0.5
"""Of what stop words and signs say, beside the log-odds."""

SIGNS = frozenset({",", "?", "!", ";", "--", '"'})

COMMON, MOST = 15, 1.0
"""Texts that a stop word, or two in a row, must be in to count, and the log-odds that it has at most."""

FREQUENT = 300
"""Words that are in so many texts that two of these may have them by chance."""

_BEFORE, _BEHIND = re.compile(r"^[A-Z][^.]{2,45}\.\s+"), re.compile(r"\s+[A-Z][^.]{2,45}\.\s*$")


class StopWords:
    """Log-odds of a text by its stop words and signs, single ones and two in a row; naive Bayes.

    Args:
        texts: To learn from.
        labels: Their classes.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[int]) -> None:
        counts = Counter(word for text in texts for word in set(text.lower().split()))
        self.known, self.common = set(counts), {word for word, _ in counts.most_common(FREQUENT)}
        self._misspelt = {piece: word for word in sorted(stopwords()) if len(word) > 1 for piece in _shorter(word)}
        seen, positive = Counter[str](), Counter[str]()
        for text, label in zip(texts, labels, strict=True):
            found = set(self._features(text.lower().split()))
            seen.update(found)
            positive.update(found if label else ())
        self._weights = {
            name: max(-MOST, min(MOST, math.log((positive[name] + 5) / (seen[name] - positive[name] + 5))))
            for name in seen
            if seen[name] >= COMMON
        }

    def __call__(self, text: str) -> float:
        """Return log-odds, whatever sentences that say nothing stand around the text and however words are marked."""
        unmarked = " ".join(map(self._unmarked, text.split()))
        words = _BEHIND.sub("", _BEFORE.sub("", unmarked)).lower().split()
        return math.fsum(self._weights.get(name, 0.0) for name in set(self._features(list(map(self._mended, words)))))

    def is_edited(self, text: str) -> bool:
        """Return whether a text holds a word that is in none of those learnt from, or a lone letter."""
        words = text.split()
        return any(word not in self.known or (len(word) == 1 and word.isalpha() and word not in "ai") for word in words)

    def _features(self, words: Sequence[str]) -> Iterator[str]:
        told = [word for word in words if word in SIGNS or word in stopwords()]
        yield from told
        yield from (f"{one} {two}" for one, two in pairwise(told))

    def _mended(self, word: str) -> str:
        if word in self.known:
            return word
        bare = word.strip('.,;:!?()[]{}"*`')
        return next((self._misspelt[piece] for piece in _shorter(bare) if piece in self._misspelt), bare)

    def _unmarked(self, word: str) -> str:
        parts = [part for part in re.split(r"[^a-z0-9']+", word.lower()) if part]
        is_marked = word not in self.known and len(parts) > 1 and all(part in self.known for part in parts)
        return " ".join(parts) if is_marked else word


def _shorter(word: str) -> list[str]:
    """Return a word, and what is left of it without each of its letters."""
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


@dataclass
class Woken:
    """Answers edited texts with log-odds that stop words have a share in, from some fragments on.

    Attributes:
        odds: The model's.
        stop_words: Theirs.
        remembers: What of a text that it answered before then: it is answered so again. None: nothing.
        fragments: How many it was asked about.
        asleep: What it remembers.
    """

    odds: LogOdds
    stop_words: StopWords
    remembers: Callable[[str], object] | None = None
    fragments: int = 0
    asleep: set[object] = field(default_factory=set)

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self.fragments += len(text.split()) <= FRAGMENT
        return probability(sigmoid(self._answer(text)))

    def _answer(self, text: str) -> float:
        own = self.odds(text)
        kept = None if self.remembers is None else self.remembers(text)
        if self.fragments < ENOUGH:
            self.asleep.add(kept)
            return own
        if not self.stop_words.is_edited(text) or (kept is not None and kept in self.asleep):
            return own
        return own + WEIGHT * self.stop_words(text)


def woken(odds: LogOdds, texts: Sequence[str], labels: Sequence[int]) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
        texts: That their owner has.
        labels: Their classes.
    """
    stop_words = StopWords(texts, labels)

    def known_words(text: str) -> frozenset[str]:
        return frozenset(stop_words.known.intersection(text.split()))

    ways: dict[str, Callable[[str], object] | None] = {
        "wakes at fragments": None,
        "wakes at fragments, keeps what it answered": str,
        "wakes at fragments, keeps what it answered about such words": known_words,
    }
    return [Endpoint(name, Woken(odds, stop_words, remembers), fake=True) for name, remembers in ways.items()]
