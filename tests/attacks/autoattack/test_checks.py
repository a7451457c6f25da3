from collections.abc import Callable
from itertools import count

import pytest
import torch
from torch import Tensor
from torch.autograd import grad as imported_by_name

from seatrial.statistics.proportions import score_interval
from tests.attacks.autoattack.networks import IMAGES, LABELS, NET
from workers.attacks.autoattack.checks import (
    Doubt,
    is_probability,
    look_again,
    losses_replaced,
    optimizes_at_inference,
    randomized_forward,
    runs_backward,
    softmax_output,
    square_improves,
    zero_gradients,
)


def says(doubt: Doubt | None, code: str, *words: str) -> bool:
    return doubt is not None and doubt.code == code and all(word in doubt.message for word in words)


def looked_at(model: Callable[[Tensor], Tensor], labels: Tensor = LABELS) -> Doubt | None:
    right, distance = look_again(model, IMAGES, labels)
    return randomized_forward(float(distance.max()), int(((right > 0) & (right < 5)).sum()))


def test_a_model_that_answers_differently_is_told() -> None:
    assert looked_at(NET) is None
    random = torch.Generator().manual_seed(0)

    def noisy(images: Tensor) -> Tensor:
        return NET(images) + 1e-3 * torch.randn(len(images), 5, generator=random)

    assert says(looked_at(noisy), "randomized_forward", "5 passes", "`rand`")


def test_a_prediction_that_changes_is_told_however_close_the_logits() -> None:
    turn = count()

    def flips(images: Tensor) -> Tensor:
        return torch.tensor([1.0, 1.0 + 1e-9 * (next(turn) % 2)], dtype=torch.float64).repeat(len(images), 1)

    assert looked_at(flips, torch.zeros(10)) is not None


def test_rounding_is_no_randomness() -> None:
    turn = count()
    assert looked_at(lambda x: NET(x) * (1 + 1e-6 * next(turn))) is None


def test_what_the_looks_measure_is_theirs_example_by_example() -> None:
    turn = count()

    def second_example_moves(images: Tensor) -> Tensor:
        return torch.tensor([[3.0, 4.0], [4.0, 3.0]]) if next(turn) % 2 else torch.tensor([[3.0, 4.0], [3.0, 4.0]])

    right, distance = look_again(second_example_moves, IMAGES[:2], torch.tensor([1, 1]))
    assert right.tolist() == [5, 3]
    torch.testing.assert_close(distance, torch.tensor([0.0, 0.2 * 2**0.5], dtype=torch.float64))


def test_probabilities_are_told_from_logits() -> None:
    logits = NET(IMAGES)
    assert is_probability(logits.float().softmax(1)).all()
    assert not is_probability(logits).any()
    # In range, but sums other than 1: independent sigmoids. Sums of 1, but out of range: shifted logits.
    assert not is_probability(logits.sigmoid()).any()
    assert not is_probability(torch.tensor([[2.0, -1.0]])).any()
    assert says(softmax_output(10, 10), "softmax_output", "logits")
    assert softmax_output(9, 10) is None
    assert softmax_output(0, 0) is None


def test_zero_gradients_are_told_from_the_first_on() -> None:
    assert zero_gradients(0, 10) is None
    assert says(zero_gradients(1, 10), "zero_gradients", "1 of 10", "not differentiable")
    assert [zero_gradients(stuck, 100).severity for stuck in (1, 10, 50)] == ["info", "warning", "error"]


@pytest.mark.parametrize(
    ("before", "after", "examples", "severity"),
    [
        (500, 498, 1000, None),
        (5, 5, 10, None),
        # Five that Square alone breaks are no proof yet (McNemar: p = 0.06).
        (500, 495, 500, "info"),
        (500, 492, 500, "warning"),
        (500, 470, 500, "warning"),
        (500, 460, 500, "error"),
        (40, 30, 50, "error"),
        (10, 8, 10, "info"),
    ],
)
def test_square_is_told_as_gravely_as_a_paired_interval_allows(before, after, examples, severity) -> None:
    doubt = square_improves(before, after, examples)
    if severity is None:
        assert doubt is None
        return
    assert doubt.severity == severity
    low, high = score_interval(before - after, 0, examples)
    numbers = (before / examples, after / examples, max(low, 0), high)
    assert says(doubt, "square_improves", f"{before - after} of {before}", *(f"{number:.3f}" for number in numbers))
    assert (low > 0.002) == (severity != "info")


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
    assert runs_backward(model, IMAGES)


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
        assert runs_backward(lambda x: NET(script.forward(x)), IMAGES)


def test_looking_for_backward_passes_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert runs_backward(by_grad, IMAGES)
    assert capfd.readouterr() == ("", "")


def test_a_plain_model_is_not_told_even_where_gradients_are_on() -> None:
    trainable = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 5)).double()
    assert not runs_backward(trainable, IMAGES)
    assert not runs_backward(NET, IMAGES)


def test_a_batch_that_does_not_fit_is_looked_at_in_halves() -> None:
    def small(images: Tensor) -> Tensor:
        if len(images) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return by_grad(images)

    assert runs_backward(small, IMAGES)


def test_optimising_is_told_from_the_first_example_on() -> None:
    assert optimizes_at_inference(0) is None
    assert says(optimizes_at_inference(1), "optimizes_at_inference", "transductive")


def test_replaced_losses_are_named() -> None:
    standard = ("apgd-ce", "apgd-t", "fab-t", "square")
    assert losses_replaced(10, standard, 9) is None
    assert says(losses_replaced(3, standard, 9), "losses_replaced", "two logits", "2 wrong classes")
    assert says(losses_replaced(2, ("apgd-ce", "apgd-dlr"), 9), "losses_replaced", "margin")
    assert losses_replaced(3, ("apgd-ce", "apgd-dlr"), 9) is None
    assert "two logits" not in losses_replaced(5, standard, 9).message
