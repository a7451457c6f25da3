import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.attacks.autoattack.networks import (
    IMAGES,
    LABELS,
    NET,
    Linear,
    generators,
    is_in_ball_and_box,
    near_the_middle,
)
from workers.attacks.autoattack.apgd import APGD, checkpoints
from workers.attacks.autoattack.ensemble import misclassifies
from workers.attacks.losses import cross_entropy, margin


def raise_cross_entropy(logits: Tensor, indices: Tensor) -> Tensor:
    return -cross_entropy(logits, LABELS[indices])


CHECKPOINTS = {
    1: [1],
    10: [2, 3, 4, 5, 6, 7, 8, 9, 10],
    20: [4, 7, 9, *range(10, 21)],
    40: [8, 15, 21, 26, 30, 33, 35, 37, 39],
    100: [22, 41, 57, 70, 80, 87, 93, 99],
    150: [33, 62, 87, 108, 125, 138, 147],
}
PROGRAM = {
    "linf": {
        10: [1.563664137, 1.549251104, 1.543616881, 1.56468747, 1.577649613],
        20: [1.563680652, 1.549292934, 1.544909952, 1.564768388, 1.577651589],
        40: [1.563680205, 1.549292736, 1.544915472, 1.564770693, 1.577651726],
        100: [1.563680563, 1.54929259, 1.544914177, 1.564770912, 1.577651232],
    },
    "l2": {
        10: [1.56567969, 1.550092287, 1.546764063, 1.565252684, 1.578458267],
        20: [1.565679913, 1.550095197, 1.546800168, 1.565314102, 1.578476431],
        40: [1.565679898, 1.550098961, 1.546829333, 1.565331871, 1.578477236],
        100: [1.565679917, 1.550099444, 1.546833156, 1.565337019, 1.5784778],
    },
}
"""Highest cross-entropy the authors' program (fra31/auto-attack, a392200) comes to in one run from the same starts."""


@pytest.mark.parametrize("steps", CHECKPOINTS)
def test_checkpoints_are_those_of_the_authors_program(steps) -> None:
    assert checkpoints(steps) == CHECKPOINTS[steps]


@pytest.mark.parametrize("steps", [10, 20, 40, 100])
@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.04), ("l2", 0.2)])
def test_ends_where_the_authors_program_ends(norm, epsilon, steps) -> None:
    found = APGD(norm, epsilon, steps).run([NET], IMAGES, raise_cross_entropy, None, generators=generators(10))
    reached = cross_entropy(NET(found.images), LABELS)[:5]
    expected = torch.tensor(PROGRAM[norm][steps], dtype=torch.float64)
    torch.testing.assert_close(reached, expected, rtol=0, atol=2e-9 if norm == "linf" else 5e-7)


@pytest.mark.parametrize("steps", [1, 5, 20, 77, 1000])
def test_checkpoints_rise_and_end_within_the_steps(steps) -> None:
    found = checkpoints(steps)
    assert found == sorted(set(found))
    assert found[0] >= 1
    assert found[-1] <= steps


def by_the_program(values: np.ndarray, gradients: np.ndarray, start: np.ndarray, origin: np.ndarray, epsilon: float):
    """Algorithm 1 for one example in l_inf as its authors run it: iterate k has loss values[k], gradient gradients[k].

    Returns the iterates, the best one, and for every checkpoint whether steps stalled and whether the best stood idle.
    """

    def project(x):
        return np.clip(np.clip(x, origin - epsilon, origin + epsilon), 0, 1)

    steps = len(values) - 1
    x, previous, gradient, value, eta = start, start, gradients[0], 0.0, 2 * epsilon
    xs, best, checked, was_halved, at_check, falls, last = [x], 0, [], True, values[0], 0, 0
    for k in range(steps):
        z = project(x - eta * np.sign(gradient))
        alpha = 0.75 if k else 1.0
        new = project(x + alpha * (z - x) + (1 - alpha) * (x - previous))
        previous, x = x, new
        xs.append(x)
        falls += values[k + 1] < value
        value, gradient = values[k + 1], gradients[k + 1]
        if value < values[best]:
            best = k + 1
        if k + 1 in checkpoints(steps):
            stalls = falls <= 0.75 * (k + 1 - last)
            idles = not was_halved and values[best] >= at_check
            checked.append((stalls, idles, falls == 0.75 * (k + 1 - last)))
            was_halved = stalls or idles
            if was_halved:
                eta, x, gradient = eta / 2, xs[best], gradients[best]
            at_check, falls, last = values[best], 0, k + 1
    return xs, xs[best], checked


@pytest.mark.slow
def test_follows_the_program_step_by_step() -> None:
    """Losses and gradients are scripted, so that every rule for halving comes to bear alone."""
    met = set()
    for seed in range(24):
        random = np.random.default_rng(seed)
        # Steps down by 1 and now and then up by much: many falls without anything new best.
        moves = np.where(random.random(101) < 0.8, -1, random.integers(0, 12, 101))
        values, gradients = moves.cumsum().astype(float), random.normal(size=(101, 3))
        seen: list[Tensor] = []

        def model(images: Tensor, seen=seen) -> Tensor:
            seen.append(images.detach().clone())
            return images

        def loss(logits: Tensor, indices: Tensor, seen=seen, values=values, gradients=gradients) -> Tensor:
            slope = (logits * torch.tensor(gradients[len(seen) - 1])).sum(1)
            return slope - slope.detach() + values[len(seen) - 1]

        origin = torch.full((1, 3), 0.5, dtype=torch.float64)
        found = APGD("linf", 0.1, 100).run([model], origin, loss, None, generators=generators(1, seed))
        xs, best, checked = by_the_program(values, gradients, seen[0][0].numpy(), origin[0].numpy(), 0.1)
        np.testing.assert_allclose(torch.cat(seen).numpy(), np.array(xs), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.images[0].numpy(), best, rtol=0, atol=1e-12)
        met |= set(checked)
    assert {(True, False, False), (False, True, False), (False, False, False)} <= met
    assert any(at_the_limit for _, _, at_the_limit in met)


def test_a_random_start_is_at_distance_epsilon_and_each_examples_own() -> None:
    middle = near_the_middle(6)
    for norm in ("linf", "l2"):
        seen: list[Tensor] = []
        search = APGD(norm, 0.1, 1)
        recording = [lambda images, seen=seen: seen.append(images.detach()) or images.flatten(1)]
        search.run(recording, middle, lambda logits, indices: logits[:, 0], None, generators=generators(6))
        search.run(
            recording, middle.flip(0), lambda logits, indices: logits[:, 0], None, generators=generators(6)[::-1]
        )
        delta = (seen[0] - middle).flatten(1)
        length = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
        torch.testing.assert_close(length, torch.full_like(length, 0.1))
        assert torch.equal(seen[0], seen[2].flip(0))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_reaches_the_end_of_the_ball_on_a_linear_model(norm, classes) -> None:
    model, images = Linear(classes), near_the_middle(8)
    labels = model(images).argmax(1)
    target = (labels + 1) % classes
    found = APGD(norm, 0.05, 60).run(
        [model],
        images,
        lambda logits, indices: (
            logits.gather(1, labels[indices, None])[:, 0] - logits.gather(1, target[indices, None])[:, 0]
        ),
        None,
        generators=generators(8),
    )
    slope = model.weight[labels] - model.weight[target]
    furthest = 0.05 * slope.norm(p=1 if norm == "linf" else 2, dim=1)
    after, before = model(found.images), model(images)
    gained = [z.gather(1, labels[:, None])[:, 0] - z.gather(1, target[:, None])[:, 0] for z in (before, after)]
    torch.testing.assert_close(gained[0] - gained[1], furthest, rtol=2e-3, atol=0)


@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0, 2),
    steps=st.integers(1, 12),
    seed=st.integers(0, 1000),
    stops=st.booleans(),
)
def test_every_image_stays_in_ball_and_box(norm, epsilon, steps, seed, stops) -> None:
    images = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(seed)).double().round(decimals=1)
    until = misclassifies(LABELS) if stops else None
    found = APGD(norm, epsilon, steps).run([NET], images, raise_cross_entropy, until, generators=generators(4))
    assert is_in_ball_and_box(found.images, images, norm, epsilon)


def test_a_broken_image_is_misclassified_and_left_at_once() -> None:
    sizes: list[int] = []

    def counting(images: Tensor) -> Tensor:
        sizes.append(len(images))
        return NET(images)

    search = APGD("linf", 0.04, 20)
    until = misclassifies(LABELS)
    found = search.run([counting], IMAGES, raise_cross_entropy, until, generators=generators(10))
    assert 0 < found.broken.sum() < 10
    assert sizes == sorted(sizes, reverse=True)
    assert torch.equal(NET(found.images).argmax(1) != LABELS, found.broken)
    assert (found.backward[found.broken] < 20).any()
    assert (found.forward + found.backward).sum() == sum(sizes)
    assert (found.backward[~found.broken] == search.passes().backward).all()
    assert (found.forward[~found.broken] == search.passes().forward).all()


def test_restarts_go_on_with_what_holds_and_keep_the_best() -> None:
    until = misclassifies(LABELS)
    runs = [
        APGD("linf", 0.04, 6, restarts=restarts).run(
            [NET], IMAGES, raise_cross_entropy, until, generators=generators(10)
        )
        for restarts in (1, 3)
    ]
    assert (runs[1].broken >= runs[0].broken).all()
    one, three = (cross_entropy(NET(run.images), LABELS) for run in runs)
    holds = ~runs[1].broken
    assert (three >= one)[holds].all()
    assert (three > one)[holds].any()
    assert (runs[1].backward[holds] == 18).all()


def test_several_models_are_attacked_through_the_sum_of_their_losses() -> None:
    second = nn.Sequential(nn.Flatten(), nn.Linear(36, 5)).double().requires_grad_(False)

    def both(images: Tensor) -> Tensor:
        return torch.stack([NET(images), second(images)], 1)

    def in_one(outputs: Tensor, indices: Tensor) -> Tensor:
        return raise_cross_entropy(outputs[:, 0], indices) + raise_cross_entropy(outputs[:, 1], indices)

    search = APGD("l2", 0.5, 15)
    apart = search.run([NET, second], IMAGES, raise_cross_entropy, None, generators=generators(10))
    joined = search.run([both], IMAGES, in_one, None, generators=generators(10))
    torch.testing.assert_close(apart.images, joined.images)
    assert (apart.backward == 2 * joined.backward).all()
    assert search.passes(models=2).backward == apart.backward[0]


def test_draws_are_averaged_and_counted_by_majority() -> None:
    noise = iter(0.6 * torch.randn(1000, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5)))

    def noisy(images: Tensor) -> Tensor:
        return torch.cat([images.flatten(1)[:, :1] - 0.5 + next(noise), torch.zeros(len(images), 1)], 1)

    start = torch.full((1, 1, 1, 1), 0.9, dtype=torch.float64)
    labels = torch.tensor([0])
    search = APGD("linf", 0.1, 20, draws=9)
    found = search.run(
        [noisy],
        start,
        lambda logits, indices: margin(logits, labels[indices]),
        misclassifies(labels),
        generators=generators(1),
    )
    # At 0.8 a single draw is wrong with probability 0.31, most of nine with 0.08 at any iterate.
    assert found.backward.item() % 9 == 0
    assert found.backward.item() > 9


def test_an_example_does_not_depend_on_its_neighbours_or_on_memory() -> None:
    search, until = APGD("l2", 0.4, 20), misclassifies(LABELS)
    together = search.run([NET], IMAGES, raise_cross_entropy, until, generators=generators(10))
    alone = [
        search.run(
            [NET],
            IMAGES[i : i + 1],
            lambda logits, indices, i=i: raise_cross_entropy(logits, indices + i),
            misclassifies(LABELS[i : i + 1]),
            generators=generators(1, i),
        )
        for i in range(10)
    ]
    torch.testing.assert_close(together.images, torch.cat([found.images for found in alone]))
    assert torch.equal(together.broken, torch.cat([found.broken for found in alone]))


def test_a_batch_that_does_not_fit_is_halved_with_the_same_random_starts() -> None:
    def limited(images: Tensor) -> Tensor:
        if len(images) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    search = APGD("linf", 0.1, 10, restarts=2)
    whole = search.run([NET], IMAGES, raise_cross_entropy, None, generators=generators(10))
    halved = search.run([limited], IMAGES, raise_cross_entropy, None, generators=generators(10))
    torch.testing.assert_close(halved.images, whole.images)


def test_an_output_that_is_not_finite_is_unsound_and_not_broken() -> None:
    def breaks(images: Tensor) -> Tensor:
        return NET(images) * torch.where(torch.arange(len(images)) % 2 == 0, 1.0, torch.nan).unsqueeze(1)

    found = APGD("linf", 0.01, 5).run(
        [breaks], IMAGES[:2], raise_cross_entropy, misclassifies(LABELS), generators=generators(2)
    )
    assert found.non_finite[1]
    assert not found.broken[1]
    assert is_in_ball_and_box(found.images, IMAGES[:2], "linf", 0.01)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_gradient_that_is_not_finite_moves_nothing_out_of_bounds(norm) -> None:
    def no_derivative_in_a_corner(images: Tensor) -> Tensor:
        return NET(images) + (0 * images[:, :, 0, 0]).sqrt()

    search = APGD(norm, 0.1, 10)
    run = search.run([no_derivative_in_a_corner], IMAGES, raise_cross_entropy, None, generators=generators(10))
    assert is_in_ball_and_box(run.images, IMAGES, norm, 0.1)
    assert (cross_entropy(NET(run.images), LABELS) > cross_entropy(NET(IMAGES), LABELS)).all()


def test_tells_where_there_is_no_gradient_at_the_start() -> None:
    def quantised(images: Tensor) -> Tensor:
        return NET((images * 8).round() / 8)

    for model, expected in ((quantised, True), (NET, False)):
        found = APGD("linf", 0.1, 3).run([model], IMAGES, raise_cross_entropy, None, generators=generators(10))
        assert found.zero_gradient.tolist() == [expected] * 10


def test_ticks_before_every_forward_pass_and_stops_where_the_tick_does() -> None:
    class Cancelled(BaseException):
        pass

    events: list[str] = []

    def check_cancelled() -> None:
        events.append("check_cancelled")
        if events.count("check_cancelled") > 7:
            raise Cancelled

    def model(images: Tensor) -> Tensor:
        events.append("forward")
        return NET(images)

    with pytest.raises(Cancelled):
        APGD("linf", 0.1, 50).run(
            [model], IMAGES, raise_cross_entropy, None, generators=generators(10), check_cancelled=check_cancelled
        )
    assert events == ["check_cancelled", "forward"] * 7 + ["check_cancelled"]


@pytest.mark.parametrize("wrong", [{"epsilon": -1.0}, {"steps": 0}, {"restarts": 0}, {"draws": 0}], ids=str)
def test_refuses_numbers_that_are_no_search(wrong) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        APGD(**({"norm": "linf", "epsilon": 0.1} | wrong))


def test_refuses_a_batch_without_its_generators() -> None:
    with pytest.raises(ValueError, match="10 images and 3 generators"):
        APGD("linf", 0.1).run([NET], IMAGES, raise_cross_entropy, None, generators=generators(3))
