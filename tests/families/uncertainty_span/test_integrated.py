"""A network behind waves that turn round within the radius is told; one without them is left alone."""

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import INTEGRATED
from seatrial.families.uncertainty_span.limits import FULL_STEPS, integrated_examples
from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import Model, audit, masked_by, parameters
from workers.families.uncertainty_span import evidence

PIXELS = 100
IMAGES = 0.3 + 0.4 * torch.rand(40, 1, 10, 10, generator=torch.Generator().manual_seed(1))
SIGNS = torch.randint(0, 2, (PIXELS,), generator=torch.Generator().manual_seed(2)) * 2.0 - 1
PHASES = 2 * math.pi * torch.rand(PIXELS, generator=torch.Generator().manual_seed(3))
LABELS = torch.zeros(len(IMAGES), dtype=torch.int64)


def robust(moved: Tensor) -> Tensor:
    """Withstand what moves the pixels (n, 100) by less than .26 on average, all in the same sense."""
    along = (moved - IMAGES.flatten(1).mean()) @ SIGNS / PIXELS
    return torch.stack([torch.full_like(along, 2.0), 2 * along / 0.26], 1)


def behind(far: float) -> Model:
    def logits(images: Tensor) -> Tensor:
        pixels = images.flatten(1)
        return robust(pixels + far * torch.sin(pixels * (2 * math.pi / 0.1) + PHASES))

    return Model(logits, 2)


def test_a_network_behind_waves_is_told_and_the_network_is_not() -> None:
    assert (behind(0.25).logits(IMAGES).argmax(1) == 0).all()
    params = parameters(steps=FULL_STEPS, effort="standard")
    result, done = audit(params, behind(0.25), (IMAGES, LABELS))
    looked = integrated_examples(len(IMAGES), FULL_STEPS)
    assert done[INTEGRATED].num_rows == looked
    assert "add up to least" in masked_by(result)
    assert result.estimates["adversarial_accuracy"].value == (len(IMAGES) - looked) / len(IMAGES)
    result, _ = audit(params, behind(0.0), (IMAGES[:16], LABELS[:16]))
    assert not {flag.code for flag in result.flags} & {"masked_gradients", "span_not_growing"}
    assert result.estimates["adversarial_accuracy"].value == 1


def decisions(changed: np.ndarray, *, further: bool = True) -> Sample:
    """Records of which predictions an attack changed, or the paper's two."""
    n = len(changed)
    rows = {"example_id": np.arange(n), "label": np.zeros(n, int), "errored": np.zeros(n, bool)}
    own = {"changed": changed > 0}
    first = {"prediction_clean": np.zeros(n), "prediction_under": changed.astype(float), "prediction_over": np.zeros(n)}
    return Sample(pa.table(rows | (own if further else first)))


@pytest.mark.parametrize(
    ("by_gradients", "without", "is_told"),
    [(4, 12, True), (4, 8, False), (8, 10, False), (12, 4, False), (0, 4, False)],
)
def test_an_attack_from_elsewhere_has_to_change_notably_more_predictions(by_gradients, without, is_told) -> None:
    rows = np.arange(40)
    stages = {"ascent": decisions(rows < by_gradients), INTEGRATED: decisions(rows < without)}
    told = evidence.hidden_decisions(decisions(rows < 2, further=False), stages, 0)
    assert [flag.severity for flag in told] == ["error"] * is_told
    for flag in told:
        assert f"{without / 40:.0%} where those change {by_gradients / 40:.0%} (40 examples)" in flag.message
    # Records from before it was kept what changed.
    assert evidence.hidden_decisions(decisions(rows < 2, further=False), {}, 0) == []
