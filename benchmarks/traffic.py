"""Reading what is misspelt by the texts that were asked before."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import nlargest

from torch import Tensor

from benchmarks.text_fakes import LogOdds, probability, sigmoid

LINES, COMMON = 40, 0.2
"""Ways in which texts that were asked may lie along one, that are looked at; and how rare a trigram is that says
anything."""

NEAR, WHOLE, LIKE, SAME, MOST_OF = 3, 0.1, 0.1, 0.5, 0.45
"""Words beside one that say what it is part of, and how much of what a whole text says counts; how many rare words
alike there must be among these, to be decided as that, and not to be remembered where all words are spelt right; and
share of the words for which that is so."""

PLAIN = 0.1
"""Share of a text as it is written in what is decided."""

_WORD = re.compile(r"\w+")


class Traffic:
    """Decides about an edited text what it decided about those it has pieces of, each as much as it has of it.

    It knows no text before it is asked. A text of nothing but words that are spelt right is read as it is, and
    remembered.

    Args:
        odds: The model.
        spelt: Words that are spelt right.
        corpus: Texts that say how rare a trigram is.
        crowd: Texts that must have been asked again, or edited, before it reads so; until then it is the model.
        turns: What turns its answer round.
    """

    def __init__(
        self,
        odds: LogOdds,
        spelt: frozenset[str],
        corpus: Sequence[str],
        crowd: int = 0,
        turns: Callable[[str], bool] = lambda text: False,
    ) -> None:
        self._odds, self._spelt, self._crowd, self._turns = odds, spelt, crowd, turns
        seen = Counter(
            gram for text in corpus for gram in {one for word in text.lower().split() for one in _grams(word)}
        )
        self._rare = {gram: 1 - math.log(times) / math.log(len(corpus)) for gram, times in seen.items()}
        self._texts: dict[str, int] = {}
        self._words: list[list[str]] = []
        self._own: list[float] = []
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._again: set[int] = set()
        self._known: dict[str, float] = {}

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._read(text)
        return probability(sigmoid(-odds if self._turns(text) else odds))

    def _read(self, text: str) -> float:
        plain, words = self._odds(text), _spoken(text)
        if text in self._texts:
            self._again.add(self._texts[text])
            return plain
        if text in self._known:
            return self._known[text]
        is_spelt = set(words) <= self._spelt
        odds, owner = self._aligned(words, SAME if is_spelt else LIKE)
        if owner is None and is_spelt:
            self._remember(text)
            return plain
        if len(self._again) < self._crowd and (surely := self._aligned(words, SAME)[1]) is not None:
            self._again.add(surely)
        if len(self._again) < self._crowd:
            return plain
        self._known[text] = PLAIN * plain + (1 - PLAIN) * (plain if odds is None else odds)
        return self._known[text]

    def _remember(self, text: str) -> None:
        number = self._texts[text] = len(self._texts)
        self._words.append(_spoken(text))
        self._own.append(self._odds(text))
        for at, word in enumerate(self._words[-1]):
            for gram in _grams(word):
                self._places[gram].append((number, at))

    def _aligned(self, words: Sequence[str], least: float) -> tuple[float | None, int | None]:
        """Return the mean log-odds of the texts it has pieces of, and which most of it is of.

        None where it has none of any; and where most of its words are nowhere.
        """
        lines: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        for at, word in enumerate(words):
            grams = _grams(word)
            for gram in sorted(grams):
                weight = self._rare.get(gram, 1.0) / len(grams)
                if weight * len(grams) < COMMON:
                    continue
                for number, place in self._places.get(gram, ()):
                    line = lines[number, place - at]
                    line[at] = line.get(at, 0.0) + weight
        best = nlargest(LINES, lines, key=lambda line: (sum(lines[line].values()), line))
        owners, found = Counter[int](), 0
        for at in range(len(words)):
            near = [
                (
                    sum(share for other, share in lines[line].items() if abs(other - at) <= NEAR)
                    + WHOLE * sum(lines[line].values()),
                    line,
                )
                for line in best
                if 0 <= at + line[1] < len(self._words[line[0]])
            ]
            score, (number, _) = max(near, default=(0.0, (0, 0)))
            if score >= least:
                owners[number] += score  # type: ignore[assignment]
                found += 1
        if not owners:
            return None, None
        # Squared, so that what is of one text but for chance is decided as that.
        weights = {number: share**2 for number, share in owners.items()}
        odds = sum(share * self._own[number] for number, share in weights.items()) / sum(weights.values())
        return odds, owners.most_common(1)[0][0] if found > MOST_OF * len(words) else None


def _spoken(text: str) -> list[str]:
    return [word for word in text.lower().split() if _WORD.search(word)]


def _grams(text: str) -> set[str]:
    lower = f" {text.lower()} "
    return {lower[at : at + 3] for at in range(len(lower) - 2)}
