"""Models are trained as they are audited: the same logits, of images, texts and pairs, and of exported programs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    XLNetConfig,
    XLNetForSequenceClassification,
)

from seatrial.contracts.training import methods
from tests import texts
from tests.models.exportable import SHAPE, export, made
from tests.models.test_exported import EXPORTED
from tests.training.builders import CPU, bert, cnn
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.loading import load_image_classifier
from workers.training.data import InMemory
from workers.training.engine import train
from workers.training.models import TrainableImages, TrainableTexts, evaluating

REVIEWS = [text for text, _ in texts.sentences(6, seed=3)]


def _trainable(module: Any, *, takes_pairs: bool = False) -> TrainableTexts:
    tokenizer = texts.review_tokenizer()
    module.config.pad_token_id = tokenizer.pad_token_id
    return TrainableTexts(
        HuggingFaceTextClassifier(module, tokenizer, labels=["a", "b"], device=CPU, takes_pairs=takes_pairs)
    )


def _kinds() -> dict[str, Any]:
    size = len(texts.vocabulary())
    gpt = GPT2Config(vocab_size=size, n_embd=16, n_layer=1, n_head=2, n_positions=128, num_labels=2)
    xlnet = XLNetConfig(vocab_size=size, d_model=16, n_layer=1, n_head=2, d_inner=16, num_labels=2)
    return {
        "gpt2": lambda: GPT2ForSequenceClassification(gpt),
        "xlnet": lambda: XLNetForSequenceClassification(xlnet),
        "bert": lambda: BertForSequenceClassification(texts._config(["a", "b"])),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "xlnet", "bert"])
def test_texts_have_the_logits_of_the_audited_classifier(kind: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = _kinds()[kind]()
        with torch.no_grad():
            for weights in module.parameters():
                # As they are drawn all texts have nearly the same logits.
                weights.mul_(8)
        model = _trainable(module)
    audited = torch.stack([each for each in model.classifier.logits(REVIEWS) if isinstance(each, torch.Tensor)])
    with evaluating(model), torch.no_grad():
        assert torch.allclose(model.logits(list(REVIEWS)), audited, atol=1e-5)
    assert audited.std(0).min() > 1e-4


def test_pairs_and_embeddings_have_the_logits_of_the_audited_classifier() -> None:
    module = BertForSequenceClassification(texts._config(["a", "b"]))
    model = _trainable(module, takes_pairs=True)
    pairs = [(premise, hypothesis) for premise, hypothesis, _ in texts.pairs(5, seed=3)]
    audited = torch.stack([each for each in model.classifier.logits(pairs) if isinstance(each, torch.Tensor)])
    encoded = model.encode(pairs)
    with torch.no_grad():
        assert torch.allclose(model.logits_of(encoded), audited, atol=1e-5)
        assert torch.allclose(model.logits_of(encoded, model.words(encoded.ids)), audited, atol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "residual"])
def test_an_exported_program_is_trained_with_its_graph_as_it_is(tmp_path: Path, kind: str) -> None:
    path = export(made(kind), tmp_path / "m.pt2")
    model = TrainableImages(load_image_classifier(EXPORTED, path, "archive", CPU))
    assert model.has_fixed_graph
    assert not cnn().has_fixed_graph
    assert not bert().has_fixed_graph
    draw = torch.Generator().manual_seed(0)
    data = InMemory(torch.rand(32, *SHAPE, generator=draw), np.arange(32) % 4)
    buffers = [each.clone() for each in model.module.buffers()]
    before = model.classifier.logits(data.read(range(4)))  # type: ignore[arg-type]
    spec = methods()["adversarial"]
    params = spec.params.model_validate(
        {"method": "adversarial", "epochs": 12, "batch_size": 16, "steps": 1, "epsilon": 0.001, "learning_rate": 0.02}
    )
    outcome = train(model, spec.load()(params, model), params, data, data, seed=0)
    assert outcome.curves[-1]["train_loss"] < outcome.curves[0]["train_loss"]
    assert not torch.equal(before, model.classifier.logits(data.read(range(4))))  # type: ignore[arg-type]
    # Running statistics are constants of the graph.
    assert all(torch.equal(a, b) for a, b in zip(buffers, model.module.buffers(), strict=True))
