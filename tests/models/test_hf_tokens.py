"""Taggers from Hugging Face folders: the logits of each token's first piece."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertForTokenClassification,
    BertTokenizer,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForTokenClassification,
    RobertaTokenizerFast,
)

from tests import texts
from tests.models.builders import CPU, manifest
from workers.errors import TargetError
from workers.models import hf_tokens
from workers.models.hf_tokens import HuggingFaceTokenClassifier
from workers.models.loading import load_text_classifier

SENTENCES = [tuple(tokens) for tokens, _ in texts.tagged(20, seed=3)]


def _load(folder: Path, task: str = "token-classification", **changes: Any) -> HuggingFaceTokenClassifier:
    archive = folder.with_suffix(".zip")
    archive.write_bytes(texts.zip_folder(folder))
    stated = manifest({"kind": "huggingface"}, task=task, **{"input": None, "labels": None, **changes})
    return load_text_classifier(stated, archive, "archive", CPU)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceTokenClassifier:
    return _load(texts.tiny_tagger(tmp_path_factory.mktemp("tagger") / "model"))


def test_each_token_has_the_logits_of_its_first_piece(tmp_path: Path) -> None:
    folder = texts.tiny_tagger(tmp_path / "model")
    tagger = _load(folder)
    module = BertForTokenClassification.from_pretrained(folder).eval()
    tokenizer = texts.review_tokenizer()
    for sentence, rows in zip(SENTENCES, tagger.logits(SENTENCES), strict=True):
        ids = [tokenizer.cls_token_id]
        first = []
        for token in sentence:
            first.append(len(ids))
            ids += tokenizer(token, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            want = module(torch.tensor([[*ids, tokenizer.sep_token_id]])).logits[0, first]
        assert torch.allclose(rows, want, atol=1e-5)
    assert any(len(tokenizer.tokenize(token)) > 1 for sentence in SENTENCES for token in sentence)
    assert (tagger.labels, tagger.classes, tagger.longest) == (texts.TAGS, 4, 128)


def test_logits_depend_on_the_sentence_alone_bit_for_bit(tagger: HuggingFaceTokenClassifier) -> None:
    alone = [tagger.logits([sentence])[0] for sentence in SENTENCES]
    draw = random.Random(0)
    for _ in range(10):
        order = draw.choices(range(len(SENTENCES)), k=draw.randint(1, 30))
        for number, rows in zip(order, tagger.logits([SENTENCES[number] for number in order]), strict=True):
            assert torch.equal(rows, alone[number])


def test_tokens_without_a_piece_have_no_numbers(tagger: HuggingFaceTokenClassifier) -> None:
    dropped, long, empty = tagger.logits([("a", "\u200b", "film"), ("film",) * 130, ()])
    assert torch.isfinite(dropped).all(1).tolist() == [True, False, True]
    # Two of 128 tokens are special ones.
    assert torch.isfinite(long).all(1).tolist() == [True] * 126 + [False] * 4
    assert torch.isnan(long[126:]).all()
    assert empty.shape == (0, 4)
    assert tagger.logits([]) == []
    assert [rows.shape for rows in tagger.logits([(), ()])] == [(0, 4), (0, 4)]


def test_a_byte_level_tokenizer_is_given_the_space_it_needs(tmp_path: Path) -> None:
    letters = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytes_alone = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(vocab_size=300, max_position_embeddings=42, type_vocab_size=1, **sizes)
    tokenizer = RobertaTokenizerFast(tokenizer_object=bytes_alone, add_prefix_space=False)
    folder = texts.save(tmp_path / "model", RobertaForTokenClassification(config), tokenizer)
    one, two = _load(folder, labels=["a", "b"]).logits([("a", "film"), ("film",)])
    assert (one.shape, two.shape) == ((2, 2), (1, 2))
    assert torch.isfinite(one).all()


def test_a_slow_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = texts.tiny_tagger(tmp_path / "model")
    monkeypatch.setattr(hf_tokens, "load_tokenizer", lambda folder: BertTokenizer.from_pretrained(folder))
    with pytest.raises(TargetError, match=r"tokenizer\.json") as caught:
        _load(folder)
    assert (caught.value.problem.code, caught.value.problem.field) == ("tokenizer-too-slow", "/file")


def test_folders_for_other_tasks_are_refused(tmp_path: Path) -> None:
    # The heads have the same names and shapes: nothing but the stated architecture tells them apart.
    with pytest.raises(TargetError, match="ForSequenceClassification") as caught:
        _load(texts.tiny_sentiment(tmp_path / "model"))
    assert (caught.value.problem.code, caught.value.problem.field) == ("task-mismatch", "/manifest/task")
    with pytest.raises(TargetError) as caught:
        _load(texts.tiny_tagger(tmp_path / "tagger"), "text-classification")
    assert (caught.value.problem.code, caught.value.problem.field) == ("task-mismatch", "/manifest/task")


def test_another_models_tokenizer_is_refused_before_a_token_is_looked_up(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "film": 10_000}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    folder = texts.save(tmp_path / "model", BertForTokenClassification(texts._config(texts.TAGS)), tokenizer)
    with pytest.raises(TargetError, match="10000") as caught:
        _load(folder)
    assert caught.value.problem.code == "tokenizer-mismatch"
