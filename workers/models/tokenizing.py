"""What a folder says about cutting texts into tokens, and whether its model understands them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seatrial.contracts.architectures import HuggingFaceArchitecture
from seatrial.contracts.models import ModelManifest, Task
from seatrial.ingest.huggingface.configuration import MAX_LAYERS
from workers.errors import TargetError
from workers.models.fixed_batches import FixedBatches, Pieces
from workers.models.hf_folders import check_size, describe, load_weights, refusing

DEFAULT_LONGEST = 512
"""Tokens of a text where neither tokenizer nor model gives a limit."""
SHORTEST_LONGEST = 8
SPARE_WEIGHTS = 2**24
"""Weights that may be missing from the files before they are named one by one: a head has fewer."""

UNREADABLE = "The tokenizer does not take a text"

_HEADS = {
    "text-classification": "ForSequenceClassification",
    "text-pair-classification": "ForSequenceClassification",
    "multi-label-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
}


@dataclass(frozen=True)
class Reading:
    """What a tokenizer made of a text.

    Attributes:
        pieces: Tokens, special ones aside.
        unknown: How many of them are the token for the unknown.
        is_truncated: Whether the model sees the beginning only.
    """

    pieces: int
    unknown: int
    is_truncated: bool


def load_tokenizer(folder: Path, **more: Any) -> Any:
    """Return the tokenizer of a folder, the fast one where there is one.

    Raises:
        TargetError: The folder has none.
    """
    from transformers import AutoTokenizer

    title = "transformers cannot load the folder's tokenizer (save_pretrained writes it beside the model)"
    with refusing(title, "the tokenizer"):
        return AutoTokenizer.from_pretrained(  # type: ignore[no-untyped-call]
            folder, local_files_only=True, trust_remote_code=False, **more
        )


def load_model(auto: Any, config: Any, folder: Path, *, task: Task, kind: str, tokenizer: Any) -> nn.Module:
    """Return a folder's model, in float32, after everything that can be known before it is allocated.

    Args:
        auto: The Auto class of transformers that has the task's head.
        config: The folder's configuration; its ``pad_token_id`` is set where it has none.
        folder: Where the weights are.
        task: What the manifest says the model does.
        kind: The same for the message.
        tokenizer: The folder's.

    Raises:
        TargetError: The folder is for another task, its weights are incomplete, or its tokenizer is another model's.
    """
    _check_task(config, task)
    config.pad_token_id = _pad_id(config, tokenizer)
    with refusing(f"transformers cannot load the folder as {kind}", "the model of config.json and its weights"):
        # A model may share one layer's weights among all: nothing else bounds the passes through it.
        if int(getattr(config, "num_hidden_layers", 0)) > MAX_LAYERS:
            raise TargetError(
                "invalid-content",
                "The contents cannot be used",
                f"config.json: num_hidden_layers is {config.num_hidden_layers}; models of at most {MAX_LAYERS:,} "
                "layers are loaded",
                field="/file",
            )
        empty = describe(auto, config)
        check_size(empty, folder, spare=SPARE_WEIGHTS)
        _check_token_ids(empty, tokenizer)
        return load_weights(auto, config, folder)


def fixed_batches(module: nn.Module, tokenizer: Any, config: Any, device: torch.device, filler: Any) -> FixedBatches:
    """Return what runs tokenized texts through a module.

    Args:
        module: In eval mode on ``device``.
        tokenizer: Its tokenizer.
        config: Its configuration.
        device: Where to compute.
        filler: The tokenizer's answer to a short text of the task's form, with ``input_ids`` of one text.

    Raises:
        TargetError: The model takes hardly any tokens.
    """
    longest = _longest(module, tokenizer, config)
    if longest < SHORTEST_LONGEST:
        raise TargetError(
            "texts-too-short",
            "The model takes hardly any text",
            f"tokenizer and model allow {longest} tokens, special ones included: at least {SHORTEST_LONGEST} are "
            "needed (model_max_length of tokenizer_config.json, max_position_embeddings of config.json)",
            field="/file",
        )
    return FixedBatches(
        module,
        device=device,
        longest=longest,
        filler=Pieces(filler["input_ids"], filler.get("token_type_ids") if takes_types(config) else None),
        pad_id=config.pad_token_id,
        # Not where the tokenizer would: positions counted from the left would move with the padding.
        pads_left=getattr(config, "summary_type", None) == "last",
    )


class FrozenModel:
    """What classifiers of texts and of tokens have in common: a module in eval mode behind fixed batches.

    Args:
        module: A transformers model with a head for classes.
        tokenizer: The tokenizer it was trained with.
        labels: Class names in the order of the logits.
        device: Where to compute.
        filler: The encoding a batch is filled up with.
        in_bfloat16: Compute products in bfloat16; logits are float32 all the same.
    """

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        labels: list[str],
        device: torch.device,
        filler: Any,
        *,
        in_bfloat16: bool = False,
    ) -> None:
        self._module = module.to(device).eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._labels = labels
        self._device = device
        self._takes_types = takes_types(module.config)
        self._batches = fixed_batches(self._module, tokenizer, module.config, device, filler)
        self._batches.in_bfloat16 = in_bfloat16

    @property
    def classes(self) -> int:
        """Number of logits per text or token."""
        return len(self._labels)

    @property
    def labels(self) -> list[str]:
        """Class names in the order of the logits."""
        return self._labels

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self._module.parameters())

    @property
    def in_bfloat16(self) -> bool:
        """Whether products are computed in bfloat16."""
        return self._batches.in_bfloat16

    def recalibrate(self, how: Mapping[str, Any] | None) -> None:
        """Apply a map to all logits from now on, as manifests hold it; None: none."""
        self._batches.recalibration = how

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Compute in float32 for a while."""
        before, self._batches.in_bfloat16 = self._batches.in_bfloat16, False
        try:
            yield
        finally:
            self._batches.in_bfloat16 = before

    @property
    def longest(self) -> int:
        """Tokens the model takes at most, special ones included."""
        return self._batches.longest


def wants_bfloat16(manifest: ModelManifest) -> bool:
    """Return whether a manifest asks for bfloat16."""
    architecture = manifest.architecture
    return isinstance(architecture, HuggingFaceArchitecture) and architecture.precision == "bfloat16"


def takes_types(config: Any) -> bool:
    """Return whether a model tells the parts of a pair apart by token types; RoBERTa's has one type for both."""
    return int(getattr(config, "type_vocab_size", 2)) > 1


def encodable(text: str) -> str:
    r"""Return a text with halves of surrogate pairs replaced: JSON may hold them, and no tokenizer takes them.

    >>> encodable("caf\u00e9 \ud83d") == "caf\u00e9 ?"
    True
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _longest(module: nn.Module, tokenizer: Any, config: Any) -> int:
    # A tokenizer without a limit states 1e30, a model without one -1 or nothing.
    stated = [int(tokenizer.model_max_length), int(getattr(config, "max_position_embeddings", None) or 0)]
    for name, table in module.named_modules():
        if "position" in name and isinstance(table, nn.Embedding):
            # RoBERTa and its kin number positions from the padding index on: 514 embeddings take 512 tokens.
            offset = 0 if table.padding_idx is None else table.padding_idx + 1
            stated.append(table.num_embeddings - offset)
    return min((limit for limit in stated if 0 < limit < 10**9), default=DEFAULT_LONGEST)


def _pad_id(config: Any, tokenizer: Any) -> int:
    # The model's own comes first: some look for it to find the end of a text, or to number positions.
    for candidate in (config.pad_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id):
        if candidate is not None and candidate >= 0:
            return int(candidate)
    return 0


def _check_task(config: Any, task: Task) -> None:
    wanted = _HEADS[task]
    for name in config.architectures or []:
        # A folder of a bare encoder is refused for the tensors it lacks, which says more.
        if "For" in name and not name.endswith(wanted):
            raise _other_task(f"config.json says {name}, {task} needs a model {wanted[3:]} ({wanted})")
    problem = getattr(config, "problem_type", None)
    is_multi_label = problem == "multi_label_classification"
    if task == "token-classification":
        return
    if problem is not None and is_multi_label != (task == "multi-label-classification"):
        raise _other_task(f"config.json says problem_type {problem}, the manifest {task}")
    if not is_multi_label and int(config.num_labels) < 2:
        raise _other_task("the model has one output, as for regression: a classifier has one for each class")


def _other_task(detail: str) -> TargetError:
    return TargetError("task-mismatch", "The folder is for another task", detail, field="/manifest/task")


def _check_token_ids(empty: nn.Module, tokenizer: Any) -> None:
    if getattr(empty.config, "model_type", None) == "canine":
        # Its ids are code points, each hashed into tables: none is beyond them.
        return
    # On a GPU an id beyond the embeddings does not raise: it ends the process's use of the device.
    embeddings = empty.get_input_embeddings()  # type: ignore[operator]
    most = max(tokenizer.get_vocab().values(), default=-1)
    known = getattr(embeddings, "num_embeddings", most + 1)
    if most >= known:
        raise TargetError(
            "tokenizer-mismatch",
            "The tokenizer is another model's",
            f"it gives token ids up to {most}, the model knows {known}: put the tokenizer the model was trained with "
            "into the folder",
            field="/file",
        )
