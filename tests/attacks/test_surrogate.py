"""The surrogate: what it learns, what it asks, and that the same draws give the same weights."""

import pytest
import torch
from torch import Tensor

from workers.attacks.surrogate import Distillation, Surrogate

IMAGES = torch.rand(60, 1, 6, 6, generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.randn(3, 36, generator=torch.Generator().manual_seed(1))
HOW = Distillation("linf", 0.1, (0.05,), rounds=2, steps=60)


def target(images: Tensor) -> Tensor:
    """Flat stairs: no gradient anywhere."""
    return (((images * 20).round() / 20).flatten(1) - 0.5) @ WEIGHTS.T


def fit(seed: int, model=target) -> Surrogate:
    generator = torch.Generator().manual_seed(seed)
    return HOW.run(model, IMAGES, target(IMAGES), generator, batch_size=25)


def test_it_learns_a_model_without_gradients_well_enough_to_attack_it() -> None:
    asked: list[Tensor] = []

    def model(images: Tensor) -> Tensor:
        assert not images.requires_grad
        asked.append(images.clone())
        return target(images)

    surrogate = fit(0, model)
    predictions = target(IMAGES).argmax(1)
    assert (surrogate(IMAGES).argmax(1) == predictions).float().mean() > 0.85
    # The clean outputs were known already.
    assert sum(map(len, asked)) == (HOW.queries - 1) * len(IMAGES)
    assert all(images.min() >= 0 and images.max() <= 1 for images in asked)
    inputs = IMAGES.clone().requires_grad_()
    logits = surrogate(inputs)
    lead = logits.gather(1, predictions[:, None]) - logits.gather(1, (predictions[:, None] + 1) % 3)
    (gradient,) = torch.autograd.grad(lead.sum(), inputs)
    moved = target((IMAGES - 0.1 * gradient.sign()).clamp(0, 1))
    drop = target(IMAGES) - moved
    fall = drop.gather(1, predictions[:, None]) - drop.gather(1, (predictions[:, None] + 1) % 3)
    assert (fall > 0).float().mean() > 0.9


def test_the_same_draws_give_the_same_weights_and_others_others() -> None:
    first = fit(3).flat()
    assert torch.equal(first, fit(3).flat())
    assert not torch.equal(first, fit(4).flat())


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 33, 50), (2, 1, 3), (3, 224, 65)])
def test_every_shape_of_image_fits_and_weights_come_back(shape) -> None:
    surrogate, other = Surrogate(shape, 5), Surrogate(shape, 5)
    surrogate.draw(torch.Generator().manual_seed(0))
    other.draw(torch.Generator().manual_seed(1))
    images = torch.rand(2, *shape)
    assert surrogate(images).shape == (2, 5)
    assert not torch.equal(surrogate(images), other(images))
    other.load(surrogate.flat())
    assert torch.equal(surrogate(images), other(images))
