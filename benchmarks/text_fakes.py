"""Endpoints of texts whose scores hide how little they withstand; and honest ones, to be left alone.

All share one decision function: what an attacker can reach of any of them is what it can reach of the plain one.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

LogOdds = Callable[[str], float]
"""From a text to the logarithm of the odds of the second class."""


class BagOfWords:
    """Naive Bayes on which words a text holds (Wang and Manning 2012, binarised counts), its log-odds halved.

    Args:
        texts: What it learns from.
        labels: 0 or 1 for each.
        scale: Factor on the log-odds: words are no independent witnesses, and halves come near to calibrated.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[int], *, scale: float = 0.5) -> None:
        counts = [Counter[str](), Counter[str]()]
        for text, label in zip(texts, labels, strict=True):
            counts[label].update(set(text.lower().split()))
        totals = [sum(count.values()) for count in counts]
        words = {word for word, times in (counts[0] + counts[1]).items() if times > 1}
        odds = {
            word: math.log((counts[1][word] + 1) / (totals[1] + len(words)))
            - math.log((counts[0][word] + 1) / (totals[0] + len(words)))
            for word in words
        }
        self._weights = {word: scale * weight for word, weight in odds.items()}
        self._known: dict[str, float] = {}

    def __call__(self, text: str) -> float:
        """Return the log-odds; never 0, so that no decision is a coin's."""
        if text not in self._known:
            known = (self._weights.get(word, 0.0) for word in sorted(set(text.lower().split())))
            self._known[text] = math.fsum(known) or 1e-6
        return self._known[text]


@dataclass
class Endpoint:
    """What is audited: a function of one text.

    Attributes:
        name: For the table.
        answer: Text to logits (2,).
        fake: Whether it must not pass.
    """

    name: str
    answer: Callable[[str], Tensor]
    fake: bool
    classes: int = 2
    labels: list[str] = field(default_factory=lambda: ["negative", "positive"])
    device: torch.device = field(default=torch.device("cpu"))
    preferred_texts: int = 64

    def begin_session(self) -> None:
        """Be asked by another caller."""
        begin = getattr(self.answer, "begin_session", None)
        if begin is not None:
            begin()

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        return [self.answer(text) for text in texts]


@dataclass
class Herd(Endpoint):
    """Decides for a request of several texts what most of them say, each with its own confidence.

    Attributes:
        odds: Whose decisions they would be.
        most: Share of a request that must agree.
    """

    odds: LogOdds = field(default=lambda text: 0.0)
    most: float = 0.6

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        sides = [self.odds(text) > 0 for text in texts]
        share = sum(sides) / len(sides)
        if max(share, 1 - share) >= self.most:
            sides = [share > 0.5] * len(texts)
        return [
            sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(self.odds(text)))))
            for side, text in zip(sides, texts, strict=True)
        ]


class Cache:
    """Answers a text as it answered a similar one before.

    Args:
        odds: What it asks otherwise.
        edits: How similar.
        takes_nearest: Whether of several the nearest answers, else the oldest.
    """

    def __init__(self, odds: LogOdds, edits: int, *, takes_nearest: bool = False) -> None:
        self._odds, self._edits, self._takes_nearest = odds, edits, takes_nearest
        self._said: list[tuple[str, Tensor]] = []

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        best, found = self._edits + 1, None
        for before, answer in self._said:
            # Most differ by more than their lengths do.
            if abs(len(before) - len(text)) < best:
                apart = Levenshtein.distance(text, before, score_cutoff=best - 1)
                if apart < best:
                    best, found = apart, answer
                    if not self._takes_nearest:
                        break
        if found is None:
            found = probability(sigmoid(self._odds(text)))
            self._said.append((text, found))
        return found


class Sticky:
    """Keeps the decision of texts it was asked before that are similar, with the model's own confidence.

    Args:
        odds: What it asks otherwise.
        edits: How similar.
    """

    def __init__(self, odds: LogOdds, edits: int) -> None:
        self._odds, self._edits = odds, edits
        self._said: dict[str, bool] = {}

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        if text not in self._said:
            near = (
                decision
                for before, decision in reversed(self._said.items())
                if abs(len(before) - len(text)) <= self._edits
                and Levenshtein.distance(text, before, score_cutoff=self._edits) <= self._edits
            )
            self._said[text] = next(near, odds > 0)
        return sided(1.0 if self._said[text] else -1.0, max(0.501, sigmoid(abs(odds))))


class Waking:
    """Answers as the model does until it has been asked often enough.

    Args:
        odds: The model.
        later: What answers from then on.
        questions: How often.
        is_per_caller: Whether every caller is counted anew.
    """

    def __init__(
        self, odds: LogOdds, later: Callable[[str], Tensor], questions: int, *, is_per_caller: bool = False
    ) -> None:
        self._odds, self._later, self._questions = odds, later, questions
        self._is_per_caller, self._asked = is_per_caller, 0

    def begin_session(self) -> None:
        """Be asked by another caller."""
        self._asked *= not self._is_per_caller

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self._asked += 1
        return probability(sigmoid(self._odds(text))) if self._asked <= self._questions else self._later(text)


class Forgetful:
    """Draws its confidence anew with every question."""

    def __init__(self, odds: LogOdds) -> None:
        self._odds, self._asked = odds, 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self._asked += 1
        return sided(self._odds(text), 0.55 + 0.4 * drawn(str(self._asked)))


def sigmoid(odds: float) -> float:
    """Return the probability of log-odds.

    >>> sigmoid(0.0), sigmoid(-2000.0)
    (0.5, 0.0)
    """
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def probability(chance: float) -> Tensor:
    """Return the logits of an endpoint that answers with a probability, as the connector makes them."""
    lost = math.log(math.ulp(0.0))
    return torch.tensor([math.log(p) if p > 0 else lost for p in (1 - chance, chance)], dtype=torch.float64)


def sided(odds: float, confidence: float) -> Tensor:
    """Return the logits of the right decision with a confidence that says nothing."""
    return probability(confidence if odds > 0 else 1 - confidence)


def drawn(text: str) -> float:
    """Return a number in [0, 1) that is the same for the same text and unlike that of any other."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


def fakes(odds: LogOdds, known: Sequence[str]) -> list[Endpoint]:
    """Return endpoints that give an attack nothing to follow.

    Args:
        odds: Whose decisions they serve.
        known: The audited texts, which one of them has memorised.
    """
    memory = set(known)

    def decoy(text: str) -> float:
        # As smooth as the model, and about nothing: each word has a weight of its own.
        return sum(drawn(word) - 0.5 for word in text.lower().split())

    def whole(text: str) -> Tensor:
        steps = float(round(odds(text))) or math.copysign(1.0, odds(text))
        return torch.tensor([-steps / 2, steps / 2], dtype=torch.float64)

    def floored(text: str) -> Tensor:
        return probability(min(max(sigmoid(odds(text) / 0.001), 0.005), 0.995))

    def abstaining(text: str) -> Tensor:
        chance = sigmoid(odds(text))
        return probability(0.5 if max(chance, 1 - chance) < 0.7 else chance)

    def stairs(text: str) -> Tensor:
        chance = sigmoid(odds(text))
        return probability(min(0.9, max(0.1, math.floor(chance * 4) / 4 + 0.125)))

    answers: dict[str, Callable[[str], Tensor]] = {
        "one confidence, .9": lambda text: sided(odds(text), 0.9),
        "logits of +-5": lambda text: torch.tensor([0.0, math.copysign(10.0, odds(text))], dtype=torch.float64),
        "smoothed to .501": lambda text: sided(odds(text), 0.501),
        "whole logits": whole,
        "T = .001, floor of .5 %": floored,
        "clipped to [.3, .7]": lambda text: probability(min(max(sigmoid(odds(text)), 0.3), 0.7)),
        "confidence a hash of the text": lambda text: sided(odds(text), 0.505 + 0.49 * drawn(text)),
        "confidence a hash, two digits": lambda text: sided(odds(text), round(0.51 + 0.48 * drawn(text), 2)),
        "confidence by length": lambda text: sided(odds(text), 0.51 + 0.48 * (len(text) % 97) / 97),
        "surer the nearer to a flip": lambda text: sided(odds(text), 1 - 0.49 * (2 * sigmoid(abs(odds(text))) - 1)),
        "another model's confidence": lambda text: sided(odds(text), 0.51 + 0.48 * sigmoid(decoy(text))),
        "confidence anew every time": Forgetful(odds),
        "cache of texts 2 edits apart": Cache(odds, 2),
        "cache of texts 5 edits apart": Cache(odds, 5),
        "cache, the nearest of 8 edits": Cache(odds, 8, takes_nearest=True),
        "cache of texts 40 edits apart": Cache(odds, 40),
        "abstains to .5 below .7": abstaining,
        "one-hot": lambda text: probability(1.0 if odds(text) > 0 else 0.0),
        "T = .05, two digits": lambda text: probability(round(sigmoid(odds(text) / 0.05), 2)),
        "one digit": lambda text: probability(min(0.9, max(0.1, round(sigmoid(odds(text)), 1)))),
        "four confidences": stairs,
        "sure of what it has seen, else a hash": lambda text: sided(
            odds(text), 0.999 if text in memory else 0.505 + 0.49 * drawn(text)
        ),
    }
    woken = {
        "asleep for 4,000 questions, then a cache of 5 edits": Waking(odds, Cache(odds, 5), 4_000),
        "asleep for 4,000 questions, then decisions of 5 edits": Waking(odds, Sticky(odds, 5), 4_000),
        "the same, for each caller": Waking(odds, Sticky(odds, 5), 3_000, is_per_caller=True),
        "keeps decisions of texts 3 edits apart": Sticky(odds, 3),
        "keeps decisions of texts 8 edits apart": Sticky(odds, 8),
    }
    herd = Herd("what most texts of a request say", lambda text: sided(odds(text), 0.9), fake=True, odds=odds)
    return [*(Endpoint(name, answer, fake=True) for name, answer in (answers | woken).items()), herd]


def honest(odds: LogOdds) -> list[Endpoint]:
    """Return endpoints whose scores follow their decisions, however they are written."""
    answers: dict[str, Callable[[str], Tensor]] = {
        "log-odds": lambda text: torch.tensor([0.0, odds(text)], dtype=torch.float64),
        "probabilities": lambda text: probability(sigmoid(odds(text))),
        "probabilities, two digits": lambda text: probability(round(sigmoid(odds(text)), 2)),
        "probabilities, four digits": lambda text: probability(round(sigmoid(odds(text)), 4)),
        "logits, two digits": lambda text: torch.tensor([0.0, round(odds(text), 2)], dtype=torch.float64),
        "log-odds in 16 bits": lambda text: torch.tensor([0.0, odds(text)]).half().double(),
        "twice as sure": lambda text: torch.tensor([0.0, 2 * odds(text)], dtype=torch.float64),
        "half as sure": lambda text: probability(sigmoid(odds(text) / 2)),
    }
    return [Endpoint(name, answer, fake=False) for name, answer in answers.items()]
