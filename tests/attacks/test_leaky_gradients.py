"""Gradients that go through units that are off find what these veto; of an ordinary network they find no more."""

import pytest
import torch
from torch import Tensor

from workers.attacks.leaky_gradients import climb_leaking, leaking_slope, leaky
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.openings import Openings
from workers.attacks.tried import Trial, spread_of

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


def in_place(images: Tensor) -> Tensor:
    """Do the same by functions that write into what they are given."""
    fine = (images.flatten(1) - 0.5) @ FINE
    against = (fine.sum(1, keepdim=True) - 3 * fine - 0.4)[:, None] * STEEP
    return torch.relu_(sure(images) - 30 * torch.nn.functional.relu(against, inplace=True).mean(1))


def with_decoys(images: Tensor) -> Tensor:
    """Have many more units beside the vetoes that are off and say the opposite, to next to no effect."""
    fine = (images.flatten(1) - 0.5) @ FINE
    decoys = torch.relu((3 * fine - fine.sum(1, keepdim=True) - 6.0)[:, None] * STEEP.repeat(20, 1)).mean(1)
    return vetoed(images) - 1e-4 * decoys


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
@pytest.mark.parametrize("model", [vetoed, in_place, with_decoys])
def test_a_veto_is_opened_where_no_gradient_of_the_answer_leads(model, norm: str) -> None:
    assert (model(IMAGES).argmax(1) == LABELS).all()
    assert climbed(model, norm) < 0.5
    slope = leaking_slope(Openings(model, IMAGES[:4], 20, trial(norm)))
    assert slope is not None
    found = climb_leaking(model, IMAGES, spread_of(model(IMAGES)), slope, 20, trial(norm))
    assert float(entropy(model(found)).mean()) > climbed(model, norm) + 0.3
    far = (found - IMAGES).flatten(1)
    assert float(far.abs().max() if norm == "linf" else far.norm(dim=1).max()) <= RADIUS[norm] + 1e-6
    assert 0 <= float(found.min()) <= float(found.max()) <= 1


@pytest.mark.parametrize("model", [sure, weak])
def test_of_a_network_that_hides_nothing_nothing_is(model) -> None:
    assert leaking_slope(Openings(model, IMAGES[:4], 20, trial("linf"))) is None
    assert leaking_slope(Openings(model, IMAGES[:0], 20, trial("linf"))) is None


def test_outputs_are_the_same_and_gradients_go_through() -> None:
    images = (IMAGES - 0.5).requires_grad_(True)
    through = leaky(torch.relu, 0.25)(images)
    assert through.equal(torch.relu(images))
    (slope,) = torch.autograd.grad(through.sum(), images)
    assert slope.equal(torch.where(images > 0, 1.25, 0.25))
    assert leaky(vetoed, 0.25)(IMAGES).equal(vetoed(IMAGES))
