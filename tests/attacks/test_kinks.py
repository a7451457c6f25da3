"""Where functions bend: found by finite differences of each, and of every call that leads to the answer."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.bends import bends
from workers.attacks.kinks import Kink, kinks_of

LINE = torch.linspace(-8, 8, 3201, dtype=torch.float64)
STEP = float(LINE[1] - LINE[0])


@pytest.mark.parametrize(
    ("name", "function", "more"),
    [
        ("relu", torch.relu, ()),
        ("leaky_relu", functional.leaky_relu, (0.1,)),
        ("abs", torch.abs, ()),
        ("relu6", functional.relu6, ()),
        ("hardtanh", functional.hardtanh, ()),
        ("hardtanh", functional.hardtanh, (-2.0, 3.0)),
        ("hardsigmoid", functional.hardsigmoid, ()),
        ("hardswish", functional.hardswish, ()),
        ("hardshrink", functional.hardshrink, (1.5,)),
        ("softshrink", functional.softshrink, ()),
        ("threshold", functional.threshold, (2.5, 2.5)),
        ("clamp", torch.clamp, (-1.25, 4.0)),
        ("clamp", torch.clamp, (torch.tensor(0.75, dtype=torch.float64),)),
        ("maximum", torch.maximum, (torch.tensor(1.5, dtype=torch.float64),)),
    ],
)
def test_it_is_0_where_the_slope_changes(
    name: str, function: Callable[..., Tensor], more: tuple[float | Tensor, ...]
) -> None:
    slopes = function(LINE, *more).diff() / STEP
    changes = (slopes.diff().abs() > 0.05).nonzero().flatten() + 1
    at = {round(float(LINE[number]), 1) for number in changes}
    found = {round(float(LINE[of.abs().argmin()]), 1) for of in bends(name, (LINE, *more), {})}
    assert {round(0.05 * round(value / 0.05), 1) for value in found} == {round(0.05 * round(v / 0.05), 1) for v in at}


def test_of_a_group_it_is_by_how_much_the_first_leads() -> None:
    scores = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(0))
    ordered = scores.sort(1, descending=True).values
    for name, args, kwargs in [
        ("amax", (scores, (1,)), {}),
        ("max", (scores, 1), {}),
        ("softmax", (scores,), {"dim": 1}),
        ("topk", (scores, 2, 1), {}),
        ("softmax", (scores, -2), {}),
    ]:
        (found,) = bends(name, args, kwargs)
        torch.testing.assert_close(found, ordered[:, 0] - ordered[:, 1])
    (found,) = bends("amin", (scores, 1), {})
    torch.testing.assert_close(found, ordered[:, 1] - ordered[:, 2])
    assert not [*bends("softmax", (scores, 5), {}), *bends("sum", (scores,), {}), *bends("relu", (3,), {})]
    (found,) = bends("eq", (scores, 2.0), {})
    torch.testing.assert_close(found, (scores - 2).abs())


def test_of_numbers_that_are_divided_together_it_is_how_far_they_are_from_their_mean() -> None:
    numbers = torch.randn(5, 8, 3, 3, generator=torch.Generator().manual_seed(0))
    for name, args, normed in [
        ("group_norm", (numbers, 4), functional.group_norm(numbers, 4)),
        ("layer_norm", (numbers, (3, 3)), functional.layer_norm(numbers, (3, 3))),
        ("instance_norm", (numbers,), functional.instance_norm(numbers)),
        ("rms_norm", (numbers, (3,)), functional.rms_norm(numbers, (3,))),
    ]:
        (found,) = bends(name, args, {})
        assert bool((found.sign() == normed.sign()).all())
    (found,) = bends("vector_norm", (numbers, 2), {})
    assert found is numbers


@pytest.mark.parametrize("is_aligned", [True, False])
def test_of_a_table_it_is_how_far_it_is_read_from_where_it_bends(is_aligned: bool) -> None:
    table = torch.zeros(1, 2, 3, 21)
    for row, at in enumerate((4, 9, 17)):
        table[0, 1, row, at] = 1.0
    # Every row from end to end.
    line = torch.linspace(-1, 1, 401)
    rows = torch.tensor([-1.0, 0.0, 1.0]) * (1 if is_aligned else 2 / 3)
    grid = torch.stack([line.expand(3, -1), rows[:, None].expand(-1, 401)], 2)[None]
    read = functional.grid_sample(table, grid, align_corners=is_aligned)
    across, down = bends("grid_sample", (table, grid), {"align_corners": is_aligned})
    assert across.abs().argmin(2).tolist() == read[0, 1].argmax(1, keepdim=True).T.tolist()
    assert down.shape == across.shape
    assert not [*bends("grid_sample", (table, None), {})]


WEIGHTS = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))


def network(images: Tensor) -> Tensor:
    hidden = images @ WEIGHTS
    torch.sigmoid(hidden)
    hidden = hidden.relu_()
    return hidden[:, :30].reshape(-1, 3, 10).amax(1).tanh()


def test_they_are_those_that_lead_to_the_answer_as_they_were_before_the_call() -> None:
    images = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    logits, found = kinks_of(network, images, 1000)
    torch.testing.assert_close(logits, network(images))
    rectified, led = found.values()
    torch.testing.assert_close(rectified, images @ WEIGHTS)
    assert led.shape == (4, 10)
    some = kinks_of(network, images, 16)[1]
    kink = next(iter(some))
    torch.testing.assert_close(some[kink], (images @ WEIGHTS)[:, ::3])
    (again,) = kinks_of(network, images, 16, [kink])[1].values()
    torch.testing.assert_close(again, some[kink])
    assert not kinks_of(network, images, 16, [Kink((False, 99))])[1]
    assert not kinks_of(lambda images: images.detach().relu(), images, 16)[1]


def test_gradients_lead_on() -> None:
    images = torch.randn(4, 6, generator=torch.Generator().manual_seed(2)).requires_grad_(True)
    found = kinks_of(network, images, 1000)[1]
    (slope,) = torch.autograd.grad(next(iter(found.values())).sum(), images)
    torch.testing.assert_close(slope, WEIGHTS.sum(1).expand(4, 6))
