"""Which of a configuration's keys a model's own class takes: the second sieve, after the form of the values."""

import os
from collections.abc import Mapping
from inspect import signature
from typing import Any

from seatrial.contracts.models import Task
from seatrial.ingest.huggingface.tokenizer_config import TOKENIZER_CLASSES
from workers.errors import TargetError

_MAPPINGS: dict[Task, str] = {
    "image-classification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "text-classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "text-pair-classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "multi-label-classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "token-classification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
}
_REFUSED_TYPES = frozenset({"timm_wrapper"})
"""Types whose network another library makes, from a name that may be an address."""

BASE_KEYS = frozenset({
    "add_cross_attention", "architectures", "bos_token_id", "chunk_size_feed_forward",
    "cross_attention_hidden_size", "decoder_start_token_id", "eos_token_id", "id2label", "is_decoder",
    "is_encoder_decoder", "model_type", "num_labels", "pad_token_id", "problem_type", "pruned_heads",
    "sep_token_id", "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "transformers_version",
})  # fmt: skip
"""What every configuration takes, less where it came from and how a model is run."""

READ_KEYS = frozenset({
    "attention_bias", "attention_dropout", "attention_head_size", "attn_logit_softcapping",
    "classifier_dropout", "cls_dropout", "conv_act", "conv_groups", "conv_kernel_size", "d_head",
    "embedding_size", "final_logit_softcapping", "force_bos_token_to_be_generated", "full_attention_interval",
    "head_dim", "hidden_activation", "hidden_dropout", "image_size", "layer_types", "n_embed", "norm_rel_ebd",
    "num_channels", "pooler_hidden_size", "pooling", "position_buckets", "position_embedding_type",
    "reshape_last_stage", "rms_norm_eps", "rope_scaling", "rope_theta", "segmentation_indices", "share_att_key",
    "sliding_window", "sliding_window_pattern", "summary_activation", "summary_first_dropout",
    "summary_last_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "talking_head",
    "text_config_dict", "trainer_compatible", "use_cache", "use_memorry_efficient_attention",
    "vision_config_dict", "vision_use_head",
})  # fmt: skip
"""What modelling code, or ours, reads of a configuration whose class does not name it; DeBERTa-v3 lives by some."""


def prepare_transformers() -> None:
    """Keep transformers silent and offline; called before it is first imported."""
    # Read when huggingface_hub is first imported: a folder that lacks a file must fail here, not reach for the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def narrow_configuration(document: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return a config.json with the keys that its model's configuration class takes, and no other.

    Args:
        document: What :func:`seatrial.ingest.huggingface.configuration.clean_configuration` let through.
        task: What the manifest says the model does.

    Raises:
        TargetError: transformers has no such model, or none of this task.
    """
    prepare_transformers()
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = document["model_type"]
    if model_type not in CONFIG_MAPPING:
        raise _unusable(
            f"config.json: model_type {model_type!r} is none that this version of transformers knows: it may be newer, "
            "or need code of its own"
        )
    if model_type in _REFUSED_TYPES or model_type not in getattr(modeling_auto, _MAPPINGS[task]):
        raise _unusable(f"config.json: transformers has no {task} model of model_type {model_type!r} to load here")
    return _narrow(document, CONFIG_MAPPING[model_type])


def check_tokenizer_type(document: Mapping[str, Any], stated: str | None) -> None:
    """Raise where transformers would choose a tokenizer that reads more than the folder.

    Args:
        document: A narrowed configuration.
        stated: The class tokenizer_config.json names.

    Raises:
        TargetError: It would.
    """
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    model_type = document["model_type"]
    name = stated or document.get("tokenizer_class")
    names = [name] if name else list(TOKENIZER_MAPPING_NAMES.get(model_type, ()))
    odd = next((each for each in names if each is not None and each not in TOKENIZER_CLASSES), None)
    if odd is not None:
        raise _unusable(
            f"models of type {model_type} have a {odd}, which reads more than the vocabulary in the folder: save "
            "tokenizer.json, and name PreTrainedTokenizerFast as tokenizer_class of tokenizer_config.json"
        )


def _narrow(document: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    taken = _taken(kind)
    parts = kind.sub_configs if isinstance(kind.sub_configs, dict) else {}
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if key not in taken and key not in parts:
            continue
        kept[key] = _narrow_part(value, parts[key]) if key in parts and isinstance(value, dict) else value
    return kept


def _narrow_part(document: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return a configuration inside of another; ``AutoConfig`` leaves its type to it."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

    if kind is not AutoConfig:
        return _narrow(document, kind)
    model_type = document.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING or model_type in _REFUSED_TYPES:
        raise _unusable(f"config.json: a part of the model is of the unknown model_type {model_type!r}")
    return _narrow(document, CONFIG_MAPPING[model_type])


def _taken(kind: Any) -> set[str]:
    from transformers import PretrainedConfig

    names = {
        name
        for base in kind.__mro__
        if "__init__" in vars(base) and base not in (PretrainedConfig, object)
        for name, parameter in signature(base.__init__).parameters.items()
        if name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    return {*names, *kind.attribute_map, *BASE_KEYS, *READ_KEYS}


def _unusable(detail: str) -> TargetError:
    return TargetError("huggingface-folder-unusable", "transformers cannot load the folder", detail, field="/file")
