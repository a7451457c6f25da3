"""Whole checks of models of tables, whose columns have ends of their own."""

import pytest
import torch
from torch import Tensor

from seatrial.contracts.features import UNBOUNDED
from tests.families.uncertainty_span.audits import Model, audit, parameters

DRAW = torch.Generator().manual_seed(0)
ROWS = torch.randn(40, 1, 1, 6, generator=DRAW)
FIRST, SECOND = torch.randn(6, 12, generator=DRAW), torch.randn(12, 3, generator=DRAW)


def logits(rows: Tensor) -> Tensor:
    return torch.relu(rows.flatten(1) @ FIRST) @ SECOND


class Table(Model):
    """Whose columns have a range each."""

    box = (ROWS.amin(0).flatten() - 0.1, ROWS.amax(0).flatten() + 0.1)


class Unbounded(Model):
    """The same without ranges."""

    box = (torch.full((6,), -UNBOUNDED), torch.full((6,), UNBOUNDED))


@pytest.mark.parametrize(
    ("kind", "norm", "epsilon"), [(Table, "linf", 0.3), (Table, "l2", 0.5), (Unbounded, "linf", 0.3)]
)
def test_every_stage_of_a_standard_check_takes_a_table(kind: type[Model], norm: str, epsilon: float) -> None:
    block = {"epsilon": epsilon, "norm": norm, "steps": 5, "queries": 20}
    params = parameters(steps=20, effort="standard", epsilon=epsilon, norm=norm, robust_accuracy=block)
    result, done = audit(params, kind(logits, 3), (ROWS, logits(ROWS).argmax(1)))
    assert {"surrogate", "ascent", "crossing", "transformed", "integrated", "displaced"} <= set(done)
    assert {flag.code for flag in result.flags} <= {"few_steps", "losses_replaced"}
    assert 0.3 < result.estimates["mus"].value <= result.estimates["mus_worst"].value
    assert result.counts["errored"] == 0
