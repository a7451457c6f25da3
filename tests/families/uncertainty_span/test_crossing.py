"""Scores made up from the decision are an error; scores that a network computes are none, however sharp."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import DATA, IMAGES, NETWORK, Model, audit, measure, parameters
from workers.families.uncertainty_span import evidence
from workers.families.uncertainty_span.crossing import LEAD_LEFT

CLEAN_LEAD = float(NETWORK.logits(IMAGES).topk(2, dim=1).values.diff(dim=1).abs().median())
DECOY = torch.randn(16, 4, generator=torch.Generator().manual_seed(3)) * 3e-3


def by_rote(images: Tensor) -> Tensor:
    """One confidence for whatever class is predicted, and a slope that has nothing to do with it."""
    return 5.2 * functional.one_hot(NETWORK.logits(images).argmax(1), 4) + images.flatten(1) @ DECOY


def flags_of(function) -> tuple[list, np.ndarray]:
    result, done = audit(parameters(steps=4, effort="standard"), Model(function, 4), DATA)
    left = Sample(done["crossing"]).floats(LEAD_LEFT)
    return [flag for flag in result.flags if flag.code == "abrupt_decisions"], left


def test_scores_made_up_from_the_decision_are_an_error() -> None:
    (flag,), left = flags_of(by_rote)
    assert flag.severity == "error"
    finite = left[np.isfinite(left)]
    assert np.median(finite) == pytest.approx(1, abs=0.02)
    assert f"{len(finite)} images" in flag.message
    assert f"{np.mean(finite > 0.5):.0%} (95% interval" in flag.message


def test_a_least_lead_is_an_error_though_most_of_the_lead_is_used_up_before_it() -> None:
    def half_by_rote(images: Tensor) -> Tensor:
        logits = NETWORK.logits(images)
        first, second = logits.topk(2).values.unbind(1)
        lead = CLEAN_LEAD * (0.3 + 0.7 * torch.tanh((first - second) / CLEAN_LEAD))
        ends = functional.one_hot(logits.argmax(1), 4) * lead[:, None]
        return ends - 12 * (logits < second[:, None])

    (flag,), left = flags_of(half_by_rote)
    assert flag.severity == "error"
    assert "at the very point" in flag.message
    # What is left at .95 of the way is not enough to tell.
    assert np.nanmedian(left) < 0.5


@pytest.mark.parametrize("gain", [0.01, 1.0, 100.0])
def test_a_network_s_own_scores_are_none_whatever_their_scale(gain) -> None:
    found, left = flags_of(lambda images: gain * NETWORK.logits(images))
    assert found == []
    assert np.isfinite(left).mean() > 0.8
    assert np.nanmedian(left) < 0.15


def test_it_is_the_lower_end_of_the_share_that_decides() -> None:
    """Of 40 images 17 are .425, whose interval begins above a quarter; of 16 it does not."""

    def sample(many: int) -> Sample:
        done = measure(parameters(steps=1, effort="standard"), NETWORK, DATA)
        table = done["crossing"]
        left = np.where(np.arange(40) < many, 0.51, 0.5)
        return Sample(table.set_column(table.column_names.index(LEAD_LEFT), LEAD_LEFT, [left]))

    assert evidence.abrupt_decisions(sample(16)) == []
    (flag,) = evidence.abrupt_decisions(sample(17))
    assert "42%" in flag.message


def test_what_is_never_left_is_not_judged() -> None:
    found, left = flags_of(
        lambda images: torch.tensor([[3.0, 0.0, 0.0, 0.0]]).repeat(len(images), 1) + 0 * images.sum()
    )
    assert found == []
    assert np.isnan(left).all()


def test_shards_and_batches_change_nothing() -> None:
    params = parameters(steps=3, effort="standard")
    whole, parts = (measure(params, NETWORK, DATA, batch_size=16, shards=shards)["crossing"] for shards in (1, 3))
    assert whole.equals(parts)
    apart = measure(params, NETWORK, DATA, batch_size=5)["crossing"]
    first, second = (np.asarray(table[LEAD_LEFT]) for table in (whole, apart))
    assert first == pytest.approx(second, abs=1e-4, nan_ok=True)
    assert len(whole) == len(IMAGES)


def test_quick_checks_do_without() -> None:
    assert "crossing" not in measure(parameters(steps=2), NETWORK, DATA)
