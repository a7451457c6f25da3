"""Folders of models that read characters or bytes and have no words: CANINE, ByT5."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    ByT5Tokenizer,
    CanineConfig,
    CanineForSequenceClassification,
    CanineTokenizer,
    T5Config,
    T5ForSequenceClassification,
)

from tests import texts
from tests.models.builders import CPU, manifest
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.loading import load_text_classifier

SOME = ["film", "a dull film", "it is late .", "caf\u00e9 \u6620\u753b", "wonderful " * 30]


def _canine() -> tuple[Any, Any]:
    config = CanineConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=256,
        num_hash_buckets=256,
        num_hash_functions=4,
        local_transformer_stride=16,
    )
    return CanineForSequenceClassification(config), CanineTokenizer(model_max_length=256)


def _byt5() -> tuple[Any, Any]:
    config = T5Config(
        vocab_size=384, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, num_labels=2
    )
    return T5ForSequenceClassification(config), ByT5Tokenizer(model_max_length=256)


@pytest.mark.parametrize("make", [pytest.param(_canine, marks=pytest.mark.drill), _byt5], ids=["canine", "byt5"])
def test_they_load_and_answer_as_transformers_does(tmp_path: Path, make: Any) -> None:
    torch.manual_seed(0)
    model, tokenizer = make()
    folder = texts.save(tmp_path / "model", model.eval(), tokenizer)
    archive = folder.with_suffix(".zip")
    archive.write_bytes(texts.zip_folder(folder))
    about = manifest({"kind": "huggingface"}, task="text-classification", input=None, labels=["a", "b"])
    classifier = load_text_classifier(about, archive, "archive", CPU)
    assert isinstance(classifier, HuggingFaceTextClassifier)
    assert classifier.longest == 256
    for text, row in zip(SOME, classifier.logits(SOME), strict=True):
        assert isinstance(row, Tensor)
        with torch.no_grad():
            # CANINE's own convolutions reach into the padding: what it says depends on the padded length.
            length = classifier.padded_length(text)
            encoded = tokenizer(text, truncation=True, padding="max_length", max_length=length, return_tensors="pt")
            alone = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits[0]
        assert torch.allclose(row, alone, atol=1e-5), text
        assert torch.equal(row, classifier.logits([text])[0])
    readings = classifier.read(["a dull film", SOME[-1]])
    assert [reading.is_truncated for reading in readings] == [False, True]
    assert (readings[0].pieces, readings[0].unknown) == (11, 0)
