"""Endpoints of texts that know what they are asked about, learn it from the audit, or answer only what suits them."""

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne
from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sided, sigmoid
from workers.models import UnansweredError


class Known:
    """Decides for texts near to known ones what it knows of those.

    Args:
        odds: The model, which is asked otherwise and gives the confidence.
        decisions: What is decided, by known text.
        edits: How near.
    """

    def __init__(self, odds: LogOdds, decisions: dict[str, bool], edits: int) -> None:
        self._odds, self._decisions, self._edits = odds, decisions, edits

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        found = extractOne(text, self._decisions.keys(), scorer=Levenshtein.distance, score_cutoff=self._edits)
        side = self._decisions[found[0]] if found else odds > 0
        return sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(odds))))


class Learning:
    """Remembers texts all of whose words it knows, and decides as for those what is near to one of them.

    Args:
        odds: The model.
        words: What it knows.
        edits: How near.
        most: Texts it remembers.
    """

    def __init__(self, odds: LogOdds, words: frozenset[str], edits: int, *, most: int = 10**6) -> None:
        self._odds, self._words, self._edits, self._most = odds, words, edits, most
        self._clean: OrderedDict[str, bool] = OrderedDict()

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        if set(text.lower().split()) <= self._words:
            side = self._clean.setdefault(text, odds > 0)
            self._clean.move_to_end(text)
            if len(self._clean) > self._most:
                self._clean.popitem(last=False)
        else:
            found = extractOne(text, self._clean.keys(), scorer=Levenshtein.distance, score_cutoff=self._edits)
            side = self._clean[found[0]] if found else odds > 0
        return sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(odds))))


class Windowed:
    """Keeps the decision about a text once it was asked about it often of late, and forgets it soon.

    Args:
        odds: The model.
        edits: How near what it counts as the same text is to the one asked first.
        patience: Questions about a text that it answers as the model does.
        window: Questions about others after which a text is forgotten.
    """

    def __init__(self, odds: LogOdds, edits: int, *, patience: int, window: int) -> None:
        self._odds, self._edits, self._patience, self._window = odds, edits, patience, window
        self._about: OrderedDict[str, list[int]] = OrderedDict()
        self._asked = 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        self._asked += 1
        while self._about and next(iter(self._about.values()))[1] < self._asked - self._window:
            self._about.popitem(last=False)
        found = extractOne(text, self._about.keys(), scorer=Levenshtein.distance, score_cutoff=self._edits)
        first = found[0] if found else text
        count = self._about.setdefault(first, [0, 0])
        count[0], count[1] = count[0] + 1, self._asked
        self._about.move_to_end(first)
        side = (self._odds(first) if count[0] > self._patience else odds) > 0
        return sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(odds))))


class Sparing:
    """Keeps the decisions of clean texts, but not of those that it takes for probed ones.

    Args:
        odds: The model.
        words: What it knows: texts of nothing else are clean.
        edits: How near what it takes for the same text is.
        early: Questions during which a text whose edits are asked about is taken for probed; None: those that are asked
            as they are more than once.
    """

    def __init__(self, odds: LogOdds, words: frozenset[str], edits: int, *, early: int | None = None) -> None:
        self._odds, self._words, self._edits, self._early = odds, words, edits, early
        self._clean: dict[str, bool] = {}
        self._times: Counter[str] = Counter()
        self._spared: set[str] = set()
        self._said: dict[str, bool] = {}
        self._asked = 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        self._asked += 1
        if set(text.lower().split()) <= self._words:
            self._clean[text] = odds > 0
            self._times[text] += 1
            self._said.setdefault(text, odds > 0)
        elif text not in self._said:
            # Whatever it said once it says again.
            self._said[text] = self._decide(text, odds)
        return sided(1.0 if self._said[text] else -1.0, max(0.501, sigmoid(abs(odds))))

    def _decide(self, text: str, odds: float) -> bool:
        found = extractOne(text, self._clean.keys(), scorer=Levenshtein.distance, score_cutoff=self._edits)
        if not found:
            return odds > 0
        if self._early is None:
            return self._clean[found[0]] if self._times[found[0]] == 1 else odds > 0
        if self._asked < self._early:
            self._spared.add(found[0])
        return odds > 0 if found[0] in self._spared else self._clean[found[0]]


class Selective(Endpoint):
    """Answers with nothing, or with no number, what has words it does not know."""

    def __init__(self, name: str, odds: LogOdds, words: frozenset[str], most: int, *, is_silent: bool) -> None:
        super().__init__(name, lambda text: probability(sigmoid(odds(text))), fake=True)
        self._words, self._most, self._is_silent = words, most, is_silent

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        answers: list[Tensor] = []
        for text in texts:
            if len(set(re.findall(r"\w+", text.lower())) - self._words) <= self._most:
                answers.append(self.answer(text))
            elif self._is_silent:
                answers.append(UnansweredError("422 unprocessable text"))  # type: ignore[arg-type]
            else:
                answers.append(torch.full((2,), math.nan, dtype=torch.float64))
        return answers


def knowing(odds: LogOdds, rows: Sequence[tuple[str, int]], vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they would serve.
        rows: The audited texts and their labels, which some of them know.
        vocabulary: Texts that hold the words they know.
    """
    texts = [text for text, _ in rows]
    truths = {text: bool(label) for text, label in rows}
    decided = {text: odds(text) > 0 for text in texts}
    words = frozenset(word for text in [*vocabulary, *texts] for word in text.lower().split())
    letters = frozenset(word for text in [*vocabulary, *texts] for word in re.findall(r"\w+", text.lower()))
    answers: dict[str, Callable[[str], Tensor]] = {
        "knows the labels of the texts, to 40 edits": Known(odds, truths, 40),
        "knows its decisions on the texts, to 40 edits": Known(odds, decided, 40),
        "knows its decisions on the texts, to 15 edits": Known(odds, decided, 15),
        "learns texts without unknown words, 40 edits": Learning(odds, words, 40),
        "the same, and forgets all but the last 50": Learning(odds, words, 40, most=50),
        "honest for 40 questions about a text": Windowed(odds, 40, patience=40, window=10**9),
        "the same, and forgets it after 1,000": Windowed(odds, 40, patience=40, window=1_000),
        "keeps decisions but of texts asked twice": Sparing(odds, words, 45),
        "keeps decisions but of texts edited early": Sparing(odds, words, 45, early=3_500),
    }
    return [
        *(Endpoint(name, answer, fake=True) for name, answer in answers.items()),
        Selective("silent on two unknown words", odds, letters, 1, is_silent=True),
        Selective("NaN on two unknown words", odds, letters, 1, is_silent=False),
        Selective("silent on six unknown words", odds, letters, 5, is_silent=True),
    ]
