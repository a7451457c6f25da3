"""What is sent to an endpoint and what its answers mean."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from app.contracts.endpoints import EACH
from app.core.endpoint_rules import ScorePath
from workers.targets import Text

LOG_ZERO = math.log(math.ulp(0.0))
"""Logit of a probability of exactly 0: the logarithm of the smallest positive double, -744.44.

What it was before it was rounded to 0 is lost; whoever finds this value knows that.
"""

SUM_TOLERANCE = 1e-3
"""Probabilities of a text may miss a sum of 1 by this: services round them to three or four digits."""
RANGE_TOLERANCE = 1e-6
"""And each may miss [0, 1] by this, as a float32 softmax does."""

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


def fill(template: Any, texts: Sequence[Text]) -> Any:
    """Return the body of a request for some texts.

    >>> fill({"inputs": "{{texts}}", "n": 1}, ["a", "b"])
    {'inputs': ['a', 'b'], 'n': 1}
    >>> fill({"$each": {"p": "{{premise}}", "h": "{{hypothesis}}"}}, [("a", "b")])
    [{'p': 'a', 'h': 'b'}]
    """
    return _filled(template, texts, {**_parts(texts[0]), **_lists(texts)})


def _parts(text: Text) -> dict[str, str]:
    if isinstance(text, str):
        return {"{{text}}": text}
    return {"{{premise}}": text[0], "{{hypothesis}}": text[1]}


def _lists(texts: Sequence[Text]) -> dict[str, list[str]]:
    plural = {"{{text}}": "{{texts}}", "{{premise}}": "{{premises}}", "{{hypothesis}}": "{{hypotheses}}"}
    return {plural[name]: [_parts(text)[name] for text in texts] for name in _parts(texts[0])}


def _filled(template: Any, texts: Sequence[Text], values: Mapping[str, Any]) -> Any:
    if isinstance(template, str):
        return values.get(template, template)
    if isinstance(template, list):
        return [_filled(value, texts, values) for value in template]
    if not isinstance(template, dict):
        return template
    if EACH in template:
        return [_filled(template[EACH], texts, {**values, **_parts(text)}) for text in texts]
    return {name: _filled(value, texts, values) for name, value in template.items()}


def read_scores(
    body: bytes, path: ScorePath, count: int, labels: Sequence[str], outputs: Literal["probabilities", "logits"]
) -> list[Tensor | MisfitError]:
    """Return logits (classes,) float64 of each text, or what is wrong with its scores.

    Args:
        body: The answer.
        path: Where its scores stand.
        count: Texts that were sent.
        labels: Class names in the order of the logits.
        outputs: What the scores are; logits of probabilities are their logarithms, ``LOG_ZERO`` for 0.

    Raises:
        MisfitError: The answer as a whole is no JSON, or does not hold one item per text.
    """
    answer = _parse(body)
    answers: list[Tensor | MisfitError] = []
    for item in _items(path.find(answer, count), count, answer):
        try:
            row = _in_order(item, labels)
            answers.append(_log(row) if outputs == "probabilities" else torch.tensor(row, dtype=torch.float64))
        except MisfitError as error:
            answers.append(error)
    return answers


def _parse(body: bytes) -> Any:
    def refuse(name: str) -> NoReturn:
        raise MisfitError(f"the answer holds {name}, which is no JSON", name)

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise MisfitError("the answer is no JSON", body.decode("utf-8", "replace")) from error


def _items(nodes: list[Any], count: int, answer: Any) -> list[Any]:
    if not nodes:
        raise MisfitError("the path finds nothing in the answer", answer)
    if len(nodes) == 1 and isinstance(nodes[0], list) and (count > 1 or not _is_row(nodes[0])):
        nodes = nodes[0]
    if len(nodes) != count:
        asked = "1 text" if count == 1 else f"{count} texts"
        held = f"more than {count}" if len(nodes) > count else str(len(nodes))
        raise MisfitError(
            f"for {asked} the path finds {held} items: it must lead to the scores of each text, or to one list of them",
            answer,
        )
    return nodes


def _is_row(value: list[Any]) -> bool:
    # Numbers, or objects with label and score: the scores of one text, not a list of such.
    return bool(value) and not any(
        isinstance(one, list) or (isinstance(one, dict) and not _is_pair(one)) for one in value
    )


def _is_pair(value: dict[str, Any]) -> bool:
    return isinstance(value.get("label"), str) and "score" in value


def _in_order(item: Any, labels: Sequence[str]) -> list[float]:
    # Services that take one text answer with a list of one list.
    if isinstance(item, list) and len(item) == 1 and isinstance(item[0], list):
        item = item[0]
    if isinstance(item, dict):
        item = [item] if _is_pair(item) else [{"label": label, "score": score} for label, score in item.items()]
    if not isinstance(item, list):
        raise MisfitError("a text's scores must be a list of numbers, an object, or a list of label and score", item)
    if not any(isinstance(one, dict) for one in item):
        if len(item) != len(labels):
            raise MisfitError(f"a text has {len(item)} scores for {len(labels)} labels", item, field=LABELS)
        return [_number(score, item) for score in item]
    by_label = _by_label(item)
    if unknown := [label for label in by_label if label not in labels]:
        raise MisfitError("the answer names a label the manifest does not", unknown[0], field=LABELS)
    if missing := [label for label in labels if label not in by_label]:
        hint = " (ask for the scores of all labels, `top_k` null)" if len(by_label) == 1 else ""
        raise MisfitError(f"a text has no score for the label {missing[0]!r}{hint}", item, field=LABELS)
    return [by_label[label] for label in labels]


def _by_label(item: list[Any]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for one in item:
        if not isinstance(one, dict) or not _is_pair(one):
            raise MisfitError("each object of a list of scores must have `label` and `score`", item)
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


def _log(row: list[float]) -> Tensor:
    is_in_range = all(-RANGE_TOLERANCE <= value <= 1 + RANGE_TOLERANCE for value in row)
    if not is_in_range or abs(math.fsum(row) - 1) > SUM_TOLERANCE:
        raise MisfitError(
            "a text's scores are no probabilities, in [0, 1] with a sum of 1: if they are logits, say outputs: logits",
            row,
            field=OUTPUTS,
        )
    logs = [math.log(min(value, 1.0)) if value > 0 else LOG_ZERO for value in row]
    return torch.tensor(logs, dtype=torch.float64)
