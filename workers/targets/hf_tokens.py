"""Hugging Face folders that tag every token of a sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from app.contracts.targets import ModelManifest
from workers.errors import TargetError
from workers.targets.fixed_batches import PREFERRED_TEXTS, Pieces
from workers.targets.hf_folders import class_names, load_config
from workers.targets.tokenizing import FrozenModel, encodable, load_model, load_tokenizer

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
    return HuggingFaceTokenClassifier(model, tokenizer, labels=labels, device=device)


class HuggingFaceTokenClassifier(FrozenModel):
    """A frozen tagger in eval mode; implements :class:`workers.targets.TokenClassifier`.

    A token's logits are those of its first piece. A token without one has NaN in all of them: it stands beyond what the
    model takes, or the tokenizer drops it (a zero-width space, say).

    Args:
        module: A transformers model for token classification.
        tokenizer: The fast tokenizer it was trained with.
        labels: Tag names in the order of the logits.
        device: Where to compute.
    """

    def __init__(self, module: nn.Module, tokenizer: Any, *, labels: list[str], device: torch.device) -> None:
        super().__init__(module, tokenizer, labels, device, tokenizer(["a"], is_split_into_words=True))

    @property
    def preferred_sentences(self) -> int:
        """Sentences that are best asked for at once."""
        return PREFERRED_TEXTS["cuda" if self._device.type == "cuda" else "cpu"]

    def padded_length(self, sentence: Sequence[str]) -> int:
        """Return the tokens a sentence is padded to, itself included."""
        return self._batches.length(len(self._tokenizer(list(sentence), is_split_into_words=True)["input_ids"]))

    def logits(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Return logits (tokens, tags) float32 on the CPU for each sentence; NaN for tokens without a piece."""
        # The tokenizer takes no sentence without tokens.
        filled = [number for number, sentence in enumerate(sentences) if sentence]
        if not filled:
            return [torch.empty(0, len(self._labels)) for _ in sentences]
        encoded = self._tokenizer(
            [[encodable(token) for token in sentences[number]] for number in filled],
            is_split_into_words=True,
            truncation=True,
            max_length=self.longest,
            return_attention_mask=False,
            verbose=False,
        )
        types = encoded.get("token_type_ids") if self._takes_types else None
        pieces = [
            Pieces(ids, types[place] if types is not None else None) for place, ids in enumerate(encoded["input_ids"])
        ]
        computed = self._batches.logits(pieces)
        found = [torch.full((len(sentence), computed[0].shape[1]), torch.nan) for sentence in sentences]
        for place, (number, rows) in enumerate(zip(filled, computed, strict=True)):
            tokens = encoded.word_ids(place)
            for piece, token in enumerate(tokens):
                if token is not None and token not in tokens[:piece]:
                    found[number][token] = rows[piece]
        return found


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
        tokenizer(["a"], is_split_into_words=True)
    except AssertionError:
        # A byte-level tokenizer takes tokens only where each begins with a space, as words inside of a text do.
        return load_tokenizer(folder, add_prefix_space=True)
    return tokenizer
