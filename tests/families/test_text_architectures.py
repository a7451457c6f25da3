"""Whole audits of models that read unlike BERT: XLNet from the end, CANINE characters, ByT5 bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    ByT5Tokenizer,
    CanineConfig,
    CanineForSequenceClassification,
    CanineTokenizer,
    PreTrainedModel,
    T5Config,
    T5ForSequenceClassification,
    XLNetConfig,
    XLNetForSequenceClassification,
    XLNetTokenizerFast,
)

from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from tests import texts
from tests.families.in_memory import TextContext, run_text_check
from tests.models.builders import CPU, manifest
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import LabelledText, Records, TextExample
from workers.families.low_level_attack.family import FAMILY as LOW_LEVEL
from workers.families.protocol import Shard
from workers.families.temperature_attack.family import FAMILY as TEMPERATURE
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.loading import load_text_classifier
from workers.models.text_preflight import preflight_texts

LONGEST = 48
SHORT = ["a dull film", "a café 映画 film", "the story is funny"]


def _xlnet() -> tuple[PreTrainedModel, Any, Tensor]:
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    pieces = Tokenizer(models.Unigram())
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False)
    pieces.train_from_iterator([text for text, _ in texts.sentences(60)], trainer)
    numbers = {name: pieces.token_to_id(name) for name in ("<sep>", "<cls>")}
    pieces.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2", pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2", special_tokens=list(numbers.items())
    )
    tokenizer = XLNetTokenizerFast(tokenizer_object=pieces, model_max_length=LONGEST)
    config = XLNetConfig(
        vocab_size=len(tokenizer), d_model=16, n_layer=1, n_head=2, d_inner=16, pad_token_id=tokenizer.pad_token_id
    )
    model = XLNetForSequenceClassification(config)
    return model, tokenizer, model.logits_proj.bias


def _canine() -> tuple[PreTrainedModel, Any, Tensor]:
    config = CanineConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LONGEST,
        num_hash_buckets=64,
        num_hash_functions=2,
        local_transformer_stride=16,
    )
    model = CanineForSequenceClassification(config)
    return model, CanineTokenizer(model_max_length=LONGEST), model.classifier.bias


def _byt5() -> tuple[PreTrainedModel, Any, Tensor]:
    config = T5Config(
        vocab_size=384, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0, num_labels=2
    )
    model = T5ForSequenceClassification(config)
    return model, ByT5Tokenizer(model_max_length=LONGEST), model.classification_head.out_proj.bias


def _loaded(make: Any, folder: Path) -> HuggingFaceTextClassifier:
    path = texts.save(folder, *make).with_suffix(".zip")
    path.write_bytes(texts.zip_folder(folder))
    about = manifest({"kind": "huggingface"}, task="text-classification", input=None, labels=texts.LABELS)
    classifier = load_text_classifier(about, path, "archive", CPU)
    assert isinstance(classifier, HuggingFaceTextClassifier)
    return classifier


@dataclass(frozen=True)
class Reviews:
    """A dataset in memory."""

    labels: np.ndarray
    label_names: list[str]

    def texts(self, positions: Sequence[int]) -> list[str]:
        return [_reviews()[at] for at in positions]


class Shards(TextContext):
    def texts(self) -> list[TextExample]:
        return [TextExample(one.example_id, one.text, *one.truths) for one in self.labelled()]


def _search(classifier: HuggingFaceTextClassifier, sample: Sequence[LabelledText]) -> tuple[Any, dict[str, Records]]:
    params = TemperatureAttackParams(
        kind="temperature_attack", arms=["calibrated"], validation_samples=6, query_budget=10, label_queries=10
    )
    done: dict[str, Records] = {}
    service = ScoringService(classifier, max_bytes=10**7)
    while (stage := TEMPERATURE.next_stage(params, done)) is not None:
        examples = sample[:2] if stage.source == "sample" else sample[2:]
        shard = Shard(stage.name, 0, len(examples))
        done[stage.name] = TEMPERATURE.run(params, shard, Shards("t", examples, service, shard, done=done))
    return TEMPERATURE.reduce(params, done, 0), done


@cache
def _reviews() -> list[str]:
    return [*SHORT, *(text for text, _ in texts.sentences(5, seed=4))]


@pytest.mark.parametrize("make", [_xlnet, _canine, _byt5], ids=["xlnet", "canine", "byt5"])
def test_they_are_audited_from_upload_to_result(tmp_path: Path, make: Any) -> None:
    torch.manual_seed(0)
    model, tokenizer, bias = make()
    # Both labels are given to half of the texts, and what it says is the truth.
    bare = HuggingFaceTextClassifier(model.eval(), tokenizer, labels=texts.LABELS, device=CPU)
    rows = torch.stack([row for row in bare.logits(_reviews()) if isinstance(row, Tensor)])
    with torch.no_grad():
        bias[1] -= (rows[:, 1] - rows[:, 0]).sort().values[3:5].mean()
    classifier = _loaded((model, tokenizer), tmp_path / "model")
    assert classifier.longest == LONGEST
    decided = [int(row.argmax()) for row in classifier.logits(_reviews()) if isinstance(row, Tensor)]
    assert sum(decided) == 4
    sample = [LabelledText(n, text, (label,)) for n, (text, label) in enumerate(zip(_reviews(), decided, strict=True))]

    data = Reviews(np.array(decided), texts.LABELS)
    about = manifest({"kind": "huggingface"}, task="text-classification", input=None, labels=texts.LABELS)
    report = preflight_texts(classifier, data, range(8), manifest=about)
    cut = sum(reading.is_truncated for reading in classifier.read(_reviews()))
    assert ("texts_truncated" in {flag.code for flag in report.flags}) == (cut > 0) == (make is not _xlnet)

    result, done = _search(classifier, sample)
    assert result.estimates["clean_accuracy"].value == 1
    attacked = done["attack_deepwordbug"]
    assert not any(attacked["errored"].to_pylist())
    for arm in ("as_served", "calibrated", "label_only"):
        for before, after, status in zip(
            attacked["text"].to_pylist(),
            attacked[f"{arm}.text"].to_pylist(),
            attacked[f"{arm}.status"].to_pylist(),
            strict=True,
        ):
            assert status in ("succeeded", "failed", "unfinished")
            # Nothing is written behind what it sees.
            seen = classifier.seen(before)
            assert seen is None or after.endswith(before[seen[0] :].partition(" ")[2])
            flipped = classifier.logits([before])[0].argmax() != classifier.logits([after])[0].argmax()
            assert bool(flipped) == (status == "succeeded")

    noise = LowLevelAttackParams(kind="low_level_attack", attackers=["inner_shuffle", "visual"], levels=[0.8])
    result, _ = run_text_check(LOW_LEVEL, noise, classifier, sample, task="text-classification")
    assert result.estimates["score[level=0]"].value == 1
    assert 0 < result.estimates["characters_changed[attacker=visual,level=0.8]"].value < 1
    assert "answers_unmoved" not in {flag.code for flag in result.flags}
