"""Text classifiers for tests: one that counts letters, and the tiny sentiment model answering one text at a time."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor
from transformers import BertForSequenceClassification

from tests import texts as reviews
from workers.data import Text
from workers.models import UnansweredError


class LetterCounter:
    """Two logits from the letters of a text; remembers what it was asked."""

    classes = 2
    labels: ClassVar = ["few", "many"]
    device = torch.device("cpu")

    def __init__(self, *, preferred_texts: int = 8, refuses: Callable[[Text], bool] = lambda text: False) -> None:
        self.preferred_texts = preferred_texts
        self.batches: list[list[Text]] = []
        self._refuses = refuses

    def logits(self, texts: Sequence[Text]) -> list[Tensor | UnansweredError]:
        self.batches.append(list(texts))
        return [UnansweredError(f"no answer to {text!r}") if self._refuses(text) else self.of(text) for text in texts]

    def of(self, text: Text) -> Tensor:
        joined = text if isinstance(text, str) else " / ".join(text)
        counts = torch.zeros(26)
        for place, letter in enumerate(joined.lower()):
            if "a" <= letter <= "z":
                counts[ord(letter) - ord("a")] += 1 + place / 1000
        weights = torch.linspace(-1, 1, 26)
        return torch.stack([counts @ weights, counts @ weights.flip(0).roll(3)])


class TinySentiment:
    """The sentiment model of ``tests.texts``. One text at a time, so that batches cannot change a bit."""

    classes = 2
    labels = reviews.LABELS
    device = torch.device("cpu")
    preferred_texts = 8

    def __init__(self) -> None:
        self.model = BertForSequenceClassification(reviews._config(reviews.LABELS)).eval()
        self.model.load_state_dict(reviews.trained())
        self.tokenizer = reviews.review_tokenizer()
        self._logits = cache(self._of)

    def logits(self, texts: Sequence[Text]) -> list[Tensor | UnansweredError]:
        return [self._logits(text) for text in texts]

    def __call__(self, texts: Sequence[Text]) -> Tensor:
        """Return logits (texts, classes), as TextAttack wants them of a model wrapper."""
        return torch.stack([self._logits(text) for text in texts])

    def _of(self, text: Text) -> Tensor:
        with torch.inference_mode():
            return self.model(**self.tokenizer(text, truncation=True, return_tensors="pt")).logits[0].clone()


@cache
def tiny_sentiment() -> TinySentiment:
    """Return the model, made once per process."""
    return TinySentiment()


def at(temperature: float, dtype: torch.dtype = torch.float64) -> Callable[[Tensor], Tensor]:
    """Return the view of the model at a temperature."""
    return lambda logits: torch.softmax(logits.to(dtype) / temperature, 1)
