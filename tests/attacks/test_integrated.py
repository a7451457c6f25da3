"""The search along gradients from all over the ball: against brute force, and its own guarantees."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.attacks.autoattack.networks import generators, is_in_ball_and_box
from workers.attacks.integrated import IntegratedSearch
from workers.attacks.momentum import MomentumPGD

EPSILON = 0.1
IMAGES = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(1))
WEIGHTS, PHASES = (torch.rand(2, 36, generator=torch.Generator().manual_seed(2)) - 0.5) * torch.tensor([[2.0], [9.0]])


def search(norm: str = "linf", *, sweeps: int = 2, epsilon: float = EPSILON, **more: object) -> IntegratedSearch:
    farthest = epsilon if norm == "linf" else epsilon / 2
    return IntegratedSearch(norm, epsilon, farthest, groups=4, points=16, sweeps=sweeps, **more)  # type: ignore[arg-type]


def waves(pixels: Tensor) -> Tensor:
    """A function of each pixel by itself (..., 36), with two humps within the radius."""
    return WEIGHTS * torch.sin(pixels * (2 * math.pi / EPSILON) + PHASES) + 0.1 * WEIGHTS * pixels


def lead(images: Tensor) -> Tensor:
    return waves(images.flatten(1)).sum(1, keepdim=True)


def of_neighbours(images: Tensor) -> Tensor:
    """A wave in each pixel and its right neighbour together."""
    moved = images + 0.8 * images.roll(1, -1)
    return (WEIGHTS * torch.sin(moved.flatten(1) * (2 * math.pi / EPSILON) + PHASES)).sum(1, keepdim=True)


def first(logits: Tensor, indices: Tensor) -> Tensor:
    return logits[:, 0]


def found(model, images: Tensor = IMAGES, *, goal: float = -math.inf, by: IntegratedSearch | None = None) -> Tensor:
    return (by or search()).run(model, images, first, goal=goal, generators=generators(len(images)))


def test_each_pixel_gets_where_a_grid_of_its_own_says() -> None:
    lower, upper = (IMAGES - EPSILON).clamp(0, 1).flatten(1), (IMAGES + EPSILON).clamp(0, 1).flatten(1)
    grid = lower + (upper - lower) * torch.linspace(0, 1, 2001).view(-1, 1, 1)
    least = waves(grid).min(0).values.sum(1)
    clean, ends = lead(IMAGES)[:, 0], lead(found(lead))[:, 0]
    assert ((clean - ends) > 0.95 * (clean - least)).all()
    # Plain steps, thrice as many, are led to the nearest humps.
    plain = MomentumPGD("linf", EPSILON, 600).run(
        lead, IMAGES, lambda logits, indices, progress: logits[:, 0], lambda logits, indices: logits[:, 0]
    )
    assert (plain.value > ends + 0.5).all()


def test_what_neighbours_do_together_is_found_where_others_stand_still() -> None:
    clean = of_neighbours(IMAGES)[:, 0]
    at_once = of_neighbours(found(of_neighbours, by=search(sweeps=0)))[:, 0]
    in_turn = of_neighbours(found(of_neighbours, by=search(sweeps=3)))[:, 0]
    assert ((clean - in_turn) > 1.3 * (clean - at_once)).all()


def lonely(images: Tensor) -> Tensor:
    """What a pixel is above its original, where no other within three is moved."""
    moved = (images - DARK).abs()
    around = functional.avg_pool2d(moved, 7, 1, 3, count_include_pad=False, divisor_override=1) - moved
    return -((moved - EPSILON / 2).relu() * (around < 1e-4)).flatten(1).sum(1, keepdim=True)


def even(images: Tensor) -> Tensor:
    """How many squares of five are at one level near to seven tenths of the radius."""
    spread = functional.max_pool2d(images, 5, 1) + functional.max_pool2d(-images, 5, 1)
    level = functional.avg_pool2d(images, 5, 1)
    found = (1 - spread / 0.01).relu() * (1 - (level - 0.07).abs() / 0.015).relu()
    return -found.flatten(1).sum(1, keepdim=True)


def checked(images: Tensor) -> Tensor:
    """How near squares of six are to a chessboard of the radius."""
    rows = torch.arange(6)
    board = EPSILON * ((rows[:, None] + rows) % 2).float()
    patches = functional.unfold(images, 6, stride=1) - board.flatten()[:, None]
    return -(1 - patches.abs().amax(1) / 0.03).relu().sum(1, keepdim=True)


DARK = torch.zeros(4, 1, 24, 24)


@pytest.mark.parametrize(
    ("function", "finding"),
    [(lonely, {"apart": (4, 7)}), (even, {"sides": ((8, 12),)}), (checked, {"sides": ((9, 12),) * 12})],
    ids=["pixels left alone", "squares of one level", "a chessboard"],
)
def test_what_asks_something_of_its_neighbours_is_found_by_units(function, finding) -> None:
    clean = function(DARK)[:, 0]
    assert torch.equal(function(found(function, DARK, by=search(sweeps=2)))[:, 0], clean)
    ends = found(function, DARK, by=search(sweeps=0, **finding))
    assert is_in_ball_and_box(ends, DARK, "linf", EPSILON)
    assert (function(ends)[:, 0] < clean).float().mean() >= 0.75


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_all_that_it_asks_about_is_in_ball_and_box(norm) -> None:
    asked: list[Tensor] = []

    def recording(images: Tensor) -> Tensor:
        asked.append(images.detach())
        return lead(images)

    ends = found(recording, by=search(norm, apart=(2, 3), sides=((2, 3),) * 3))
    assert all(is_in_ball_and_box(images, IMAGES, norm, EPSILON) for images in (*asked, ends))
    assert (lead(ends) < lead(IMAGES)).all()
    # As many as are told: of gradients, and of looks.
    assert len(asked) == 4 * 16 * 3 + 5 * 16 + 3 + 8 + 2 * 5


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_open_box_and_rows_of_a_table_are_searched_too(norm) -> None:
    rows = torch.linspace(-3, 3, 12).view(4, 3)
    box = (torch.tensor([-math.inf, 0.0, -9.0]), torch.tensor([math.inf, 1.0, 9.0]))
    inside = torch.maximum(torch.minimum(rows, box[1]), box[0])

    def sine(points: Tensor) -> Tensor:
        return torch.sin(40 * points).sum(1, keepdim=True)

    ends = found(sine, inside, by=search(norm, box=box))
    assert is_in_ball_and_box(ends.clamp(0, 1), inside.clamp(0, 1), norm, EPSILON)
    assert ((ends - inside).norm(dim=1, p=2 if norm == "l2" else math.inf) <= EPSILON + 1e-6).all()
    assert ((ends >= box[0]) & (ends <= box[1])).all()
    assert (sine(ends) < sine(inside)).all()


def test_an_example_that_is_finished_leaves_and_others_do_not_notice() -> None:
    sizes: list[int] = []

    def recording(images: Tensor) -> Tensor:
        sizes.append(len(images))
        return lead(images)

    goal = float(lead(IMAGES)[:, 0].sort().values[2])
    ends = found(recording, goal=goal)
    assert sizes[0] == 5
    assert sizes[1] == int((lead(IMAGES)[:, 0] >= goal).sum()) < 5
    assert (lead(ends)[:, 0] < goal).all()
    alone = torch.cat(
        [
            search().run(lead, IMAGES[row : row + 1], first, goal=goal, generators=generators(5)[row : row + 1])
            for row in range(5)
        ]
    )
    assert torch.equal(alone, ends)


def test_what_is_not_finite_moves_nothing() -> None:
    def broken(images: Tensor) -> Tensor:
        return lead(images) * torch.where(images.flatten(1)[:, :1] > IMAGES[0, 0, 0, 0] + 0.01, torch.nan, 1.0)

    ends = found(broken)
    assert broken(ends[:1]).isfinite().all()
    assert broken(ends[:1]) < broken(IMAGES[:1])


@pytest.mark.parametrize(
    "changes", [{"farthest": 0.2}, {"points": 1}, {"sweeps": -1}, {"groups": 0}, {"apart": (0,)}, {"sides": ((0, 2),)}]
)
def test_numbers_out_of_range_are_refused(changes) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        IntegratedSearch(
            **{"norm": "linf", "epsilon": 0.1, "farthest": 0.1, "groups": 4, "points": 4, "sweeps": 1, **changes}
        )


def test_a_batch_is_not_empty_and_has_a_generator_for_each() -> None:
    for images, count in ((IMAGES[:0], 0), (IMAGES, 4)):
        with pytest.raises(ValueError, match="not a batch"):
            search().run(lead, images, first, goal=0.0, generators=generators(count))
