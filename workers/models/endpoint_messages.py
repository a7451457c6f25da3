"""What is sent to an endpoint and what its answers mean."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from torch import Tensor

from seatrial.contracts.endpoints import EACH, PARTS, PLURALS, THINGS, EndpointArchitecture, fill_string
from seatrial.contracts.models import IMAGES, TAGGING
from seatrial.net.endpoint_rules import ScorePath
from workers.data import Text
from workers.models.endpoint_images import EncodedImage
from workers.models.endpoint_scores import (
    LABELS,
    LOG_ZERO,
    SCORES,
    MisfitError,
    Outputs,
    is_row,
    is_sentence,
    sentence_logits,
    text_logits,
)

__all__ = ["LABELS", "LOG_ZERO", "SCORES", "Example", "MisfitError", "TemplateExchange", "fill", "parse", "read_scores"]

_BLAMED = {400: "request", 413: "batch_size", 415: "request", 422: "request"}

Example: TypeAlias = Text | EncodedImage
"""What an endpoint is asked about."""

MOST_VALUES = 500_000
"""Most values in an answer. Python takes up to 400 bytes and 10 µs for each, to read it and to walk a path through it:
16 MiB of empty lists, 16 KiB when compressed, took 2.3 GB and 86 s."""


def fill(template: Any, texts: Sequence[Example], task: str) -> Any:
    """Return the body of a request for some texts, or images.

    Raises:
        TypeError: A text is not one of the task: not a single one, no pair, or not the tokens of a sentence; or an
            image is not encoded.

    >>> fill({"inputs": "{{texts}}", "n": 1}, ["a", "b"], "text-classification")
    {'inputs': ['a', 'b'], 'n': 1}
    >>> fill({"$each": {"p": "{{premise}}", "h": "{{hypothesis}}"}}, [("a", "b")], "text-pair-classification")
    [{'p': 'a', 'h': 'b'}]
    >>> fill({"words": "{{sentences}}"}, [("a", "b"), ("c",)], "token-classification")
    {'words': [['a', 'b'], ['c']]}
    """
    parts = [_parts(text, task) for text in texts]
    lists = {PLURALS[name]: [part[name] for part in parts] for name in parts[0]}
    return _filled(template, parts, {**parts[0], **lists})


def _parts(text: Example, task: str) -> dict[str, Any]:
    names = PARTS[task]
    values: list[Any]
    if isinstance(text, EncodedImage) or task == IMAGES:
        is_fitting = isinstance(text, EncodedImage) and task == IMAGES
        values = [text.value] if isinstance(text, EncodedImage) else []
    elif isinstance(text, str):
        values, is_fitting = [text], len(names) == 1 and task != TAGGING
    elif task == TAGGING:
        values, is_fitting = [list(text)], True
    else:
        values, is_fitting = list(text), len(text) == len(names) > 1
    if not is_fitting:
        raise TypeError(f"an endpoint that does {task} was asked about inputs of another form")
    return dict(zip(names, values, strict=True))


def _filled(template: Any, parts: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Any:
    if isinstance(template, str):
        return fill_string(template, values)
    if isinstance(template, list):
        return [_filled(value, parts, values) for value in template]
    if not isinstance(template, dict):
        return template
    if EACH in template:
        return [_filled(template[EACH], parts, {**values, **part}) for part in parts]
    return {name: _filled(value, parts, values) for name, value in template.items()}


def read_scores(
    body: bytes, path: ScorePath, texts: Sequence[Example], task: str, labels: Sequence[str], outputs: Outputs
) -> list[Tensor | MisfitError]:
    """Return logits float64 of each example, (classes,) or (tokens, tags), or what is wrong with its scores.

    Args:
        body: The answer.
        path: Where its scores stand.
        texts: As they were sent, or images.
        task: What the endpoint does.
        labels: Class names in the order of the logits.
        outputs: What the scores are; what logits of probabilities are ``text_logits`` says.

    Raises:
        MisfitError: The answer as a whole is no JSON, or does not hold one item per example.
    """
    answer = parse(body)
    is_one = is_sentence if task == TAGGING else is_row
    nodes = path.find(answer, len(texts))
    if not nodes:
        raise MisfitError("the path finds nothing in the answer", answer)
    if len(nodes) == 1 and isinstance(nodes[0], list) and (len(texts) > 1 or not is_one(nodes[0])):
        nodes = nodes[0]
    _check_count(nodes, len(texts), answer, THINGS.get(task, "text"))
    answers: list[Tensor | MisfitError] = []
    for item, text in zip(nodes, texts, strict=True):
        # Services that take one text answer with a list of one list.
        if isinstance(item, list) and len(item) == 1 and isinstance(item[0], list) and not is_one(item):
            item = item[0]
        try:
            if task == TAGGING and isinstance(text, tuple):
                answers.append(sentence_logits(item, len(text), labels, outputs))
            else:
                answers.append(text_logits(item, labels, outputs, task))
        except MisfitError as error:
            answers.append(error)
    return answers


class TemplateExchange:
    """Writes requests from the template of a manifest and reads answers where its path says.

    Args:
        endpoint: As uploaded.
        path: Its path to the scores, compiled.
        task: What it does.
        labels: Class names in the order of the logits.
    """

    def __init__(self, endpoint: EndpointArchitecture, path: ScorePath, task: str, labels: Sequence[str]) -> None:
        self._endpoint, self._path, self._task, self._labels = endpoint, path, task, labels

    def body(self, texts: Sequence[Example]) -> bytes:
        """Return the request for some examples; see :func:`fill`."""
        return json.dumps(fill(self._endpoint.request, texts, self._task), allow_nan=False).encode()

    def answers(self, body: bytes, texts: Sequence[Example]) -> list[Tensor | MisfitError]:
        """Return the logits of each example, or what is wrong; see :func:`read_scores`."""
        return read_scores(body, self._path, texts, self._task, self._labels, self._endpoint.outputs)

    def blamed(self, status: int, body: bytes) -> str | None:
        """Return which member of the architecture a refusal is about; None where it is none of the request's."""
        return _BLAMED.get(status)

    def forget(self) -> None:
        """Do nothing: nothing is counted."""


def parse(body: bytes) -> Any:
    """Return the JSON of an answer.

    Raises:
        MisfitError: It is none, or holds more values than are read.
    """
    # Each has one of these before it, but the first; those inside of strings are counted too.
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise MisfitError(
            f"the answer holds more than {MOST_VALUES:,} values; send fewer examples per request",
            f"{len(body):,} bytes",
        )

    def refuse(name: str) -> NoReturn:
        raise MisfitError(f"the answer holds {name}, which is no JSON", name)

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise MisfitError("the answer is no JSON", body.decode("utf-8", "replace")) from error


def _check_count(nodes: Sequence[Any], count: int, answer: Any, thing: str) -> None:
    if len(nodes) != count:
        asked = f"1 {thing}" if count == 1 else f"{count} {thing}s"
        held = f"more than {count}" if len(nodes) > count else str(len(nodes))
        raise MisfitError(
            f"for {asked} the path finds {held} items: it must lead to the scores of each {thing}, or to one list of "
            "them",
            answer,
        )
