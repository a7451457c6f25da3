"""Hugging Face folders of a text model, and what an inspection says of one that was changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.models.inspection import inspect_model
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.settings import Settings
from tests.ingest.builders import folder_manifest, safetensors, zipped

BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 9}
WORDPIECE = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": 0,
            "content": "[PAD]",
            "special": True,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "single_word": False,
        }
    ],
    "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[PAD]": 0, "[CLS]": 1, "film": 2},
    },
}


def inspect_folder(tmp_path: Path, **files: Any) -> str:
    """Inspect a text folder; a dict is written as JSON, None leaves a file out."""
    contents = {"config.json": BERT, "model.safetensors": safetensors(), "tokenizer.json": WORDPIECE, **files}
    data = {
        name: content if isinstance(content, bytes) else json.dumps(content).encode()
        for name, content in contents.items()
        if content is not None
    }
    path = tmp_path / "upload"
    path.write_bytes(zipped(data))
    return inspect_model(path, "model.zip", folder_manifest(task="text-classification"), Settings())


def refuse_folder(tmp_path: Path, **files: Any) -> InspectionError:
    with pytest.raises(InspectionError) as caught:
        inspect_folder(tmp_path, **files)
    assert (caught.value.status, caught.value.field) == (422, "/file")
    return caught.value
