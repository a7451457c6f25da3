"""Text classifiers from Hugging Face folders: the logits of transformers, and bit for bit the same in any company."""

import random
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    XLNetConfig,
    XLNetForSequenceClassification,
)

from tests import texts
from tests.models.builders import CPU, manifest
from workers.models import fixed_batches
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.loading import load_text_classifier

REVIEWS = [text for text, _ in texts.sentences(60, seed=3)]
PAIRS = [(premise, hypothesis) for premise, hypothesis, _ in texts.pairs(20, seed=3)]


def _manifest(task: str = "text-classification", **changes: Any) -> Any:
    return manifest({"kind": "huggingface"}, task=task, **{"input": None, "labels": None, **changes})


def _load(folder: Path, task: str = "text-classification", **changes: Any) -> HuggingFaceTextClassifier:
    archive = folder.with_suffix(".zip")
    archive.write_bytes(texts.zip_folder(folder))
    classifier = load_text_classifier(_manifest(task, **changes), archive, "archive", CPU)
    assert isinstance(classifier, HuggingFaceTextClassifier)
    return classifier


@cache
def _theirs(folder: Path) -> tuple[Any, Any]:
    """Return the tokenizer and the model that transformers makes of a folder."""
    module = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    return AutoTokenizer.from_pretrained(folder), module


def _alone(folder: Path, *parts: Any) -> Tensor:
    """Return what transformers gives for one text, without padding."""
    tokenizer, module = _theirs(folder)
    with torch.no_grad():
        encoded = tokenizer(*parts, return_tensors="pt")
        taken = set(encoded) & set(signature(module.forward).parameters)
        return module(**{name: encoded[name] for name in taken}).logits[0]


@pytest.fixture(scope="module")
def sentiment(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceTextClassifier:
    return _load(texts.tiny_sentiment(tmp_path_factory.mktemp("sentiment") / "model"))


@pytest.mark.slow
def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    folder = texts.tiny_sentiment(tmp_path / "model", shard_size="30KB")
    assert (folder / "model.safetensors.index.json").exists()
    classifier = _load(folder)
    rows = classifier.logits(REVIEWS)
    for text, row in zip(REVIEWS, rows, strict=True):
        assert isinstance(row, Tensor)
        assert torch.allclose(row, _alone(folder, text), atol=1e-5)
        assert (row.dtype, row.shape, row.requires_grad) == (torch.float32, (2,), False)
    assert (classifier.labels, classifier.classes, classifier.device) == (texts.LABELS, 2, CPU)
    assert (classifier.longest, classifier.preferred_texts) == (128, 64)
    assert classifier.parameters == sum(tensor.numel() for tensor in texts.trained().values())


def test_the_model_of_reviews_is_good_and_not_perfect(sentiment: HuggingFaceTextClassifier) -> None:
    rows = texts.sentences(300, seed=9)
    right = [
        int(answer.argmax()) == label
        for answer, (_, label) in zip(sentiment.logits([text for text, _ in rows]), rows, strict=True)
        if isinstance(answer, Tensor)
    ]
    assert 0.85 < sum(right) / 300 < 0.99


@pytest.mark.slow
def test_pairs_are_read_as_pairs(tmp_path: Path) -> None:
    folder = texts.tiny_pairs(tmp_path / "model")
    classifier = _load(folder, "text-pair-classification")
    for (premise, hypothesis), row in zip(PAIRS, classifier.logits(PAIRS), strict=True):
        assert torch.allclose(row, _alone(folder, premise, hypothesis), atol=1e-5)
    with pytest.raises(TypeError, match="pairs"):
        classifier.logits(["one text"])


def test_several_labels_a_text_are_logits_too(tmp_path: Path) -> None:
    folder = texts.tiny_multi_label(tmp_path / "model")
    classifier = _load(folder, "multi-label-classification")
    assert classifier.labels == ["praise", "blame", "music"]
    assert torch.allclose(classifier.logits(REVIEWS[:1])[0], _alone(folder, REVIEWS[0]), atol=1e-6)


def test_half_precision_is_loaded_as_float32(tmp_path: Path) -> None:
    folder = texts.tiny_sentiment(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    assert _load(folder).logits(REVIEWS[:1])[0].dtype is torch.float32


# Words in pieces of every length, and beyond what the model takes.
ANY_TEXT = st.one_of(
    st.sampled_from(REVIEWS),
    st.integers(0, 140).map(lambda words: " ".join(["film"] * words)),
    st.text("abc film!", max_size=40),
)


@pytest.mark.slow
@given(st.lists(ANY_TEXT, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_logits_depend_on_the_text_alone_bit_for_bit(
    sentiment: HuggingFaceTextClassifier, some: list[str], draw: random.Random
) -> None:
    alone = {text: sentiment.logits([text])[0] for text in some}
    for _ in range(3):
        company = draw.choices([*some, *REVIEWS], k=draw.randint(1, 30))
        together = sentiment.logits([*some, *company])
        for text, row in zip(some, together, strict=False):
            assert torch.equal(row, alone[text]), text
        draw.shuffle(some)
        for text, row in zip(some, sentiment.logits(some), strict=True):
            assert torch.equal(row, alone[text]), text


class Spy(torch.nn.Module):
    """Remembers the masks it is called with, and fails where told to."""

    error: Exception = torch.OutOfMemoryError("CUDA out of memory")

    def __init__(self, most_rows: int = 1000) -> None:
        super().__init__()
        self.most_rows, self.most_tokens = most_rows, 10**9
        self.masks: list[Tensor] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        if len(input_ids) > self.most_rows or input_ids.numel() > self.most_tokens:
            raise self.error
        self.masks.append(attention_mask)
        logits = torch.stack([input_ids.sum(1), attention_mask.sum(1)], 1).float()
        return type("Output", (), {"logits": logits})


def _batches(spy: Spy, **changes: Any) -> fixed_batches.FixedBatches:
    filler = fixed_batches.Pieces([1, 5, 2])
    values = {"longest": 30, "filler": filler, "pad_id": 0, "pads_left": False, **changes}
    return fixed_batches.FixedBatches(spy, device=CPU, **values)


def _pieces(tokens: int) -> fixed_batches.Pieces:
    return fixed_batches.Pieces([1, *range(10, 8 + tokens), 2])


@pytest.mark.parametrize("size", [1, 2])
def test_every_batch_has_the_same_rows_and_some_padding(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    # transformers drops a mask without padding, and another kernel adds in another order.
    monkeypatch.setitem(fixed_batches.BATCH_SIZE, "cpu", size)
    spy = Spy()
    batches = _batches(spy)
    lengths = [*range(2, 31), *range(2, 31)]
    rows = batches.logits([_pieces(tokens) for tokens in lengths])
    assert [int(row[1]) for row in rows] == lengths
    assert [int(row[0]) for row in rows] == [sum(_pieces(tokens).ids) for tokens in lengths]
    assert {len(mask) for mask in spy.masks} == {size}
    assert {mask.shape[1] for mask in spy.masks} == {8, 16, 24, 30}
    # A text as long as the model takes, alone in its batch, has none: that follows from the text as well.
    whole = [mask for mask in spy.masks if not bool((mask == 0).any())]
    assert [len(mask) for mask in whole] == ([1] * lengths.count(30) if size == 1 else [])
    # The longest come first, so that what does not fit is known before the rest is computed.
    assert [mask.shape[1] for mask in spy.masks] == sorted((mask.shape[1] for mask in spy.masks), reverse=True)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
        MemoryError(),
    ],
)
def test_without_memory_the_rows_of_that_length_and_more_are_halved(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setitem(fixed_batches.BATCH_SIZE, "cpu", 8)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    spy = Spy(most_rows=3)
    spy.error = error
    batches = _batches(spy)
    assert {batches.rows(length) for length in (8, 16, 30)} == {8}
    # As on a GPU.
    monkeypatch.setattr(batches, "_may_halve", True)
    pieces = [_pieces(tokens) for tokens in (3, 4, 5, 29, 30, 30, 6)]
    assert [int(row[1]) for row in batches.logits(pieces)] == [3, 4, 5, 29, 30, 30, 6]
    assert [int(row[1]) for row in batches.logits(pieces[:1])] == [3]
    assert {len(mask) for mask in spy.masks} == {2}
    spy.most_rows = 0
    with pytest.raises(type(error)):
        batches.logits(pieces)


def test_rows_follow_from_the_length_within_a_budget_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fixed_batches.BATCH_SIZE, "cpu", 8)
    monkeypatch.setitem(fixed_batches.TOKEN_BUDGET, "cpu", 64)
    spy = Spy()
    batches = _batches(spy, longest=8192)
    lengths = [3, 3, 3, 14, 14, 29, 8000, 8191]
    rows = batches.logits([_pieces(tokens) for tokens in lengths])
    assert [int(row[1]) for row in rows] == lengths
    assert [tuple(mask.shape) for mask in spy.masks] == [(1, 8192), (1, 8008), (2, 32), (4, 16), (8, 8)]


def test_a_long_text_that_does_not_fit_leaves_the_batches_of_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fixed_batches.BATCH_SIZE, "cpu", 8)
    monkeypatch.setitem(fixed_batches.TOKEN_BUDGET, "cpu", 2**14)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    spy = Spy()
    spy.most_tokens = 2 * 4000
    batches = _batches(spy, longest=4096)
    monkeypatch.setattr(batches, "_may_halve", True)
    assert [batches.rows(length) for length in (8, 2000, 3000, 4000)] == [8, 8, 4, 4]
    rows = batches.logits([_pieces(3999), _pieces(3), _pieces(1999)])
    assert [int(row[1]) for row in rows] == [3999, 3, 1999]
    assert [batches.rows(length) for length in (8, 1000, 2000, 3000, 4000)] == [8, 8, 4, 4, 2]


def test_a_processor_keeps_its_rows_and_the_bits_they_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fixed_batches.BATCH_SIZE, "cpu", 8)
    spy = Spy(most_rows=3)
    spy.error = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes")
    batches = _batches(spy)
    with pytest.raises(RuntimeError, match="not enough memory"):
        batches.logits([_pieces(3)])
    spy.most_rows = 8
    batches.logits([_pieces(3)])
    assert {len(mask) for mask in spy.masks} == {8}


def _byte_level(padding_side: str = "right", **special: str) -> PreTrainedTokenizerFast:
    letters = [*special.values(), *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if "cls_token" in special:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **special
    )


def _roberta() -> tuple[PreTrainedModel, Any]:
    tokenizer = _byte_level(cls_token="<s>", pad_token="<pad>", sep_token="</s>", unk_token="<unk>")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(vocab_size=300, max_position_embeddings=42, type_vocab_size=1, **sizes)
    return RobertaForSequenceClassification(config), tokenizer


def _distilbert() -> tuple[PreTrainedModel, Any]:
    # Its tokenizer may be BERT's, which tells the parts of pairs apart; the model takes no such thing.
    config = DistilBertConfig(
        vocab_size=len(texts.vocabulary()), dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=40
    )
    return DistilBertForSequenceClassification(config), texts.review_tokenizer()


def _gpt2() -> tuple[PreTrainedModel, Any]:
    tokenizer = _byte_level(eos_token="<|endoftext|>", padding_side="left")
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0)
    return GPT2ForSequenceClassification(config), tokenizer


def _xlnet() -> tuple[PreTrainedModel, Any]:
    # It reads the class off the last token, so padding comes first.
    tokenizer = texts.review_tokenizer()
    config = XLNetConfig(vocab_size=len(texts.vocabulary()), d_model=16, n_layer=2, n_head=2, d_inner=32)
    return XLNetForSequenceClassification(config), tokenizer


@pytest.mark.parametrize(
    ("make", "longest"),
    [(_roberta, 40), (_distilbert, 40), (_gpt2, 40), (_xlnet, 128)],
    ids=["roberta", "distilbert", "gpt2", "xlnet"],
)
def test_other_kinds_of_models_and_tokenizers(tmp_path: Path, make: Any, longest: int) -> None:
    torch.manual_seed(0)
    model, tokenizer = make()
    folder = texts.save(tmp_path / "model", model.eval(), tokenizer)
    classifier = _load(folder, labels=["a", "b"])
    assert classifier.longest == longest
    some = ["film", "a dull film", "it is late .", "wonderful"]
    rows = classifier.logits(some)
    for text, row in zip(some, rows, strict=True):
        assert torch.allclose(row, _alone(folder, text), atol=1e-5), text
        assert torch.equal(row, classifier.logits([text])[0])
    # The end of a long text is not seen.
    long = "a dull film " * 100
    assert torch.equal(classifier.logits([long])[0], classifier.logits([long + "indeed"])[0])
    assert [reading.is_truncated for reading in classifier.read([long, "film"])] == [True, False]


def test_a_vocabulary_is_tokenizer_enough(tmp_path: Path, sentiment: HuggingFaceTextClassifier) -> None:
    folder = texts.tiny_sentiment(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink()
    assert (folder / "vocab.txt").exists()
    classifier = _load(folder)
    for row, other in zip(classifier.logits(REVIEWS), sentiment.logits(REVIEWS), strict=True):
        assert torch.equal(row, other)


def test_odd_texts_are_taken(sentiment: HuggingFaceTextClassifier) -> None:
    rows = sentiment.logits(["", " ", "\ud83d half a pair", "\x00", "日本語", "A DULL FILM", "a dull film"])
    assert all(bool(torch.isfinite(row).all()) for row in rows)
    assert torch.equal(rows[5], rows[6])
    assert sentiment.logits([]) == []
    assert sentiment.read([]) == []
    with pytest.raises(TypeError, match="single texts"):
        sentiment.logits([("premise", "hypothesis")])


def test_reading_counts_unknown_tokens_and_what_is_cut_off(sentiment: HuggingFaceTextClassifier) -> None:
    readings = sentiment.read(["a dull film", "a 映 film", "film " * 127])
    assert [(reading.pieces, reading.unknown, reading.is_truncated) for reading in readings] == [
        (3, 0, False),
        (3, 1, False),
        (127, 0, True),
    ]
