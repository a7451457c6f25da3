"""A sentence encoder: the mean of a transformer's last hidden states, as sentence-transformers pools MiniLM."""

from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from workers.resources.hugging_face import load_model

REMEMBERED_TEXTS = 2**15
"""Encodings kept: 1.5 kB each for MiniLM."""


class SentenceEncoder:
    """Encodes texts, each by itself: beside others its numbers would differ in the last bits, and with them outcomes.

    Args:
        folder: A Hugging Face folder of an encoder.

    Raises:
        ModelUnusableError: It cannot be loaded.
    """

    def __init__(self, folder: Path) -> None:
        self._model, self._tokenizer = load_model(folder, "AutoModel")
        self._longest = min(int(getattr(self._model.config, "max_position_embeddings", 512)), 512)
        self._remembered: OrderedDict[str, Tensor] = OrderedDict()

    def encode(self, texts: list[str]) -> Tensor:
        """Return encodings (texts, dimensions) float32 on the CPU."""
        return torch.stack([self._encoding(text) for text in texts])

    def word_pieces(self) -> tuple[list[str], Tensor]:
        """Return the word pieces that are whole words of two letters or more, and their vectors (words, dimensions)."""
        vocabulary = self._tokenizer.get_vocab()
        words = sorted(word for word in vocabulary if len(word) > 1 and word.isascii() and word.isalpha())
        weight = self._model.get_input_embeddings().weight.detach()
        return words, weight[[vocabulary[word] for word in words]].cpu()

    def _encoding(self, text: str) -> Tensor:
        encoding = self._remembered.get(text)
        if encoding is None:
            inputs = self._tokenizer([text], truncation=True, max_length=self._longest, return_tensors="pt")
            with torch.inference_mode():
                hidden = self._model(**inputs).last_hidden_state
            encoding = hidden[0].mean(0).float()
            self._remembered[text] = encoding
            if len(self._remembered) > REMEMBERED_TEXTS:
                self._remembered.popitem(last=False)
        else:
            self._remembered.move_to_end(text)
        return encoding


@lru_cache(maxsize=1)
def load_sentence_encoder(folder: Path) -> SentenceEncoder:
    """Return the encoder of a folder; the last one asked for is kept."""
    return SentenceEncoder(folder)
