import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.attacks.autoattack.networks import (
    IMAGES,
    LABELS,
    NET,
    Linear,
    generators,
    is_in_ball_and_box,
    near_the_middle,
)
from workers.attacks.autoattack.square import Square, bumps, share_of_pixels
from workers.attacks.losses import entropy, margin


def test_the_published_schedule() -> None:
    starts = [1, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001]
    for halvings, (first, after) in enumerate(zip(starts, [*starts[1:], 10_001], strict=True)):
        assert {share_of_pixels(query, 0.8) for query in (first, after - 1)} == {0.8 / 2**halvings}


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_example_is_asked_more_often_than_the_budget(norm) -> None:
    asked: list[int] = []

    def model(images: Tensor) -> Tensor:
        asked.append(len(images))
        return NET(images)

    search = Square(norm, 0.001, queries=137)
    found = search.run(model, IMAGES, LABELS, generators=generators(10))
    assert not found.broken.any()
    assert asked == [10] * 137
    assert found.forward.tolist() == [137] * 10
    assert search.passes().queries == 137
    assert not found.backward.any()


@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0, 2),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)),
    queries=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_every_image_stays_in_ball_and_box(norm, epsilon, shape, queries, seed) -> None:
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(seed)).double().round(decimals=1)
    model = Linear(3, images[0].numel(), seed)
    found = Square(norm, epsilon, queries).run(model, images, model(images).argmax(1), generators=generators(3, seed))
    assert is_in_ball_and_box(found.images, images, norm, epsilon)
    assert torch.equal(model(found.images).argmax(1) != model(images).argmax(1), found.broken)


def test_in_l_inf_every_pixel_ends_at_an_end_of_its_interval() -> None:
    images = near_the_middle(4)
    model = Linear(3)
    found = Square("linf", 0.01, 200).run(model, images, model(images).argmax(1), generators=generators(4))
    delta = (found.images - images)[~found.broken]
    torch.testing.assert_close(delta.abs(), torch.full_like(delta, 0.01))


def test_in_l_2_the_whole_ball_is_used() -> None:
    images = near_the_middle(4, side=8)
    model = Linear(3, 64)
    found = Square("l2", 0.05, 50).run(model, images, model(images).argmax(1), generators=generators(4))
    length = (found.images - images).flatten(1).norm(dim=1)
    torch.testing.assert_close(length, torch.full_like(length, 0.05), rtol=1e-6, atol=0)


def test_in_l_2_what_the_box_cuts_off_is_used_elsewhere() -> None:
    """On a black image half of every pattern is cut off; a model that looks for light makes it worth having back."""
    black = torch.zeros(3, 2, 8, 8, dtype=torch.float64)

    def lighter(images: Tensor) -> Tensor:
        return torch.stack([torch.full((len(images),), 9.0), images.flatten(1).sum(1)], 1)

    labels = torch.zeros(3, dtype=torch.int64)
    first, last = (
        Square("l2", 0.5, queries).run(lighter, black, labels, generators=generators(3)).images.flatten(1).norm(dim=1)
        for queries in (1, 300)
    )
    assert (first < 0.4).all()
    assert (last > 0.48).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_margin_never_rises_and_falls_most_of_the_way_on_a_linear_model(norm) -> None:
    model, images = Linear(2), near_the_middle(6)
    labels = model(images).argmax(1)
    epsilon = 0.1 * float(model.distances(images, labels, norm).min())
    margins = [
        margin(model(Square(norm, epsilon, n).run(model, images, labels, generators=generators(6)).images), labels)
        for n in (1, 30, 400)
    ]
    assert (margins[1] <= margins[0]).all()
    assert (margins[2] <= margins[1]).all()
    clean = margin(model(images), labels)
    # Squares of three pixels and more cannot follow the weights of a 4x4 image in l_2.
    slope = (model.weight[0] - model.weight[1]).norm(p=1 if norm == "linf" else 2)

    assert ((clean - margins[2]) / (epsilon * slope) > (0.99 if norm == "linf" else 0.55)).all()


def test_the_l_2_pattern_is_a_bump_up_above_a_bump_down() -> None:
    for side in (2, 3, 5, 8):
        pattern = bumps(side)
        assert pattern.norm().item() == pytest.approx(1)
        assert (pattern[: side // 2] > 0).all()
        assert (pattern[side // 2 :] < 0).all()
    # Height 2, width 5: n = 2, and eq. 2 adds 1/(j + 1)^2 over j from the distance to the middle (1, 2) to n.
    ring = [1 + 1 / 4 + 1 / 9, 1 / 4 + 1 / 9, 1 / 9]
    upper = torch.tensor([[ring[2], ring[1], ring[1], ring[1], ring[2]], [ring[2], ring[1], ring[0], ring[1], ring[2]]])
    found = bumps(5)[:2]
    torch.testing.assert_close(found / found[1, 2], upper / upper[1, 2])


def test_breaks_a_model_without_gradients() -> None:
    def quantised(images: Tensor) -> Tensor:
        return NET((images * 16).round() / 16)

    labels = quantised(IMAGES).argmax(1)
    found = Square("linf", 0.1, 300).run(quantised, IMAGES, labels, generators=generators(10))
    assert found.broken.float().mean() > 0.5


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_example_does_not_depend_on_its_neighbours_or_on_memory(norm) -> None:
    def limited(images: Tensor) -> Tensor:
        if len(images) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    search = Square(norm, 0.03 if norm == "linf" else 0.15, 150)
    whole = search.run(NET, IMAGES, LABELS, generators=generators(10))
    halved = search.run(limited, IMAGES, LABELS, generators=generators(10))
    alone = search.run(NET, IMAGES[7:8], LABELS[7:8], generators=generators(1, 7))
    torch.testing.assert_close(halved.images, whole.images)
    torch.testing.assert_close(alone.images, whole.images[7:8])
    assert 0 < whole.broken.sum() < 10
    assert torch.equal(halved.forward, whole.forward)


def test_an_output_that_is_not_finite_is_unsound_and_not_broken() -> None:
    found = Square("linf", 0.1, 9).run(lambda x: NET(x) / 0.0, IMAGES, LABELS, generators=generators(10))
    assert found.non_finite.all()
    assert not found.broken.any()
    assert found.forward.tolist() == [1] * 10


def test_ticks_before_every_forward_pass() -> None:
    events: list[str] = []

    def model(images: Tensor) -> Tensor:
        events.append("forward")
        return NET(images)

    Square("l2", 0.01, 7).run(
        model, IMAGES, LABELS, generators=generators(10), check_cancelled=lambda: events.append("check_cancelled")
    )
    assert events == ["check_cancelled", "forward"] * 7


@pytest.mark.parametrize("wrong", [{"epsilon": -1.0}, {"queries": 0}, {"p_init": 0.0}, {"p_init": 1.5}], ids=str)
def test_refuses_numbers_that_are_no_search(wrong) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        Square(**({"norm": "linf", "epsilon": 0.1} | wrong))


def test_refuses_what_has_no_squares() -> None:
    with pytest.raises(ValueError, match="squares need images"):
        Square("linf", 0.1).run(NET, IMAGES.flatten(1), LABELS, generators=generators(10))


def test_any_score_is_lowered_as_far_as_a_search_over_all_corners() -> None:
    """The entropy of a linear model is least at a corner of the box that an l_inf ball is."""
    images, model = near_the_middle(40)[:, :, :1, :2], Linear(2, 2, 5)
    signs = torch.cartesian_prod(*[torch.tensor([-0.1, 0.1])] * 2).to(images).view(4, 1, 1, 1, 2)
    # Where another class is in reach there are two least ones.
    images = images[torch.stack([model(images + sign).argmax(1) for sign in signs]).double().std(0) == 0]
    assert len(images) > 10
    corners = torch.stack([entropy(model(images + sign)) for sign in signs])
    found = Square("linf", 0.1, 60).search(
        model, images, lambda logits, indices: entropy(logits), generators=generators(len(images))
    )
    assert torch.allclose(entropy(model(found.images)), corners.amin(0), atol=1e-9)


def test_an_example_that_reached_its_goal_leaves_and_starts_are_kept() -> None:
    asked: list[int] = []

    def model(images: Tensor) -> Tensor:
        asked.append(len(images))
        return NET(images)

    before = entropy(NET(IMAGES))
    search = Square("linf", 0.0, 9)
    found = search.search(
        model,
        IMAGES,
        lambda logits, indices: -entropy(logits),
        goal=float(-before.median()),
        generators=generators(10),
        starts=IMAGES,
    )
    assert asked[0] == 10
    assert set(asked[1:]) == {int((before < before.median()).sum())}
    assert torch.equal(found.images, IMAGES)
    assert not found.broken.any()
