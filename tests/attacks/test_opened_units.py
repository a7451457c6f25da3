"""Units that veto an answer are opened by gradients of their own; of an ordinary network none are."""

import pytest
import torch
from torch import Tensor

from workers.attacks import opened_units
from workers.attacks.kinks import Kink
from workers.attacks.losses import entropy
from workers.attacks.meeting_thresholds import Meeting
from workers.attacks.momentum import MomentumPGD
from workers.attacks.opened_units import open_units, units_to_open
from workers.attacks.tried import Trial

SIDE, CLASSES, VETOES = 12, 4, 8
GENERATOR = torch.Generator().manual_seed(5)
COARSE, FINE = torch.linalg.qr(torch.randn(SIDE * SIDE, 2 * CLASSES, generator=GENERATOR))[0].split(CLASSES, 1)
"""Of a class: what is large in its images, and what a few hundredths of every pixel change as well."""

LABELS = torch.arange(24) % CLASSES
NOISE = 0.02 * torch.randn(len(LABELS), SIDE * SIDE, generator=GENERATOR)
IMAGES = (0.5 + 1.6 * COARSE.T[LABELS] + 0.5 * FINE.T[LABELS] + NOISE).clamp(0, 1).view(-1, 1, SIDE, SIDE)
STEEP = 0.5 + torch.rand(VETOES, CLASSES, generator=GENERATOR)
RADIUS = {"linf": 0.08, "l2": 0.9}


def sure(images: Tensor) -> Tensor:
    """Answer by what is large."""
    return 6 * torch.relu((images.flatten(1) - 0.5) @ COARSE)


def vetoed(images: Tensor) -> Tensor:
    """Answer alike, but let each class be vetoed by units that hear what is small speak against it."""
    fine = (images.flatten(1) - 0.5) @ FINE
    against = fine.sum(1, keepdim=True) - 3 * fine - 0.4
    vetoes = torch.relu(against[:, None] * STEEP).mean(1)
    return torch.relu(sure(images) - 30 * vetoes)


def weak(images: Tensor) -> Tensor:
    """Answer by what is small."""
    return 12 * torch.relu((images.flatten(1) - 0.5) @ FINE)


def trial(norm: str) -> Trial:
    return Trial(norm, RADIUS[norm], (0.0, 1.0), lambda: None)  # type: ignore[arg-type]


def climbed(model, norm: str) -> float:
    search = MomentumPGD(norm, RADIUS[norm], 40)  # type: ignore[arg-type]
    ahead = search.run(model, IMAGES, lambda logits, *_: -entropy(logits), lambda logits, *_: -entropy(logits))
    return -float(ahead.value.mean())


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_units_of_a_veto_are_opened_where_no_gradient_of_the_answer_leads(norm: str) -> None:
    assert (vetoed(IMAGES).argmax(1) == LABELS).all()
    assert climbed(vetoed, norm) < 0.5
    units = units_to_open(vetoed, IMAGES, IMAGES[:4], 20, trial(norm))
    assert units is not None
    found = open_units(vetoed, IMAGES, units, 20, trial(norm))
    assert float(entropy(vetoed(found)).mean()) > climbed(vetoed, norm) + 0.3
    far = (found - IMAGES).flatten(1)
    assert float(far.abs().max() if norm == "linf" else far.norm(dim=1).max()) <= RADIUS[norm] + 1e-6
    assert 0 <= float(found.min()) <= float(found.max()) <= 1


@pytest.mark.parametrize("model", [sure, weak])
def test_of_a_network_that_hides_nothing_none_are(model) -> None:
    assert units_to_open(model, IMAGES, IMAGES[:4], 20, trial("linf")) is None


def test_only_units_count_that_are_on_often_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    # A unit of a class is on at the images of the other three.
    monkeypatch.setattr(opened_units, "ON", 0.74)
    assert units_to_open(vetoed, IMAGES, IMAGES[:4], 20, trial("linf")) is not None
    monkeypatch.setattr(opened_units, "ON", 0.76)
    assert units_to_open(vetoed, IMAGES, IMAGES[:4], 20, trial("linf")) is None


def test_without_units_or_images_there_are_none() -> None:
    assert units_to_open(lambda images: images.flatten(1)[:, :4], IMAGES, IMAGES[:4], 3, trial("linf")) is None
    assert units_to_open(vetoed, IMAGES[:1], IMAGES[:1], 3, trial("linf")) is None
    assert units_to_open(vetoed, IMAGES, IMAGES[:0], 3, trial("linf")) is None
    gone = Meeting({Kink((False, 99)): torch.ones(40, dtype=torch.float64)})
    assert open_units(vetoed, IMAGES, gone, 3, trial("linf")).equal(IMAGES)
