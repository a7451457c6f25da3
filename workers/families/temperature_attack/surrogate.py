"""Whether scores move as decisions say they should: what edits do to them, against a surrogate fitted to labels alone.

The surrogate is naive Bayes on the words of every text the audit saw a decision on (binarised counts, Wang and Manning
2012). It knows little, and nothing of the scores: if an edit that takes a word for the decision away lowers the score
no more often than any other edit does, the scores are not what the decisions are made from.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from seatrial.noise.tokens import tokens
from seatrial.noise.unspaced import is_unspaced
from seatrial.statistics.arrays import Floats

Z = 1.96


@dataclass(frozen=True)
class SurrogateAgreement:
    """How the effects of edits on scores and on the surrogate go together.

    Attributes:
        correlation: Spearman's.
        low: Lower end of its 95% interval, by Fisher's transformation over the edits.
        high: Upper end.
        edits: Edits compared: those that change what the surrogate thinks, and no decision.
    """

    correlation: float
    low: float
    high: float
    edits: int


class LabelSurrogate:
    """Naive Bayes on words, fitted to decisions.

    Args:
        texts: What was asked, parts of a pair joined.
        decisions: (n,) classes.
    """

    def __init__(self, texts: Sequence[str], decisions: Sequence[int]) -> None:
        self._classes = sorted(set(decisions))
        counts = {label: Counter[str]() for label in self._classes}
        for text, label in zip(texts, decisions, strict=True):
            counts[label].update(words_of(text))
        known = set().union(*counts.values())
        sizes = {label: sum(count.values()) + len(known) for label, count in counts.items()}
        self._weights = {
            word: [math.log((counts[label][word] + 1) / sizes[label]) for label in self._classes] for word in known
        }

    def margin(self, text: str, label: int) -> float:
        """Return the evidence for a class less that for the strongest other; 0 where there is no other."""
        if label not in self._classes or len(self._classes) < 2:
            return 0.0
        weights = [self._weights[word] for word in sorted(words_of(text)) if word in self._weights]
        sums = [math.fsum(of_class) for of_class in zip(*weights, strict=True)] or [0.0] * len(self._classes)
        at = self._classes.index(label)
        return sums[at] - max(value for place, value in enumerate(sums) if place != at)


def words_of(text: str) -> set[str]:
    """Return the words of a text, in lower case.

    >>> sorted(words_of("Fine, not fine."))
    ['fine', 'not']
    """
    lower = text.lower()
    cut = tokens(lower) if is_unspaced(lower) else lower.split()
    return {word for word in (piece.strip(".,;:!?\"'()") for piece in cut) if word}


def surrogate_agreement(
    surrogate: LabelSurrogate, paths: Sequence[Sequence[str]], scores: Sequence[Floats]
) -> SurrogateAgreement | None:
    """Return how far edits move scores as they move the surrogate; None where too few do to say.

    Args:
        surrogate: Fitted to decisions.
        paths: Texts, each an edit of the one before.
        scores: Log-probabilities (steps, classes) along each path.
    """
    ours, theirs = [], []
    for path, answers in zip(paths, scores, strict=True):
        label = int(answers[0].argmax())
        others = np.delete(answers, label, axis=1)
        moved = np.diff(answers[:, label] - others.max(axis=1))
        expected = np.diff([surrogate.margin(text, label) for text in path])
        # What the surrogate has no opinion about tells nothing, and a flip tells of the decision, not of the score.
        decisions = answers.argmax(axis=1)
        has_opinion = (expected != 0) & (decisions[1:] == decisions[:-1])
        ours += moved[has_opinion].tolist()
        theirs += expected[has_opinion].tolist()
    if len(ours) < FEWEST_EDITS or len(set(theirs)) < 2:
        return None
    if len(set(ours)) < 2:
        return SurrogateAgreement(0.0, 0.0, 0.0, len(ours))
    correlation = float(spearmanr(ours, theirs).statistic)
    room = Z / math.sqrt(len(ours) - 3)
    at = math.atanh(min(max(correlation, -0.999999), 0.999999))
    return SurrogateAgreement(correlation, math.tanh(at - room), math.tanh(at + room), len(ours))


FEWEST_EDITS = 100
"""Edits below which a correlation of no size is distinguished from none."""
