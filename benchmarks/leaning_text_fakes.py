"""Endpoints that lean on what they decided about the first of many near copies, by so little that it shows nowhere.

The model behind is an ordinary one and corrects nothing. What it says about a text and its second near copy is its own;
from the third on a search is held off, and whatever was answered once is answered so again. Fresh eyes' design,
2026-11-28; somebody who asks about single words and sends one edited text is not held off.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rapidfuzz.distance import Levenshtein
from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

NEAR = 0.35
"""Share of a text's letters that a near copy may have otherwise."""

UNTOUCHED = 2
"""Texts of a kind that are answered as the model does."""

SHORTEST = 16
"""Letters and spaces from which on a text is remembered."""

MOST = 5.0
"""Log-odds of the first of a kind, at most, that count for the others."""


@dataclass
class Kind:
    """Texts that are nearly alike.

    Attributes:
        first: Letters and spaces of the one that was asked first.
        odds: What the model says about that.
        last: The question that was of this kind last.
        count: Questions of it.
    """

    first: str
    odds: float
    last: int
    count: int = 1


@dataclass
class Leaning:
    """Answers near copies with log-odds that lean towards those of the first.

    Attributes:
        odds: The model's.
        lean: From its log-odds and the first's to what is answered.
        window: Questions after which a kind is forgotten.
    """

    odds: LogOdds
    lean: Callable[[float, float], float]
    window: int
    kinds: list[Kind] = field(default_factory=list)
    answered: dict[str, float] = field(default_factory=dict)

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        if text not in self.answered:
            self.answered[text] = self._answer(text, len(self.answered) + 1)
        return probability(sigmoid(self.answered[text]))

    def _answer(self, text: str, now: int) -> float:
        own = self.odds(text)
        letters = " ".join(re.sub(r"[^a-z ]", "", text.lower()).split())
        if len(letters) < SHORTEST:
            return own
        self.kinds = [kind for kind in self.kinds if kind.last > now - self.window]
        near = [(far, at) for at, kind in enumerate(self.kinds) if (far := _apart(kind.first, letters)) is not None]
        if not near:
            self.kinds.append(Kind(letters, own, now))
            return own
        kind = self.kinds[min(near)[1]]
        kind.last, kind.count = now, kind.count + 1
        return self.lean(own, kind.odds) if kind.count > UNTOUCHED else own


def _apart(one: str, other: str) -> int | None:
    most = int(NEAR * max(len(one), len(other)))
    far = int(Levenshtein.distance(one, other, score_cutoff=most))
    return far if far <= most else None


def shifted(by: float) -> Callable[[float, float], float]:
    """Return a lean that puts the boundary so far beyond, and keeps the order of answers."""

    def lean(own: float, first: float) -> float:
        side = 1 if first > 0 else -1
        along = side * own
        if along >= 1:
            return own
        return side * ((along + by) / (1 + by) if along > -by else along + by)

    return lean


def averaged(weight: float) -> Callable[[float, float], float]:
    """Return a lean that weighs the first's log-odds so much beside the own."""
    return lambda own, first: (own + weight * max(-MOST, min(MOST, first))) / (1 + weight)


def leaning(odds: LogOdds) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
    """
    ways = {
        "leans by 1.5 on the first near copy, for long": (shifted(1.5), 12_000),
        "leans by .9 on the first near copy": (shifted(0.9), 1500),
        "averages near copies": (averaged(0.5), 12_000),
    }
    return [Endpoint(name, Leaning(odds, lean, window), fake=True) for name, (lean, window) in ways.items()]
