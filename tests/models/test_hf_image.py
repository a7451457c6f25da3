import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    PreTrainedModel,
    ResNetConfig,
    ResNetForImageClassification,
    ResNetModel,
    ViTConfig,
    ViTForImageClassification,
)

from seatrial.store.settings import Settings
from tests.ingest.builders import zipped
from tests.models.builders import CPU, manifest
from workers.errors import TargetError
from workers.models.loading import load_image_classifier
from workers.models.tracing import TRACED_IMAGES, ValueCount, check_values

LABELS = ["cat", "dog", "eel"]
NAMES = {"id2label": dict(enumerate(LABELS)), "label2id": {name: number for number, name in enumerate(LABELS)}}
PREPROCESSOR = {
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.25, 0.3],
}
UNNORMALISED = {"shape": [3, 32, 32], "mean": [0.0], "std": [1.0]}
MEAN, STD = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)


def _models() -> list[PreTrainedModel]:
    torch.manual_seed(0)
    return [
        ResNetForImageClassification(ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **NAMES)),
        ConvNextForImageClassification(
            ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], image_size=32, **NAMES)
        ),
        ViTForImageClassification(
            ViTConfig(
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                image_size=32,
                patch_size=8,
                **NAMES,
            )
        ),
    ]


MODELS = {type(model).__name__: model.eval() for model in _models()}
RESNET = MODELS["ResNetForImageClassification"]


def _archive(tmp_path: Path, model: PreTrainedModel, files: dict[str, Any] | None = None, **config: Any) -> Path:
    folder = tmp_path / "folder"
    model.save_pretrained(folder)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    written["preprocessor_config.json"] = json.dumps(PREPROCESSOR).encode()
    written["config.json"] = json.dumps({**json.loads(written["config.json"]), **config}).encode()
    for name, content in (files or {}).items():
        written[name] = json.dumps(content).encode()
    archive = tmp_path / "archive.zip"
    archive.write_bytes(zipped({f"model/{name}": data for name, data in written.items()}))
    return archive


def _manifest(**changes: Any) -> Any:
    return manifest({"kind": "huggingface"}, **{"input": None, "labels": None, **changes})


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    classifier = load_image_classifier(_manifest(), _archive(tmp_path, MODELS[name]), "archive", CPU)
    images = torch.rand(3, 3, 32, 32, requires_grad=True)
    logits = classifier.logits(images)
    assert torch.allclose(logits, MODELS[name](pixel_values=(images - MEAN) / STD).logits, atol=1e-6)
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), images)
    assert gradient.abs().sum() > 0
    assert (classifier.labels, classifier.input_shape) == (LABELS, (3, 32, 32))


def test_half_precision_shards_are_loaded_as_float32(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    MODELS["ViTForImageClassification"].half().save_pretrained(folder, max_shard_size="10KB")
    MODELS["ViTForImageClassification"].float()
    assert (folder / "model.safetensors.index.json").exists()
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    archive = tmp_path / "archive"
    archive.write_bytes(zipped({path.name: path.read_bytes() for path in folder.iterdir()}))
    classifier = load_image_classifier(_manifest(), archive, "archive", CPU)
    assert classifier.logits(torch.rand(1, 3, 32, 32)).dtype is torch.float32


@pytest.mark.parametrize(
    ("preprocessor", "mean", "std"),
    [
        ({"size": {"shortest_edge": 32}, "do_normalize": False}, 0.0, 1.0),
        ({"size": 32, "do_rescale": False}, 0.0, 1 / 255),
        ({"size": 32, "rescale_factor": 1 / 127.5, "image_mean": [1.0], "image_std": [1.0]}, 0.5, 0.5),
        ({"size": 99, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}}, 0.0, 1.0),
    ],
)
def test_what_the_preprocessor_does_is_done_inside(tmp_path: Path, preprocessor: dict, mean: float, std: float) -> None:
    archive = _archive(tmp_path, RESNET, {"preprocessor_config.json": preprocessor})
    classifier = load_image_classifier(_manifest(), archive, "archive", CPU)
    images = torch.rand(2, 3, 32, 32)
    want = RESNET(pixel_values=(images - mean) / std).logits
    assert torch.allclose(classifier.logits(images), want, rtol=1e-4, atol=1e-5)


def test_another_input_size_is_resized_inside_and_differentiable(tmp_path: Path) -> None:
    stated = {"shape": [3, 8, 8], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}
    archive = _archive(tmp_path, MODELS["ViTForImageClassification"])
    classifier = load_image_classifier(_manifest(input=stated), archive, "archive", CPU)
    images = torch.rand(2, 3, 8, 8, requires_grad=True)
    larger = torch.nn.functional.interpolate(images, (32, 32), mode="bilinear", align_corners=False, antialias=True)
    want = MODELS["ViTForImageClassification"](pixel_values=(larger - MEAN) / STD).logits
    assert torch.allclose(classifier.logits(images), want, atol=1e-6)
    (gradient,) = torch.autograd.grad(classifier.logits(images).sum(), images)
    assert gradient.abs().sum() > 0
    assert classifier.input_shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("changes", "config", "files", "code", "field"),
    [
        ({"labels": ["dog", "cat", "eel"]}, {}, {}, "label-order-mismatch", "/manifest/labels"),
        (
            {"input": {"shape": [3, 32, 32], "mean": [0.0], "std": [1.0]}},
            {},
            {},
            "normalisation-mismatch",
            "/manifest/input/mean",
        ),
        ({}, {"hidden_sizes": [8, 20_000], "depths": [1, 40]}, {}, "state-dict-mismatch", "/file"),
        ({}, {"model_type": "no_such_model"}, {}, "huggingface-folder-unusable", "/file"),
        ({}, {"hidden_sizes": "eight"}, {}, "huggingface-folder-unusable", "/file"),
        ({}, {}, {"preprocessor_config.json": {"do_resize": False}}, "input-missing", "/manifest/input"),
        ({}, {}, {"preprocessor_config.json": {"size": 100_000}}, "image-size-refused", "/file"),
        ({}, {}, {"preprocessor_config.json": {"size": {"height": 1, "width": 10**9}}}, "image-size-refused", "/file"),
        ({}, {}, {"preprocessor_config.json": {"size": 0}}, "image-size-refused", "/file"),
        ({"input": UNNORMALISED}, {}, {"preprocessor_config.json": {"size": 100_000}}, "image-size-refused", "/file"),
        ({}, {"image_size": 100_000}, {"preprocessor_config.json": {}}, "image-size-refused", "/file"),
        ({}, {}, {"preprocessor_config.json": {"size": {"height": "a", "width": 1}}}, "invalid-content", "/file"),
        ({}, {}, {"preprocessor_config.json": {"size": 32, "rescale_factor": 0}}, "malformed-file", "/file"),
        ({}, {"num_channels": 10**12}, {}, "invalid-content", "/file"),
        ({}, {"num_channels": 5000}, {}, "malformed-file", "/file"),
        (
            {"input": {**UNNORMALISED, "shape": [1, 32, 32]}},
            {},
            {"preprocessor_config.json": {"size": 32}},
            "huggingface-folder-unusable",
            "/file",
        ),
    ],
)
def test_folders_that_are_refused(
    tmp_path: Path, changes: dict, config: dict, files: dict, code: str, field: str
) -> None:
    with pytest.raises(TargetError) as caught:
        load_image_classifier(_manifest(**changes), _archive(tmp_path, RESNET, files, **config), "archive", CPU)
    assert (caught.value.problem.code, caught.value.problem.field) == (code, field)


def test_a_base_model_without_its_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="head") as caught:
        load_image_classifier(_manifest(), _archive(tmp_path, ResNetModel(RESNET.config)), "archive", CPU)
    assert caught.value.problem.code == "state-dict-mismatch"


def test_labels_of_the_manifest_name_an_unnamed_head(tmp_path: Path) -> None:
    unnamed = {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}
    archive = _archive(tmp_path, RESNET, **unnamed)
    assert load_image_classifier(_manifest(labels=["x", "y", "z"]), archive, "archive", CPU).labels == ["x", "y", "z"]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_computed_for_one_image_is_bounded_before_weights_are_allocated(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _archive(tmp_path, MODELS[name])
    values = load_image_classifier(_manifest(), archive, "archive", CPU).values_per_image or 0
    assert values > 3 * 32 * 32
    monkeypatch.setattr(type(MODELS[name]), "from_pretrained", lambda *_, **__: pytest.fail("allocated"))
    with pytest.raises(TargetError, match="SEATRIAL_MAX_ACTIVATION_VALUES") as caught:
        load_image_classifier(_manifest(), archive, "archive", CPU, limits=Settings(max_activation_values=values - 1))
    assert (caught.value.problem.code, caught.value.problem.field) == ("activations-too-large", "/file")


LARGE = {
    "ResNet-152": (
        ResNetForImageClassification,
        ResNetConfig(depths=[3, 8, 36, 3], hidden_sizes=[256, 512, 1024, 2048]),
        224,
    ),
    "ViT-L": (
        ViTForImageClassification,
        ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
        224,
    ),
    "ConvNeXt-XL": (
        ConvNextForImageClassification,
        ConvNextConfig(depths=[3, 3, 27, 3], hidden_sizes=[256, 512, 1024, 2048]),
        384,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_common_large_models_fit_the_default(name: str) -> None:
    kind, config, side = LARGE[name]
    count = ValueCount()
    with torch.device("meta"), torch.no_grad():
        model = kind(config).eval()
        with count:
            model(pixel_values=torch.empty(TRACED_IMAGES, 3, side, side))
    check_values(count.values, Settings(), field="/file")
