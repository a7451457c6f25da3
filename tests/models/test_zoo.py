"""Networks of torchvision and timm by name: what is told where they are missing, and where torchvision half loads."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from tests.models.builders import CPU, manifest, seeded
from workers.errors import TargetError
from workers.models import zoo
from workers.models.architectures import build_architecture
from workers.models.loading import load_image_classifier

PACKAGES = ("torchvision", "timm")
HAS_ZOO = all(find_spec(name) is not None for name in PACKAGES)

# As the wheel behaves beside another build of torch: its own operators were never declared.
HALF_LOADED = """
import torch
if not hasattr(torch.ops.torchvision, "nms"):
    raise RuntimeError("operator torchvision::nms does not exist")
from . import models
__version__ = "0.0"
"""
MODELS = """
import sys
import torch
def list_models(module):
    assert module is sys.modules[__name__]
    return ["tiny"]
def get_model(name, *, weights, num_classes):
    assert weights is None
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten(), torch.nn.Linear(1800, num_classes))
    layer.register_buffer("places", torch.arange(3))
    layer.register_buffer("unsaved", torch.ones(()), persistent=False)
    return layer
"""


@pytest.mark.parametrize("kind", PACKAGES)
@pytest.mark.parametrize("name", ["hf-hub:someone/model", "resnet18.a1_in1k", "../resnet", "", "ResNet18"])
def test_a_name_leads_nowhere_else(kind: str, name: str) -> None:
    with pytest.raises(ValidationError):
        manifest({"kind": kind, "name": name})


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_worker_without_the_package_says_what_to_install(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TargetError) as caught:
        build_architecture(manifest({"kind": kind, "name": "resnet18"}), set())
    assert caught.value.problem.code == "zoo-missing"
    assert "pip install 'seatrial[zoo]'" in caught.value.problem.detail


@pytest.fixture
def half_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torchvision whose import asks for operators nobody has declared."""
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(HALF_LOADED)
    (package / "models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.skipif(HAS_ZOO, reason="torchvision itself is tested below")
def test_a_torchvision_without_its_compiled_operators_is_imported_and_used(tmp_path: Path, half_loaded: None) -> None:
    described = manifest({"kind": "torchvision", "name": "tiny"})
    module = seeded(build_architecture(described, set()))
    assert len(zoo._libraries) == 1
    save_file(dict(module.state_dict()), tmp_path / "w.safetensors")
    classifier = load_image_classifier(
        manifest({"kind": "torchvision", "name": "tiny"}, input={"shape": [3, 32, 32], "mean": [0.0], "std": [1.0]}),
        tmp_path / "w.safetensors",
        "safetensors",
        CPU,
    )
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(classifier.logits(images), module(images))
    # Whole numbers of its own stay whole, and what is not saved is there all the same.
    assert classifier.module.state_dict()["places"].dtype is torch.int64
    assert not any(buffer.is_meta for buffer in classifier.module.buffers())
    for changes, told in (({"name": "large"}, "no classifier called large"), ({}, "3 channels")):
        with pytest.raises(TargetError, match=told):
            build_architecture(
                manifest(
                    {"kind": "torchvision", "name": "tiny", **changes},
                    input={"shape": [1, 32, 32], "mean": [0.0], "std": [1.0]},
                ),
                set(),
            )


@pytest.mark.skipif(not HAS_ZOO, reason="needs the extra seatrial[zoo], which CI does not install")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *[("torchvision", name) for name in ("resnet18", "mobilenet_v3_small", "swin_t", "googlenet")],
        *[("timm", name) for name in ("vit_tiny_patch16_224", "convnext_atto", "swin_tiny_patch4_window7_224")],
    ],
)
def test_logits_are_those_of_the_package(tmp_path: Path, kind: str, name: str) -> None:
    described: Any = manifest({"kind": kind, "name": name}, input={"shape": [3, 224, 224], "mean": [0.0], "std": [1.0]})
    module = build_architecture(described, set()).eval()
    state = {key: tensor.contiguous().clone() for key, tensor in module.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    classifier = load_image_classifier(described, tmp_path / "w.safetensors", "safetensors", CPU)
    images = torch.rand(2, 3, 224, 224)
    with torch.no_grad():
        assert torch.equal(classifier.logits(images), module(images))
