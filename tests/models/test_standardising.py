"""Per-image standardisation as a field of the input, of Ding et al. 2020."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from seatrial.contracts.models import InputSpec
from tests.models.builders import CPU, manifest
from workers.models.image_classifier import ImageClassifier
from workers.models.loading import load_image_classifier

LAYERS = {"kind": "layers", "layers": [["flatten"], ["linear", 12, 2]]}


def made(tmp_path: Path, weight: Tensor) -> ImageClassifier:
    save_file({"1.weight": weight, "1.bias": torch.zeros(2)}, tmp_path / "m.safetensors")
    told = {"shape": [3, 2, 2], "mean": [0.0], "std": [1.0], "standardise": "per_image"}
    described = manifest(LAYERS, input=told, labels=["a", "b"])
    return load_image_classifier(described, tmp_path / "m.safetensors", "safetensors", CPU)


def test_it_standardises_each_image_by_its_own_values(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    weight, images = torch.randn((2, 12), generator=draw), torch.rand((4, 3, 2, 2), generator=draw)
    values = images.flatten(1).double().numpy()
    # At least 1 / sqrt(12), which some of these images lie below and some above.
    spread = values.std(1, keepdims=True)
    assert spread.min() < 12**-0.5 < spread.max()
    expected = (values - values.mean(1, keepdims=True)) / spread.clip(12**-0.5)
    found = made(tmp_path, weight).logits(images).numpy()
    assert np.abs(found - expected @ weight.double().numpy().T).max() < 1e-5


def test_an_image_of_one_colour_stays_finite_and_has_a_gradient(tmp_path: Path) -> None:
    images = torch.full((1, 3, 2, 2), 0.4, requires_grad=True)
    logits = made(tmp_path, torch.arange(24.0).view(2, 12)).logits(images)
    (gradient,) = torch.autograd.grad(logits[0, 0], images)
    assert logits.abs().max() < 1e-4
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert InputSpec(shape=[3, 2, 2], mean=[0.0], std=[1.0]).standardise == "none"
