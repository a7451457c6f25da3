"""Hugging Face folders that tag every token of a sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seatrial.contracts.models import ModelManifest
from workers.data import Text
from workers.errors import TargetError
from workers.models import Answer
from workers.models.fixed_batches import PREFERRED_TEXTS, Pieces
from workers.models.hf_folders import class_names, load_config, refusing
from workers.models.tokenizing import (
    UNREADABLE,
    FrozenModel,
    Reading,
    encodable,
    load_model,
    load_tokenizer,
    wants_bfloat16,
)

KIND = "a token classifier"


def load_huggingface_tokens(
    manifest: ModelManifest, folder: Path, device: torch.device
) -> "HuggingFaceTokenClassifier":
    """Return the tagger of a Hugging Face folder; the manifest's labels win over the folder's.

    Raises:
        TargetError: The folder is no token classifier, its weights are incomplete, it has no fast tokenizer, or
            manifest and folder disagree.
    """
    config = load_config(folder, KIND)
    labels = class_names(config, manifest)
    tokenizer = _load_word_tokenizer(folder)
    from transformers import AutoModelForTokenClassification

    auto = AutoModelForTokenClassification
    model = load_model(auto, config, folder, task=manifest.task, kind=KIND, tokenizer=tokenizer)
    with refusing(f"The folder is not usable as {KIND}", "the tokenizer with the model"):
        return HuggingFaceTokenClassifier(
            model, tokenizer, labels=labels, device=device, in_bfloat16=wants_bfloat16(manifest)
        )


class HuggingFaceTokenClassifier(FrozenModel):
    """A frozen tagger in eval mode; implements :class:`workers.models.TextClassifier`.

    A text is a sentence, the tuple of its tokens.

    A token's logits are those of its first piece. A token without one has NaN in all of them: it stands beyond what the
    model takes, or the tokenizer drops it (a zero-width space, say).

    Args:
        module: A transformers model for token classification.
        tokenizer: The fast tokenizer it was trained with.
        labels: Tag names in the order of the logits.
        device: Where to compute.
        in_bfloat16: Compute products in bfloat16.
    """

    def __init__(
        self, module: nn.Module, tokenizer: Any, *, labels: list[str], device: torch.device, in_bfloat16: bool = False
    ) -> None:
        filler = tokenizer(["a"], is_split_into_words=True)
        super().__init__(module, tokenizer, labels, device, filler, in_bfloat16=in_bfloat16)

    @property
    def preferred_texts(self) -> int:
        """Sentences that are best asked for at once."""
        return PREFERRED_TEXTS["cuda" if self._device.type == "cuda" else "cpu"]

    def padded_length(self, text: Text) -> int:
        """Return the tokens a sentence is padded to, itself included."""
        return self._batches.length(len(self._encode([text])["input_ids"][0]))

    def logits(self, texts: Sequence[Text]) -> list[Answer]:
        """Return logits (tokens, tags) float32 on the CPU for each sentence; NaN for tokens without a piece.

        Raises:
            TypeError: A text is a string: sentences are tuples of tokens.
        """
        # The tokenizer takes no sentence without tokens.
        filled = [number for number, sentence in enumerate(texts) if sentence]
        if not filled:
            return [torch.empty(0, len(self._labels)) for _ in texts]
        encoded = self._encode([texts[number] for number in filled], truncation=True, max_length=self.longest)
        types = encoded.get("token_type_ids") if self._takes_types else None
        pieces = [
            Pieces(ids, types[place] if types is not None else None) for place, ids in enumerate(encoded["input_ids"])
        ]
        computed = self._batches.logits(pieces)
        answers = [torch.full((len(sentence), computed[0].shape[1]), torch.nan) for sentence in texts]
        for place, (number, rows) in enumerate(zip(filled, computed, strict=True)):
            tokens = encoded.word_ids(place)
            for piece, token in enumerate(tokens):
                if token is not None and token not in tokens[:piece]:
                    answers[number][token] = rows[piece]
        return [*answers]

    def read(self, texts: Sequence[Text]) -> list[Reading]:
        """Return what the tokenizer makes of each sentence, before anything is cut off."""
        filled = [text for text in texts if text]
        if not filled:
            return [Reading(0, 0, is_truncated=False) for _ in texts]
        encoded = self._encode(filled)
        unknown = self._tokenizer.unk_token_id
        readings = []
        for place, ids in enumerate(encoded["input_ids"]):
            own = [token for token, word in zip(ids, encoded.word_ids(place), strict=True) if word is not None]
            count = 0 if unknown is None else own.count(unknown)
            readings.append(Reading(len(own), count, is_truncated=len(ids) > self.longest))
        remaining = iter(readings)
        return [next(remaining) if text else Reading(0, 0, is_truncated=False) for text in texts]

    def _encode(self, sentences: Sequence[Text], **how: Any) -> Any:
        if any(isinstance(sentence, str) for sentence in sentences):
            raise TypeError("the model takes sentences: tuples of tokens")
        tokens = [[encodable(token) for token in sentence] for sentence in sentences]
        with refusing(UNREADABLE, "the tokenizer"):
            return self._tokenizer(tokens, is_split_into_words=True, return_attention_mask=False, verbose=False, **how)


def _load_word_tokenizer(folder: Path) -> Any:
    tokenizer = load_tokenizer(folder)
    if not tokenizer.is_fast:
        raise TargetError(
            "tokenizer-too-slow",
            "The folder has no fast tokenizer",
            f"{type(tokenizer).__name__} does not say which piece belongs to which token: save the folder with its "
            "fast tokenizer (tokenizer.json)",
            field="/file",
        )
    try:
        with refusing(UNREADABLE, "the tokenizer", passing=AssertionError):
            tokenizer(["a"], is_split_into_words=True)
    except AssertionError:
        # A byte-level tokenizer takes tokens only where each begins with a space, as words inside of a text do.
        return load_tokenizer(folder, add_prefix_space=True)
    return tokenizer
