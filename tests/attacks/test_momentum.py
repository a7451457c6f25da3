"""The momentum attack against closed forms, brute force and its own guarantees."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.attacks.autoattack.networks import Linear, generators, is_in_ball_and_box
from workers.attacks.entropy_range import EntropyRange, annealed_entropy, margin_temperature
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD

WEIGHTS = torch.randn(16, generator=torch.Generator().manual_seed(2))
IMAGES = torch.rand(30, 1, 4, 4, generator=torch.Generator().manual_seed(3))
BIAS = -(IMAGES.flatten(1) @ WEIGHTS).median()


def binary(images: Tensor) -> Tensor:
    score = images.flatten(1) @ WEIGHTS + BIAS
    return torch.stack([torch.zeros_like(score), score], 1)


def binary_entropy(score: Tensor) -> Tensor:
    return entropy(torch.stack([torch.zeros_like(score), score], 1))


def least_sure(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
    return -entropy(logits)


def surest(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
    return entropy(logits)


def test_a_linear_model_in_ball_and_box_has_the_closed_form() -> None:
    """In l_inf each pixel goes as far as ball and box let it, so the score's interval is known."""
    epsilon = 0.05
    score = (IMAGES.flatten(1) @ WEIGHTS + BIAS).double()
    room = torch.stack([(1 - IMAGES).clamp_max(epsilon), IMAGES.clamp_max(epsilon)]).flatten(2)
    rise = (torch.where(WEIGHTS > 0, room[0], room[1]) * WEIGHTS.abs()).sum(1)
    fall = (torch.where(WEIGHTS > 0, room[1], room[0]) * WEIGHTS.abs()).sum(1)
    nearest = torch.maximum(torch.maximum(score - fall, -(score + rise)), torch.zeros_like(score))
    reach = EntropyRange(binary(IMAGES))
    search = MomentumPGD("linf", epsilon, 60)
    search.run(binary, IMAGES, least_sure, reach.raising())
    assert torch.allclose(reach.highest[0], binary_entropy(nearest), atol=2e-4)
    search.run(binary, IMAGES, surest, reach.lowering())
    # It goes on in the direction of the prediction, which is the far end wherever that is farther.
    far = torch.where(score > 0, score + rise, fall - score)
    is_farther = far > torch.where(score > 0, fall - score, score + rise)
    assert is_farther.sum() > 25
    assert torch.allclose(reach.lowest[0][is_farther], binary_entropy(far)[is_farther], atol=1e-6)


def teeth(images: Tensor) -> Tensor:
    """The least sure pixel is 0.5; teeth of slopes 3 and -1 in front lead away from it two thirds of the way."""
    pixel, period = images.flatten(1)[:, 0], 0.05
    phase = pixel.remainder(period)
    masked = pixel - phase + torch.where(phase < period / 2, -phase, 3 * phase - 2 * period)
    return torch.stack([torch.zeros_like(masked), 8 * (masked - 0.5)], 1)


def test_noisy_copies_see_through_teeth_as_far_as_a_search_over_all_pixels() -> None:
    images = torch.linspace(0.3, 0.45, 12).view(-1, 1, 1, 1)
    grid = (images + torch.linspace(-0.1, 0.1, 4001).view(1, -1, 1, 1)).flatten().view(-1, 1, 1, 1)
    highest = entropy(teeth(grid)).view(12, -1).amax(1)
    found = {}
    for name, sigmas in (("own", ()), ("smoothed", (0.025, 0.05, 0.1))):
        search = MomentumPGD("linf", 0.1, 40, sigmas=sigmas)
        reach = EntropyRange(teeth(images))
        search.run(teeth, images, least_sure, reach.raising(), generators=generators(12) if sigmas else ())
        found[name] = (reach.highest[0] / highest).mean()
    assert found["smoothed"] > 0.97 > 0.93 > found["own"]
    assert (reach.highest[0] <= highest + 1e-6).all()


@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0, 2),
    steps=st.integers(1, 6),
    is_noisy=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_image_that_counts_is_in_ball_and_box(norm, epsilon, steps, is_noisy, seed) -> None:
    images = torch.rand(3, 2, 3, 3, generator=torch.Generator().manual_seed(seed)).double().round(decimals=1)
    net = Linear(3, images[0].numel(), seed)
    seen: list[Tensor] = []

    def model(inputs: Tensor) -> Tensor:
        # Copies are asked for gradients alone.
        if not (is_noisy and inputs.requires_grad):
            seen.append(inputs.detach().clone())
        return net(inputs)

    counted: list[int] = []

    def criterion(logits: Tensor, indices: Tensor) -> Tensor:
        counted.append(len(indices))
        return entropy(logits)

    search = MomentumPGD(norm, epsilon, steps, sigmas=(0.3,) if is_noisy else ())
    found = search.run(model, images, surest, criterion, generators=generators(3, seed) if is_noisy else ())
    assert counted == [3] * (steps + 1) == [len(inputs) for inputs in seen]
    for inputs in [found.best, found.final, *seen]:
        assert is_in_ball_and_box(inputs, images, norm, epsilon)
    assert torch.allclose(entropy(net(found.best)), found.value)


def test_an_example_owes_nothing_to_its_neighbours() -> None:
    def model(images: Tensor) -> Tensor:
        return torch.stack([images.flatten(1).sum(1), (images.flatten(1) ** 2).sum(1)], 1)

    search = MomentumPGD("linf", 0.1, 8, sigmas=(0.05, 0.1))

    def run(part: slice) -> Tensor:
        images = IMAGES[part]
        # One that is finished early leaves the others where they are.
        goal = float(-entropy(model(IMAGES)).median())
        drawn = generators(30)[part]
        return search.run(model, images, least_sure, lambda z, i: -entropy(z), goal=goal, generators=drawn).best

    whole = run(slice(0, 30))
    assert torch.equal(torch.cat([run(slice(0, 7)), run(slice(7, 30))]), whole)
    assert torch.equal(run(slice(11, 12)), whole[11:12])


def test_what_is_finished_is_asked_no_more_and_what_is_not_finite_is_never_best() -> None:
    asked: list[int] = []

    def model(images: Tensor) -> Tensor:
        asked.append(len(images))
        broken = images.flatten(1)[:, 0] > IMAGES.flatten(1)[:, 0]
        return torch.where(broken.unsqueeze(1), math.nan, binary(images))

    found = MomentumPGD("linf", 0.1, 5).run(model, IMAGES, least_sure, lambda z, i: -entropy(z), goal=-1e-9)
    assert asked == [30]
    found = MomentumPGD("linf", 0.1, 5).run(model, IMAGES, least_sure, lambda z, i: -entropy(z))
    assert model(found.best).isfinite().all()


def test_the_annealed_loss_begins_at_a_temperature_and_ends_at_another() -> None:
    logits = torch.tensor([[40.0, 0.0, -3.0], [1.0, 0.5, 0.0]])
    begin, indices = margin_temperature(logits), torch.arange(2)
    loss = annealed_entropy(begin, 0.5)
    assert begin.tolist() == [20.0, 0.25]
    # One whose temperature is lower than the last is at the last all the way.
    first = torch.tensor([[20.0], [0.5]])
    assert torch.allclose(loss(logits, indices, 0.0), -entropy(logits / first))
    assert torch.allclose(loss(logits, indices, 0.6), -entropy(logits / 0.5))
    assert torch.equal(loss(logits, indices, 1.0), loss(logits, indices, 0.6))


def test_the_range_is_what_was_seen_at_each_temperature() -> None:
    first = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    reach = EntropyRange(first, (1.0, 4.0))
    before = reach.copy()
    reach.see(torch.tensor([[math.nan, 0.0]]), torch.tensor([0]))
    reach.see(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    assert reach.non_finite.tolist() == [True, False]
    assert torch.equal(before.highest, before.lowest)
    assert torch.equal(reach.highest[:, 0], before.highest[:, 0])
    assert torch.allclose(reach.highest[:, 1], torch.full((2,), math.log(2)).double())
    assert torch.allclose(reach.lowest[1], entropy(first.double() / 4))
    before.take_in(reach)
    assert torch.equal(before.highest, reach.highest)
    assert before.non_finite.tolist() == [True, False]


@pytest.mark.parametrize("changes", [{"epsilon": -1}, {"steps": 0}, {"step": 0}, {"decay": 1.0}])
def test_what_is_no_attack_is_refused(changes) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        MomentumPGD(**{"norm": "linf", "epsilon": 0.1, "steps": 3} | changes)


def test_copies_need_a_generator_each() -> None:
    search = MomentumPGD("linf", 0.1, 2, sigmas=(0.1,))
    with pytest.raises(ValueError, match="30 examples"):
        search.run(binary, IMAGES, surest, lambda z, i: entropy(z), generators=generators(3))
    with pytest.raises(ValueError, match="not a batch"):
        search.run(binary, IMAGES, surest, lambda z, i: entropy(z), starts=IMAGES[:3], generators=generators(30))
