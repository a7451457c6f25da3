"""Attacks with 8-bit images: a model can tell all others by the grey values they lack."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.families.uncertainty_span.audits import IMAGES, LABELS, NETWORK, Model, audit, parameters
from workers.attacks.levels import is_on_grid
from workers.families.uncertainty_span.further import to_levels
from workers.models import GREY_LEVELS

AT_LEVELS = to_levels(IMAGES)


def off_the_grid(images: Tensor) -> Tensor:
    """Answer by rote what lies off the 256 levels; a faint slope keeps the gradients from being zero."""
    scaled = images * GREY_LEVELS
    off = (scaled - scaled.round()).abs().flatten(1).amax(1) > 0.01
    rote = torch.zeros(len(images), 4)
    rote[:, 0] = 6
    return torch.where(off[:, None], rote + 0.01 * NETWORK.logits(images), NETWORK.logits(images))


@pytest.mark.drill
@pytest.mark.slow
def test_a_model_that_answers_other_images_by_rote_is_seen_through() -> None:
    params = parameters(epsilon=0.1, steps=60, effort="standard")
    result, done = audit(params, Model(off_the_grid, 4), (AT_LEVELS, LABELS))
    assert done["surrogate"]["on_grid"][0].as_py() is True
    found = result.estimates
    assert found["mus[attack=score]"].value > 1.3 * found["mus[attack=ascent]"].value
    assert found["mus_worst"].value > 0.8 * audit(params, NETWORK, (AT_LEVELS, LABELS))[0].estimates["mus"].value


@given(st.floats(0.004, 0.5), st.integers(0, 2**32 - 1))
def test_rounding_within_a_radius_of_whole_levels_stays_in_the_ball(epsilon: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    original = torch.tensor(rng.integers(0, 256, 64) / GREY_LEVELS)
    radius = np.floor(epsilon * GREY_LEVELS) / GREY_LEVELS
    moved = (original + radius * torch.tensor(rng.uniform(-1, 1, 64))).clamp(0, 1)
    rounded = to_levels(moved)
    assert float((rounded - original).abs().max()) <= epsilon + 1e-9
    assert 0 <= float(rounded.min()) <= float(rounded.max()) <= 1


def test_images_off_the_levels_are_told_from_those_at_them() -> None:
    assert is_on_grid(AT_LEVELS)
    assert not is_on_grid(AT_LEVELS + 0.3 / GREY_LEVELS)


@pytest.mark.parametrize("epsilon", [0.0035, 0.0039])
def test_a_radius_of_less_than_a_level_is_an_error_whatever_grid_images_are_on(epsilon: float) -> None:
    """A policy that bounds the span passes whatever is attacked within nothing."""
    params = parameters(epsilon=epsilon, steps=20, effort="standard")
    for images in (AT_LEVELS, IMAGES):
        result, _ = audit(params, NETWORK, (images[:12], LABELS[:12]))
        told = {flag.code: flag.severity for flag in result.flags if "radius" in flag.code}
        assert told == ({"radius_below_a_level": "error"} if epsilon < 0.0039 else {"small_radius": "warning"})
