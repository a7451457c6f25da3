"""The scores an endpoint gives a text or a token, in whatever form, as logits."""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from seatrial.contracts.endpoints import THINGS
from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.ingest.sums import is_in_range, may_sum_to_one

Outputs: TypeAlias = Literal["probabilities", "logits"]

LOG_ZERO = math.log(math.ulp(0.0))
"""Logit of a probability of exactly 0: the logarithm of the smallest positive double, -744.44.

Of several labels, each with a probability of its own, exactly 1 has the logit ``-LOG_ZERO``. What the probability was
before it was rounded is lost; whoever finds one of these values knows that.
"""

SCORES = "/manifest/architecture/scores"
OUTPUTS = "/manifest/architecture/outputs"
LABELS = "/manifest/labels"


class MisfitError(Exception):
    """An answer is not what the manifest says.

    Attributes:
        reason: What is wrong, without a word of the answer.
        field: Which part of the manifest to look at.
        found: The part of the answer at fault; it may repeat what was sent, so it is not to be shown as it is.
    """

    def __init__(self, reason: str, found: object, *, field: str = SCORES) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.found = found


def text_logits(item: Any, labels: Sequence[str], outputs: Outputs, task: str) -> Tensor:
    """Return logits (classes,) float64 of a text, an image or a token.

    Args:
        item: A list of numbers in the order of the labels, an object from label to number, or a list of objects with
            ``label`` and ``score``.
        labels: Class names in the order of the logits.
        outputs: Whether the numbers are logits already. Those of probabilities are log p, ``LOG_ZERO`` for 0; for
            multi-label-classification log(p / (1 - p)), ``-LOG_ZERO`` for 1.
        task: What the endpoint does.

    Raises:
        MisfitError: The item is none of these, or its numbers are no probabilities.
    """
    whose = "token" if task == TAGGING else THINGS.get(task, "text")
    row = _in_order(item, labels, whose)
    if outputs == "probabilities":
        row = _log_odds(row) if task == MULTI_LABEL else _logarithms(row, whose)
    return torch.tensor(row, dtype=torch.float64)


def sentence_logits(item: Any, tokens: int, labels: Sequence[str], outputs: Outputs) -> Tensor:
    """Return logits (tokens, tags) float64 of a sentence; NaN in the row of a token whose entry is null.

    Args:
        item: A list with one entry per token: what ``text_logits`` takes, or None.
        tokens: How many were sent.
        labels: Tag names in the order of the logits.
        outputs: Whether the numbers are logits already.

    Raises:
        MisfitError: The item is no such list, an entry is none, or all are null: the sentence is not answered.
    """
    if not isinstance(item, list):
        raise MisfitError("a sentence's scores must be a list with one entry per token", item)
    if len(item) != tokens:
        sent = "1 token" if tokens == 1 else f"{tokens} tokens"
        raise MisfitError(f"a sentence of {sent} has the scores of {len(item)}", item)
    if all(entry is None for entry in item):
        raise MisfitError("a sentence's scores are null for every token", item)
    logits = torch.full((tokens, len(labels)), torch.nan, dtype=torch.float64)
    for number, entry in enumerate(item):
        if entry is not None:
            logits[number] = text_logits(entry, labels, outputs, TAGGING)
    return logits


def is_row(value: list[Any]) -> bool:
    """Return whether a list holds numbers, or objects with label and score: the scores of one text, not of several.

    >>> is_row([0.5, 0.5]), is_row([{"label": "a", "score": 1}]), is_row([{"a": 1}]), is_row([[0.5, 0.5]])
    (True, True, False, False)
    """
    return bool(value) and not any(
        isinstance(one, list) or (isinstance(one, dict) and not _is_pair(one)) for one in value
    )


def is_sentence(value: list[Any]) -> bool:
    """Return whether a list holds the scores of tokens, not of several sentences.

    >>> is_sentence([[0.5, 0.5], None]), is_sentence([{"a": 1}]), is_sentence([[[0.5, 0.5], None]])
    (True, True, False)
    >>> is_sentence([[{"label": "a", "score": 1}]]), is_sentence([[{"a": 1}]])
    (True, False)
    """
    return not any(isinstance(one, list) and not is_row(one) for one in value)


def _a(thing: str) -> str:
    return f"an {thing}" if thing[0] in "aeiou" else f"a {thing}"


def _is_pair(value: dict[str, Any]) -> bool:
    return isinstance(value.get("label"), str) and "score" in value


def _in_order(item: Any, labels: Sequence[str], whose: str) -> list[float]:
    if isinstance(item, dict):
        item = [item] if _is_pair(item) else [{"label": label, "score": score} for label, score in item.items()]
    if not isinstance(item, list):
        raise MisfitError(
            f"{_a(whose)}'s scores must be a list of numbers, an object, or a list of label and score", item
        )
    if not any(isinstance(one, dict) for one in item):
        if len(item) != len(labels):
            raise MisfitError(f"{_a(whose)} has {len(item)} scores for {len(labels)} labels", item, field=LABELS)
        return [_number(score, item) for score in item]
    by_label = _by_label(item, whose)
    known = set(labels)
    if unknown := [label for label in by_label if label not in known]:
        raise MisfitError("the answer names a label the manifest does not", unknown[0], field=LABELS)
    if missing := [label for label in labels if label not in by_label]:
        hint = " (ask for the scores of all labels, `top_k` null)" if len(by_label) == 1 else ""
        raise MisfitError(f"{_a(whose)} has no score for the label {missing[0]!r}{hint}", item, field=LABELS)
    return [by_label[label] for label in labels]


def _by_label(item: list[Any], whose: str) -> dict[str, float]:
    scores: dict[str, float] = {}
    for one in item:
        if not isinstance(one, dict) or not _is_pair(one):
            raise MisfitError(f"each object of {_a(whose)}'s list of scores must have `label` and `score`", item)
        if one["label"] in scores:
            raise MisfitError("a label has two scores", item, field=LABELS)
        scores[one["label"]] = _number(one["score"], item)
    return scores


def _number(score: Any, item: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise MisfitError("a score is no number", item)
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise MisfitError("a score is not finite", item)
    return value


def _logarithms(row: list[float], whose: str) -> list[float]:
    if not is_in_range(row) or not may_sum_to_one(row):
        raise MisfitError(
            f"{_a(whose)}'s scores are no probabilities, in [0, 1] with a sum of 1: if they are logits, say outputs: "
            "logits",
            row,
            field=OUTPUTS,
        )
    return [math.log(min(value, 1.0)) if value > 0 else LOG_ZERO for value in row]


def _log_odds(row: list[float]) -> list[float]:
    if not is_in_range(row):
        raise MisfitError(
            "a text's scores are no probabilities, each in [0, 1]: if they are logits, say outputs: logits",
            row,
            field=OUTPUTS,
        )
    return [_logit(value) for value in row]


def _logit(probability: float) -> float:
    if probability <= 0:
        return LOG_ZERO
    if probability >= 1:
        return -LOG_ZERO
    return math.log(probability) - math.log1p(-probability)
