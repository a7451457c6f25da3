"""RayS against closed forms, and what it must never do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.attacks.autoattack.networks import Linear, is_in_ball_and_box, near_the_middle
from workers.attacks.autoattack.balls import towards_origin
from workers.attacks.autoattack.rays import Rays
from workers.attacks.robust_accuracy import is_wrong


def crosses(labels: Tensor):
    return lambda logits, indices: is_wrong(logits, labels[indices])


def test_on_two_classes_it_breaks_what_the_closed_form_says_can_be_broken_and_nothing_else() -> None:
    """In l_inf the nearest point across a plane lies along signs, which the last blocks turn one by one."""
    model, images = Linear(2, 16, seed=4), near_the_middle(12)
    labels = model(images).argmax(1)
    distance = model.distances(images, labels, "linf")
    epsilon = float(distance.median())
    found = Rays("linf", epsilon, 2000).run(model, images, crosses(labels))
    assert not (found.broken & (distance > epsilon)).any()
    assert found.broken[distance < 0.9 * epsilon].all()
    assert (distance < 0.9 * epsilon).sum() >= 3
    assert is_in_ball_and_box(found.images[found.broken], images[found.broken], "linf", epsilon)
    assert (model(found.images).argmax(1) != labels).equal(found.broken)


def test_scores_tell_it_nothing() -> None:
    """Labels in place of scores: the same questions, the same answer."""
    model, images = Linear(3, 16, seed=1), near_the_middle(6)
    labels = model(images).argmax(1)

    def one_hot(inputs: Tensor) -> Tensor:
        return 700.0 * torch.nn.functional.one_hot(model(inputs).argmax(1), 3).double()

    plain, hidden = (Rays("l2", 0.3, 300).run(one, images, crosses(labels)) for one in (model, one_hot))
    assert torch.equal(plain.images, hidden.images)
    assert torch.equal(plain.broken, hidden.broken)
    assert plain.broken.any()


@settings(max_examples=25)
@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0.02, 1),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)),
    queries=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_no_image_asked_about_is_off_the_levels_and_none_said_to_be_broken_is_out_of_its_ball(
    norm, epsilon, shape, queries, seed
) -> None:
    images = (torch.rand(3, *shape, generator=torch.Generator().manual_seed(seed)) * 255).round() / 255
    model, asked = Linear(3, images[0].numel(), seed), []

    def watched(inputs: Tensor) -> Tensor:
        asked.append(inputs)
        return model(inputs)

    labels = model(images).argmax(1)
    found = Rays(norm, epsilon, queries, levels=255).run(watched, images, crosses(labels))
    seen = torch.cat(asked) * 255
    assert (seen - seen.round()).abs().max() < 1e-3
    assert seen.min() >= 0
    assert seen.max() <= 255
    if found.broken.any():
        assert is_in_ball_and_box(found.images[found.broken], images[found.broken], norm, epsilon)
    assert max(found.forward) <= queries
    assert len(asked) <= queries


@pytest.mark.parametrize("epsilon", [0.1, 8 / 255, 0.002])
def test_cutting_to_levels_never_lengthens_a_change(epsilon: float) -> None:
    random = torch.Generator().manual_seed(0)
    origin = (torch.rand(50, 3, 4, 4, generator=random) * 255).round() / 255
    moved = (origin + epsilon * (2 * torch.rand(origin.shape, generator=random) - 1).sign()).clamp(0, 1)
    cut = towards_origin(moved, origin, 255)
    assert ((cut - origin).abs() <= (moved - origin).abs() + 1e-5).all()
    assert ((cut * 255) - (cut * 255).round()).abs().max() < 1e-3
    # What is on a level already stays there: 8/255 is not cut to 7/255.
    assert epsilon != 8 / 255 or torch.allclose(cut, moved)
