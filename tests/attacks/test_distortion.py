"""What a network computes, led far from what it was, opens vetoes that no gradient leads to; of others, nothing."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import max_pool1d

from tests.attacks.test_leaky_gradients import (
    COARSE,
    FINE,
    IMAGES,
    LABELS,
    RADIUS,
    SIDE,
    STEEP,
    VETOES,
    climbed,
    sure,
    trial,
    vetoed,
    weak,
)
from workers.attacks.altered_passes import Place
from workers.attacks.distortion import DRAWN, Measures, distort, heeded_of, opening_distortion, places_of
from workers.attacks.leaky_gradients import leaking_slope
from workers.attacks.losses import entropy
from workers.attacks.meeting_search import whole_meeting
from workers.attacks.openings import Openings
from workers.attacks.regions import make_region
from workers.attacks.tried import spread_of
from workers.attacks.whitening import Whitening


def against(images: Tensor) -> Tensor:
    fine = (images.flatten(1) - 0.5) @ FINE
    return (fine.sum(1, keepdim=True) - 3 * fine - 0.4)[:, None] * STEEP


def chained(images: Tensor) -> Tensor:
    """Let each class be vetoed by units that hear others that hear others, all of them off at its images."""
    units = torch.relu(against(images))
    for _ in range(2):
        units = torch.relu(1.5 * units.roll(1, 1) - 0.05)
    return torch.relu(sure(images) - 30 * units.mean(1))


def pooled(images: Tensor) -> Tensor:
    """Let it be vetoed by the larger of what is small and nothing."""
    units = against(images)
    larger = max_pool1d(torch.stack([units, torch.zeros_like(units)], -1).flatten(2), 2)
    return torch.relu(sure(images) - 30 * larger.mean(1))


STRIPES = torch.tensor([1.0, -1.0]).repeat(SIDE * SIDE // 2) / SIDE
RUNNING = torch.cat([STRIPES, -STRIPES]).view(2, -1).T @ torch.rand(2, 40, generator=torch.Generator().manual_seed(7))


def among_others(images: Tensor) -> Tensor:
    """Have units beside those, heard next to nothing, that run far where an image is striped by a few hundredths."""
    others = 60 * (images.flatten(1) - 0.5) @ RUNNING
    units = torch.relu(torch.cat([against(images).flatten(1), others], 1))
    for _ in range(2):
        vetoes = units[:, : VETOES * 4].view(-1, VETOES, 4).roll(1, 1).flatten(1)
        units = torch.relu(torch.cat([1.5 * vetoes - 0.05, units[:, VETOES * 4 :].roll(1, 1)], 1))
    vetoes = units[:, : VETOES * 4].view(-1, VETOES, 4).mean(1)
    return torch.relu(sure(images) - 30 * vetoes - 1e-4 * units[:, VETOES * 4 :].mean(1, keepdim=True))


def starts(images: Tensor, norm: str = "linf", seed: int = 0) -> Tensor:
    drawn = make_region(norm, images, RADIUS[norm], (0.0, 1.0))  # type: ignore[arg-type]
    return drawn.draw([torch.Generator().manual_seed(at) for at in range(seed, seed + len(images))])


def by_themselves(places: dict[Place, int]) -> Measures:
    """Measure every number by 1."""
    one = Whitening(torch.ones(sum(places.values())), torch.zeros(1, sum(places.values())))
    return Measures(places, one, one)


def bending(model) -> list[tuple[bool, int]]:
    return [kink.number for kink in whole_meeting(model, IMAGES, trial("linf")).spreads]


def found(model):
    some = IMAGES[:4]
    openings = Openings(model, some, 20, trial("linf"))
    drawn = [starts(some, seed=10 * at) for at in range(1, 1 + DRAWN)]
    spreads = places_of(model, IMAGES, bending(model), trial("linf"))
    return opening_distortion(openings, starts(some), drawn, spreads)


@pytest.mark.parametrize(("model", "more"), [(vetoed, 0.25), (chained, 0.25), (pooled, 0.25), (among_others, 0.15)])
def test_a_veto_is_opened_whatever_is_between_it_and_the_answer(model, more: float) -> None:
    assert (model(IMAGES).argmax(1) == LABELS).all()
    measures = found(model)
    assert measures is not None
    end = distort(model, IMAGES, spread_of(model(IMAGES)), starts(IMAGES), measures, 20, trial("linf"))
    assert float(entropy(model(end)).mean()) > climbed(model, "linf") + more
    assert float((end - IMAGES).abs().max()) <= RADIUS["linf"] + 1e-6
    assert 0 <= float(end.min()) <= float(end.max()) <= 1


@pytest.mark.parametrize("model", [chained, pooled, among_others])
def test_gradients_that_leak_do_not_open_these(model) -> None:
    assert leaking_slope(Openings(model, IMAGES[:4], 20, trial("linf"))) is None


@pytest.mark.parametrize("model", [sure, weak, lambda images: 9 * images.flatten(1) @ FINE])
def test_of_a_network_that_hides_nothing_nothing_is(model) -> None:
    assert found(model) is None
    none, spreads = IMAGES[:0], places_of(model, IMAGES, bending(model), trial("linf"))
    assert opening_distortion(Openings(model, none, 20, trial("linf")), none, [none] * DRAWN, spreads) is None


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_numbers_are_led_as_far_as_the_ball_lets_them(norm: str) -> None:
    """A linear number changes by the radius times the dual norm of its weights at most."""
    along, clear = FINE[:, 0], torch.full((3, 1, 12, 12), 0.5)

    def model(images: Tensor) -> Tensor:
        numbers = torch.relu((images.flatten(1) - 0.5) @ along[:, None].expand(-1, 4) + 9.0)
        unsure = (numbers.mean(1) - 9.0).square()
        return torch.stack([9.0 - 4 * unsure, torch.zeros_like(unsure)], 1)

    (place,) = places_of(model, IMAGES, [bending(model)[0]], trial(norm))
    how = trial(norm)
    end = distort(model, clear, spread_of(model(clear)), starts(clear, norm), by_themselves({place: 4}), 40, how)
    farthest = RADIUS[norm] * float(along.abs().sum() if norm == "linf" else along.norm())
    reached = ((end - clear).flatten(1) @ along).abs()
    assert reached.tolist() == pytest.approx([farthest] * 3, rel=0.02)


def test_what_nobody_hears_is_heeded_less() -> None:
    def model(images: Tensor) -> Tensor:
        heard = torch.relu((images.flatten(1) - 0.5) @ COARSE)
        return heard[:, :2] + 1e-6 * heard[:, 2:]

    places = [*places_of(model, IMAGES, bending(model), trial("linf"))]
    (heeded,) = heeded_of(model, IMAGES[:4], places, trial("linf")).values()
    assert 1e5 * heeded[2:].max() < heeded[:2].min()


def test_of_many_numbers_some_are_led_away_of_several_places_fewer_of_each(monkeypatch) -> None:
    monkeypatch.setattr("workers.attacks.distortion.MOST", 24)
    measures = found(chained)
    assert measures is not None
    assert 12 <= sum(measures.places.values()) <= 24
    assert len(measures.led.scales) == sum(measures.places.values())


def test_what_is_not_there_is_not_led_away() -> None:
    gone = by_themselves({Place((False, 999), 0): 4})
    end = distort(sure, IMAGES, spread_of(sure(IMAGES)), starts(IMAGES), gone, 5, trial("linf"))
    assert float((end - IMAGES).abs().max()) <= RADIUS["linf"] + 1e-6
