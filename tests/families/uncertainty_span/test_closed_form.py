"""A linear binary model, where both attacks have closed forms (spec A.8)."""

import numpy as np
import pytest
import torch

from benchmarks.fakes import SameEntropy
from seatrial.families.shared.per_example import Records
from seatrial.families.uncertainty_span.records import decision_kept
from tests.families.uncertainty_span.audits import Model, audit, parameters

WEIGHTS = torch.randn(16, generator=torch.Generator().manual_seed(2))
# Far from the sides of the box, so that no pixel is clipped.
IMAGES = 0.4 + 0.2 * torch.rand(30, 1, 4, 4, generator=torch.Generator().manual_seed(3))
BIAS = -(IMAGES.flatten(1) @ WEIGHTS).median()


def margins(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1) @ WEIGHTS + BIAS


def binary_entropy(margin: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-margin)) + margin / (1 + np.exp(margin))


@pytest.mark.parametrize(("norm", "epsilon", "dual"), [("linf", 0.01, 1), ("l2", 0.05, 2)])
@pytest.mark.parametrize("selection", ["best_entropy", "final_or_clean"])
def test_spans_match_the_closed_form(norm, epsilon, dual, selection) -> None:
    model = Model(lambda images: torch.stack([torch.zeros(len(images)), margins(images)], 1), 2)
    labels = (margins(IMAGES) > 0).long()
    params = parameters(norm=norm, epsilon=epsilon, steps=60, step_size=epsilon / 40, selection=selection)
    result, done = audit(params, model, (IMAGES, labels))

    reach = epsilon * float(WEIGHTS.norm(p=dual))
    margin = margins(IMAGES).abs().double().numpy()
    over, under = binary_entropy(margin + reach), binary_entropy(np.maximum(margin - reach, 0))
    records = done["attack"]
    assert np.allclose(records["entropy_over"], over, atol=1e-4)
    assert np.allclose(records["entropy_under"], under, atol=1e-4)
    assert result.estimates["mus"].value == pytest.approx((under - over).mean(), abs=1e-4)
    assert result.estimates["clean_accuracy"].value == 1.0
    # Some labels can flip, where the span ends at log 2, and some cannot.
    assert 0 < (margin < reach).sum() < 30
    assert [flag.code for flag in result.flags] == ["quick_effort", "few_steps"]


@pytest.mark.slow
@pytest.mark.parametrize("is_one_entropy", [False, True])
def test_decisions_that_attacks_leave_are_those_beyond_their_reach(is_one_entropy) -> None:
    """Temperature that gives every image the same entropy leaves nothing of the span, and the decisions as they are."""

    def logits(images: torch.Tensor) -> torch.Tensor:
        score = margins(images)
        return torch.stack([-score, score], 1)

    model = Model(SameEntropy(logits, 0.5, steps=8) if is_one_entropy else logits, 2)
    labels = (margins(IMAGES) > 0).long()
    labels[0] = 1 - labels[0]
    result, done = audit(parameters(epsilon=0.01, steps=10, effort="standard"), model, (IMAGES, labels))
    kept = margins(IMAGES).abs() > 0.01 * WEIGHTS.abs().sum()
    assert 5 < int((~kept).sum()) < 25
    kept[0] = False
    found = result.estimates["adversarial_accuracy"]
    assert found.value == pytest.approx(float(kept.float().mean()))
    # One by one, as gates resample it.
    asked = Records({}, {}, lambda stage: done.get(stage))
    values = decision_kept(asked)
    assert values is not None
    assert values.values.tolist() == kept.float().tolist()
    if is_one_entropy:
        assert result.estimates["mus_worst"].value < 0.05
