"""Hugging Face folders that are no text classifier, or not the one that was stated, are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertModel

from tests import texts
from tests.models.builders import CPU
from tests.models.test_hf_text import _load, _manifest
from workers.errors import TargetError
from workers.models.hf_text import load_huggingface_text
from workers.models.loading import load_text_classifier


def _without_tokenizer(folder: Path) -> None:
    for path in folder.iterdir():
        if path.suffix != ".safetensors" and path.name != "config.json":
            path.unlink()


def _edit(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return change


def _other_tokenizer(folder: Path) -> None:
    tokenizer = texts.review_tokenizer()
    tokenizer.add_tokens([f"word{number}" for number in range(5)])
    tokenizer.save_pretrained(folder)


def _short_tokenizer(folder: Path) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 4}))


def _not_finite(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("change", "code", "field", "words"),
    [
        (_without_tokenizer, "huggingface-folder-unusable", "/file", "tokenizer"),
        (_other_tokenizer, "tokenizer-mismatch", "/file", "up to"),
        (_short_tokenizer, "texts-too-short", "/file", "model_max_length"),
        (_edit(id2label={"0": "score"}), "task-mismatch", "/manifest/task", "regression"),
        (_edit(problem_type="multi_label_classification"), "task-mismatch", "/manifest/task", "problem_type"),
        (_edit(architectures=["BertForTokenClassification"]), "task-mismatch", "/manifest/task", "ForTokenClass"),
        (_edit(num_hidden_layers=10**9), "invalid-content", "/file", "num_hidden_layers"),
        (_edit(intermediate_size=10**7), "state-dict-mismatch", "/file", "describes a model"),
        (_edit(model_type="no_such_model"), "huggingface-folder-unusable", "/file", "no_such_model"),
        (_edit(auto_map={"AutoConfig": "code.Config"}, model_type="x"), "remote-code-refused", "/file", "code"),
        (_not_finite, "weights-not-finite", "/file", "classifier.bias"),
    ],
)
def test_folders_that_are_refused(tmp_path: Path, change: Any, code: str, field: str, words: str) -> None:
    folder = texts.tiny_sentiment(tmp_path / "model")
    change(folder)
    with pytest.raises(TargetError, match=words) as caught:
        _load(folder)
    assert (caught.value.problem.code, caught.value.problem.field) == (code, field)


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_a_model_without_its_head_is_refused_with_the_names_of_what_lacks(tmp_path: Path, kind: Any) -> None:
    config = BertForSequenceClassification(texts._config(texts.LABELS)).config
    folder = texts.save(tmp_path / "model", kind(config))
    if kind is BertForMaskedLM:
        with pytest.raises(TargetError, match="BertForMaskedLM"):
            _load(folder)
        _edit(architectures=None)(folder)
    with pytest.raises(TargetError, match=r"classifier\.bias, classifier\.weight") as caught:
        _load(folder)
    assert caught.value.problem.code == "state-dict-mismatch"


def test_labels_in_another_order_than_the_folders_are_refused(tmp_path: Path) -> None:
    folder = texts.tiny_sentiment(tmp_path / "model")
    assert _load(folder, labels=["bad", "good"]).labels == ["bad", "good"]
    with pytest.raises(TargetError) as caught:
        _load(folder, labels=["positive", "negative"])
    assert (caught.value.problem.code, caught.value.problem.field) == ("label-order-mismatch", "/manifest/labels")


def test_only_archives_of_folders_are_text_models(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="safetensors") as caught:
        load_text_classifier(_manifest(), tmp_path / "weights", "safetensors", CPU)
    assert caught.value.problem.code == "folder-needed"
    with pytest.raises(TargetError) as caught:
        load_text_classifier(_manifest("image-classification"), tmp_path / "model", "archive", CPU)
    assert (caught.value.problem.code, caught.value.problem.field) == ("task-mismatch", "/manifest/task")


def test_a_tagger_is_no_text_classifier(tmp_path: Path) -> None:
    folder = texts.save(tmp_path / "model", BertForTokenClassification(texts._config(texts.TAGS)))
    with pytest.raises(TargetError, match="ForTokenClassification"):
        load_huggingface_text(_manifest(), folder, CPU)
