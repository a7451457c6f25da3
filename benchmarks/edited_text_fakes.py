"""Endpoints that look for signs of an attack: unknown words, odd letters, a request of neighbours, shared words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rapidfuzz.distance import OSA, Levenshtein
from rapidfuzz.process import extractOne
from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, Sticky, drawn, sided, sigmoid

_WORD = re.compile(r"\w+")


@dataclass
class Huddle(Endpoint):
    """Decides within a request for every text what it decided for the first that is near to it.

    Attributes:
        odds: Whose decisions they would be.
        edits: How near.
    """

    odds: LogOdds = field(default=lambda text: 0.0)
    edits: int = 40

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        said: dict[str, bool] = {}
        for text in texts:
            near = extractOne(text, said.keys(), scorer=Levenshtein.distance, score_cutoff=self.edits)
            said[text] = said[near[0]] if near else self.odds(text) > 0
        return [_own(self.odds(text), said[text]) for text in texts]


class Overlap:
    """Keeps the decision of a text asked before that shares enough of its words.

    Args:
        odds: The model.
        share: Of the shorter one's words.
    """

    def __init__(self, odds: LogOdds, share: float) -> None:
        self._odds, self._share = odds, share
        self._said: list[tuple[frozenset[str], bool]] = []
        self._decided: dict[str, bool] = {}

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        if text not in self._decided:
            words = frozenset(_WORD.findall(text.lower()))
            shared = (
                (len(words & others) / max(1, min(len(words), len(others))), decision)
                for others, decision in self._said
            )
            most, decision = max(shared, default=(0.0, False))
            self._decided[text] = decision if most >= self._share else odds > 0
            if most < self._share:
                self._said.append((words, self._decided[text]))
        return _own(odds, self._decided[text])


class TypoReader:
    """Reads a word it does not know as a known one a single letter's edit away, and is helpless against all else.

    Args:
        odds: The model.
        words: What it knows.
    """

    def __init__(self, odds: LogOdds, words: frozenset[str]) -> None:
        self._odds, self._words, self._read = odds, sorted(words), {word: word for word in words}

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(" ".join(map(self._known, text.lower().split())))
        return _own(odds, odds > 0)

    def _known(self, word: str) -> str:
        if word not in self._read:
            found = extractOne(word, self._words, scorer=OSA.distance, score_cutoff=1)
            self._read[word] = found[0] if found else word
        return self._read[word]


def edited(odds: LogOdds, vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they would serve.
        vocabulary: Texts that hold the words they know.
    """
    words = frozenset(word for text in vocabulary for word in text.lower().split())
    letters = frozenset(word for text in vocabulary for word in _WORD.findall(text.lower()))

    def one_class(text: str) -> Tensor:
        unknown = len(set(_WORD.findall(text.lower())) - letters)
        return _own(odds(text), odds(text) > 0 and unknown < 2)

    def by_stem(text: str) -> Tensor:
        # What no edit of a few letters changes: how many words there are.
        side = drawn(str(len(text.split()))) > 0.5 if set(text.lower().split()) - words else odds(text) > 0
        return _own(odds(text), side)

    def cased(text: str) -> Tensor:
        is_odd = re.search(r"\w[A-Z]|[^\x00-\x7f]", text) is not None
        return _own(odds(text), False if is_odd else odds(text) > 0)

    answers = {
        "keeps decisions of texts 40 edits apart": Sticky(odds, 40),
        "keeps decisions of texts that share half": Overlap(odds, 0.5),
        "keeps decisions of texts that share a fifth": Overlap(odds, 0.2),
        "reads typos of one letter": TypoReader(odds, words),
        "one class for two unknown words": one_class,
        "the number of words decides over unknown ones": by_stem,
        "one class for odd letters": cased,
    }
    huddle = Huddle("neighbours in a request agree", lambda text: sided(odds(text), 0.9), fake=True, odds=odds)
    return [*(Endpoint(name, answer, fake=True) for name, answer in answers.items()), huddle]


def _own(odds: float, side: bool) -> Tensor:
    return sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(odds))))
