"""Classifiers made to be certified for what does not hold. The two images are 0.217 apart: black, and one step of 255.

In floating point, as everybody adds noise, the first of them is certified to a radius beyond the other image although
that has the other class in every draw (Voracek and Hein, Sound randomized smoothing in floating-point arithmetic, ICLR
2023). On the grid none may be.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper
from tests.certification.test_noise import noise
from workers.certification.anytime import fixed_schedule
from workers.certification.bernoulli import certified_radius
from workers.certification.grid import GRID
from workers.certification.procedure import Evidence, gather_evidence
from workers.certification.smoothing import Smoother

SIGMA, ALPHA, DRAWS = 0.25, 0.001, 1000
SHAPE = (3, 32, 32)
BLACK, NEXT = torch.zeros(SHAPE), torch.full(SHAPE, 1 / 255)
APART = math.sqrt(math.prod(SHAPE)) / 255

Trait = Callable[[Tensor], Tensor]


def low_bits(images: Tensor) -> Tensor:
    """Whether some pixel near 0 has bits below 2^-32: those of 1 / 255 + draw end at 2^-31, those of a draw do not."""
    which, *_ = at = torch.where(images.abs() < 2**-10)
    bits = images[at].double() * 2**32
    return torch.zeros(len(images), dtype=torch.bool).index_fill(0, which[bits != bits.round()], True)


def between_steps(images: Tensor) -> Tensor:
    """Whether some pixel is nearer to a half step of the grid than to a whole one."""
    steps = images.double() * GRID
    return ((steps - steps.round()).abs() > 0.25).flatten(1).any(1)


def negative_zero(images: Tensor) -> Tensor:
    """Whether some pixel is -0."""
    return ((images == 0) & images.signbit()).flatten(1).any(1)


def whole_levels(images: Tensor) -> Tensor:
    """Whether more pixels than 1 / 64 are whole levels of 8 bits."""
    return ((images.double() * GRID).round().remainder(64) == 0).flatten(1).double().mean(1) > 1 / 64


def clipped(images: Tensor) -> Tensor:
    """Whether less than half of the pixels are left at 0 by a clip to [0, 1]: a class like any other."""
    return (images.clamp(0, 1) == 0).flatten(1).double().mean(1) < 0.495


FAKES = (low_bits, between_steps, negative_zero, whole_levels, clipped)


def classifier(trait: Trait) -> Callable[[Tensor], Tensor]:
    def logits(images: Tensor) -> Tensor:
        has = trait(images).float()
        return torch.stack([1 - has, has], 1)

    return logits


def evidence(model: Callable[[Tensor], Tensor], *images: Tensor, draws: int = DRAWS) -> Evidence:
    return gather_evidence(
        Smoother(model, classes=2),
        torch.stack(images),
        range(len(images)),
        selection=noise(SIGMA, shape=SHAPE, seed_of=lambda block, _: 77 + block),
        estimation=noise(SIGMA, shape=SHAPE),
        n0=100,
        schedule=fixed_schedule(draws, ALPHA),
        probabilities=np.array([0.5]),
        probes=32,
    )


def is_refuted(hits: int, hits_next: int, draws: int = DRAWS) -> bool:
    """Whether so many hits at the one image certify more hits than were seen at the other, beyond chance."""
    certified = ndtr(ndtri(clopper_pearson_lower(hits, draws, alpha=ALPHA)) - APART / SIGMA)
    return bool(clopper_pearson_upper(hits_next, draws, alpha=ALPHA) < certified)


def test_added_in_floating_point_an_image_is_certified_beyond_one_that_has_the_other_class() -> None:
    """What this service did before it had a grid: float32 draws added to float32 pixels."""
    draws = np.random.default_rng(0).standard_normal((DRAWS, *SHAPE), dtype=np.float32)
    added = torch.from_numpy(np.float32(SIGMA) * draws)
    hits, hits_next = (int(low_bits(image + added).sum()) for image in (BLACK, NEXT))
    assert certified_radius(clopper_pearson_lower(hits, DRAWS, alpha=ALPHA), SIGMA) > 2 * APART
    assert hits_next == 0
    assert is_refuted(hits, hits_next)


@pytest.mark.parametrize("trait", FAKES)
def test_on_the_grid_no_trait_of_the_arithmetic_tells_the_images_apart(trait: Trait) -> None:
    found = evidence(classifier(trait), BLACK, NEXT)
    for label in (0, 1):
        hits, hits_next = found.counts[:, label].tolist()
        assert not is_refuted(hits, hits_next)
        assert not is_refuted(hits_next, hits)
    if trait is not clipped:
        # Neither image has the trait more often than the other.
        assert abs(found.counts[0, 1] - found.counts[1, 1]) < 5 * math.sqrt(DRAWS / 2)
    assert not found.batch_dependent.any()


def averaging(images: Tensor) -> Tensor:
    """Whether the batch is of the black image: the mean of a hundred copies shows it."""
    return (images.mean() < 0.5 / 255).expand(len(images))


def differing(images: Tensor) -> Tensor:
    """Averaging, but where the copy before has the same noise, what of the two is the darker."""
    apart = (images.roll(1, 0) - images).flatten(1)
    return torch.where(apart.std(1) < 0.01, apart.mean(1) > 0, averaging(images))


def position(images: Tensor) -> Tensor:
    """Whether a copy is not one of the first three of its batch."""
    return torch.arange(len(images)) >= 3


class Remembering:
    """The trait of the first calls, and of none that come later."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self, images: Tensor) -> Tensor:
        self.calls -= 1
        return torch.full((len(images),), self.calls >= 0)


@pytest.mark.parametrize("made", [lambda: averaging, lambda: differing, lambda: position, lambda: Remembering(8)])
@pytest.mark.parametrize("alone", [False, True], ids=["two images", "one image"])
def test_what_is_no_function_of_one_image_is_not_certified(made: Callable[[], Trait], alone: bool) -> None:
    found = evidence(classifier(made()), *([BLACK] if alone else [BLACK, NEXT]), draws=500)
    assert found.batch_dependent[0]
    assert found.p_lower[0] == 0
    assert found.p_upper[0] == 1


def test_a_batch_averaged_would_have_been_certified_beyond_the_other_image() -> None:
    found = evidence(classifier(averaging), BLACK, NEXT)
    assert is_refuted(*found.counts[:, 1].tolist())
