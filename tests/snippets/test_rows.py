"""Each row of "My model is ..." in the README: taken by a gate, checked by a worker, and priced on data that fit."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from app.cli import main
from tests import texts
from tests.client.conftest import Server, served
from tests.ingest.onnx_files import body, linear
from tests.models import exportable
from tests.models.builders import manifest, seeded, store
from tests.servers import local_worker, stop_together
from tests.tables import flowers
from workers.models.architectures import build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.drill]

RESNET = {"kind": "resnet_cifar", "depth": 8}
HAS_ZOO = all(find_spec(name) is not None for name in ("torchvision", "timm"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("service")
    environment = {"SEATRIAL_HOME": str(folder / "home"), "SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05"}
    with served(folder / "home") as running:
        worker = local_worker(environment, folder / "worker.log")
        yield running
        stop_together([worker])


def _images(shape: tuple[int, ...], classes: int) -> str:
    rng = np.random.default_rng(0)
    np.savez("data.npz", images=rng.integers(0, 256, (60, *shape), dtype=np.uint8), labels=np.arange(60) % classes)
    return "data.npz"


def _model(manifest_of: dict[str, Any]) -> None:
    Path("model").mkdir()
    Path("model/manifest.json").write_text(json.dumps(manifest_of), encoding="utf-8")


def _network(architecture: dict[str, Any], shape: tuple[int, ...]) -> str:
    described = manifest(architecture, input={"shape": list(shape), "mean": [0.0], "std": [1.0]})
    _model(described.model_dump(mode="json", exclude_none=True))
    store(Path("model/weights.safetensors"), dict(seeded(build_architecture(described, set())).state_dict()))
    return _images(shape, 10)


def hugging_face() -> str:
    texts.tiny_sentiment(Path("model"))
    rows = [f'"{text}",{label}' for text, label in texts.sentences(300, seed=3)]
    Path("reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return "reviews.csv"


def weights() -> str:
    return _network(RESNET, (3, 32, 32))


def convert() -> str:
    module = seeded(build_architecture(manifest(RESNET), set()))
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, "best.pth")
    plain = ("--mean", "0", "--std", "1")
    done = CliRunner().invoke(main, ["convert", "best.pth", *plain, "-o", "model/"], catch_exceptions=False)
    assert done.exit_code == 0
    return _images((3, 32, 32), 10)


def torchvision() -> str:
    return _network({"kind": "torchvision", "name": "resnet18"}, (3, 64, 64))


def timm() -> str:
    return _network({"kind": "timm", "name": "vit_tiny_patch16_224"}, (3, 224, 224))


def exported() -> str:
    spec = {"shape": list(exportable.SHAPE), "mean": [0.0], "std": [1.0]}
    described = manifest({"kind": "exported"}, input=spec, labels=list("abcd"))
    _model(described.model_dump(mode="json", exclude_none=True))
    exportable.export(exportable.made("residual"), Path("model/model.pt2"))
    return _images(exportable.SHAPE, 4)


def onnx() -> str:
    _model(body())
    Path("model/model.onnx").write_bytes(linear())
    return _images((1, 4, 4), 3)


def table() -> str:
    _model(flowers.model_manifest())
    Path("model/weights.safetensors").write_bytes(flowers.weights())
    Path("flowers.csv").write_bytes(flowers.csv())
    Path("flowers.csv.manifest.json").write_text(json.dumps(flowers.dataset_manifest()), encoding="utf-8")
    return "flowers.csv"


_ZOO = pytest.mark.skipif(not HAS_ZOO, reason="needs the extra seatrial[zoo], which CI does not install")


@pytest.mark.parametrize(
    "make",
    [
        *(hugging_face, weights, convert, exported, onnx, table),
        *(pytest.param(one, marks=_ZOO) for one in (torchvision, timm)),
    ],
    ids=lambda make: make.__name__,
)
def test_a_row_is_taken_checked_and_priced(
    service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["gate", "--model", "model", "--data", make(), "--policy", "standard"]
    words += ["--samples", "40", "--model-version", make.__name__]
    done = CliRunner().invoke(main, [*words, "--estimate-only", "--server", service.url], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "At most: 40 examples, " in done.stdout
    # A time is known of what a worker has loaded, run and found right.
    assert "unknown until a worker" not in done.output
