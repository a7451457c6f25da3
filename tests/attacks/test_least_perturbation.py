"""Carlini and Wagner's l_2 attack: against the distance to a plane, and against torch's own Adam."""

import pytest
import torch
from torch import Tensor

from workers.attacks.carlini_wagner import LeastPerturbation

WEIGHTS = torch.tensor([[3.0, -1.0, 2.0, 0.5], [-2.0, 2.0, 1.0, -0.5], [0.0, 1.0, -3.0, 0.25]])
IMAGES = 0.3 + 0.4 * torch.rand(12, 4, generator=torch.Generator().manual_seed(0))


def model(images: Tensor) -> Tensor:
    return 4 * images @ WEIGHTS.T


LABELS = model(IMAGES).argmax(1)


def to_planes() -> Tensor:
    """Distance (n,) of each image to the nearest plane on which its class is no longer ahead."""
    logits = model(IMAGES)
    found = []
    for row, label in zip(logits, LABELS.tolist(), strict=True):
        others = [k for k in range(3) if k != label]
        found.append(min((row[label] - row[k]) / (4 * (WEIGHTS[label] - WEIGHTS[k]).norm()) for k in others))
    return torch.stack(found)


def test_of_a_linear_model_it_is_the_way_to_the_nearest_plane() -> None:
    found = LeastPerturbation(steps=2000, learning_rate=0.005, c=5.0).run(model, IMAGES, LABELS).images
    assert (model(found).argmax(1) != LABELS).all()
    lengths, distances = (found - IMAGES).norm(dim=1), to_planes()
    assert (lengths >= distances - 1e-6).all()
    # A run ends when its cost has risen, most before they have settled.
    assert (lengths <= 1.25 * distances + 0.01).all()


def test_every_step_is_one_of_torchs_adam() -> None:
    """The official loop, one example at a time, with the optimiser of the library."""
    steps, rate = 37, 0.02
    expected = []
    for image, label in zip(IMAGES, LABELS, strict=True):
        w = torch.atanh((2 * image - 1) * (1 - 1e-6)).requires_grad_()
        optimizer, best, shortest, before = torch.optim.Adam([w], rate), image, torch.inf, torch.inf
        for step in range(steps):
            perturbed = (torch.tanh(w) + 1) / 2
            logits = model(perturbed.unsqueeze(0))[0]
            length = (perturbed - image).square().sum()
            others = torch.cat([logits[:label], logits[label + 1 :]])
            cost = length + (logits[label] - others.max()).clamp_min(0.0)
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
            if logits.argmax() != label and length < shortest:
                best, shortest = perturbed.detach(), length.item()
            if step % (steps // 10) == 0:
                if cost.item() > before:
                    break
                before = cost.item()
        expected.append(best)
    found = LeastPerturbation(steps, rate).run(model, IMAGES, LABELS).images
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=2e-6)


def test_an_example_has_nothing_to_do_with_those_beside_it() -> None:
    attack = LeastPerturbation(60, 0.02)
    together = attack.run(model, IMAGES, LABELS).images
    pairs = [attack.run(model, IMAGES[i : i + 2], LABELS[i : i + 2]).images for i in range(0, 12, 2)]
    torch.testing.assert_close(together, torch.cat(pairs), rtol=0, atol=1e-6)


def test_who_is_out_of_reach_stays_and_who_is_wrong_already_stays_nearly() -> None:
    stuck = LeastPerturbation(5, 1e-4).run(model, IMAGES, LABELS).images
    assert torch.equal(stuck[to_planes() > 0.05], IMAGES[to_planes() > 0.05])
    wrong = LeastPerturbation(20).run(model, IMAGES, (LABELS + 1) % 3).images
    torch.testing.assert_close(wrong, IMAGES, rtol=0, atol=1e-6)


def test_black_and_white_pixels_can_move_and_stay_in_the_box() -> None:
    images = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    label = model(images).argmax(1)
    found = LeastPerturbation(400, 0.1, c=50.0).run(model, images, label).images
    assert (model(found).argmax(1) != label).all()
    assert 0 <= float(found.min()) <= float(found.max()) <= 1


def test_an_output_that_is_not_finite_is_told() -> None:
    def broken(images: Tensor) -> Tensor:
        return model(images) + torch.where(torch.arange(len(images)) == 3, torch.nan, 0.0).unsqueeze(1)

    assert LeastPerturbation(3).run(broken, IMAGES, LABELS).non_finite.nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"learning_rate": 0.0}, {"c": 0.0}, {"kappa": -1.0}])
def test_refuses_what_is_no_attack(wrong) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        LeastPerturbation(**wrong)
