"""Text classifiers for tests: one that counts letters, and the tiny sentiment model answering one text at a time."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertForSequenceClassification, BertTokenizerFast

from tests import texts as reviews
from workers.data import Text
from workers.models import UnansweredError

LONGEST = 128
"""Pieces of a text that the sentiment model reads."""


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
    """The sentiment model of ``tests.texts``. One text at a time, so that batches cannot change a bit.

    Its layers are written out here: of what transformers takes for a network this small, two thirds is bookkeeping.
    """

    classes = 2
    labels = reviews.LABELS
    device = torch.device("cpu")
    preferred_texts = 8

    def __init__(self) -> None:
        self._weights = reviews.trained()
        self._tokenizer = reviews.review_tokenizer().backend_tokenizer
        self._tokenizer.enable_truncation(LONGEST)
        self._logits = cache(self._of)

    def logits(self, texts: Sequence[Text]) -> list[Tensor | UnansweredError]:
        return [self._logits(text) for text in texts]

    def __call__(self, texts: Sequence[Text]) -> Tensor:
        """Return logits (texts, classes), as TextAttack wants them of a model wrapper."""
        return torch.stack([self._logits(text) for text in texts])

    @torch.inference_mode()
    def _of(self, text: Text) -> Tensor:
        pieces, tables = torch.tensor(self._tokenizer.encode(text).ids), "bert.embeddings."
        words = self._weights[f"{tables}word_embeddings.weight"][pieces]
        words = words + self._weights[f"{tables}token_type_embeddings.weight"][0]
        words = words + self._weights[f"{tables}position_embeddings.weight"][: len(pieces)]
        hidden = self._normed(f"{tables}LayerNorm", words[None])
        for layer in ("bert.encoder.layer.0", "bert.encoder.layer.1"):
            heads = [
                self._linear(f"{layer}.attention.self.{part}", hidden).view(1, len(pieces), 2, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            ]
            read = functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(hidden.shape)
            hidden = self._added(f"{layer}.attention.output", read, hidden)
            hidden = self._added(
                f"{layer}.output", functional.gelu(self._linear(f"{layer}.intermediate.dense", hidden)), hidden
            )
        pooled = torch.tanh(self._linear("bert.pooler.dense", hidden[:, 0]))
        return self._linear("classifier", pooled)[0].clone()

    def _linear(self, name: str, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, name: str, inputs: Tensor) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return functional.layer_norm(inputs, weight.shape, weight, bias, 1e-12)

    def _added(self, name: str, inputs: Tensor, beside: Tensor) -> Tensor:
        return self._normed(f"{name}.LayerNorm", self._linear(f"{name}.dense", inputs) + beside)


def of_transformers() -> tuple[BertForSequenceClassification, BertTokenizerFast]:
    """Return the same model as transformers computes it, and its tokenizer."""
    model = BertForSequenceClassification(reviews._config(reviews.LABELS)).eval()
    model.load_state_dict(reviews.trained())
    return model, reviews.review_tokenizer()


@cache
def tiny_sentiment() -> TinySentiment:
    """Return the model, made once per process."""
    return TinySentiment()


def at(temperature: float, dtype: torch.dtype = torch.float64) -> Callable[[Tensor], Tensor]:
    """Return the view of the model at a temperature."""
    return lambda logits: torch.softmax(logits.to(dtype) / temperature, 1)
