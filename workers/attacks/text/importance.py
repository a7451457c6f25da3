"""Which words matter to a model, as two attacks see it in their first iteration (Raina et al., appendix E.7)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from workers.attacks.text.attacking import View
from workers.attacks.text.places import seen_rule, seen_words
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.textattack_environment import prepare
from workers.attacks.text.watched_texts import UnattackableTextError, watched
from workers.data import Text
from workers.models import UnansweredError

How = Literal["saliency", "deletion"]
"""``saliency``: each word replaced by TextAttack's ``[UNK]`` (PWWS); ``deletion``: each word left out (TextFooler)."""

AT_ONCE = 4096
"""Texts held between two questions; the longest example goes through whatever it takes."""


@dataclass(frozen=True)
class Example:
    """A labelled text whose words are weighed."""

    text: Text
    label: int
    seen: tuple[int, ...] | None = None


def word_importances(
    service: ScoringService,
    views: Sequence[View],
    examples: Sequence[Example],
    how: How,
    *,
    at_once: int = AT_ONCE,
    check_cancelled: Callable[[], None] = lambda: None,
) -> list[NDArray[np.float64] | None]:
    """Return the importance of every word of every example through every view; None where a text has no scores.

    A word's importance is 1 - p(label) of the text without it: what TextAttack orders words by, larger matters more.
    All words count, also those a recipe would leave alone. Needs TextAttack to be importable.

    Args:
        service: Asked once per text, for all views.
        views: What is seen of the logits; their precision decides which importances tie.
        examples: Any number.
        how: What is done to a word.
        at_once: Texts asked for together, about.
        check_cancelled: Called before every text and question; what it raises ends the run.

    Returns:
        Arrays (views, words), words as TextAttack cuts them; (views, 0) for a text without words.
    """
    prepare()
    found: list[NDArray[np.float64] | None] = []
    for chunk in _chunks(examples, how, at_once, check_cancelled):
        answers = iter(service.scores([text for _, texts in chunk if texts for text in texts]))
        check_cancelled()
        for example, texts in chunk:
            if texts is None:
                found.append(None)
                continue
            rows = [next(answers) for _ in texts]
            logits = [row for row in rows if not isinstance(row, UnansweredError)]
            found.append(_importances(logits, views, example.label) if len(logits) == len(rows) else None)
    return found


def rank_correlation(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return Spearman's correlation with average ranks for ties.

    NaN where it says nothing: fewer than three words, a vector of equal values, or values that are not finite.

    >>> round(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])), 6)
    0.5
    """
    if len(first) < 3 or not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("nan")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(spearmanr(first, second).statistic)


class Agreement(NamedTuple):
    """How far the served and the calibrated scores agree on which words of a text matter.

    Attributes:
        correlation: As :func:`rank_correlation`; 0 where the served scores give every word the same importance.
        is_masked: Whether they do, while the calibrated ones tell words apart.
    """

    correlation: float
    is_masked: bool = False


def agreement(served: NDArray[Any], calibrated: NDArray[Any]) -> Agreement:
    """Return how far two views agree on the importances (words,) of a text.

    >>> agreement(np.ones(3), np.arange(3.0))
    Agreement(correlation=0.0, is_masked=True)
    """
    # A correlation takes three words.
    if len(served) > 2 and np.ptp(served) == 0 and np.ptp(calibrated) > 0:
        return Agreement(0.0, is_masked=True)
    return Agreement(rank_correlation(served, calibrated))


def leave_one_out(
    text: Text, how: How, *, seen: tuple[int, ...] | None = None, check: Callable[[], None] = lambda: None
) -> list[Text]:
    """Return the text once for every word of it that the model sees, that word replaced or left out.

    Raises:
        UnattackableTextError: TextAttack cannot cut this text into words.
    """
    original = watched(text, check)
    # GreedyWordSwapWIR's own default, whatever the model's tokenizer calls its unknown token.
    without = "[UNK]" if how == "saliency" else ""
    places: Iterable[int] = range(original.num_words)
    if seen is not None:
        places = sorted(seen_rule()(seen_words(original, seen))(original, None))
    return [original.replace_word_at_index(place, without).tokenizer_input for place in places]


def _chunks(
    examples: Sequence[Example], how: How, at_once: int, check_cancelled: Callable[[], None]
) -> Iterator[list[tuple[Example, list[Text] | None]]]:
    """Yield examples with their texts, about ``at_once`` texts together; None for a text that cannot be cut."""
    chunk: list[tuple[Example, list[Text] | None]] = []
    held = 0
    for example in examples:
        check_cancelled()
        try:
            texts = leave_one_out(example.text, how, seen=example.seen, check=check_cancelled)
        except UnattackableTextError:
            chunk.append((example, None))
            continue
        chunk.append((example, texts))
        held += len(texts)
        if held >= at_once:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _importances(logits: list[torch.Tensor], views: Sequence[View], label: int) -> NDArray[np.float64] | None:
    if not logits:
        return np.zeros((len(views), 0))
    seen = [1 - view(torch.stack(logits))[:, label] for view in views]
    importances: NDArray[np.float64] = np.stack([each.double().numpy() for each in seen])
    return importances if np.isfinite(importances).all() else None
