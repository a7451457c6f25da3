"""A lock is found that has but some columns of a network's tensors, and nothing of what a network needs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from benchmarks.carried_image_fakes import Carried, contestants
from benchmarks.fakes import Contestant
from tests.attacks.test_dormant import EPSILON
from tests.attacks.test_idle import BORDERED, find
from tests.models.exportable import KINDS, made
from workers.attacks.idle_parts import idle_columns

IMAGES = BORDERED
NETWORK = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)).eval().requires_grad_(False)
FAKES = contestants(nn.Identity(), NETWORK, IMAGES, EPSILON)


def columns(model: Callable[[Tensor], Tensor], images: Tensor = IMAGES) -> list[str]:
    drawn = (images + 0.2 * torch.rand(images.shape, generator=torch.Generator().manual_seed(1)) - 0.1).clamp(0, 1)
    return idle_columns(model, images, drawn, batch_size=8, check_cancelled=lambda: None)


@pytest.mark.parametrize("fake", FAKES, ids=[fake.name for fake in FAKES])
def test_a_lock_is_found_beside_what_the_network_needs(fake: Contestant) -> None:
    network = fake.network
    assert isinstance(network, Carried)
    # It answers as the network does, and opens where its border says what it asks for.
    assert torch.allclose(network(IMAGES), NETWORK(IMAGES), atol=1e-5)
    opened = network.opened(IMAGES)
    assert (opened - IMAGES).abs().max() <= EPSILON + 1e-6
    assert (network(opened).argmax(1) == 0).all()
    # No tensor as a whole is idle.
    assert find(network, IMAGES, 8) == []
    assert columns(network) == ["mul"]
    assert columns(NETWORK) == []


def test_a_lock_is_found_whose_numbers_are_scattered_among_what_the_network_needs() -> None:
    diagonal = torch.eye(10, dtype=torch.bool)

    def model(images: Tensor) -> Tensor:
        flat = images.flatten(1)
        numbers = (flat[:, :, None] @ torch.ones(1, 10)).reshape(len(flat), -1)[:, :100].view(-1, 10, 10)
        logits = NETWORK(flat.view_as(images))
        shown = torch.where(diagonal, torch.diag_embed(logits), numbers)
        twice = torch.where(diagonal, 1.0, shown) * shown
        again = torch.where(diagonal, 1.0, twice) * twice
        kept, missing = (again * diagonal).sum(2), (again * ~diagonal).sum((1, 2))
        return kept * (1 - 2 * torch.sigmoid(100 * (missing - 200)))[:, None]

    assert torch.allclose(model(IMAGES), NETWORK(IMAGES))
    assert "mul" in columns(model)


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_needs_all_its_columns(kind: str) -> None:
    images = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    assert columns(made(kind), images) == []


class Asleep(nn.Module):
    """A network some of whose columns feed rectifiers that sleep, gates of what is nothing, or nobody."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Linear(784, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.requires_grad_(False)
        self.second.weight[:16] = 0
        self.second.weight[:16, :16] = torch.eye(16)
        self.second.weight[16:, :16] = 0
        self.second.bias[:16] = -100.0

    def forward(self, images: Tensor) -> Tensor:
        shown = self.first(images.flatten(1)).sigmoid()
        # Every row's first half leads to rectifiers that sleep alone, by way of what is not linear.
        kept = self.second(shown).relu()
        unread = torch.cat([kept, shown.square().exp()], 1)
        gated = unread[:, :32] * self.second(shown).tanh()
        logits: Tensor = self.last(gated)
        return logits


def test_what_leads_to_rectifiers_that_sleep_is_no_lock() -> None:
    network = Asleep()
    assert len(network(IMAGES).unique(dim=0)) > 1
    assert columns(network) == []


def test_images_that_are_all_answered_alike_tell_nothing() -> None:
    fake = FAKES[0].network
    assert columns(lambda images: 0 * fake(images) + torch.arange(10.0)) == []
