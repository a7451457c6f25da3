"""ONNX graphs as the workers run them: numbers of onnxruntime 1.32, kept in a file, and gradients of torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from tests.ingest.onnx_files import BIAS, WEIGHT, body, linear, model, node, port
from workers.errors import TargetError
from workers.models.image_classifier import ImageClassifier
from workers.models.torch_onnx import load_onnx

KINDS = ("mlp", "cnn", "residual", "attention", "sklearn")
ENDS_IN_SOFTMAX = ("mlp", "sklearn")


@pytest.fixture(scope="module")
def graphs() -> Mapping[str, np.ndarray]:
    """Files, inputs and outputs, made with onnx 1.23 and onnxruntime 1.32 (benchmarks/onnx_graphs.py)."""
    return dict(np.load(Path(__file__).with_name("onnx_graphs.npz")))


def load(path: Path, data: bytes, **changes: Any) -> ImageClassifier:
    file = path / "model.onnx"
    file.write_bytes(data)
    manifest = ModelManifest.model_validate(body(**changes))
    return load_onnx(manifest, file, torch.device("cpu"), limits=Settings())


@pytest.mark.parametrize("kind", KINDS)
def test_it_computes_what_onnxruntime_does(kind: str, graphs: Mapping[str, np.ndarray], tmp_path: Path) -> None:
    data, given, wanted = (graphs[f"{kind}_{part}"] for part in ("onnx", "x", "y"))
    shape = list(given.shape[1:])
    if len(shape) == 1:
        features = {"columns": [f"c{at}" for at in range(shape[0])]}
        changes: dict[str, Any] = {"task": "tabular-classification", "features": features, "input": None}
    else:
        changes = {"input": {"shape": shape, "mean": [0.0], "std": [1.0]}}
    classifier = load(tmp_path, data.tobytes(), **changes)
    inputs = torch.tensor(given).view(len(given), *classifier.input_shape).requires_grad_()
    logits = classifier.logits(inputs)
    got = logits.softmax(1) if kind in ENDS_IN_SOFTMAX else logits
    assert np.abs(got.detach().numpy() - wanted).max() < 1e-4
    (gradient,) = torch.autograd.grad(logits.logsumexp(1).sum(), inputs)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


def test_a_graph_of_any_batch_is_asked_in_any_batch(graphs: Mapping[str, np.ndarray], tmp_path: Path) -> None:
    classifier = load(tmp_path, graphs["cnn_onnx"].tobytes(), input={"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]})
    inputs = torch.tensor(graphs["cnn_x"])
    alone = torch.cat([classifier.logits(one[None]) for one in inputs])
    assert (classifier.logits(inputs) - alone).abs().max() < 1e-6


def test_probabilities_become_logits(tmp_path: Path) -> None:
    nodes = [
        node("Flatten", ["x"], ["flat"]),
        node("Gemm", ["flat", "w", "b"], ["z"], transB=1),
        node("Exp", ["z"], ["e"]),
        node("ReduceSum", ["e", "axes"], ["s"], keepdims=1),
        node("Div", ["e", "s"], ["y"]),
    ]
    tensors = {"w": WEIGHT, "b": BIAS, "axes": np.array([1])}
    data = model(nodes, tensors)
    plain = load(tmp_path, linear())
    told = load(tmp_path, data, architecture={"kind": "onnx", "outputs": "probabilities"})
    images = torch.rand((5, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    assert (told.logits(images).softmax(1) - plain.logits(images).softmax(1)).abs().max() < 1e-6


def test_of_several_outputs_one_is_named(tmp_path: Path) -> None:
    data = linear(outputs=[port("flat", ["n", 16]), port("y", ["n", 3])])
    images = torch.rand(2, 1, 4, 4)
    found = load(tmp_path, data, architecture={"kind": "onnx", "output": "y"})
    expected = images.flatten(1) @ torch.tensor(WEIGHT).T + torch.tensor(BIAS)
    assert (found.logits(images) - expected).abs().max() < 1e-5


def test_what_asks_for_more_than_a_worker_has_is_refused_before_it_is_run(tmp_path: Path) -> None:
    nodes = [node("Expand", ["flat", "huge"], ["big"]), node("ReduceSum", ["big", "axes"], ["y"], keepdims=0)]
    tensors = {"huge": np.array([2**20, 1, 2**20, 3]), "axes": np.array([0, 2])}
    with pytest.raises(TargetError):
        load(tmp_path, model([node("Flatten", ["x"], ["flat"]), *nodes], tensors))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="not finite"):
        load(tmp_path, linear(tensors={"w": WEIGHT * np.float32("nan"), "b": BIAS}))
