"""What a model says to one text, of any task: its decisions, how sure it is of each, and how wrong."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax
from torch import Tensor

from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.statistics.arrays import Floats, Mask
from workers.data import Text
from workers.models import UnansweredError

NO_TAG = -1
"""Prediction of a token the model gives no tag: it stands beyond what the model takes, or the tokenizer drops it."""


@dataclass(frozen=True)
class Answer:
    """The decisions of a model about one text.

    Attributes:
        predictions: The class, alone; of several labels 0 or 1 for each, decided at a probability of 0.5; the tag of
            each token, ``NO_TAG`` where there is none.
        confidences: Of each prediction: the largest probability; of a label max(p, 1 - p); NaN without a tag.
        loss: Mean negative log likelihood of the truths in nat, over decisions that were made; 0 where none was.
        classes: Classes, labels or tags there are.
        digest: Of the scores' bytes: two answers share it only where the model said the very same.
        logits: Of several labels, each one's; else empty.
    """

    predictions: tuple[int, ...]
    confidences: tuple[float, ...]
    loss: float
    classes: int
    digest: int
    logits: tuple[float, ...] = ()

    @property
    def probabilities(self) -> list[float]:
        """Of several labels, the probability of each; else empty."""
        return [float(probability) for probability in expit(np.array(self.logits, dtype=np.float64))]

    @property
    def mean_confidence(self) -> float:
        """Mean confidence of the predictions that were made, NaN where none was."""
        made = [confidence for confidence in self.confidences if not math.isnan(confidence)]
        return sum(made) / len(made) if made else math.nan

    def correct(self, truths: Sequence[int], decided: Sequence[bool]) -> int:
        """Return how many of the decisions are right; one that is missing is wrong."""
        told = zip(self.predictions, truths, decided, strict=True)
        return sum(counts and prediction == truth for prediction, truth, counts in told)

    def flipped(self, before: Sequence[int], decided: Sequence[bool]) -> int:
        """Return how many of the decisions are others than they were; one that is missing is another."""
        told = zip(self.predictions, before, decided, strict=True)
        return sum(counts and prediction != other for prediction, other, counts in told)


def decisions(predictions: Sequence[int], truths: Sequence[int]) -> list[bool]:
    """Return which answers to the clean text are decisions that count: a tag was given, and there is a truth."""
    return [prediction >= 0 and truth >= 0 for prediction, truth in zip(predictions, truths, strict=True)]


def read_answer(task: str, text: Text, truths: Sequence[int], scores: Tensor | UnansweredError) -> Answer | str:
    """Return the answer in a model's scores, or why there is none.

    Args:
        task: What the model does.
        text: What was asked; of a tagged sentence its tokens.
        truths: As many as there are predictions.
        scores: Logits (classes,), or (tokens, tags) with NaN in the whole row of a token without a tag.
    """
    if not isinstance(scores, Tensor):
        return str(scores)
    values: Floats = scores.detach().cpu().numpy().astype(np.float64)
    if task == TAGGING:
        return _tags(values, len(text), truths)
    if values.ndim != 1 or not np.isfinite(values).all():
        return "the scores are not finite"
    if task == MULTI_LABEL:
        return _labels(values, truths)
    (truth,) = truths
    log_probabilities = log_softmax(values)
    # The first of several that tie, on every platform.
    prediction = int(np.argmax(values))
    confidence = float(np.exp(log_probabilities[prediction]))
    loss = float(-log_probabilities[truth]) if truth >= 0 else 0.0
    return Answer((prediction,), (min(1.0, confidence),), loss, len(values), _digest(values))


def _labels(values: Floats, truths: Sequence[int]) -> Answer | str:
    if len(values) != len(truths):
        return f"{len(values)} scores for {len(truths)} labels"
    decided = values > 0
    loss = np.logaddexp(0.0, np.where(np.array(truths, dtype=bool), -values, values))
    return Answer(
        tuple(int(one) for one in decided),
        tuple(float(confidence) for confidence in expit(np.abs(values))),
        float(loss.mean()),
        len(values),
        _digest(values),
        tuple(float(value) for value in values),
    )


def _tags(values: Floats, tokens: int, truths: Sequence[int]) -> Answer | str:
    if values.ndim != 2 or len(values) != tokens or tokens != len(truths):
        return f"scores of shape {values.shape} for {tokens} tokens"
    has_tag: Mask = np.all(np.isfinite(values), axis=1)
    if not (has_tag | np.isnan(values).all(axis=1)).all():
        return "the scores are not finite"
    log_probabilities = log_softmax(np.where(has_tag[:, None], values, 0.0), axis=1)
    best = values.argmax(axis=1) if values.size else np.zeros(tokens, dtype=np.int64)
    known = [row for row in range(tokens) if has_tag[row] and truths[row] >= 0]
    losses = [-float(log_probabilities[row, truths[row]]) for row in known]
    return Answer(
        tuple(int(tag) if given else NO_TAG for tag, given in zip(best, has_tag, strict=True)),
        tuple(
            min(1.0, float(np.exp(log_probabilities[row, best[row]]))) if has_tag[row] else math.nan
            for row in range(tokens)
        ),
        math.fsum(losses) / len(losses) if losses else 0.0,
        values.shape[1],
        _digest(values),
    )


def _digest(values: Floats) -> int:
    # Confidences of a saturated model agree where its scores do not.
    return int.from_bytes(hashlib.sha256(values.tobytes()).digest()[:8], "big", signed=True)


def columns_of(answer: Answer) -> dict[str, Any]:
    """Return an answer as cells of a row."""
    return {
        "predictions": list(answer.predictions),
        "confidences": list(answer.confidences),
        "probabilities": answer.probabilities,
        "logits": list(answer.logits),
        "loss": answer.loss,
        "scores_digest": answer.digest,
        "mean_confidence": answer.mean_confidence,
    }
