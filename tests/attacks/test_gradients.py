import itertools
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from tests.attacks.test_pgd import HIGHEST_ENTROPY, IMAGES, LABELS, NET, generators
from workers.attacks.gradients import IndexedModel, Joint, joined
from workers.attacks.losses import cross_entropy, uniform_cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD

torch.manual_seed(1)
OTHERS = [nn.Sequential(nn.Flatten(), nn.Linear(36, 5)).eval().requires_grad_(False) for _ in range(3)]
ROWS = torch.arange(12)

LEFT = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
RIGHT = torch.tensor([[3.0, -1.0], [1.0, 1.0]])
POINTS = torch.tensor([[0.5, 0.5], [0.9, 0.2]])


def first_logit_lead(logits: Tensor, indices: Tensor) -> Tensor:
    return logits[:, 0] - logits[:, 1]


def linear(weights: Tensor):
    return lambda images: images @ weights.T


def finished(models, combine: str, images: Tensor = IMAGES, loss=None) -> tuple[Tensor, Tensor, Tensor]:
    loss = loss or (lambda logits, indices: -cross_entropy(logits, LABELS[indices]))
    logits, finish = Joint(models, loss, combine, lambda: None).logits_and_gradient(images, ROWS[: len(images)])
    return logits, *finish()


def test_the_sum_on_two_linear_models_is_the_one_computed_by_hand() -> None:
    _, loss, gradient = finished([linear(LEFT), linear(RIGHT)], "sum", POINTS, first_logit_lead)
    # Leads x - 2y and 2x - 2y: together 3x - 4y.
    torch.testing.assert_close(loss, torch.tensor([-0.5, 1.9]))
    torch.testing.assert_close(gradient, torch.tensor([[3.0, -4.0], [3.0, -4.0]]))


def test_the_greatest_on_two_linear_models_is_the_one_computed_by_hand() -> None:
    far = torch.tensor([[-0.5, 0.5], [0.9, 0.2]])
    _, loss, gradient = finished([linear(LEFT), linear(RIGHT)], "max", far, first_logit_lead)
    # At (-0.5, 0.5) the leads are -1.5 and -2, at (0.9, 0.2) they are 0.5 and 1.4.
    torch.testing.assert_close(loss, torch.tensor([-1.5, 1.4]))
    torch.testing.assert_close(gradient, torch.tensor([[1.0, -2.0], [2.0, -2.0]]))


def test_the_cross_entropy_of_two_linear_models_has_the_gradient_computed_by_hand() -> None:
    labels = torch.tensor([0, 1])

    def by_hand(weights: Tensor) -> tuple[Tensor, Tensor]:
        p = (POINTS @ weights.T).softmax(1)
        return p[[0, 1], labels].log(), -(p - torch.eye(2)[labels]) @ weights

    (left, left_gradient), (right, right_gradient) = by_hand(LEFT), by_hand(RIGHT)
    models, loss = [linear(LEFT), linear(RIGHT)], lambda logits, indices: -cross_entropy(logits, labels[indices])
    _, total, gradient = finished(models, "sum", POINTS, loss)
    torch.testing.assert_close(total, left + right)
    torch.testing.assert_close(gradient, left_gradient + right_gradient)
    _, greatest, gradient = finished(models, "max", POINTS, loss)
    torch.testing.assert_close(greatest, torch.maximum(left, right))
    assert (left > right).tolist() == [False, True]
    torch.testing.assert_close(gradient, torch.stack([right_gradient[0], left_gradient[1]]))


def test_the_first_model_wins_ties() -> None:
    x, y = linear(torch.tensor([[1.0, 0.0], [0.0, 0.0]])), linear(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    middle = torch.full((2, 2), 0.5)
    assert finished([x, y, y], "max", middle, first_logit_lead)[2].tolist() == [[1.0, 0.0]] * 2
    assert finished([y, x, x], "max", middle, first_logit_lead)[2].tolist() == [[0.0, 1.0]] * 2


@pytest.mark.parametrize("combine", ["sum", "max"])
@pytest.mark.parametrize("models", [2, 4])
def test_the_gradient_is_that_of_one_graph_through_all_models(combine: str, models: int) -> None:
    chosen = [NET, *OTHERS][:models]
    inputs = IMAGES.clone().requires_grad_()
    losses = torch.stack([-cross_entropy(model(inputs), LABELS) for model in chosen], 1)
    expected = losses.sum(1) if combine == "sum" else losses.max(1).values
    (gradient,) = torch.autograd.grad(expected.sum(), inputs)
    found_logits, found, found_gradient = finished(chosen, combine)
    assert combine == "sum" or len(losses.argmax(1).unique()) > 1
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(found_gradient, gradient, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found_logits, torch.stack([model(IMAGES) for model in chosen], 1))


def test_the_greatest_of_one_model_is_its_sum_bit_for_bit() -> None:
    for one, other in zip(finished([NET], "max"), finished([NET], "sum"), strict=True):
        assert torch.equal(one, other)


def test_each_example_goes_back_through_one_model_only() -> None:
    passes: list[list[int]] = [[], [], []]

    def counting(i: int):
        def model(images: Tensor) -> Tensor:
            if torch.is_grad_enabled():
                passes[i].append(len(images))
            return OTHERS[i](images)

        return model

    finished([counting(i) for i in range(3)], "max")
    assert all(len(sizes) <= 1 for sizes in passes)
    assert sum(sum(sizes) for sizes in passes) == 12


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_memory_does_not_grow_with_the_number_of_models(combine: str) -> None:
    def most_saved(models: int) -> int:
        alive, most = set(), 0
        number = itertools.count()

        class Saved:
            def __init__(self, tensor: Tensor) -> None:
                nonlocal most
                self.tensor = tensor
                mine = next(number)
                alive.add(mine)
                most = max(most, len(alive))
                weakref.finalize(self, alive.discard, mine)

        deep = [nn.Sequential(NET[:3], nn.Linear(144, 9), nn.Tanh(), nn.Linear(9, 5)) for _ in range(models)]
        objective = Objective(HIGHEST_ENTROPY.loss, combine=combine)
        with saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            PGD("linf", 0.1, 0.02, 2).run(deep, IMAGES, objective)
        assert next(number) > 0
        assert not alive
        return most

    assert most_saved(5) == most_saved(1) > 3


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_a_model_with_parameters_per_example_is_given_its_rows(combine: str) -> None:
    shifts = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    own = [IndexedModel(lambda images, indices: NET(images) + shifts[indices]), OTHERS[0]]
    objective = Objective(
        loss=lambda logits, indices: -cross_entropy(logits, LABELS[indices]),
        criterion=lambda logits, indices: -cross_entropy(logits[:, 0], LABELS[indices]),
        until=lambda logits, indices: logits[:, 0].argmax(1) != LABELS[indices],
        combine=combine,
    )
    search = PGD("linf", 0.05, 0.01, 6, random_start=True)
    found = search.run(own, IMAGES, objective, generators=generators(range(12)))
    assert 0 < found.reached.sum() < 12
    for i in range(12):
        alone = [lambda images, i=i: NET(images) + shifts[i], OTHERS[0]]
        single = Objective(
            loss=lambda logits, indices, i=i: -cross_entropy(logits, LABELS[i : i + 1]),
            criterion=lambda logits, indices, i=i: -cross_entropy(logits[:, 0], LABELS[i : i + 1]),
            until=lambda logits, indices, i=i: logits[:, 0].argmax(1) != LABELS[i],
            combine=combine,
        )
        one = search.run(alone, IMAGES[i : i + 1], single, generators=generators(range(i, i + 1)))
        torch.testing.assert_close(found.best[i : i + 1], one.best, rtol=0, atol=1e-5)
        torch.testing.assert_close(found.best_logits[i : i + 1], one.best_logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("combine", "passes"), [("sum", 3), ("max", 4)])
def test_every_forward_pass_ticks(combine: str, passes: int) -> None:
    ticks: list[None] = []
    joint = Joint([NET] * 3, lambda logits, indices: uniform_cross_entropy(logits), combine, lambda: ticks.append(None))
    joint.logits_and_gradient(IMAGES, ROWS)[1]()
    assert len(ticks) == passes


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_models_without_a_gradient_have_a_zero_one(combine: str) -> None:
    fixed = [lambda images: torch.ones(len(images), 5), lambda images: torch.zeros(len(images), 5)]
    assert finished(fixed, combine)[2].abs().sum() == 0


def test_joined_values() -> None:
    values = torch.tensor([[1.0, 3.0], [2.0, -1.0]])
    assert joined(values, "sum").tolist() == [4.0, 1.0]
    assert joined(values, "max").tolist() == [3.0, 2.0]
