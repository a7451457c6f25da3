import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from workers.attacks.losses import cross_entropy, entropy, uniform_cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted, robust_accuracy

torch.manual_seed(0)
NET = nn.Sequential(nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
NET.eval().requires_grad_(False)
IMAGES = torch.rand(12, 1, 6, 6, generator=torch.Generator().manual_seed(3))
LABELS = NET(IMAGES).argmax(1)
LOWEST_ENTROPY = Objective(
    loss=lambda logits, indices: cross_entropy(logits, LABELS[indices]),
    criterion=lambda logits, indices: entropy(logits[:, 0]),
)
HIGHEST_ENTROPY = Objective(
    loss=lambda logits, indices: uniform_cross_entropy(logits), criterion=lambda logits, indices: -entropy(logits[:, 0])
)


def generators(seeds: range) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def naive_best_entropy(model: Callable[[Tensor], Tensor], x: Tensor, epsilon: float, step: float, steps: int) -> Tensor:
    """An independent l_inf loop: perturbation first, plain log-softmax, a second forward pass for the criterion."""
    y, best, delta = model(x).argmax(1), entropy(model(x)), torch.zeros_like(x)
    for _ in range(steps):
        delta.requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(model(x + delta), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = (x + (delta.detach() - step * gradient.sign()).clamp(-epsilon, epsilon)).clamp(0, 1) - x
        best = torch.minimum(best, entropy(model(x + delta)))
    return best


def test_agrees_with_a_naive_loop() -> None:
    found = PGD("linf", 0.1, 0.02, 15).run([NET], IMAGES, LOWEST_ENTROPY)
    torch.testing.assert_close(found.best_value, naive_best_entropy(NET, IMAGES, 0.1, 0.02, 15), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(entropy(NET(found.best)), found.best_value, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(NET(found.final), found.final_logits[:, 0])


@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0, 2),
    step_size=st.floats(1e-3, 3),
    random_start=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_image_stays_in_ball_and_box(norm, epsilon, step_size, random_start, seed) -> None:
    images = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(seed)).round(decimals=1)
    search = PGD(norm, epsilon, step_size, 4, random_start)
    found = search.run([NET], images, HIGHEST_ENTROPY, generators=generators(range(4)))
    for result in (found.final, found.best):
        delta = (result - images).flatten(1)
        length = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
        assert (length <= epsilon * (1 + 1e-5) + 2e-6).all()
        assert result.min() >= 0
        assert result.max() <= 1
    assert (found.best_value <= found.start_value).all()


def test_an_example_does_not_depend_on_its_neighbours() -> None:
    search = PGD("l2", 0.5, 0.1, 8, random_start=True)
    together = search.run([NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))
    alone = search.run([NET], IMAGES[5:6], HIGHEST_ENTROPY, generators=generators(range(5, 6)))
    torch.testing.assert_close(together.best[5:6], alone.best, rtol=0, atol=1e-5)
    torch.testing.assert_close(together.best_value[5:6], alone.best_value, rtol=1e-4, atol=1e-6)


def test_given_starts_are_the_random_ones_of_a_search_that_drew_them() -> None:
    drawn = PGD("linf", 0.1, 0.02, 0, random_start=True).run(
        [NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12))
    )
    random = PGD("linf", 0.1, 0.02, 5, random_start=True)
    expected = random.run([NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))

    def limited(images: Tensor) -> Tensor:
        if len(images) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    for model in (NET, limited):
        found = PGD("linf", 0.1, 0.02, 5).run([model], IMAGES, HIGHEST_ENTROPY, starts=drawn.final)
        torch.testing.assert_close(found.best, expected.best, rtol=0, atol=1e-6)
        torch.testing.assert_close(found.start_logits[:, 0], NET(IMAGES))
    assert not torch.equal(drawn.final, IMAGES)


def test_the_clean_image_competes_with_given_starts() -> None:
    worse = PGD("linf", 0.1, 1e-9, 1).run([NET], IMAGES, LOWEST_ENTROPY).best
    wanted = PGD("linf", 0.1, 1e-9, 1).run([NET], worse, HIGHEST_ENTROPY, starts=(worse + 1e-3).clamp(0, 1))
    assert (wanted.best_value <= wanted.start_value).all()
    assert wanted.improved.any()
    assert not wanted.improved.all()
    assert torch.equal(wanted.best[~wanted.improved], worse[~wanted.improved])


def test_starts_that_are_not_one_per_example_of_such_a_search_are_refused() -> None:
    with pytest.raises(ValueError, match="not the starts"):
        PGD("linf", 0.1, 0.02, 5).run([NET], IMAGES, HIGHEST_ENTROPY, starts=IMAGES[:5])
    with pytest.raises(ValueError, match="not the starts"):
        PGD("linf", 0.1, 0.02, 5, random_start=True).run(
            [NET], IMAGES, HIGHEST_ENTROPY, starts=IMAGES, generators=generators(range(12))
        )


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_random_starts_come_from_each_examples_own_generator(norm) -> None:
    search = PGD(norm, 0.3, 0.1, 0, random_start=True)
    one = search.run([NET], IMAGES, Objective(HIGHEST_ENTROPY.loss), generators=generators(range(12)))
    turned = search.run([NET], IMAGES.flip(0), Objective(HIGHEST_ENTROPY.loss), generators=generators(range(12))[::-1])
    assert torch.equal(one.final, turned.final.flip(0))
    assert (one.final != IMAGES).flatten(1).any(1).all()


def test_random_starts_fill_the_l2_ball() -> None:
    middle = torch.full((400, 1, 2, 2), 0.5)
    search = PGD("l2", 0.4, 0.1, 0, random_start=True)
    drawn = search.run([nn.Flatten()], middle, Objective(HIGHEST_ENTROPY.loss), generators=generators(range(400))).final
    radii = (drawn - middle).flatten(1).norm(dim=1) / 0.4
    # In d = 4 the radius to the fourth power is uniform.
    assert radii.pow(4).mean().item() == pytest.approx(0.5, abs=0.05)


def test_several_models_are_attacked_through_the_sum_of_their_losses() -> None:
    second = nn.Sequential(nn.Flatten(), nn.Linear(36, 5)).eval()
    seen: list[Tensor] = []

    class Joint(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([NET(x), second(x)], 1)

    def in_one_graph(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        outputs = Joint()(x)
        loss = sum(uniform_cross_entropy(outputs[:, model]).sum() for model in (0, 1))
        (gradient,) = torch.autograd.grad(loss, x)
        return gradient

    objective = Objective(
        loss=HIGHEST_ENTROPY.loss,
        criterion=lambda logits, indices: seen.append(logits) or -entropy(logits[:, 0]) - entropy(logits[:, 1]),
    )
    found = PGD("l2", 10.0, 0.01, 1, box=(-9.0, 9.0)).run([NET, second], IMAGES, objective)
    gradient = in_one_graph(IMAGES)
    unit = gradient / gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    torch.testing.assert_close(found.final, IMAGES - 0.01 * unit, rtol=1e-5, atol=1e-6)
    assert found.final_logits.shape == (12, 2, 5)
    torch.testing.assert_close(seen[0], Joint()(IMAGES))


def test_restarts_keep_the_best_of_all_and_include_the_clean_image() -> None:
    one = PGD("linf", 0.2, 0.05, 3, random_start=True).run(
        [NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12))
    )
    more = PGD("linf", 0.2, 0.05, 3, random_start=True, restarts=4).run(
        [NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12))
    )
    assert (more.best_value <= one.best_value).all()
    assert (more.best_value < one.best_value).any()
    assert more.steps.tolist() == [12] * 12
    torch.testing.assert_close(one.start_value, -entropy(NET(IMAGES)))


def test_broken_examples_leave_and_the_rest_go_on() -> None:
    sizes: list[int] = []

    def counting(images: Tensor) -> Tensor:
        sizes.append(len(images))
        return NET(images)

    search = PGD("linf", 0.06, 0.01, 10)
    early = pgd_untargeted(search, counting, IMAGES, LABELS)
    full = pgd_untargeted(search, NET, IMAGES, LABELS, until_wrong=False)
    assert sizes[0] == 12
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < early.reached.sum() < 12
    assert (NET(early.final).argmax(1) != LABELS)[early.reached].all()
    assert (early.steps[~early.reached] == 10).all()
    assert (early.steps[early.reached] < 10).any()
    assert (full.final_logits[:, 0].argmax(1) != LABELS)[early.reached].sum() >= early.reached.sum() - 1
    assert torch.equal(robust_accuracy(search, NET, IMAGES, LABELS), ~early.reached)


def test_a_misclassified_example_takes_no_step() -> None:
    found = pgd_untargeted(PGD("linf", 0.1, 0.02, 5), NET, IMAGES, (LABELS + 1) % 5)
    assert found.steps.tolist() == [0] * 12
    assert torch.equal(found.final, IMAGES)


def test_examples_that_leave_at_once_change_nothing_for_the_others() -> None:
    labels = LABELS.clone()
    labels[::3] = (labels[::3] + 1) % 5
    search = PGD("linf", 0.06, 0.01, 4)
    mixed = pgd_untargeted(search, NET, IMAGES, labels)
    rest = labels == LABELS
    alone = pgd_untargeted(search, NET, IMAGES[rest], labels[rest])
    assert mixed.steps[::3].tolist() == [0] * 4
    assert mixed.reached[::3].all()
    torch.testing.assert_close(mixed.start_logits[:, 0], NET(IMAGES))
    torch.testing.assert_close(mixed.final[rest], alone.final, rtol=0, atol=1e-6)


def test_an_output_that_is_not_finite_is_never_robust_and_never_best() -> None:
    def breaks(images: Tensor) -> Tensor:
        logits = NET(images)
        clean = (images.flatten(1).unsqueeze(1) == IMAGES.flatten(1)).all(2).any(1)
        return torch.where(clean.unsqueeze(1), logits, math.nan)

    found = PGD("linf", 0.05, 0.01, 5).run([breaks], IMAGES, HIGHEST_ENTROPY)
    assert found.non_finite.all()
    assert found.best_value.isfinite().all()
    assert not robust_accuracy(PGD("linf", 0.05, 0.01, 5), breaks, IMAGES, LABELS).any()


def test_infeasible_iterates_are_not_best() -> None:
    objective = Objective(
        loss=HIGHEST_ENTROPY.loss,
        criterion=HIGHEST_ENTROPY.criterion,
        feasible=lambda logits, indices: logits[:, 0].argmax(1) == LABELS[indices],
    )
    found = PGD("linf", 0.3, 0.02, 20).run([NET], IMAGES, objective)
    assert (NET(found.best).argmax(1) == LABELS).all()
    assert (NET(found.final).argmax(1) != LABELS).any()


def test_a_stopped_example_ends_at_its_last_feasible_iterate() -> None:
    search, trail = PGD("linf", 0.3, 0.02, 20), []

    def recording(images: Tensor) -> Tensor:
        trail.append(images.detach().clone())
        return NET(images)

    objective = Objective(
        loss=lambda logits, indices: -cross_entropy(logits, LABELS[indices]),
        feasible=lambda logits, indices: logits[:, 0].argmax(1) == LABELS[indices],
        stops_when_infeasible=True,
    )
    found = search.run([recording], IMAGES[:1], objective)
    kept = [bool((NET(images).argmax(1) == LABELS[:1]).all()) for images in trail]
    assert False in kept
    assert torch.equal(found.final, trail[kept.index(False) - 1])
    assert found.steps.item() == kept.index(False)


def test_counts_gradients_that_are_zero_above_the_floor_only() -> None:
    def quantised(images: Tensor) -> Tensor:
        return NET((images * 8).round() / 8)

    search = PGD("linf", 0.1, 0.02, 6)
    assert search.run([quantised], IMAGES, HIGHEST_ENTROPY).zero_gradient_steps.tolist() == [6] * 12
    assert search.run([NET], IMAGES, HIGHEST_ENTROPY).zero_gradient_steps.tolist() == [0] * 12
    one_hot = Objective(loss=LOWEST_ENTROPY.loss, criterion=LOWEST_ENTROPY.criterion, floor=0.0)
    assert search.run([lambda x: NET(x) * 1e5], IMAGES, one_hot).zero_gradient_steps.tolist() == [0] * 12


def test_needs_no_gradient_of_the_weights() -> None:
    trainable = nn.Sequential(nn.Flatten(), nn.Linear(36, 5))
    PGD("linf", 0.1, 0.02, 3).run([trainable], IMAGES, HIGHEST_ENTROPY)
    assert all(parameter.grad is None for parameter in trainable.parameters())


def test_cancelling_stops_an_attack() -> None:
    class Cancelled(BaseException):
        pass

    ticks = iter(range(3))

    def check_cancelled() -> None:
        if next(ticks, None) is None:
            raise Cancelled

    with pytest.raises(Cancelled):
        PGD("linf", 0.1, 0.02, 50).run([NET], IMAGES, HIGHEST_ENTROPY, check_cancelled=check_cancelled)


def test_tiny_gradients_still_give_full_l2_steps() -> None:
    weights = torch.tensor([[0.0] * 4, [3e-30, 4e-30, 0.0, 0.0]])
    objective = Objective(loss=lambda logits, indices: logits[:, 0] - logits[:, 1])
    start = torch.full((1, 4), 0.5)
    found = PGD("l2", 0.1, 0.1, 1).run([lambda x: x @ weights.T], start, objective)
    torch.testing.assert_close(found.final, torch.tensor([[0.56, 0.58, 0.5, 0.5]]))


@pytest.mark.parametrize(
    "search",
    [{"epsilon": -1.0}, {"step_size": 0.0}, {"steps": -1}, {"restarts": 0}, {"restarts": 2}, {"epsilon": math.nan}],
)
def test_refuses_numbers_that_are_no_search(search) -> None:
    with pytest.raises(ValueError, match=r"not an attack|random_start"):
        PGD(**({"norm": "linf", "epsilon": 0.1, "step_size": 0.1, "steps": 1} | search))


def test_refuses_random_starts_without_generators() -> None:
    with pytest.raises(ValueError, match="one generator per example"):
        PGD("linf", 0.1, 0.1, 1, random_start=True).run([NET], IMAGES, HIGHEST_ENTROPY)
