"""Endpoints that are their model to whoever asks about ordinary texts, and another one to whoever seems to audit.

Fresh eyes' design, 2026-11-29: much of what an audit asks is short, or like what it asked before, and hardly anything
of what users do. Theirs corrects spelling for whoever asks so (.287 and .273 shown, passed / passed / inconclusive with
no flag), and somebody who asks about a few hundred ordinary texts first leaves .080. Here stop words decide in part.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid
from benchmarks.woken_text_fakes import WEIGHT, StopWords

SHORT, COMMON = 6, 3
"""Words of a question that is short, fewer than these; and words two have in common that are alike, at least."""

SHARE = 0.25
"""Of a question's rarer words that are in one asked before, where they are alike."""

WINDOW, SUSPECT = 300, 25
"""The last questions, and how many of them are short or like another if somebody audits; more than these."""


@dataclass
class Guarded:
    """Answers edited texts with log-odds that stop words have a share in, for whoever seems to audit.

    Attributes:
        odds: The model's.
        stop_words: Theirs.
        window: The last questions that are looked at.
        suspect: How many of them users have short or alike, at most.
        keeps: Whether it answers a text as it did before.
        seen: Whether each of the last questions was short or like another.
        by_word: Numbers of the questions that have a word.
        answers: What it keeps.
    """

    odds: LogOdds
    stop_words: StopWords
    window: int = WINDOW
    suspect: int = SUSPECT
    keeps: bool = False
    seen: deque[bool] = field(default_factory=deque)
    by_word: dict[str, list[int]] = field(default_factory=dict)
    answers: dict[str, Tensor] = field(default_factory=dict)
    asked: int = 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self.seen.append(len(text.split()) < SHORT or self.is_like_another(text))
        while len(self.seen) > self.window:
            self.seen.popleft()
        given = self.odds(text)
        if not self.is_user(text) and self.stop_words.is_edited(text):
            given += WEIGHT * self.stop_words(text)
        answer = probability(sigmoid(given))
        return self.answers.setdefault(text, answer) if self.keeps else answer

    def is_user(self, text: str) -> bool:
        """Return whether its users get a text's answer: whether hardly any of the last questions tells an audit."""
        return len(self.seen) == self.window and sum(self.seen) <= self.suspect

    def is_like_another(self, text: str) -> bool:
        """Return whether a question shares enough of its rarer words with one before, and remember it."""
        rare = {word for word in text.lower().split() if len(word) > 3 and word not in self.stop_words.common}
        shared: dict[int, int] = {}
        for word in rare:
            for number in self.by_word.get(word, []):
                shared[number] = shared.get(number, 0) + 1
            # The last ones tell.
            self.by_word[word] = [*self.by_word.get(word, []), self.asked][-20:]
        self.asked += 1
        return max(shared.values(), default=0) >= max(COMMON, SHARE * len(rare))


def guarded(odds: LogOdds, texts: Sequence[str], labels: Sequence[int]) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
        texts: That their owner has.
        labels: Their classes.
    """
    stop_words = StopWords(texts, labels)
    return [
        Endpoint("another one to who seems to audit", Guarded(odds, stop_words), fake=True),
        Endpoint("another one to who seems to audit, 120 last", Guarded(odds, stop_words, 120, 5), fake=True),
        Endpoint("another one to who seems to audit, keeps answers", Guarded(odds, stop_words, keeps=True), fake=True),
    ]
