"""Memory a training takes beside what its estimate says: ``python -m benchmarks.training_memory [CASE ...]``.

Each case runs in a process of its own. The model is checked as an upload is, which counts what an example takes; the
estimate is that of ``POST /v1/hardenings/estimate``; the measured number is the growth of the process's resident
memory to its peak while a fresh copy of the model is loaded, trained and saved. A short training comes first, so that
kernels, optimisers and libraries are loaded. Linux only (/proc).
"""

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import torch

from app.hardenings.costs import price
from benchmarks.resident import growth, measure_each, tell
from seatrial.contracts.models import ModelManifest
from seatrial.contracts.training import methods
from seatrial.store.tables import ModelRow
from tests import texts
from workers.models.architectures import CifarResNet
from workers.models.checks import check_target
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.image_classifier import ImageClassifier
from workers.models.text_checks import check_text_target
from workers.runtime.checkpointing import CheckpointStore
from workers.training.checkpoints import Checkpoint
from workers.training.data import InMemory
from workers.training.engine import train
from workers.training.models import TrainableImages, TrainableTexts

LABELS = [str(number) for number in range(10)]
MANIFEST: dict[str, Any] = {"name": "m", "version": "1"}
SMALL = {"optimizer": "adamw", "batch_size": 32}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ResNet-20, plain": ("images", "gradient_normalised", {"batch_size": 128}),
    "ResNet-20, plain, micro-batches of 32": (
        "images",
        "gradient_normalised",
        {"batch_size": 128, "micro_batch_size": 32},
    ),
    "ResNet-20, PGD": ("images", "adversarial", {"batch_size": 128, "steps": 2}),
    "ResNet-20, TRADES": ("images", "adversarial", {"batch_size": 64, "steps": 1, "loss": "trades"}),
    "ResNet-20, SmoothAdv, 2 draws": ("images", "smoothadv", {"batch_size": 64, "steps": 1}),
    "ResNet-20, Brier-ACT, 2 draws": ("images", "brier_act", {"batch_size": 64, "steps": 1}),
    "ResNet-20, ACCE-ACT, 2 draws": ("images", "acce_act", {"batch_size": 64, "steps": 1}),
    "BERT 4 x 256, PGD-K": ("texts", "pgd_k", {**SMALL, "steps": 1}),
    "BERT 4 x 256, FreeLB": ("texts", "freelb", {**SMALL, "steps": 1}),
    "BERT 4 x 256, ASCC": ("texts", "ascc", {**SMALL, "steps": 1}),
    "BERT 4 x 256, DDi-AT, 3 attacks": ("texts", "ddi_at", {**SMALL, "steps": 1}),
    "BERT 4 x 768, PGD-K, 2 texts": ("large texts", "pgd_k", {**SMALL, "batch_size": 2, "steps": 1}),
    "BERT 4 x 768, DDi-AT, 2 texts": ("large texts", "ddi_at", {**SMALL, "batch_size": 2, "steps": 1}),
}
STEPS = 2


class Vectors:
    """Word vectors of which each word's neighbours are the next ones of the vocabulary."""

    def __init__(self) -> None:
        self._words = [word for word in texts.vocabulary() if word.isalpha() and len(word) > 1]
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def word2index(self, word: str) -> int:
        """Return a word's number."""
        return self._numbers[word]

    def index2word(self, index: int) -> str:
        """Return the word of a number."""
        return self._words[index]

    def nearest_neighbours(self, index: int, topn: int) -> list[int]:
        """Return the numbers of the words that follow."""
        return [(index + one) % len(self._words) for one in range(1, topn + 1)]


def unattached() -> Any:
    """Return the holder and the store of a save: every save is made whole and let go of."""
    kept = Mock()
    kept.is_stopping.return_value = False
    return kept


def make(kind: str) -> tuple[Any, Any]:
    """Return a classifier, and the facts its check would store."""
    torch.manual_seed(0)
    if kind == "images":
        module = CifarResNet(20, 3, 10)
        classifier: Any = ImageClassifier(
            module, labels=LABELS, input_shape=(3, 32, 32), mean=[0.5], std=[0.25], device=torch.device("cpu")
        )
        return classifier, check_target
    from transformers import BertForSequenceClassification

    width = 256 if kind == "texts" else 768
    config = texts._config(["a", "b"])
    config.update(
        {"hidden_size": width, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 4 * width}
    )
    module = BertForSequenceClassification(config)
    device = torch.device("cpu")
    return HuggingFaceTextClassifier(
        module, texts.review_tokenizer(), labels=["a", "b"], device=device
    ), check_text_target


def data_of(kind: str, count: int) -> tuple[InMemory, dict[str, Any]]:
    """Return examples, and the facts of a dataset of them."""
    if kind == "images":
        draw = torch.Generator().manual_seed(0)
        return InMemory(torch.rand(count, 3, 32, 32, generator=draw), np.arange(count) % 10), {}
    rows = [" ".join(text for text, _ in texts.sentences(3, seed=seed)) for seed in range(count)]
    words = sorted(len(row.split()) for row in rows)
    last = words[-max(1, len(words) // 20) :]
    facts = {"mean_words": float(np.mean(words)), "word_means": [float(np.mean(last))]}
    return InMemory(rows, np.arange(count) % 2), facts


def run(kind: str, slug: str, body: dict[str, Any], count: int, folder: Path) -> None:
    """Train a fresh model and save after each epoch."""
    classifier, _ = make(kind)
    model: Any = TrainableImages(classifier) if kind == "images" else TrainableTexts(classifier)
    spec = methods()[slug]
    params: Any = spec.params.model_validate({"method": slug, "epochs": 1, **body})
    data, _ = data_of(kind, count)
    few, _ = data_of(kind, 2)
    kept = unattached()
    saves = CheckpointStore(kept, kept, belongs_to="", digest=None, may_resume=False)

    def save(checkpoint: Checkpoint) -> None:
        saves.write(checkpoint.tensors, {"document": json.dumps(dict(checkpoint.document))}, force=True)

    method = spec.load()(params, model)
    train(model, method, params, data, few, seed=0, folder=folder, vectors=Vectors(), save=save)


def measure(case: str) -> None:
    """Print estimate and measured growth of one case."""
    kind, slug, body = CASES[case]
    torch.set_num_threads(1)
    classifier, check = make(kind)
    manifest = {**MANIFEST, "task": "image-classification" if kind == "images" else "text-classification"}
    manifest["architecture"] = {"kind": "resnet_cifar", "depth": 20} if kind == "images" else {"kind": "huggingface"}
    if kind == "images":
        manifest |= {"input": {"shape": [3, 32, 32], "mean": [0.5], "std": [0.25]}, "labels": LABELS}
    facts = check(classifier, ModelManifest.model_construct(**manifest)).facts
    params = methods()[slug].params.model_validate({"method": slug, "epochs": 1, **body})
    count = STEPS * body["batch_size"]
    row = ModelRow(facts=facts.model_dump(mode="json"))
    told = price(params, row, count, 2, data_of(kind, count)[1], audit_seconds=None).memory_bytes
    with tempfile.TemporaryDirectory() as folder:
        warm = {**body, "batch_size": 2} | ({"micro_batch_size": 1} if "micro_batch_size" in body else {})
        run(kind, slug, warm, 2, Path(folder))
        del classifier
        tell(case, told, growth(lambda: run(kind, slug, body, count, Path(folder))))


def main() -> None:
    """Print a line for each case."""
    measure_each(CASES, measure, what="training", description=__doc__)


if __name__ == "__main__":
    main()
