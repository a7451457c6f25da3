"""What config.json may say: numbers, switches and short words, within bounds; nothing that names a file.

Its keys differ by the type of the model, so here they are judged by their form. A worker keeps of what passes only what
the configuration class of that type takes (:mod:`workers.models.configurations`).
"""

import re
from collections.abc import Mapping
from typing import Any

from seatrial.ingest.huggingface.documents import (
    MAX_INTEGER,
    check_integer,
    check_list,
    check_name,
    check_string,
    refuse_key,
    whole_numbers,
)
from seatrial.ingest.huggingface.tokenizer_config import check_tokenizer_class
from seatrial.ingest.inspection.errors import ContentError

WHERE = "config.json"
MAX_LAYERS = 1000
"""Building a network of ten million layers, even without weights, would take a worker's memory."""
MAX_COPIES = 50_000
"""Layers times the parts each of them repeats (experts, groups): DeepSeek-V3 has 61 x 256."""
MAX_LABELS = 100_000
MAX_LABEL_CHARS = 1000
MAX_VOCABULARY = 4_000_000
MAX_POSITIONS = 2**24
MAX_COUNT = 100_000
"""Heads, stages, buckets: whatever else is counted."""

LEFTOVERS = frozenset(
    {
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "_num_labels",
        "_attn_implementation",
        "_attn_implementation_internal",
        "_attn_implementation_autoset",
        "attn_implementation",
        "base_model",
        "base_model_name",
        "base_model_name_or_path",
        "model_name_or_path",
        "model_name",
        "dataset",
        "dataset_name",
        "finetuning_task",
        "license",
        "prefix",
        "task_specific_params",
        "transformers.js_config",
        # How a model is run is not for its folder to say.
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "torchscript",
    }
)
"""Keys that honest exports hold, with paths among their values, and that loading a classifier does not need."""

FORBIDDEN = frozenset(
    {
        "backbone",
        "backbone_kwargs",
        "configuration_files",
        "custom_generate",
        "detectron2_config_args",
        "gguf_file",
        "jumanpp_kwargs",
        "mecab_kwargs",
        "sp_model_kwargs",
        "sudachi_kwargs",
        "use_pretrained_backbone",
        "use_timm_backbone",
    }
)
"""Keys by which transformers would read something that is not in the folder."""

_LAYERS = re.compile(r"((^|_)layers?|depths?|blocks?|block_sizes|repeats|attention_types)$")
_COPIES = re.compile(r"(experts|group_num|hidden_groups|feedforward_networks|attends_per_block|num_branches)$")
_LABELS = re.compile(r"num_labels$")
_VOCABULARY = re.compile(r"vocab_size$")
_POSITIONS = re.compile(r"(positions?|position_embeddings|n_ctx|seq_len|seq_length)$")
_SIZES = re.compile(r"(^n_embd|^n_inner|_size|_sizes|_dims?|^dim|_width|channels|^d_\w+|latents|buckets|patches)$")
_COUNTS = re.compile(r"^(num|n)_")


def clean_configuration(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a config.json is handed on, after judging all of it.

    Raises:
        RemoteCodeRefusedError: It asks for code.
        ContentError: It is no configuration of a transformers model, names something outside of the folder, or
            describes a model beyond the bounds.
    """
    if not isinstance(document.get("model_type"), str):
        raise ContentError(f"{WHERE} has no model_type: it is not the configuration of a transformers model")
    if document.get("quantization_config"):
        raise ContentError(
            f"{WHERE} describes quantised weights: gradients do not pass through them; send float weights"
        )
    kept = _clean(document)
    architectures = document.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ContentError(f"{WHERE}: architectures must be a list of class names")
    check_tokenizer_class(document.get("tokenizer_class"), WHERE)
    _check_copies(document)
    return kept


def label_names(config: Mapping[str, Any]) -> list[str] | None:
    """Return the labels of a config in the order of the logits, or None when it has none.

    Raises:
        ContentError: Its label numbers are not 0, 1, 2, ...
    """
    by_number = config.get("id2label")
    if not by_number:
        return None
    if not isinstance(by_number, dict) or set(by_number) != {str(number) for number in range(len(by_number))}:
        raise ContentError('config.json: id2label must map "0", "1", ... to the label names, without a gap')
    return [str(by_number[str(number)]) for number in range(len(by_number))]


def _clean(document: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    check_list(document, path.rstrip(".") or "the object", WHERE)
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if key in LEFTOVERS:
            continue
        check_name(key, WHERE)
        if refuse_key(key, value, WHERE, FORBIDDEN):
            continue
        if key in ("id2label", "label2id"):
            _check_labels(key, value)
            # The names give the numbers.
            if key == "id2label":
                kept[key] = value
            continue
        _check_bounds(key, value, f"{path}{key}")
        kept[key] = _clean_value(value, f"{path}{key}")
    return kept


def _clean_value(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return _clean(value, f"{key}.")
    if isinstance(value, list):
        check_list(value, key, WHERE)
        return [_clean_value(inner, key) for inner in value]
    if isinstance(value, str):
        check_string(value, key, WHERE)
    elif isinstance(value, int):
        check_integer(value, key, WHERE)
    return value


def _check_labels(key: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise ContentError(f"{WHERE}: {key} must be an object")
    if len(value) > MAX_LABELS:
        raise ContentError(f"{WHERE}: {key} has {len(value):,} labels; models of at most {MAX_LABELS:,} are loaded")
    for name, number in value.items():
        if isinstance(number, dict | list) or max(len(name), len(str(number))) > MAX_LABEL_CHARS:
            raise ContentError(
                f"{WHERE}: {key} must map numbers and names of at most {MAX_LABEL_CHARS:,} characters to each other"
            )


def _check_bounds(key: str, value: Any, shown: str) -> None:
    if _LAYERS.search(key):
        counts = [count for count in whole_numbers(value) if count > 0]
        # A list of indices (which layers have experts) sums to more than the layers there are.
        worst = max(counts, default=0)
        if worst > MAX_LAYERS:
            raise ContentError(f"{WHERE}: {shown} is {worst:,}; models of at most {MAX_LAYERS:,} layers are loaded")
        return
    for pattern, high, what in (
        (_LABELS, MAX_LABELS, "labels"),
        (_COPIES, MAX_COPIES, "repeated parts"),
        (_VOCABULARY, MAX_VOCABULARY, "tokens"),
        (_POSITIONS, MAX_POSITIONS, "positions"),
        (_SIZES, MAX_POSITIONS, "values a side"),
        (_COUNTS, MAX_COUNT, "of a kind"),
    ):
        if pattern.search(key):
            worst = max(whole_numbers(value), default=0)
            if worst > min(high, MAX_INTEGER):
                shown_count = f"{worst:,}" if worst < 10**40 else "a huge number"
                raise ContentError(f"{WHERE}: {shown} is {shown_count}; models of at most {high:,} {what} are loaded")
            return


def _check_copies(document: Mapping[str, Any]) -> None:
    """Raise when layers and what each repeats, wherever it is stated, multiply to too many parts."""
    layers, copies = 1, 1
    todo: list[Mapping[str, Any]] = [document]
    while todo:
        for key, value in todo.pop().items():
            if isinstance(value, dict):
                todo.append(value)
            elif _LAYERS.search(key):
                layers = max(layers, *whole_numbers(value), 1)
            elif _COPIES.search(key):
                copies *= max(*whole_numbers(value), 1, 1)
            elif key == "languages" and isinstance(value, list):
                # X-MOD has an adapter for each in every layer.
                copies *= max(len(value), 1)
            if layers * copies > MAX_COPIES:
                raise ContentError(
                    f"{WHERE}: {layers:,} layers of {copies:,} repeated parts each ({key}); models of at most "
                    f"{MAX_COPIES:,} in all are loaded"
                )
