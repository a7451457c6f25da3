"""What is left of a slope a small step away: all of a linear function, little of one that watches its input."""

import pytest
import torch
from torch import Tensor

from tests.attacks.test_confined import IMAGES, WEIGHTS, linear, trial, watching
from workers.attacks.kept_slopes import HALF, kept_slopes
from workers.attacks.regions import Norm


def kept(model, images: Tensor = IMAGES, norm: Norm = "linf", epsilon: float | None = None) -> Tensor:
    radius = trial(norm).epsilon if epsilon is None else epsilon
    return kept_slopes(model, images, norm, radius, (0.0, 1.0), batch_size=5, check_cancelled=lambda: None)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_linear_function_keeps_all_of_it_and_one_that_watches_little(norm: Norm) -> None:
    torch.testing.assert_close(kept(linear, norm=norm), torch.ones(len(IMAGES), dtype=torch.float64), atol=1e-3, rtol=0)
    assert float(kept(watching, norm=norm).max()) < HALF


def test_it_is_what_the_lead_loses_of_what_its_gradient_says() -> None:
    def bent(images: Tensor) -> Tensor:
        moved = (images.flatten(1) - IMAGES[:1].flatten(1)) @ WEIGHTS
        # Steep for a hundredth of what a step of half the radius takes, flat from there on.
        score = 5 + torch.clamp(moved, min=-0.02)
        return torch.stack([score, torch.zeros_like(score)], 1)

    images = IMAGES[:1]
    inside = images.clone()
    step = 0.1 / 16
    corner = (inside - step * WEIGHTS.view(1, 1, 12, 12).sign()).clamp(0, 1)
    says = float(((images - corner).flatten(1) @ WEIGHTS).sum())
    assert float(kept(bent, images)) == pytest.approx(0.02 / says, rel=1e-3)


def test_where_an_attack_gets_far_all_of_it_counts() -> None:
    def weak(images: Tensor) -> Tensor:
        moved = (images.flatten(1) - IMAGES[:1].flatten(1)) @ WEIGHTS
        score = 0.05 + torch.sin(400 * moved) * 0.2
        return torch.stack([score, torch.zeros_like(score)], 1)

    assert bool((kept(weak, IMAGES[:1]) == 1).all())


def test_inputs_that_are_rounded_to_levels_keep_theirs() -> None:
    def rounded(images: Tensor) -> Tensor:
        return linear(images + ((images * 15).round() / 15 - images).detach(), 0.1)

    found = kept(rounded, torch.rand(32, 1, 12, 12, generator=torch.Generator().manual_seed(1)), epsilon=0.1)
    assert int((found < HALF).sum()) <= 4


def test_nothing_is_said_without_a_slope() -> None:
    assert bool(kept(lambda images: linear(images.detach())).isnan().all())
    assert kept(linear, IMAGES[:0]).shape == (0,)
