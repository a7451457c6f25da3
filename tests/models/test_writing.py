"""New weights go into the container an upload had, and what is loaded from it computes what was trained."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from tests import assets, texts
from workers.errors import TargetError
from workers.models.loading import load_image_classifier, load_text_classifier
from workers.models.recalibration import attackable
from workers.models.writing import write_back

CPU = torch.device("cpu")


def changed(module: torch.nn.Module) -> None:
    """Change every weight as a training would."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for each in module.parameters():
            each.add_(0.01 * torch.randn(each.shape, generator=draw))


def manifest(**more: Any) -> ModelManifest:
    return ModelManifest.model_validate({**assets.model_manifest(), **more})


def zipped(weights: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("README.md", "digits")
        archive.writestr("run/weights.safetensors", weights)
    return stream.getvalue()


@pytest.mark.parametrize("container", ["safetensors", "archive", "exported"])
def test_images(tmp_path: Path, container: str) -> None:
    kind = {"architecture": {"kind": "exported"}} if container == "exported" else {}
    files = {"safetensors": assets.weights(), "archive": zipped(assets.weights()), "exported": assets.exported()}
    form = "safetensors" if container == "safetensors" else "archive"
    path = tmp_path / "model"
    path.write_bytes(files[container])
    classifier = load_image_classifier(manifest(**kind), path, form, CPU)
    changed(classifier.module)
    written = write_back(manifest(**kind), path, form, classifier.module, Settings(home=tmp_path))
    assert write_back(manifest(**kind), path, form, classifier.module, Settings(home=tmp_path)) == written
    other = tmp_path / "other.pt2"
    other.write_bytes(written.file)
    images = torch.as_tensor(assets.digits()[0][:8]).float() / 255
    again = load_image_classifier(manifest(**kind), other, form, CPU)
    assert torch.equal(again.logits(images), classifier.logits(images))
    assert len(load(written.weights)) == 6
    if container == "exported":
        # Those who wrote the format read it as well.
        assert torch.equal(torch.export.load(other).module()(images), classifier.logits(images))


def test_texts_in_shards_become_one_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(texts.zip_folder(texts.tiny_sentiment(tmp_path / "folder", shard_size="100KB")))
    told = ModelManifest.model_validate(texts.model_manifest())
    classifier: Any = load_text_classifier(told, path, "archive", CPU)
    changed(classifier._module)
    written = write_back(told, path, "archive", classifier._module, Settings(home=tmp_path))
    other = tmp_path / "other.zip"
    other.write_bytes(written.file)
    names = zipfile.ZipFile(other).namelist()
    assert [name for name in names if "safetensors" in name] == ["model.safetensors"]
    again: Any = load_text_classifier(told, other, "archive", CPU)
    asked = ["a wonderful film", "a dull film"]
    assert all(torch.equal(*pair) for pair in zip(again.logits(asked), classifier.logits(asked), strict=True))


def test_an_onnx_file_is_refused(tmp_path: Path) -> None:
    told = manifest(architecture={"kind": "onnx"})
    with pytest.raises(TargetError, match="exported program") as refused:
        write_back(told, tmp_path, "onnx", torch.nn.Linear(1, 1), Settings(home=tmp_path))
    assert refused.value.problem.field == "/model"


def test_a_manifest_s_map_is_applied_and_leads_attacks_on(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(assets.weights())
    steps = [{"at": [0.0, 0.5], "to": [0.1, 0.9]}] * 10
    images = torch.as_tensor(assets.digits()[0][:4]).float() / 255
    plain = load_image_classifier(manifest(), path, "safetensors", CPU).logits(images)
    halved = load_image_classifier(
        manifest(recalibration={"map": "temperature", "temperature": 2.0}), path, "safetensors", CPU
    )
    assert torch.equal(halved.logits(images), plain / 2)
    stepped = load_image_classifier(
        manifest(recalibration={"map": "isotonic", "classes": steps}), path, "safetensors", CPU
    )
    given = images.clone().requires_grad_()
    stepped.logits(given)[:, 3].sum().backward()
    raw = images.clone().requires_grad_()
    load_image_classifier(manifest(), path, "safetensors", CPU).logits(raw)[:, 3].sum().backward()
    assert given.grad is not None
    assert raw.grad is not None
    assert torch.equal(given.grad, raw.grad)
    mapped = attackable({"map": "isotonic", "classes": steps}, plain)
    assert np.isclose(mapped.exp().sum(1).numpy(), 1).all()
    with pytest.raises(TargetError, match="another number of classes"):
        load_image_classifier(
            manifest(recalibration={"map": "isotonic", "classes": steps[:3]}), path, "safetensors", CPU
        )


def test_manifests_without_a_map_are_as_they_were() -> None:
    assert "recalibration" not in manifest().model_dump(mode="json")
    assert "recalibration" not in manifest().model_dump_json()
