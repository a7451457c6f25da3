import math

import pytest
import torch
from torch.nn import functional

from workers.attacks.losses import confidence, cross_entropy, entropy, margin, uniform_cross_entropy

LOGITS = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)) * 4
LABELS = torch.randint(0, 7, (50,), generator=torch.Generator().manual_seed(1))


def test_cross_entropy_agrees_with_torch() -> None:
    torch.testing.assert_close(
        cross_entropy(LOGITS, LABELS), functional.cross_entropy(LOGITS, LABELS, reduction="none")
    )


def test_uniform_cross_entropy_is_full_label_smoothing() -> None:
    smoothed = functional.cross_entropy(LOGITS, LABELS, reduction="none", label_smoothing=1.0)
    torch.testing.assert_close(uniform_cross_entropy(LOGITS), smoothed)


def test_entropy_agrees_with_torch_distributions() -> None:
    expected = torch.distributions.Categorical(logits=LOGITS.double()).entropy()
    torch.testing.assert_close(entropy(LOGITS), expected)


@pytest.mark.parametrize("lead", [0.0, 20.0, 60.0])
def test_cross_entropy_keeps_its_gradient_where_float32_softmax_is_one_hot(lead: float) -> None:
    logits = torch.tensor([[lead, 0.0, -1.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(cross_entropy(logits, torch.tensor([0])).sum(), logits)
    exact = torch.tensor([[lead, 0.0, -1.0]], dtype=torch.float64).softmax(1)
    assert gradient[0, 0] < 0
    torch.testing.assert_close(gradient[0, 1:].double(), exact[0, 1:], rtol=1e-4, atol=0)


def test_entropy_at_the_ends_of_the_scale() -> None:
    logits = torch.tensor([[0.0] * 5, [1e30, 0, 0, 0, 0], [0, -torch.inf, -torch.inf, -torch.inf, -torch.inf]])
    assert entropy(logits).tolist() == pytest.approx([math.log(5), 0.0, 0.0])
    assert entropy(torch.tensor([[math.nan, 0.0]])).isnan().all()


def test_margin_and_confidence_of_a_label() -> None:
    logits = torch.tensor([[2.0, 5.0, 1.0], [2.0, 5.0, 1.0]])
    assert margin(logits, torch.tensor([1, 0])).tolist() == [3.0, -3.0]
    torch.testing.assert_close(confidence(logits, torch.tensor([1, 0])), logits.double().softmax(1)[0, [1, 0]])
