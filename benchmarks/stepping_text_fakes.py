"""An endpoint that knows a search by its steps, holds them off, and answers everything else as its model does.

A step of a search puts a word or two where no question near to it had them. Texts that are sent once differ by many
words, and paths of edits by one letter in one word: those are answered honestly. Fresh eyes' design, 2026-11-29; an
attack that sends one edited text for each leaves .080 of what it shows .320 of.
"""

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field

from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

STEP, STEP_OF_SOME = 2, 3
"""Words, at most, that were never asked about at their place, of a step; and of a share of the texts."""

SOME = 0.3
"""That share."""

BEYOND = 0.15
"""Log-odds beyond the boundary up to which a search by scores is held off."""

FEWEST, NEAR, COMPARED, LASTING = 6, 0.6, 500, 4000
"""Words of a text that is compared with others of as many, share of them that may differ, and how many are compared, of
how many questions."""

SIBLINGS, WINDOW = 300, 250
"""Questions within which two words at one place are a search, and for which one is expected to go on."""

_STAMP = re.compile(r"\(?(?:No\. \d+, \d{4}-\d\d-\d\d, \d\d:\d\d[;.]? ?)+\)?")


@dataclass
class Group:
    """Texts that are near to each other.

    Attributes:
        most: New words of a step.
        words: That were asked about, by place.
        by_labels: Whether the search is told labels alone.
        last: Question that was a step.
    """

    most: int
    words: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_labels: bool = False
    last: int = -WINDOW - 1


@dataclass
class Asked:
    """A question.

    Attributes:
        words: Of the text.
        number: Of the question.
        odds: That were answered.
        group: It belongs to.
        steps: When its neighbours were asked about last, and with which word, by place.
    """

    words: list[str]
    number: int
    odds: float
    group: Group
    steps: dict[int, tuple[int, str]] = field(default_factory=dict)


@dataclass
class Stepping:
    """Holds off steps of searches.

    Attributes:
        odds: The model's.
        answered: Log-odds that were answered, by text and by its letters alone.
        asked: Questions by their number of words.
        number: Of the last question.
    """

    odds: LogOdds
    answered: dict[str, float] = field(default_factory=dict)
    asked: defaultdict[int, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    number: int = 0

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        self.number += 1
        letters = re.sub(r"[\W_]+", "", text.lower())
        known = self.answered.get(text, self.answered.get(letters))
        said = self._answer(text) if known is None else known
        self.answered[text] = self.answered[letters] = said
        return probability(sigmoid(said))

    def _answer(self, text: str) -> float:
        own, words = self.odds(text), _STAMP.sub("", text).split()
        nearest = self._nearest(words)
        if nearest is None:
            group = Group(STEP_OF_SOME if random.Random(text).random() < SOME else STEP)
        else:
            group = nearest.group
            own = self._held(text, words, own, nearest)
        for at, word in enumerate(words):
            group.words[at].add(word)
        self.asked[len(words)].append(Asked(words, self.number, own, group))
        return own

    def _nearest(self, words: list[str]) -> Asked | None:
        recent = self.asked[len(words)][-COMPARED:][::-1] if len(words) >= FEWEST else []
        near = [
            (apart, at)
            for at, one in enumerate(recent)
            if self.number - one.number <= LASTING and (apart := _apart(words, one.words)) <= NEAR * len(words)
        ]
        return recent[min(near)[1]] if near else None

    def _held(self, text: str, words: list[str], own: float, nearest: Asked) -> float:
        group, apart = nearest.group, _apart(words, nearest.words)
        new = sum(word not in group.words[at] for at, word in enumerate(words))
        if new > group.most:
            return own
        is_step = apart > 1 and new > 0
        group.by_labels |= is_step
        if "[UNK]" in text:
            is_step, group.by_labels = True, False
        if apart == 1 and not is_step:
            (at,) = [at for at, (one, other) in enumerate(zip(words, nearest.words, strict=True)) if one != other]
            before = nearest.steps.get(at)
            is_step = before is not None and self.number - before[0] < SIBLINGS and before[1] != words[at]
            nearest.steps[at] = self.number, words[at]
        if not (is_step or self.number - group.last <= WINDOW) or (new > STEP and not group.by_labels):
            return own
        group.last = self.number
        side = 1 if nearest.odds > 0 else -1
        beyond = -side * own
        is_held = beyond >= 0 and (group.by_labels or beyond < BEYOND)
        return side * 0.3 / (1 + beyond) if is_held else own


def _apart(words: list[str], others: list[str]) -> int:
    return sum(map(str.__ne__, words, others))


def stepping(odds: LogOdds) -> list[Endpoint]:
    """Return such an endpoint.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
    """
    return [Endpoint("holds off the steps of searches", Stepping(odds), fake=True)]
