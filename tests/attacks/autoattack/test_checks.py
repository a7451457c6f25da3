from collections.abc import Callable
from itertools import count

import pytest
import torch
from torch import Tensor
from torch.autograd import grad as imported_by_name

from tests.attacks.autoattack.networks import IMAGES, LABELS, NET
from workers.attacks.autoattack.checks import (
    Doubt,
    losses_replaced,
    optimizes_at_inference,
    randomized_forward,
    softmax_output,
    square_improves,
    zero_gradients,
)


def says(doubt: Doubt | None, code: str, *words: str) -> bool:
    return doubt is not None and doubt.code == code and all(word in doubt.message for word in words)


def test_a_model_that_answers_differently_is_told() -> None:
    assert randomized_forward(NET, IMAGES, LABELS) is None
    random = torch.Generator().manual_seed(0)

    def noisy(images: Tensor) -> Tensor:
        return NET(images) + 1e-3 * torch.randn(len(images), 5, generator=random)

    assert says(randomized_forward(noisy, IMAGES, LABELS), "randomized_forward", "5 passes", "`rand`")


def test_a_prediction_that_changes_is_told_however_close_the_logits() -> None:
    turn = count()

    def flips(images: Tensor) -> Tensor:
        return torch.tensor([1.0, 1.0 + 1e-9 * (next(turn) % 2)], dtype=torch.float64).repeat(len(images), 1)

    assert randomized_forward(flips, IMAGES, torch.zeros(10)) is not None


def test_rounding_is_no_randomness() -> None:
    turn = count()
    assert randomized_forward(lambda x: NET(x) * (1 + 1e-6 * next(turn)), IMAGES, LABELS) is None


def test_probabilities_are_told_from_logits() -> None:
    logits = NET(IMAGES)
    assert says(softmax_output(logits.float().softmax(1)), "softmax_output", "logits")
    assert softmax_output(logits) is None
    # In range, but sums other than 1: independent sigmoids. Sums of 1, but out of range: shifted logits.
    assert softmax_output(logits.sigmoid()) is None
    assert softmax_output(torch.tensor([[2.0, -1.0]])) is None


def test_zero_gradients_are_told_from_the_first_on() -> None:
    assert zero_gradients(0, 10) is None
    assert says(zero_gradients(1, 10), "zero_gradients", "1 of 10", "not differentiable")


def test_square_is_told_above_two_tenths_of_a_point() -> None:
    assert square_improves(500, 498, 1000) is None
    assert says(square_improves(500, 497, 1000), "square_improves", "3 of 500")
    assert square_improves(5, 5, 10) is None


def by_grad(images: Tensor) -> Tensor:
    with torch.enable_grad():
        moved = images.detach().clone().requires_grad_()
        (gradient,) = imported_by_name(NET(moved).sum(), moved)
    return NET(images - 0.1 * gradient)


def by_backward(images: Tensor) -> Tensor:
    scale = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        NET(images * scale).logsumexp(1).sum().backward()
    return NET(images * (scale - 0.1 * scale.grad).detach())


def by_functional_grad(images: Tensor) -> Tensor:
    return NET(images - 0.1 * torch.func.grad(lambda x: NET(x).sum())(images))


@pytest.mark.parametrize("model", [by_grad, by_backward, by_functional_grad], ids=lambda model: model.__name__)
def test_a_model_that_optimises_at_inference_is_told(model: Callable[[Tensor], Tensor]) -> None:
    assert says(optimizes_at_inference(model, IMAGES), "optimizes_at_inference", "transductive")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_model_that_optimises_at_inference_is_told() -> None:
    """Its backward pass is called from C++, where neither a trace of Python calls nor a patched function sees it."""
    script = torch.jit.CompilationUnit(
        """
        def forward(x):
            moved = x.detach().requires_grad_()
            gradient = torch.autograd.grad([(moved * moved).sum()], [moved])[0]
            if gradient is None:
                return x
            return x - 0.1 * gradient
        """
    )
    with torch.enable_grad():
        assert optimizes_at_inference(lambda x: NET(script.forward(x)), IMAGES) is not None


def test_a_plain_model_is_not_told_even_where_gradients_are_on() -> None:
    trainable = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 5)).double()
    assert optimizes_at_inference(trainable, IMAGES) is None
    assert optimizes_at_inference(NET, IMAGES) is None


def test_replaced_losses_are_named() -> None:
    standard = ("apgd-ce", "apgd-t", "fab-t", "square")
    assert losses_replaced(10, standard, 9) is None
    assert says(losses_replaced(3, standard, 9), "losses_replaced", "two logits", "2 wrong classes")
    assert says(losses_replaced(2, ("apgd-ce", "apgd-dlr"), 9), "losses_replaced", "margin")
    assert losses_replaced(3, ("apgd-ce", "apgd-dlr"), 9) is None
    assert "two logits" not in losses_replaced(5, standard, 9).message
