"""What the JSON of a Hugging Face folder may say: every key that names a file, and every bound, is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.models import folders
from app.models.inspection import inspect_model
from seatrial.ingest.huggingface.configuration import (
    MAX_COPIES,
    MAX_LABELS,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCABULARY,
    clean_configuration,
)
from seatrial.ingest.huggingface.documents import MAX_DEPTH, MAX_STRUCTURE
from seatrial.ingest.huggingface.folders import clean_document
from seatrial.ingest.huggingface.tokenizer_config import (
    MAX_ADDED_TOKENS,
    MAX_TOKEN_CHARS,
    clean_special_tokens_map,
    clean_tokenizer_config,
)
from seatrial.ingest.inspection.errors import MalformedFileError, RemoteCodeRefusedError, UploadTooLargeError
from seatrial.store.settings import Settings
from tests.ingest.builders import folder_manifest, safetensors, zipped
from tests.ingest.text_folders import BERT, WORDPIECE, inspect_folder, refuse_folder


def test_an_honest_folder_passes(tmp_path: Path) -> None:
    assert inspect_folder(tmp_path) == "archive"
    # JSON writes such a character as a pair, unless it writes it as it is.
    assert inspect_folder(tmp_path, **{"config.json": {**BERT, "id2label": {"0": "\U0001f600", "1": "b"}}}) == "archive"


@pytest.mark.parametrize(
    "key",
    [
        "vocab_file",
        "merges_file",
        "tokenizer_file",
        "spm_file",
        "added_tokens_file",
        "chat_template_file",
        "sentencepiece_model_ckpt",
        "fast_tokenizer_files",
        "gguf_file",
        "init_inputs",
        "sp_model_kwargs",
        "mecab_kwargs",
        "sudachi_kwargs",
        "jumanpp_kwargs",
        "mecab_option",
        "dict_path",
        "cache_dir",
        "model_url",
        "hub_repo",
        "tokenizer_object",
    ],
)
@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_keys_that_name_files_are_refused_by_name(tmp_path: Path, name: str, key: str) -> None:
    said = str(refuse_folder(tmp_path, **{name: {key: ["/etc/passwd"]}}))
    assert name in said
    assert key in said
    assert "remove the key" in said
    # The same key that asks for nothing is left out.
    for nothing in (None, {}, []):
        assert inspect_folder(tmp_path, **{name: {key: nothing}}) == "archive"
        assert clean_document(name, {key: nothing}) == {}


@pytest.mark.parametrize(
    "key",
    ["auto_map", "trust_remote_code", "custom_pipelines"],
)
@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "special_tokens_map.json", "preprocessor_config.json"]
)
def test_keys_that_bring_code_are_refused(tmp_path: Path, name: str, key: str) -> None:
    document = {**(BERT if name == "config.json" else {}), key: {"AutoTokenizer": ["a.B", None]}}
    error = refuse_folder(tmp_path, **{name: document})
    assert isinstance(error, RemoteCodeRefusedError)
    assert key in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"configuration_files": ["config.4.0.0.json"]}, "configuration_files"),
        ({"vocab_file": "/proc/self/environ"}, "vocab_file"),
        ({"backbone": "resnet50"}, "backbone"),
        ({"use_pretrained_backbone": True}, "use_pretrained_backbone"),
        ({"backbone_config": {"model_type": "bit", "backbone_kwargs": {"a": 1}}}, "backbone_kwargs"),
        ({"text_config": {"weights_url": "https://example.org"}}, "weights_url"),
        ({"architecture": "hf_hub:a/b"}, "architecture"),
        ({"hidden_act": "../../act"}, "hidden_act"),
        ({"hidden_act": "gelu\n"}, "hidden_act"),
        ({"hidden_act": "a\\b"}, "hidden_act"),
        ({"hidden_act": "g" * 201}, "201"),
        ({"to dict": 1}, "to dict"),
        ({"a" * 101: 1}, "1 to 100"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
        ({"tokenizer_class": ["BertTokenizer"]}, "tokenizer_class"),
        ({"architectures": "BertForSequenceClassification"}, "architectures"),
        ({"architectures": [1]}, "architectures"),
        ({"num_labels": MAX_LABELS + 1}, "num_labels"),
        ({"num_labels": 30_000_000}, "30,000,000"),
        ({"id2label": {str(number): "a" for number in range(MAX_LABELS + 1)}}, "id2label"),
        ({"label2id": {str(number): number for number in range(MAX_LABELS + 1)}}, "label2id"),
        ({"id2label": {"0": "a" * 1001, "1": "b"}}, "1,000"),
        ({"id2label": {"0": ["a"], "1": "b"}}, "id2label"),
        ({"id2label": ["a", "b"]}, "id2label"),
        ({"num_hidden_layers": MAX_LAYERS + 1}, "num_hidden_layers"),
        ({"n_layer": MAX_LAYERS + 1}, "n_layer"),
        ({"text_config": {"num_hidden_layers": 10**7}}, r"text_config.num_hidden_layers"),
        ({"parts": [{"encoder_layers": 10**7}]}, "encoder_layers"),
        ({"depths": [2, 10**7]}, "depths"),
        ({"attention_types": [[["global", "local"], 2**31 - 1]]}, "attention_types"),
        ({"num_hidden_layers": 900, "num_feedforward_networks": 900}, "repeated parts"),
        ({"num_hidden_layers": 61, "text_config": {"n_routed_experts": MAX_COPIES}}, "repeated parts"),
        ({"num_hidden_layers": 900, "languages": ["en_XX"] * 900}, "repeated parts"),
        ({"vocab_size": MAX_VOCABULARY + 1}, "vocab_size"),
        ({"max_position_embeddings": MAX_POSITIONS + 1}, "max_position_embeddings"),
        ({"hidden_size": 2**31 - 1}, "hidden_size"),
        ({"num_attention_heads": 10**6}, "num_attention_heads"),
        ({"anything": 2**31}, "anything"),
        ({"anything": -(2**31)}, "anything"),
        ({"num_labels": 10**50}, "num_labels"),
        ({"window": list(range(10_001))}, "window"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_configurations_beyond_the_bounds_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    error = refuse_folder(tmp_path, **{"config.json": {**BERT, **changes}})
    assert says in str(error)
    assert "config.json" in str(error)


def test_leftovers_of_honest_exports_are_left_out(tmp_path: Path) -> None:
    config = {
        **BERT,
        "_name_or_path": "/root/.cache/huggingface/bert",
        "transformers.js_config": {"use_external_data_format": True},
        "task_specific_params": {"summarization": {"prefix": "a/b: "}},
        "torch_dtype": "float32",
        "classifier_dropout": None,
        "use_timm_backbone": False,
        "use_mem_eff_path": True,
        "time": 1e30,
        "id2label": {"0": "n/a", "1": "https://yes"},
        "label2id": {"n/a": 0, "https://yes": "1"},
        "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
    }
    kept = clean_configuration(config)
    assert "id2label" in kept
    assert kept["classifier_dropout"] is None
    assert not {"_name_or_path", "transformers.js_config", "task_specific_params", "label2id"} & set(kept)
    tokenizer = {
        "name_or_path": "/root/.cache/huggingface/bert",
        "special_tokens_map_file": "/root/.cache/huggingface/special_tokens_map.json",
        "tokenizer_file": None,
        "sp_model_kwargs": {},
        "init_inputs": [],
        "chat_template": "{% for message in messages %}" * 1000,
        "tokenizer_class": "BertTokenizer",
        "model_max_length": 1000000000000000019884624838656,
        "do_lower_case": True,
        "never_split": None,
        "processor_class": "anything",
        "stride": 0,
    }
    assert set(clean_tokenizer_config(tokenizer)) == {
        "tokenizer_class",
        "model_max_length",
        "do_lower_case",
        "never_split",
    }
    files = {"config.json": config, "tokenizer_config.json": tokenizer, "onnx/config.json": b"not even JSON"}
    assert inspect_folder(tmp_path, **files) == "archive"


def test_tokenizer_configurations_of_transformers_5_are_understood() -> None:
    document = {"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<a>"], "backend": "tokenizers"}
    assert clean_tokenizer_config(document) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "additional_special_tokens": ["<a>"],
    }


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tokenizer_class": "CpmTokenizer"}, "CpmTokenizer"),
        ({"tokenizer_class": 3}, "tokenizer_class"),
        ({"do_lower_case": "yes"}, "do_lower_case"),
        ({"model_max_length": "long"}, "model_max_length"),
        ({"model_max_length": 10**32}, "model_max_length"),
        ({"extra_ids": 10**6}, "extra_ids"),
        ({"extra_ids": 1.5}, "extra_ids"),
        ({"padding_side": ["left"]}, "padding_side"),
        ({"errors": "a/b"}, "errors"),
        ({"never_split": "film"}, "never_split"),
        ({"pad_token": 3}, "pad_token"),
        ({"pad_token": {"content": "x", "lstrip": "no"}}, "pad_token"),
        ({"pad_token": "x" * (MAX_TOKEN_CHARS + 1)}, "pad_token"),
        ({"additional_special_tokens": "<a>"}, "additional_special_tokens"),
        ({"additional_special_tokens": ["a"] * (MAX_ADDED_TOKENS + 1)}, "additional_special_tokens"),
        ({"added_tokens_decoder": {"a": {"content": "x"}}}, "added_tokens_decoder"),
        ({"added_tokens_decoder": {"1": "x"}}, "added_tokens_decoder"),
        ({"added_tokens_decoder": {"99999999999": {"content": "x"}}}, "added_tokens_decoder"),
        ({"extra_special_tokens": {"vocab_file": "/etc/passwd"}}, "extra_special_tokens"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_tokenizer_configurations_of_other_types_are_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    assert says in str(refuse_folder(tmp_path, **{"tokenizer_config.json": changes}))


def test_special_tokens_keep_their_switches_and_nothing_else() -> None:
    token = {"__type": "AddedToken", "content": "<m>", "lstrip": True, "id": 4, "vocab_file": "/etc/passwd"}
    assert clean_special_tokens_map({"mask_token": token, "unk_token": "<u>", "other": "x"}) == {
        "mask_token": {"__type": "AddedToken", "content": "<m>", "lstrip": True},
        "unk_token": "<u>",
    }


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("added_tokens.json", {"a": "/etc/passwd"}, "added_tokens.json"),
        ("added_tokens.json", {"a" * 2000: 1}, "added_tokens.json"),
        ("added_tokens.json", {"a": -1}, "added_tokens.json"),
        ("preprocessor_config.json", {"size": "224"}, "size"),
        ("preprocessor_config.json", {"image_mean": [[0.5]]}, "image_mean"),
        ("preprocessor_config.json", {"size": 10**20}, "size"),
        ("preprocessor_config.json", {"do_resize": "/etc"}, "do_resize"),
        ("preprocessor_config.json", {"weights_file": "/etc/passwd"}, "weights_file"),
        ("model.safetensors.index.json", {"weight_map": {"w": "../x.safetensors"}}, "weight_map"),
        ("model.safetensors.index.json", {"weight_map": {"w": "/etc/passwd"}}, "weight_map"),
        ("model.safetensors.index.json", {"weight_map": {"w": 1}}, "weight_map"),
        ("config.json", b'{"model_type": "bert", "model_type": "gpt2"}', "twice"),
        ("config.json", b'{"model_type": "bert", "eps": NaN}', "NaN"),
        ("config.json", b'{"model_type": "bert", "eps": -Infinity}', "Infinity"),
        ("config.json", b'{"model_type": "bert", "eps": 1e999}', "too large"),
        ("config.json", b'{"model_type": "bert", "eps": ' + b"9" * 5000 + b"}", "JSON"),
        ("config.json", b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "deep"),
        ("config.json", b'{"a":' * 100_000, "JSON"),
        ("config.json", b"[" + b"[]," * (MAX_STRUCTURE // 2) + b"[]]", "brackets"),
        ("config.json", b"\xff{}", "JSON"),
        ("config.json", {**BERT, "id2label": {"0": "\ud800", "1": "b"}}, "surrogate"),
        ("config.json", {**BERT, "architectures": ["\udfff"]}, "surrogate"),
        ("tokenizer_config.json", b'{"pad_token": "\\uDbFf"}', "surrogate"),
        ("config.json", b'{"a": "' + b"x" * 4 * 2**20 + b'"}', "at most"),
        ("tokenizer_config.json", b"[]", "object"),
        ("vocab.json", {"a": "b"}, "vocab.json"),
        ("vocab.json", {"a": 2**40}, "vocab.json"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_files_beyond_the_bounds_are_refused(tmp_path: Path, name: str, content: Any, says: str) -> None:
    assert says in str(refuse_folder(tmp_path, **{name: content}))


def test_a_damaged_file_outside_of_the_folder_is_nobodys(tmp_path: Path) -> None:
    assert inspect_folder(tmp_path, **{"onnx/tokenizer.json": b"{", "onnx/config.json": b"{"}) == "archive"
    wrapped = {"model/config.json": json.dumps(BERT).encode(), "model/model.safetensors": safetensors()}
    path = tmp_path / "upload"
    for tokenizer, is_right in ((json.dumps(WORDPIECE).encode(), True), (b"{", False)):
        path.write_bytes(zipped({**wrapped, "model/tokenizer.json": tokenizer}))
        if is_right:
            assert inspect_model(path, "m", folder_manifest(task="text-classification"), Settings()) == "archive"
        else:
            with pytest.raises(MalformedFileError, match=r"tokenizer\.json"):
                inspect_model(path, "m", folder_manifest(task="text-classification"), Settings())


@pytest.mark.parametrize(("limit", "most"), [("MAX_TENSORS", 3), ("MAX_TENSOR_NAME_CHARS", 20)])
def test_tensors_of_all_files_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(folders, limit, most)
    with pytest.raises(UploadTooLargeError, match="tensors"):
        inspect_folder(tmp_path, **{"a.safetensors": safetensors(), "b.safetensors": safetensors()})
