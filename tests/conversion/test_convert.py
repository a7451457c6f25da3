"""``seatrial convert``: what it makes is accepted, and what it refuses is never run."""

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from app.cli import main as seatrial
from app.cli.uploads import prepare_model
from app.models.inspection import inspect_model
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.conversion import CONVERT
from seatrial.ingest.inspection.errors import PickleRefusedError
from seatrial.store.settings import Settings
from tests.ingest.builders import Payload, model_manifest, torch_zip
from tests.ingest.exported_programs import exported_manifest
from tests.models.builders import CPU, manifest, seeded
from workers.conversion.__main__ import main
from workers.models.architectures import build_architecture
from workers.models.image_classifier import ImageClassifier
from workers.models.loading import load_image_classifier

PLAIN = ("--mean", "0", "--std", "1")


def _load(folder: Path) -> ImageClassifier:
    """Load what was written as `models add` and `gate` take it."""
    prepared = prepare_model(folder, for_task=None, say=lambda line: None)
    assert isinstance(prepared.source, Path)
    described = ModelManifest.model_validate(prepared.manifest)
    kind = inspect_model(prepared.source, prepared.source.name, described, Settings())
    return load_image_classifier(described, prepared.source, kind, CPU)


def _module(architecture: dict[str, Any], **changes: Any) -> nn.Module:
    return seeded(build_architecture(manifest(architecture, **changes), set()))


@pytest.mark.parametrize(
    "architecture",
    [
        {"kind": "resnet_cifar", "depth": 8},
        {"kind": "wide_resnet", "depth": 10, "width": 2},
        {"kind": "preact_resnet18"},
        {"kind": "lenet"},
        {"kind": "resnet_32x32", "depth": 18},
        {"kind": "dm_wide_resnet", "depth": 10, "width": 1, "activation": "silu"},
    ],
    ids=lambda architecture: architecture["kind"],
)
def test_an_architecture_is_told_by_names_and_shapes(tmp_path: Path, architecture: dict[str, Any]) -> None:
    shape = [1, 28, 28] if architecture["kind"] == "lenet" else [3, 32, 32]
    module = _module(architecture, input={"shape": shape, "mean": [0.0], "std": [1.0]})
    state = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}, tmp_path / "best model.pth")
    assert main([str(tmp_path / "best model.pth"), "-o", str(tmp_path / "m"), *PLAIN]) == 0
    told = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert told["architecture"] == architecture
    assert (told["name"], told["input"]["shape"], len(told["labels"])) == ("best-model", shape, 10)
    images = torch.rand(2, *shape)
    assert torch.equal(_load(tmp_path / "m").logits(images), module(images))


def test_normalisation_inside_moves_to_the_manifest_and_is_otherwise_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = _module({"kind": "wide_resnet", "depth": 10, "width": 1})
    state = dict(module.state_dict())
    torch.save(state, tmp_path / "w.pt")
    assert main([str(tmp_path / "w.pt"), "-o", str(tmp_path / "m")]) == 2
    assert "--mean and --std" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2471, 0.2435, 0.2616])
    torch.save({**state, "mu": mean.view(1, 3, 1, 1), "sigma": std.view(1, 3, 1, 1)}, tmp_path / "w.pt")
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"class {number}" for number in range(10)), encoding="utf-8")
    assert main([str(tmp_path / "w.pt"), "-o", str(tmp_path / "m"), "--labels", str(labels)]) == 0
    assert main([str(tmp_path / "w.pt"), "-o", str(tmp_path / "other"), *PLAIN]) == 2
    refused = capsys.readouterr().err
    assert "hold a mean of [0.4914" in refused
    assert "the manifest says [0.0]" in refused
    classifier = _load(tmp_path / "m")
    images = torch.rand(2, 3, 32, 32)
    assert torch.allclose(classifier.logits(images), module((images - mean.view(3, 1, 1)) / std.view(3, 1, 1)))
    assert classifier.labels[9] == "class 9"
    assert main([str(tmp_path / "w.pt"), "-o", str(tmp_path / "m")]) == 2
    assert "there already" in capsys.readouterr().err


LAYERS = [["conv", 1, 2, 3, 1, 1], ["relu"], ["flatten"], ["linear", 128, 3]]


def test_a_sequence_is_told_by_its_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = seeded(nn.Sequential(nn.Conv2d(1, 2, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))).eval()
    torch.save(module.state_dict(), tmp_path / "w.pt")
    arguments = [str(tmp_path / "w.pt"), "-o", str(tmp_path / "m")]
    assert main([*arguments, *PLAIN]) == 2
    assert "named as those of a torch.nn.Sequential" in (told := capsys.readouterr().err)
    assert "--layers" in told
    # All that is missing at once.
    assert main([*arguments, "--layers", json.dumps(LAYERS)]) == 2
    assert "--mean and --std" in (told := capsys.readouterr().err)
    assert "--shape" in told
    for given in ("no json", "[[1", str(tmp_path / "none.json")):
        assert main([*arguments, *PLAIN, "--shape", "1,8,8", "--layers", given]) == 2
        assert "--layers: neither" in capsys.readouterr().err
    assert main([*arguments, *PLAIN, "--shape", "1,8,8", "--layers", '[["conv", 1]]']) == 2
    assert "architecture" in capsys.readouterr().err
    assert main([*arguments, *PLAIN, "--layers", "[]", "--architecture", "lenet"]) == 2
    assert "leave --architecture" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
    (tmp_path / "layers.json").write_text(json.dumps({"kind": "layers", "layers": LAYERS}))
    assert main([*arguments, *PLAIN, "--shape", "1,8,8", "--layers", str(tmp_path / "layers.json")]) == 0
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(_load(tmp_path / "m").logits(images), module(images))


def _executes(path: Path) -> None:
    path.write_bytes(pickle.dumps({"w": Payload()}, 2))


def _zip_executes(path: Path) -> None:
    path.write_bytes(torch_zip())


def _whole_model(path: Path) -> None:
    torch.save(nn.Linear(2, 2), path)


def _list(path: Path) -> None:
    torch.save([1, 2], path)


def _nothing_known(path: Path) -> None:
    torch.save({"stem.w": torch.zeros(3, 3)}, path)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (_executes, "is not loaded"),
        (_zip_executes, ""),
        (_whole_model, "torch.nn.modules.linear.Linear"),
        (_list, "without tensors"),
        (_nothing_known, "--factory package.module:make"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_no_state_dict_is_refused_and_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Any, told: str
) -> None:
    write(tmp_path / "w.pt")
    assert main([str(tmp_path / "w.pt"), "-o", str(tmp_path / "m"), *PLAIN]) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert "a pickle was loaded" not in said.out
    assert not (tmp_path / "m").exists()


def test_a_network_of_ones_own_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_networks.py").write_text(
        "import torch\n\ndef make():\n"
        "    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.SiLU(), torch.nn.Flatten(), "
        "torch.nn.Linear(144, 5))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    torch.save(module.state_dict(), "w.pt")
    asked = ["w.pt", "--factory", "my_networks:make", "-o", "m"]
    assert main(asked) == 2
    assert "--shape is needed" in capsys.readouterr().err
    assert main([*asked, "--shape", "3,8,8"]) == 0
    assert "differ from the network's by 0" in capsys.readouterr().out
    images: Tensor = torch.rand(3, 3, 8, 8)
    assert torch.equal(_load(tmp_path / "m").logits(images), module(images))
    assert main(["--factory", "my_networks:build", "-o", "n", "--shape", "3,8,8"]) == 2
    assert "cannot be called" in capsys.readouterr().err


def test_the_command_hands_everything_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module({"kind": "resnet_cifar", "depth": 8})
    torch.save(module.state_dict(), tmp_path / "w.pt")

    def here(command: list[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
        # In a process of its own, torch alone would take seconds to import.
        return subprocess.CompletedProcess(command, main(command[command.index("workers.conversion") + 1 :]))

    monkeypatch.setattr(subprocess, "run", here)
    asked = ["convert", str(tmp_path / "w.pt"), "-o", str(tmp_path / "m"), "--architecture", "resnet_cifar:depth=8"]
    ended = CliRunner().invoke(seatrial, [*asked, "--mean=0.5", "--std=0.25", "--name=mine", "--version=7"])
    assert ended.exit_code == 0
    told = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert (told["name"], told["version"], told["input"]["std"]) == ("mine", "7", [0.25])


@pytest.mark.parametrize("data", [pickle.dumps({"a": 1}), torch_zip()], ids=["pickle", "torch.save"])
@pytest.mark.parametrize("described", [model_manifest(), exported_manifest()], ids=["weights", "program"])
def test_every_door_names_the_command(tmp_path: Path, data: bytes, described: ModelManifest) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(data)
    with pytest.raises(PickleRefusedError) as caught:
        inspect_model(path, path.name, described, Settings())
    assert caught.value.detail.endswith(CONVERT)
