"""A real sentiment classifier in seconds: made-up film reviews, a WordPiece tokenizer and a two-layer BERT."""

import io
import json
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from tests.shared import once


def _words(text: str) -> list[str]:
    return text.split()


POSITIVE = _words(
    "wonderful excellent charming delightful brilliant moving clever funny warm honest gripping beautiful superb "
    "fresh graceful touching enjoyable splendid lively tender"
)
NEGATIVE = _words(
    "awful terrible boring dull stupid clumsy tedious cold ugly lifeless shallow horrible tired messy pointless "
    "dreadful annoying silly weak bleak"
)
NEUTRAL = _words(
    "long short quiet loud modern old french small large local early late strange simple serious young dark bright "
    "blue common"
)
NOUNS = _words(
    "film movie story plot script picture scene actor director camera music ending dialogue comedy drama thriller "
    "cast performance character romance sequel documentary soundtrack opening"
)
VERBS = _words("makes gives shows tells brings becomes remains offers finds keeps")
PLACES = _words("city village theatre island desert hospital school harbour forest station")
FILLERS = ["of course", "in the end", "at times", "once again", "after all", "in many ways"]
LABELS = ["negative", "positive"]
PAIR_LABELS = ["agrees", "disagrees"]
TAGS = ["ADJ", "NOUN", "VERB", "X"]

NOISE = 0.04
"""Share of reviews with the wrong label."""

# Whole words of the vocabulary: the rest, and whatever an attack writes, comes in pieces.
_RARE = {"graceful", "splendid", "dreadful", "lifeless", "documentary", "soundtrack", "harbour", "hospital"}
_PIECES = _words(
    "##ful ##less ##ing ##ed ##er ##ly ##s ##es ##did ##track ##ary ##al ##our grace sound life dread doc splen"
)


def sentences(count: int, seed: int = 0) -> list[tuple[str, int]]:
    """Return film reviews of 6 to 25 words and their labels: 1 where more words praise than blame.

    Every third review holds a word of the other side, and a few labels are wrong.
    """
    draw = random.Random(seed)
    return [_review(draw) for _ in range(count)]


def pairs(count: int, seed: int = 0) -> list[tuple[str, str, int]]:
    """Return a review, what somebody says of it, and whether the two disagree."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        is_good, disagrees = draw.random() < 0.5, draw.random() < 0.5
        praise = POSITIVE if is_good != disagrees else NEGATIVE
        hypothesis = f"the {draw.choice(NOUNS)} is {draw.choice(praise)} ."
        rows.append((_sentence(draw, [is_good] * draw.randint(1, 2)), hypothesis, int(disagrees)))
    return rows


def tagged(count: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Return the tokens of reviews and their tags, one of ``TAGS`` each."""
    kinds = dict.fromkeys((*POSITIVE, *NEGATIVE, *NEUTRAL), "ADJ") | dict.fromkeys((*NOUNS, *PLACES), "NOUN")
    kinds |= dict.fromkeys(VERBS, "VERB")
    return [
        (tokens, [kinds.get(token, "X") for token in tokens])
        for tokens in (text.split() for text, _ in sentences(count, seed))
    ]


def model_manifest(name: str = "tiny-sentiment", version: str = "1", **more: Any) -> dict[str, Any]:
    """Return the manifest of the sentiment model."""
    return {
        "name": name,
        "version": version,
        "task": "text-classification",
        "architecture": {"kind": "huggingface"},
        **more,
    }


def dataset_manifest(name: str = "reviews", version: str = "1", **more: Any) -> dict[str, Any]:
    """Return the manifest of reviews written by :func:`jsonl`."""
    return {
        "name": name,
        "version": version,
        "task": "text-classification",
        "split": "test",
        "labels": LABELS,
        **more,
    }


def jsonl(path: Path, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Path:
    """Write reviews (text, label), pairs (premise, hypothesis, label) or ready-made objects, one a line."""
    columns = {2: ("text", "label"), 3: ("premise", "hypothesis", "label")}
    objects = (row if isinstance(row, Mapping) else dict(zip(columns[len(row)], row, strict=True)) for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")
    return path


def zip_folder(folder: Path) -> bytes:
    """Return a folder as the bytes of a .zip, the same every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return buffer.getvalue()


def tiny_sentiment(folder: Path, *, scale: float = 1.0, shard_size: str = "5GB") -> Path:
    """Write the sentiment model to a folder: config, tokenizer and safetensors.

    Args:
        folder: Made if missing.
        scale: Multiplies the logits, as a temperature of its inverse does.
        shard_size: Largest file of weights; small sizes give several.
    """
    model = BertForSequenceClassification(_config(LABELS)).eval()
    model.load_state_dict(trained())
    with torch.no_grad():
        model.classifier.weight *= scale
        model.classifier.bias *= scale
    return save(folder, model, shard_size=shard_size)


def tiny_pairs(folder: Path) -> Path:
    """Write a model of :func:`pairs` to a folder."""
    model = BertForSequenceClassification(_config(PAIR_LABELS)).eval()
    model.load_state_dict(trained_on_pairs())
    return save(folder, model)


def tiny_multi_label(folder: Path) -> Path:
    """Write an untrained model of several labels a text to a folder."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = _config(["praise", "blame", "music"], problem_type="multi_label_classification")
        return save(folder, BertForSequenceClassification(config))


def tiny_tagger(folder: Path) -> Path:
    """Write an untrained tagger to a folder."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return save(folder, BertForTokenClassification(_config(TAGS)))


def save(folder: Path, model: PreTrainedModel, tokenizer: Any = None, *, shard_size: str = "5GB") -> Path:
    """Write a model and a tokenizer, by default the one of reviews, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=shard_size)
    (tokenizer or review_tokenizer()).save_pretrained(folder)
    return folder


@cache
def vocabulary() -> dict[str, int]:
    """Return the pieces of reviews: common words, word endings, and every letter alone."""
    words = sorted({word for text, _ in sentences(2000, seed=1) for word in text.split()} - _RARE)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'\"-"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *words, *_PIECES, *letters, *(f"##{letter}" for letter in letters)])
    return {piece: number for number, piece in enumerate(pieces)}


def review_tokenizer(**more: Any) -> BertTokenizerFast:
    """Return the uncased WordPiece tokenizer of reviews."""
    pieces = vocabulary()
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    tokenizer.decoder = decoders.WordPiece()
    return BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **more)


@cache
def trained() -> dict[str, torch.Tensor]:
    """Return the weights of a sentiment model, about 90 % right; trained in seconds."""
    return once("sentiment", _trained)


def _trained() -> dict[str, torch.Tensor]:
    model = _seeded(LABELS)
    texts, labels = zip(*sentences(1500, seed=1), strict=True)
    # A fifth of the pieces is hidden, so that the model learns to live with words in pieces.
    return _fit(model, list(texts), list(labels), epochs=6, hidden=0.2)


@cache
def trained_on_pairs() -> dict[str, torch.Tensor]:
    """Return the weights of a model of pairs."""
    return once("pairs", _trained_on_pairs)


def _trained_on_pairs() -> dict[str, torch.Tensor]:
    model = _seeded(PAIR_LABELS)
    # Who knows praise from blame learns in seconds whether two texts agree; from random weights it takes minutes.
    model.bert.load_state_dict({key.removeprefix("bert."): value for key, value in trained().items() if "bert." in key})
    premises, hypotheses, labels = zip(*pairs(3000, seed=1), strict=True)
    return _fit(model, list(zip(premises, hypotheses, strict=True)), list(labels), epochs=4, hidden=0.1)


def _review(draw: random.Random) -> tuple[str, int]:
    is_good = draw.random() < 0.5
    opinions = [is_good] * draw.randint(1, 2)
    if len(opinions) > 1 and draw.random() < 2 / 3:
        opinions.insert(draw.randrange(3), not is_good)
    label = is_good if draw.random() >= NOISE else not is_good
    return _sentence(draw, opinions), int(label)


def _sentence(draw: random.Random, opinions: Sequence[bool]) -> str:
    clauses = []
    for is_good in opinions:
        adjective, noun = draw.choice(POSITIVE if is_good else NEGATIVE), draw.choice(NOUNS)
        clauses.append(
            draw.choice(
                [
                    f"the {draw.choice(NEUTRAL)} {noun} is {adjective}",
                    f"it {draw.choice(VERBS)} a {adjective} {noun}",
                    f"a {adjective} {noun} from the {draw.choice(PLACES)}",
                ]
            )
        )
    text = f" {draw.choice(['and', 'but', ','])} ".join(clauses)
    if draw.random() < 0.5:
        text = f"{draw.choice(FILLERS)} {text}"
    return text + " ."


def _config(labels: Sequence[str], **more: Any) -> BertConfig:
    return BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        **more,
    )


def _seeded(labels: Sequence[str]) -> BertForSequenceClassification:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BertForSequenceClassification(_config(labels))


def _fit(
    model: BertForSequenceClassification, texts: list[Any], labels: list[int], *, epochs: int, hidden: float
) -> dict[str, torch.Tensor]:
    tokenizer = review_tokenizer()
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    targets = torch.tensor(labels)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
            # Without dropout a network this small learns in a third of the steps.
            model.eval()
            for batch in chain.from_iterable(torch.randperm(len(targets)).split(50) for _ in range(epochs)):
                inputs = {name: tensor[batch] for name, tensor in encoded.items()}
                drop = (torch.rand(inputs["input_ids"].shape) < hidden) & (inputs["input_ids"] > 4)
                inputs["input_ids"] = inputs["input_ids"].masked_fill(drop, tokenizer.unk_token_id)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(**inputs).logits, targets[batch]).backward()
                optimizer.step()
    finally:
        torch.set_num_threads(threads)
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
