from pathlib import Path

import pytest
import torch

from tests.ingest.builders import zipped
from tests.models.builders import CPU, manifest, seeded, store
from workers.errors import TargetError
from workers.models.architectures import build_architecture
from workers.models.loading import load_image_classifier

RESNET = {"kind": "resnet_cifar", "depth": 8}


def _state(architecture: dict) -> dict[str, torch.Tensor]:
    return dict(seeded(build_architecture(manifest(architecture), set())).state_dict())


@pytest.mark.parametrize("architecture", [RESNET, {"kind": "wide_resnet", "depth": 10, "width": 1}])
def test_logits_are_those_of_the_normalised_module(tmp_path: Path, architecture: dict) -> None:
    described = manifest(architecture)
    module = seeded(build_architecture(described, set()))
    path = store(tmp_path / "w.safetensors", dict(module.state_dict()))
    classifier = load_image_classifier(described, path, "safetensors", CPU)
    images = torch.rand(4, 3, 32, 32, requires_grad=True)
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    logits = classifier.logits(images)
    assert torch.equal(logits, module((images - mean) / std))
    (gradient,) = torch.autograd.grad(logits.sum(), images)
    assert gradient.abs().sum() > 0
    assert not classifier.module.training
    assert not any(parameter.requires_grad for parameter in classifier.module.parameters())
    assert (classifier.classes, classifier.input_shape, classifier.device) == (10, (3, 32, 32), CPU)
    assert classifier.parameters == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("prefix", ["module.", "module.model.", "_orig_mod.module.", "model.net."])
def test_prefixes_are_stripped(tmp_path: Path, prefix: str) -> None:
    state = _state(RESNET)
    path = store(tmp_path / "w.safetensors", {prefix + name: tensor for name, tensor in state.items()})
    classifier = load_image_classifier(manifest(RESNET), path, "safetensors", CPU)
    assert torch.equal(classifier.module.state_dict()["conv1.weight"], state["conv1.weight"])


@pytest.mark.parametrize(
    ("architecture", "old", "new"),
    [
        (RESNET, "linear.", "fc."),
        (RESNET, "linear.", "classifier."),
        ({"kind": "preact_resnet18"}, ".shortcut.", ".downsample."),
        ({"kind": "wide_resnet", "depth": 10, "width": 2}, "fc.", "linear."),
        ({"kind": "wide_resnet", "depth": 10, "width": 2}, ".convShortcut.", ".shortcut.0."),
    ],
)
def test_common_other_names_are_understood(tmp_path: Path, architecture: dict, old: str, new: str) -> None:
    state = {name.replace(old, new): tensor for name, tensor in _state(architecture).items()}
    path = store(tmp_path / "w.safetensors", state)
    images = torch.rand(2, 3, 32, 32)
    want = seeded(build_architecture(manifest(architecture), set()))((images - 0.5) / 0.5)
    told = manifest(architecture, input={"shape": [3, 32, 32], "mean": [0.5], "std": [0.5]})
    assert torch.allclose(load_image_classifier(told, path, "safetensors", CPU).logits(images), want)


def test_unused_group_of_wide_resnet_code_and_old_files_without_counters_are_accepted(tmp_path: Path) -> None:
    architecture = {"kind": "wide_resnet", "depth": 10, "width": 1}
    state = {name: tensor for name, tensor in _state(architecture).items() if "num_batches" not in name}
    state["sub_block1.layer.0.bn1.weight"] = torch.zeros(3)
    path = store(tmp_path / "w.safetensors", state)
    assert load_image_classifier(manifest(architecture), path, "safetensors", CPU).classes == 10


def test_half_precision_weights_become_float32(tmp_path: Path) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        state = {n: t.to(dtype) if t.is_floating_point() else t for n, t in _state(RESNET).items()}
        path = store(tmp_path / "w.safetensors", state)
        classifier = load_image_classifier(manifest(RESNET), path, "safetensors", CPU)
        assert classifier.logits(torch.rand(1, 3, 32, 32)).dtype is torch.float32


def test_a_mismatch_says_what_is_missing_unexpected_and_reshaped(tmp_path: Path) -> None:
    state = _state(RESNET)
    del state["layer1.0.conv1.weight"]
    state["layer9.weight"] = torch.zeros(2)
    state["normalize.mean"] = torch.zeros(3)
    state["conv1.weight"] = torch.zeros(16, 1, 3, 3)
    with pytest.raises(TargetError) as caught:
        load_image_classifier(manifest(RESNET), store(tmp_path / "w", state), "safetensors", CPU)
    problem = caught.value.problem
    assert (problem.code, problem.field) == ("state-dict-mismatch", "/manifest/architecture")
    assert "1 of 44 tensors are missing: layer1.0.conv1.weight" in problem.detail
    assert "2 are unexpected: layer9.weight, normalize.mean" in problem.detail
    assert "conv1.weight is [16, 1, 3, 3], needs [16, 3, 3, 3]" in problem.detail
    assert "mean and std belong" in problem.detail


MU, SIGMA = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(1, 3, 1, 1)


# RobustBench's own networks hold mu and sigma, or stand behind a normalisation; robustness' hold new_mean and new_std.
@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("", ("mu", "sigma")),
        ("module.", ("module.mu", "module.sigma")),
        ("model.", ("mu", "sigma")),
        ("module.model.", ("module.normalize.mean", "module.normalize.std")),
        ("model.", ("normalizer.new_mean", "normalizer.new_std")),
    ],
)
def test_what_weights_normalise_with_is_compared_to_the_manifest(
    tmp_path: Path, prefix: str, names: tuple[str, str]
) -> None:
    state = _state(RESNET)
    held = {prefix + name: tensor for name, tensor in state.items()} | dict(zip(names, (MU, SIGMA), strict=True))
    path = store(tmp_path / "w.safetensors", held)
    classifier = load_image_classifier(manifest(RESNET), path, "safetensors", CPU)
    assert torch.equal(classifier.module.state_dict()["conv1.weight"], state["conv1.weight"])
    other = manifest(RESNET, input={"shape": [3, 32, 32], "mean": [0.5, 0.4, 0.302], "std": [0.2, 0.25, 0.3]})
    with pytest.raises(TargetError) as caught:
        load_image_classifier(other, path, "safetensors", CPU)
    problem = caught.value.problem
    assert (problem.code, problem.field) == ("normalisation-mismatch", "/manifest/input")
    assert "a mean of [0.5, 0.4, 0.3" in problem.detail
    assert "the manifest says [0.5, 0.4, 0.302]" in problem.detail


def test_many_differences_are_counted_not_listed(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"\.\.\. \(\d+ more\)") as caught:
        load_image_classifier(
            manifest({"kind": "resnet_cifar", "depth": 20}), store(tmp_path / "w", _state(RESNET)), "safetensors", CPU
        )
    assert len(caught.value.problem.detail) < 600


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    state = _state(RESNET)
    for tensor, code in (
        (torch.full((16, 3, 3, 3), float("nan")), "weights-not-finite"),
        (torch.zeros(16, 3, 3, 3, dtype=torch.int8), "weights-not-float"),
    ):
        path = store(tmp_path / "w", {**state, "conv1.weight": tensor})
        with pytest.raises(TargetError) as caught:
            load_image_classifier(manifest(RESNET), path, "safetensors", CPU)
        assert caught.value.problem.code == code


def test_an_archive_of_one_file_and_files_that_are_none(tmp_path: Path) -> None:
    weights = store(tmp_path / "w", _state(RESNET)).read_bytes()
    archive = tmp_path / "archive"
    archive.write_bytes(zipped({"m/w.safetensors": weights, "m/README.md": b"#"}))
    assert load_image_classifier(manifest(RESNET), archive, "archive", CPU).classes == 10
    archive.write_bytes(zipped({"a.safetensors": weights, "b.safetensors": weights}))
    with pytest.raises(TargetError, match="exactly one"):
        load_image_classifier(manifest(RESNET), archive, "archive", CPU)
    archive.write_bytes(zipped({"../a.safetensors": weights}))
    with pytest.raises(TargetError, match="leads out") as caught:
        load_image_classifier(manifest(RESNET), archive, "archive", CPU)
    assert caught.value.problem.code == "unsafe-archive"
    archive.write_bytes(b"not weights")
    with pytest.raises(TargetError, match="cannot be read"):
        load_image_classifier(manifest(RESNET), archive, "safetensors", CPU)


def test_text_models_are_no_image_classifiers(tmp_path: Path) -> None:
    text = manifest({"kind": "huggingface"}, task="text-classification", input=None)
    with pytest.raises(TargetError) as caught:
        load_image_classifier(text, tmp_path, "archive", CPU)
    assert (caught.value.problem.code, caught.value.problem.field) == ("task-mismatch", "/manifest/task")
