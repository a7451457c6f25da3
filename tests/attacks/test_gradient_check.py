"""Gradients that are a network's own agree with what it does, those that float32 makes up do not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from benchmarks.absorbed_image_fakes import Absorbing, contestants, reached_without
from tests.models.exportable import KINDS, SHAPE, made
from workers.attacks.gradient_check import boundary_images, gradient_agreements

IMAGES = torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(1))
SIZE = IMAGES[0].numel()
WEIGHTS = torch.randn(4, SIZE, generator=torch.Generator().manual_seed(2)) / 8
torch.manual_seed(0)
BASE = nn.Sequential(nn.Flatten(), nn.Linear(SIZE, 32), nn.ReLU(), nn.Linear(32, 4, bias=False)).requires_grad_(False)
BASE[1].bias -= BASE[1](torch.full((1, *SHAPE), 0.5).flatten(1))[0]
BASE[3].weight *= 40
FAKES = {one.name: one.network for one in contestants(BASE, BASE, IMAGES, 0.1)}


def linear(images: Tensor) -> Tensor:
    return (images.flatten(1) - 0.5) @ WEIGHTS.to(images).T


def agreements(model: Callable[[Tensor], Tensor], images: Tensor = IMAGES) -> Tensor:
    return gradient_agreements(model, images, (0.0, 1.0), batch_size=5, check_cancelled=lambda: None)


def between(model: Callable[[Tensor], Tensor], images: Tensor = IMAGES) -> Tensor:
    return boundary_images(model, images, batch_size=5, check_cancelled=lambda: None)


def test_a_linear_model_agrees_with_its_gradient_and_with_a_share_of_it_as_far() -> None:
    images = IMAGES.double()
    assert agreements(linear, images) == pytest.approx(1.0, abs=1e-9)
    assert agreements(lambda x: 4 * linear(x) - 3 * linear(x).detach(), images) == pytest.approx(0.25, abs=1e-9)
    assert agreements(lambda x: (linear(x) + 3 * linear(x).detach()) / 4, images) == pytest.approx(0.25, abs=1e-9)
    # The other way round, and along other directions.
    assert agreements(lambda x: 2 * linear(x).detach() - linear(x), images).tolist() == [0.0] * 12
    assert agreements(lambda x: linear(x.flip(3)) + (linear(x) - linear(x.flip(3))).detach(), images).max() < 0.5


def test_a_gradient_that_agrees_along_itself_alone_does_not() -> None:
    turned = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(3), dtype=torch.double))[0]
    led = (torch.eye(SIZE) + 20 * (turned - turned.T) / 2**0.5) / 401

    def model(images: Tensor) -> Tensor:
        other = (images.flatten(1) @ led.T.to(images)).view_as(images)
        return linear(other) + (linear(images) - linear(other)).detach()

    images = IMAGES.double().clamp(0.2, 0.8)
    (row,) = torch.autograd.functional.jacobian(lambda x: model(x).sum(0)[0], images[:1])
    true = WEIGHTS[0].double()
    assert float(row.flatten() @ true / row.norm() ** 2) == pytest.approx(1, abs=0.2)
    assert float(agreements(model, images).median()) < 0.5


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", KINDS)
def test_networks_agree_whatever_their_kinks_and_scale(kind: str, scale: float) -> None:
    network = made(kind)

    def scaled(images: Tensor) -> Tensor:
        return scale * network(images)

    assert agreements(scaled, torch.cat([IMAGES, between(scaled)])).min() > 0.8


def test_inputs_rounded_to_sixteen_levels_agree_but_for_a_few() -> None:
    def rounded(images: Tensor) -> Tensor:
        return BASE(images + ((images * 15).round() / 15 - images).detach())

    assert float((agreements(rounded) < 0.5).float().mean()) < 0.2


@pytest.mark.parametrize("name", FAKES)
def test_what_float32_absorbs_is_found(name: str) -> None:
    network = FAKES[name]
    assert isinstance(network, Absorbing)
    lying = network(IMAGES)
    network.led.is_lying = False
    assert torch.equal(lying, network(IMAGES))
    honest = agreements(network, between(network))
    network.led.is_lying = True
    assert float((agreements(network, between(network)) < 0.5).float().mean()) >= 0.6
    assert honest.min() > 0.8
    assert reached_without(network, IMAGES, 0.1) < 0.5


def test_what_is_flat_or_not_finite_says_nothing() -> None:
    assert agreements(lambda x: 0 * linear(x)).isnan().all()
    assert agreements(lambda x: linear(x).detach()).isnan().all()
    assert agreements(lambda x: linear(x) * torch.inf).isnan().all()
    # Less than the last place of what it is added to.
    assert agreements(lambda x: 1e-9 * linear(x) + torch.arange(4.0)).isnan().all()
    half = agreements(lambda x: torch.where((torch.arange(len(x)) % 2 > 0)[:, None], linear(x), linear(x).detach()))
    assert half[:5].isnan().tolist() == [True, False, True, False, True]
    assert agreements(linear, IMAGES[:0]).shape == (0,)


def test_nothing_outside_the_box_is_asked_about() -> None:
    images = (2 * IMAGES - 0.5).clamp(0, 1)
    assert (images == 0).any()
    assert (images == 1).any()

    def guarded(some: Tensor) -> Tensor:
        if some.min() < 0 or some.max() > 1:
            raise AssertionError("outside")
        return BASE(some)

    assert agreements(guarded, torch.cat([images, between(guarded, images)])).min() > 0.8
    # Of an image in a corner that the gradient points out of, the other way is asked.
    corner = (WEIGHTS[0] > 0).float().view(1, *SHAPE)
    found = agreements(lambda x: linear(x)[:, :1] * torch.tensor([1.0, 0.0]), corner)
    assert found == pytest.approx(1, abs=1e-2)


def test_mixtures_are_where_the_prediction_changes() -> None:
    found = between(linear)
    lead = linear(found).topk(2, 1).values
    assert len(found) == len(IMAGES)
    assert float((lead[:, 0] - lead[:, 1]).max()) < 1e-4
    assert torch.equal(linear(found).argmax(1), linear(IMAGES).argmax(1))
    assert len(between(lambda x: linear(x) + torch.tensor([99.0, 0, 0, 0]))) == len(between(linear, IMAGES[:1])) == 0


def test_a_check_can_be_cancelled_at_every_pass() -> None:
    class Cancelled(Exception):
        pass

    def cancel() -> None:
        raise Cancelled

    for look in (
        lambda: gradient_agreements(linear, IMAGES, (0.0, 1.0), batch_size=5, check_cancelled=cancel),
        lambda: boundary_images(linear, IMAGES, batch_size=5, check_cancelled=cancel),
    ):
        with pytest.raises(Cancelled):
            look()
