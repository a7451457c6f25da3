"""Keys of configurations and tokenizers that transformers reads: each is kept, or known to be of no matter."""

import re
from inspect import getfile, signature
from pathlib import Path

import pytest
import transformers

from seatrial.ingest.huggingface.folders import VOCABULARIES
from seatrial.ingest.huggingface.tokenizer_config import (
    FLAGS,
    FORBIDDEN,
    LISTS,
    NUMBERS,
    PREFIXES,
    TOKEN_LISTS,
    TOKENIZER_CLASSES,
    TOKENS,
    WORDS,
)
from workers.errors import TargetError
from workers.models.configurations import BASE_KEYS, READ_KEYS, narrow_configuration


def test_a_configuration_keeps_what_its_class_takes() -> None:
    document = {
        "model_type": "deberta-v2",
        "hidden_size": 16,
        "position_buckets": 8,
        "id2label": {"0": "a"},
        "to_dict": "shadowed",
        "_attn_implementation_internal": "kernels-community",
        "unheard_of": 1,
    }
    assert set(narrow_configuration(document, "text-classification")) == {
        "model_type",
        "hidden_size",
        "position_buckets",
        "id2label",
    }
    nested = {"model_type": "clip", "vision_config": {"hidden_size": 8, "to_dict": 1}, "text_config": None}
    assert narrow_configuration(nested, "image-classification") == {
        "model_type": "clip",
        "vision_config": {"hidden_size": 8},
        "text_config": None,
    }
    for model_type, task in (
        ("timm_wrapper", "image-classification"),
        ("resnet", "text-classification"),
        ("whisper", "text-classification"),
        ("none_such", "text-classification"),
    ):
        with pytest.raises(TargetError, match=model_type):
            narrow_configuration({"model_type": model_type}, task)  # type: ignore[arg-type]


def test_every_key_that_modelling_code_reads_is_kept_or_known_to_be_of_no_matter() -> None:
    # A key that is read but dropped would silently change what a model computes.
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kinds = {
        *modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    }
    base = set(signature(transformers.PretrainedConfig.__init__).parameters)
    of_no_matter = {
        # Of quantised models, generation, export, or two-headed models that no task here has.
        "_pre_quantization_dtype", "gradient_checkpointing", "initializer_range", "no_token_index", "onnx_export",
        "quantization_config", "yes_token_index", "transformers_weights", "torch_dtype",
    }  # fmt: skip
    for kind in sorted(kinds):
        stated_in = Path(getfile(CONFIG_MAPPING[kind]))
        stated = stated_in.read_text()
        code = stated_in.with_name(stated_in.name.replace("configuration_", "modeling_")).read_text()
        read = set(re.findall(r"(?:get|has)attr\(\s*(?:self\.)?config,\s*[\"'](\w+)[\"']", code))
        read |= set(re.findall(r"kwargs\.(?:get|pop)\(\s*[\"'](\w+)[\"']", stated))
        named = set(re.findall(r"^\s+(\w+)(?::[^=\n]+)?\s?=[^=]", stated, re.MULTILINE))
        named |= set(re.findall(r"[\"'](\w+)[\"']: [\"']\w+[\"']", stated))
        assert read - named - base - READ_KEYS - BASE_KEYS - of_no_matter == set(), kind


def test_every_option_of_the_listed_tokenizers_is_known() -> None:
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    files = {"vocab_file", "merges_file", "tokenizer_file", "entity_vocab_file"}
    of_no_matter = {
        "self", "args", "kwargs", "model_max_length", "use_default_system_prompt", "suffix_first", "tokenizer_object",
        "return_token_type_ids", "id2lang", "lang2id", "cls_token_box", "pad_token_box", "sep_token_box",
        "pad_token_label", "only_label_first_subword", "do_lowercase_and_remove_accent",
    }  # fmt: skip
    known = {*FLAGS, *NUMBERS, *WORDS, *PREFIXES, *LISTS, *TOKENS, *TOKEN_LISTS, *FORBIDDEN, *files, *of_no_matter}
    found = 0
    for name in sorted(TOKENIZER_CLASSES):
        kind = tokenizer_class_from_name(name)
        if kind is None:
            continue
        found += 1
        assert set(signature(kind.__init__).parameters) <= known, name
        reads = {file for file in kind.vocab_files_names.values() if file != "tokenizer_config.json"}
        assert reads <= set(VOCABULARIES), name
    assert found > 80
