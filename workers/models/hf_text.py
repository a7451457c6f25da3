"""Hugging Face folders that classify texts, or pairs of them; one class a text, or several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seatrial.contracts.models import ModelManifest
from workers.data import Text
from workers.models import Answer
from workers.models.fixed_batches import PREFERRED_TEXTS, Pieces
from workers.models.footprint import graph_bytes, quadratic
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

KIND = "a text classifier"
MEASURED_TEXTS = 2
"""Texts of a batch whose memory is counted."""


def load_huggingface_text(manifest: ModelManifest, folder: Path, device: torch.device) -> "HuggingFaceTextClassifier":
    """Return the text classifier of a Hugging Face folder; the manifest's labels win over the folder's.

    Raises:
        TargetError: The folder is no text classifier, its weights are incomplete, or manifest and folder disagree.
    """
    config = load_config(folder, KIND)
    labels = class_names(config, manifest)
    tokenizer = load_tokenizer(folder)
    from transformers import AutoModelForSequenceClassification

    auto = AutoModelForSequenceClassification
    model = load_model(auto, config, folder, task=manifest.task, kind=KIND, tokenizer=tokenizer)
    with refusing(f"The folder is not usable as {KIND}", "the tokenizer with the model"):
        return HuggingFaceTextClassifier(
            model,
            tokenizer,
            labels=labels,
            device=device,
            takes_pairs=manifest.task == "text-pair-classification",
            in_bfloat16=wants_bfloat16(manifest),
        )


class HuggingFaceTextClassifier(FrozenModel):
    """A frozen text classifier in eval mode; implements :class:`workers.models.TextClassifier`.

    Texts longer than the model takes lose their end. Logits are those of the module, not finite ones included.

    Args:
        module: A transformers model for sequence classification.
        tokenizer: The tokenizer it was trained with.
        labels: Class names in the order of the logits.
        device: Where to compute.
        takes_pairs: Whether a text is a premise and a hypothesis.
        in_bfloat16: Compute products in bfloat16.
    """

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        labels: list[str],
        device: torch.device,
        takes_pairs: bool = False,
        in_bfloat16: bool = False,
    ) -> None:
        filler = tokenizer("a", "a" if takes_pairs else None)
        super().__init__(module, tokenizer, labels, device, filler, in_bfloat16=in_bfloat16)
        self._takes_pairs = takes_pairs

    @property
    def preferred_texts(self) -> int:
        """Texts that are best asked for at once."""
        return PREFERRED_TEXTS["cuda" if self._device.type == "cuda" else "cpu"]

    def logits(self, texts: Sequence[Text]) -> list[Answer]:
        """Return float32 logits (classes,) on the CPU for each text, in order.

        Raises:
            TypeError: Pairs for a model of single texts, or the other way round.
        """
        if not texts:
            return []
        encoded = self._encode(texts, truncation=True, max_length=self.longest)
        types = encoded.get("token_type_ids") if self._takes_types else None
        pieces = [
            Pieces(ids, types[number] if types is not None else None) for number, ids in enumerate(encoded["input_ids"])
        ]
        return [*self._batches.logits(pieces)]

    def training_bytes(self, tokens: int) -> list[float]:
        """Return the bytes a training keeps of a text of n tokens, times n and times its square.

        From texts of ``tokens`` tokens and of four times as many, or of as many as the model takes.
        """
        first: int = self._encode([("a", "a") if self._takes_pairs else "a"])["input_ids"][0][0]

        def kept(length: int) -> float:
            ids = torch.full((MEASURED_TEXTS, length), first, device=self._device)
            mask = torch.ones_like(ids)
            return graph_bytes(self._module, lambda: self._module(ids, attention_mask=mask)) / MEASURED_TEXTS

        return list(quadratic({length: kept(length) for length in (tokens, min(4 * tokens, self.longest))}))

    def read(self, texts: Sequence[Text]) -> list[Reading]:
        """Return what the tokenizer makes of each text, before anything is cut off."""
        if not texts:
            return []
        encoded = self._encode(texts, return_special_tokens_mask=True)
        unknown = self._tokenizer.unk_token_id
        readings = []
        for ids, special in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
            # A tokenizer may count its token for the unknown among the special ones: told by number, not by the mask.
            count = 0 if unknown is None else ids.count(unknown)
            others = sum(1 for token, mark in zip(ids, special, strict=True) if not mark and token != unknown)
            readings.append(Reading(others + count, count, len(ids) > self.longest))
        return readings

    def seen(self, text: Text) -> tuple[int, ...] | None:
        """Return how many characters of each part reach the model; None where the whole text does.

        What stands behind them can be replaced or left out, as long as they stay, and the model is given the same.
        """
        given = self._encode([text], truncation=True, max_length=self.longest)["input_ids"][0]
        if len(self._encode([text])["input_ids"][0]) <= self.longest:
            return None
        parts = [text] if isinstance(text, str) else list(text)
        for place, part in enumerate(parts):
            # One after the other: which part of a pair loses how much depends on how long both are.
            parts[place] = part[: self._reach(parts, place, given)]
        return tuple(map(len, parts))

    def _reach(self, parts: list[str], place: int, given: list[int]) -> int:
        """Return the least number of characters of a part with which the model is given the same tokens."""
        too_few, enough = 0, len(parts[place])
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            shorter = [part[:middle] if number == place else part for number, part in enumerate(parts)]
            one: Text = shorter[0] if len(shorter) == 1 else tuple(shorter)
            encoded = self._encode([one], truncation=True, max_length=self.longest)["input_ids"][0]
            too_few, enough = (too_few, middle) if encoded == given else (middle, enough)
        return enough

    def padded_length(self, text: Text) -> int:
        """Return the tokens a text is padded to, itself included."""
        return self._batches.length(len(self._encode([text])["input_ids"][0]))

    def _encode(self, texts: Sequence[Text], **how: Any) -> Any:
        parts = [(text,) if isinstance(text, str) else text for text in texts]
        if any(len(part) != 1 + self._takes_pairs for part in parts):
            wanted = "pairs of texts" if self._takes_pairs else "single texts"
            raise TypeError(f"the model takes {wanted}")
        columns = [[encodable(text) for text in column] for column in zip(*parts, strict=True)]
        with refusing(UNREADABLE, "the tokenizer"):
            return self._tokenizer(*columns, return_attention_mask=False, verbose=False, **how)
