"""What an endpoint is asked and answers in these tests."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from tests.scripted import Answerer, Asked, answering
from workers.models import UnansweredError
from workers.models.endpoint import NoScoresError

LABELS = ["negative", "positive"]


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def score(text: str) -> list[float]:
    """Return the probabilities a text has at the endpoint: by its length."""
    positive = 1 / (1 + math.exp(3 - len(text)))
    return [1 - positive, positive]


def classifying(render: Callable[[list[list[float]]], Any] = list) -> Answerer:
    """Answer ``{"inputs": texts}`` with their scores, rendered."""

    def answer(handler: Any, asked: Asked) -> None:
        answering(render([score(text) for text in asked.json["inputs"]]))(handler, asked)

    return answer


def settings(**more: Any) -> Settings:
    return Settings(endpoint_allowed_networks=["127.0.0.0/8"], **more)


def manifest(url: str, *, task: str = "text-classification", labels: Sequence[str] = LABELS, **more: Any) -> Any:
    architecture = {"kind": "endpoint", "url": url, "request": {"inputs": "{{texts}}"}, "batch_size": 4, **more}
    said = {"name": "m", "version": "1", "task": task, "architecture": architecture, "labels": list(labels)}
    return ModelManifest.model_validate_json(json.dumps(said))


def expected(texts: Sequence[str]) -> torch.Tensor:
    return torch.tensor([score(text) for text in texts], dtype=torch.float64).log()


def reason(answer: torch.Tensor | UnansweredError) -> NoScoresError:
    assert isinstance(answer, NoScoresError), answer
    return answer


TEXTS = ["", "a", "bb", "ccc", "dddd", "ünïcödé", "\ud800", 'q"\\\n', "x" * 10]
