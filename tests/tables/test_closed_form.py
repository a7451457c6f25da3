"""A linear softmax on rows: how far its entropy goes is known, in l_inf and l_2, with and without ranges."""

from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seatrial.contracts.features import FeatureSpec
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.families.in_memory import run_check
from workers.families.uncertainty_span.family import FAMILY
from workers.models.table_classifier import TableClassifier

COLUMNS = ["a", "b", "c"]
MEAN, STD = [10.0, -1.0, 0.0], [2.0, 0.5, 1.0]
RANGES: list[list[float] | None] = [[9.0, 11.0], None, [-1.2, 4.0]]


def classifier(takes: Literal["standardised", "raw"] = "standardised") -> tuple[TableClassifier, Tensor, Tensor]:
    """Return a classifier, and the weights (2, 3) and biases (2,) it has on standardised rows."""
    weight = torch.tensor([[0.8, -0.5, 0.3], [-0.2, 0.4, 0.1]])
    bias = torch.tensor([0.1, -0.2])
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        if takes == "raw":
            layer.weight.copy_(weight / torch.tensor(STD))
            layer.bias.copy_(bias - (weight * torch.tensor(MEAN) / torch.tensor(STD)).sum(1))
        else:
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
    features = FeatureSpec(columns=COLUMNS, mean=MEAN, std=STD, ranges=RANGES, takes=takes)
    made = TableClassifier(layer, labels=["no", "yes"], features=features, device=torch.device("cpu"))
    return made, weight, bias


def rows() -> Tensor:
    drawn = torch.randn((12, 1, 1, 3), generator=torch.Generator().manual_seed(0))
    return drawn.clamp(*classifier()[0].box)


def entropy(margin: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-margin))
    return -(p * np.log(p) + (1 - p) * np.log1p(-p))


@pytest.mark.parametrize("takes", ["standardised", "raw"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_span_of_a_linear_softmax_is_found(norm: str, takes: Literal["standardised", "raw"]) -> None:
    made, weight, bias = classifier(takes)
    images, epsilon = rows(), 0.3
    asked: dict[str, Any] = {"norm": norm, "epsilon": epsilon, "steps": 150, "effort": "quick"}
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span", **asked})
    data = images, torch.zeros(12, dtype=torch.int64)
    _, records = run_check(FAMILY, params, made, data)  # type: ignore[arg-type]
    x = images.flatten(1).double().numpy()
    slope = (weight[0] - weight[1]).double().numpy()
    margin = x @ slope + float(bias[0] - bias[1])
    low, high = (end.double().numpy() for end in made.box)
    reached = [furthest(x, direction * slope, epsilon, norm, low, high) for direction in (1, -1)]
    up, down = margin + reached[0], margin - reached[1]
    # The attack keeps the prediction's side; least sure is where the margin is nearest to 0.
    nearest = np.where((down <= 0) & (up >= 0), 0.0, np.minimum(np.abs(up), np.abs(down)))
    attack = records["attack"]
    assert np.asarray(attack["best_entropy_under"]) == pytest.approx(entropy(nearest), abs=2e-3)
    keeps = np.sign(margin) * np.where(margin > 0, up, down)
    assert np.asarray(attack["best_entropy_over"]) == pytest.approx(entropy(keeps), abs=2e-3)


def furthest(x: np.ndarray, slope: np.ndarray, epsilon: float, norm: str, low: np.ndarray, high: np.ndarray) -> Any:
    """Return the most slope.delta can be in the ball and the box; in l_2 by Lagrange's rule."""
    room = np.where(slope > 0, high - x, x - low)
    if norm == "linf":
        return (np.abs(slope) * np.minimum(epsilon, room)).sum(1)
    best = []
    for space in room:
        step = np.linspace(0, 5, 5_001)[:, None] * np.abs(slope)
        moved = np.minimum(step, space)
        inside = (moved**2).sum(1) <= epsilon**2
        best.append((np.abs(slope) * moved)[inside].sum(1).max())
    return np.array(best)
