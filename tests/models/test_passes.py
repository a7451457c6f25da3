"""Ensembles and Monte-Carlo dropout as models: loading, predictions against a plain mean, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tests.ingest.builders import zipped
from tests.models.builders import CPU, manifest, seeded, store
from workers.errors import TargetError
from workers.models.architectures import build_architecture
from workers.models.ensembles import split
from workers.models.loading import load_image_classifier
from workers.models.passes import DropoutPasses, Passes, seed_of_weights

IMAGES = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
INPUT = {"input": {"shape": [1, 6, 6], "mean": [0.5], "std": [0.25]}, "labels": ["a", "b", "c"]}


def mlp(hidden, p=0.5):
    return {
        "kind": "layers",
        "layers": [["flatten"], ["linear", 36, hidden], ["relu"], ["dropout", p], ["linear", hidden, 3]],
    }


MEMBERS = [mlp(8), mlp(12), mlp(8)]
ENSEMBLE = manifest({"kind": "ensemble", "members": MEMBERS}, **INPUT)


def networks():
    return [seeded(build_architecture(manifest(one, **INPUT), set()), seed) for seed, one in enumerate(MEMBERS)]


def by_hand(modules):
    """Return the mean of the members' probabilities, in NumPy and float64."""
    inputs = (IMAGES - 0.5) / 0.25
    found = []
    for module in modules:
        logits = module(inputs).detach().numpy().astype(float)
        powers = np.exp(logits - logits.max(1, keepdims=True))
        found.append(powers / powers.sum(1, keepdims=True))
    return np.mean(found, axis=0)


def named(prefix):
    return {
        f"{prefix}{number}.{name}": tensor
        for number, module in enumerate(networks())
        for name, tensor in module.state_dict().items()
    }


@pytest.mark.parametrize("prefix", ["members.", "models.", "", "module.members."])
def test_an_ensemble_predicts_the_mean_probabilities_of_its_members(tmp_path: Path, prefix: str) -> None:
    classifier = load_image_classifier(ENSEMBLE, store(tmp_path / "w", named(prefix)), "safetensors", CPU)
    images = IMAGES.clone().requires_grad_()
    logits = classifier.logits(images)
    assert logits.softmax(1).detach().numpy() == pytest.approx(by_hand(networks()), abs=1e-6)
    assert torch.autograd.grad(logits[:, 0].sum(), images)[0].abs().sum() > 0
    each = classifier.logits_of_passes(IMAGES)
    assert (classifier.passes, each.shape) == (3, (5, 3, 3))
    assert torch.equal(each[:, 1], networks()[1]((IMAGES - 0.5) / 0.25))
    assert classifier.parameters == sum(one.numel() for module in networks() for one in module.parameters())


def test_members_are_files_of_an_archive_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    files = {}
    for number, module in zip((2, 9, 10), networks(), strict=True):
        path = store(tmp_path / f"{number}", dict(module.state_dict()))
        files[f"ours/member-{number}.safetensors"] = path.read_bytes()
    archive = tmp_path / "m.zip"
    archive.write_bytes(zipped({"ours/README.md": b"notes", **files}))
    classifier = load_image_classifier(ENSEMBLE, archive, "archive", CPU)
    assert classifier.logits(IMAGES).softmax(1).numpy() == pytest.approx(by_hand(networks()), abs=1e-6)
    archive.write_bytes(zipped(dict([*files.items()][:2])))
    with pytest.raises(TargetError, match="it holds 2: architecture ensemble takes one, or 3"):
        load_image_classifier(ENSEMBLE, archive, "archive", CPU)


@pytest.mark.parametrize(
    ("change", "said", "field"),
    [
        (lambda state: {k: v for k, v in state.items() if not k.startswith("members.2")}, "of 2 members", "members"),
        (lambda state: {k.removeprefix("members.0."): v for k, v in state.items()}, "of 0 members", "members"),
        (lambda state: state | {"members.1.1.weight": torch.zeros(8, 36)}, "member 1: ", "members/1"),
        (lambda state: state | {"members.2.4.bias": torch.zeros(4)}, "member 2: ", "members/2"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_member(tmp_path: Path, change, said: str, field: str) -> None:
    with pytest.raises(TargetError, match=said) as refused:
        load_image_classifier(ENSEMBLE, store(tmp_path / "w", change(named("members."))), "safetensors", CPU)
    assert refused.value.problem.field == f"/manifest/architecture/{field}"


def test_a_member_of_other_labels_is_refused(tmp_path: Path) -> None:
    other = mlp(8)
    other["layers"][-1] = ["linear", 8, 4]
    described = manifest({"kind": "ensemble", "members": [*MEMBERS[:2], other]}, **INPUT)
    with pytest.raises(TargetError, match="member 2: the model gives"):
        load_image_classifier(described, store(tmp_path / "w", named("members.")), "safetensors", CPU)


@pytest.mark.parametrize("members", [[], [mlp(8)], [mlp(8), {"kind": "ensemble", "members": MEMBERS}], [mlp(8)] * 65])
def test_none_one_nested_or_too_many_members_are_no_manifest(members) -> None:
    with pytest.raises(ValidationError, match="members"):
        manifest({"kind": "ensemble", "members": members}, **INPUT)


def dropout(passes, p=0.5):
    return manifest(mlp(12, p) | {"dropout": passes}, **INPUT)


def loaded(tmp_path, described, seed=1):
    module = seeded(build_architecture(manifest(mlp(12), **INPUT), set()), seed)
    return module, load_image_classifier(
        described, store(tmp_path / "w", dict(module.state_dict())), "safetensors", CPU
    )


def test_dropout_passes_are_the_network_thinned_by_masks_that_stay(tmp_path: Path) -> None:
    module, classifier = loaded(tmp_path, dropout(6))
    assert classifier.passes == 6
    hidden = torch.relu(module[1](((IMAGES - 0.5) / 0.25).flatten(1)))
    (layer,) = classifier.module.layers
    each = classifier.logits_of_passes(IMAGES)
    masks = []
    for number in range(6):
        layer.number = number
        mask = layer.mask((12,), hidden)
        assert set((mask * 0.5).unique().tolist()) <= {0.0, 1.0}
        assert each[:, number] == pytest.approx(module[4](hidden * mask).detach(), abs=1e-6)
        masks.append(mask)
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 6
    mean = each.double().softmax(2).mean(1)
    assert classifier.logits(IMAGES).double().softmax(1).numpy() == pytest.approx(mean.numpy(), abs=1e-6)


def test_the_mean_of_many_passes_keeps_each_unit_as_often_as_it_should(tmp_path: Path) -> None:
    _, classifier = loaded(tmp_path, dropout(256, p=0.25))
    (layer,) = classifier.module.layers
    kept = 0.0
    for number in range(256):
        layer.number = number
        kept += (layer.mask((12,), IMAGES) > 0).float().mean().item() / 256
    # 3,072 draws of probability 3/4: four standard errors.
    assert kept == pytest.approx(0.75, abs=0.032)


def test_an_answer_depends_on_its_image_and_the_weights_alone(tmp_path: Path) -> None:
    _, classifier = loaded(tmp_path, dropout(4))
    _, again = loaded(tmp_path, dropout(4))
    whole = classifier.logits(IMAGES)
    assert torch.equal(whole, again.logits(IMAGES))
    torch.manual_seed(99)
    for row in range(5):
        assert again.logits(IMAGES[row : row + 1])[0] == pytest.approx(whole[row], abs=1e-6)
    module = seeded(build_architecture(manifest(mlp(12), **INPUT), set()), 2)
    state = dict(module.state_dict())
    assert seed_of_weights(state, member=0) != seed_of_weights(state, member=1)
    assert seed_of_weights(state, member=0) != seed_of_weights(state | {"4.bias": torch.zeros(3)}, member=0)


def test_members_with_dropout_have_masks_of_their_own(tmp_path: Path) -> None:
    described = manifest({"kind": "ensemble", "members": [mlp(8) | {"dropout": 3}, mlp(8) | {"dropout": 2}]}, **INPUT)
    state = networks()[0].state_dict()
    both = {f"members.{number}.{name}": tensor.clone() for number in range(2) for name, tensor in state.items()}
    classifier = load_image_classifier(described, store(tmp_path / "w", both), "safetensors", CPU)
    assert classifier.passes == 5
    each = classifier.logits_of_passes(IMAGES)
    assert each.shape == (5, 5, 3)
    assert not torch.equal(each[:, :2], each[:, 3:])


def test_channels_fall_out_whole() -> None:
    network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(128, 3)).eval()
    passes = DropoutPasses(network, 3, b"seed", kind="layers")
    passes.each(IMAGES)
    assert passes.layers[0].mask((8, 4, 4), IMAGES).shape == (1, 8, 1, 1)


@pytest.mark.parametrize("p", [0.0, None])
def test_dropout_without_a_layer_that_drops_anything_is_refused(tmp_path: Path, p) -> None:
    architecture = mlp(12, 0.0)
    if p is None:
        architecture["layers"] = [["flatten"], ["linear", 36, 12], ["relu"], ["linear", 12, 3]]
    described = manifest(architecture | {"dropout": 4}, **INPUT)
    module = seeded(build_architecture(described, set()), 1)
    with pytest.raises(TargetError, match="has no dropout layer") as refused:
        load_image_classifier(described, store(tmp_path / "w", dict(module.state_dict())), "safetensors", CPU)
    assert refused.value.problem.field == "/manifest/architecture/dropout"


def test_manifests_without_dropout_are_as_they_were_before_there_was_any() -> None:
    told = json.loads(manifest(mlp(8), **INPUT).model_dump_json())
    assert "dropout" not in told["architecture"]
    assert json.loads(dropout(4).model_dump_json())["architecture"]["dropout"] == 4


def test_names_that_do_not_say_their_member_are_none() -> None:
    tensor = torch.zeros(1)
    assert split({"members.0.a": tensor, "head": tensor}) == []
    assert split({"members.0.a": tensor, "members.2.a": tensor}) == []


def test_what_several_passes_compute_counts_against_the_limit(tmp_path: Path) -> None:
    from seatrial.store.settings import Settings

    module = seeded(build_architecture(manifest(mlp(12), **INPUT), set()), 1)
    path = store(tmp_path / "w", dict(module.state_dict()))
    one = load_image_classifier(manifest(mlp(12), **INPUT), path, "safetensors", CPU)
    limits = Settings(max_activation_values=3 * one.values_per_image)
    assert load_image_classifier(dropout(3), path, "safetensors", CPU, limits=limits).passes == 3
    with pytest.raises(TargetError, match="computes too much"):
        load_image_classifier(dropout(4), path, "safetensors", CPU, limits=limits)
    assert isinstance(one.module, nn.Sequential)
    assert not isinstance(one.module, Passes)
