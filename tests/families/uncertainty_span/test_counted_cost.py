"""A standard check of a network costs at most four times the paper's two attacks and their check, as counted."""

import pytest
import torch
from torch import Tensor

from benchmarks.cases import Case
from benchmarks.span_union import check

GENERATOR = torch.Generator().manual_seed(7)
FIRST, SECOND = torch.randn(16, 400, generator=GENERATOR) / 8, torch.randn(4, 16, generator=GENERATOR) / 2
IMAGES = torch.rand(100, 1, 20, 20, generator=GENERATOR)


def logits(images: Tensor) -> Tensor:
    return torch.relu((images.flatten(1) - 0.5) @ FIRST.T) @ SECOND.T


# Of few images it is dearest.
@pytest.mark.parametrize(
    ("samples", "steps"),
    [
        (16, 20),
        (40, 20),
        pytest.param(100, 20, marks=pytest.mark.drill),
        pytest.param(40, 75, marks=pytest.mark.drill),
        pytest.param(12, 110, marks=pytest.mark.drill),
    ],
)
def test_a_standard_check_costs_four_times_that_at_most(samples: int, steps: int) -> None:
    images = IMAGES[:samples]
    case = Case("linear", torch.nn.Identity(), images, logits(images).argmax(1))
    run = check(case, logits, epsilon=0.02, steps=steps, effort="standard")
    # Every stage there is of a network that hides nothing.
    assert {"surrogate", "ascent", "crossing", "transformed", "integrated", "displaced", "pictures"} <= set(run.passes)
    assert "tempered" not in run.passes
    assert 2 < run.ratio <= 4
