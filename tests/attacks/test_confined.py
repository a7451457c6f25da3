"""Perturbations of some pixels alone: what they leave stays as it is; where they lead farther, a network watches."""

import pytest
import torch
from torch import Tensor

from workers.attacks.confined import CONFINED, EVERYWHERE, OF_ANY, confine, confining
from workers.attacks.losses import entropy
from workers.attacks.tried import Trial

GENERATOR = torch.Generator().manual_seed(4)
SIDE, EPSILON = 12, 0.1
IMAGES = torch.zeros(16, 1, SIDE, SIDE)
IMAGES[:, :, 3:9, 3:9] = 0.3 + 0.4 * torch.rand(16, 1, 6, 6, generator=GENERATOR)
WEIGHTS = torch.randn(SIDE * SIDE, generator=GENERATOR) / 12
# All images have the same score.
DRAWN = WEIGHTS * (IMAGES[0] > 0).flatten()
SCORES = IMAGES.flatten(1) @ WEIGHTS
IMAGES -= ((SCORES - SCORES[0])[:, None] * DRAWN / DRAWN.square().sum()).view(IMAGES.shape)


def trial(norm: str = "linf") -> Trial:
    return Trial(norm, EPSILON if norm == "linf" else 0.8, (0.0, 1.0), lambda: None)  # type: ignore[arg-type]


def linear(images: Tensor, strength: float = 1.0) -> Tensor:
    """Answer one of two classes surely, less so against some weights."""
    score = 2 + strength * (images.flatten(1) - IMAGES[:1].flatten(1)) @ WEIGHTS
    return torch.stack([score, torch.zeros_like(score)], 1)


def watching(images: Tensor) -> Tensor:
    """Be weak for as long as nothing on the ground moves."""
    ground = torch.nn.functional.pad(images[:, :, 2:10, 2:10] * 0, (2, 2, 2, 2), value=1.0) * images
    is_quiet = torch.relu(1 - 20 * torch.relu(ground - 0.001).flatten(1).sum(1))
    return linear(images, 0.1) + is_quiet[:, None] * (linear(images, 40.0) - linear(images, 0.1))


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("where", CONFINED)
def test_all_others_stay_as_they_are(norm: str, where: str) -> None:
    found, gained = confine(linear, IMAGES, where, 6, trial(norm))
    apart = (found - IMAGES).flatten(1)
    lengths = apart.abs().amax(1) if norm == "linf" else apart.norm(dim=1)
    assert float(lengths.max()) <= trial(norm).epsilon * (1 + 1e-6)
    assert bool(((found >= 0) & (found <= 1)).all())
    assert bool((gained >= 0).all())
    moved = found != IMAGES
    # How many may: strokes and a pixel or two around them, shares of all, a quarter.
    most = {
        "what is drawn": 64,
        "what is drawn and around it": 100,
        "the ground": 80,
        "the steepest twentieth": 7,
        "the steepest fifth": 29,
        "the steepest quarter of the image": 36,
    }
    assert int(moved.flatten(1).sum(1).max()) <= most.get(where, SIDE * SIDE)
    if where == "the ground":
        assert not bool(moved[:, :, 2:10, 2:10].any())
    if where == "what is drawn":
        assert not bool(moved[:, :, :2].any() or moved[:, :, 10:].any())


def test_of_a_linear_function_it_is_the_corner_of_what_may_move() -> None:
    found, gained = confine(linear, IMAGES, "what is drawn", 12, trial())
    corner = (IMAGES - EPSILON * WEIGHTS.view(1, 1, SIDE, SIDE).sign()).clamp(0, 1)
    inside = torch.zeros_like(IMAGES)
    inside[:, :, 2:10, 2:10] = 1
    torch.testing.assert_close(found, torch.where(inside > 0, corner, IMAGES))
    assert bool((gained > 0).all())


def test_it_goes_either_way_and_keeps_the_farthest_on_the_way() -> None:
    ups = torch.arange(len(IMAGES)) % 2 == 0
    found, _ = confine(linear, IMAGES, EVERYWHERE, 12, trial(), upwards=ups)
    change = entropy(linear(found).double()) - entropy(linear(IMAGES).double())
    assert bool(((change > 0) == ups).all())


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_network_that_watches_the_ground_is_found(norm: str) -> None:
    where = confining(watching, IMAGES[:4], 6, 30, trial(norm))
    assert where is not None
    assert where.startswith("what is drawn")
    ways = [confine(watching, IMAGES, of, 30, trial(norm))[1].mean() for of in (where, EVERYWHERE)]
    assert ways[0] > 2 * ways[1]


@pytest.mark.parametrize("strength", [0.1, 1.0, 40.0])
def test_of_what_hides_nothing_none_leads_farther(strength: float) -> None:
    assert confining(lambda images: linear(images, strength), IMAGES[:4], 6, 30, trial()) is None
    assert confining(lambda images: linear(images, strength), IMAGES[:0], 6, 30, trial()) is None


def test_rows_of_a_table_have_no_ground() -> None:
    seen = list[torch.Size]()

    def classify(rows: Tensor) -> Tensor:
        seen.append(rows.shape)
        score = rows @ WEIGHTS[:20]
        return torch.stack([score, -score], 1)

    rows = torch.rand(4, 20, generator=GENERATOR)
    assert confining(classify, rows, 3, 6, trial()) is None
    assert len(seen) >= len(OF_ANY) * 4
    found, _ = confine(classify, rows, "the steepest fifth", 4, trial())
    assert int((found != rows).sum(1).max()) <= 4


def test_what_has_no_gradient_moves_nothing() -> None:
    found, gained = confine(lambda images: linear(images.detach()), IMAGES, EVERYWHERE, 3, trial())
    torch.testing.assert_close(found, IMAGES)
    assert float(gained.abs().max()) == 0
