"""Spans of a model that gives no gradients: what is asked, what is found, and what is said of it."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from seatrial.families.shared.per_example import Records
from seatrial.families.uncertainty_span.questions import questions
from seatrial.families.uncertainty_span.records import decision_kept
from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import DATA, IMAGES, LABELS, NETWORK, Model, audit, measure, parameters
from workers.families.uncertainty_span.estimates import spans


@dataclass(frozen=True)
class Served(Model):
    """A model behind an endpoint that takes PNG."""

    has_gradients: bool = False
    levels: int | None = 255

    def logits(self, images: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        return super().logits(images).detach()


LEVELLED = (IMAGES * 255).round() / 255


def flags_of(result) -> dict[str, str]:
    return {flag.code: flag.severity for flag in result.flags}


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_question_is_on_the_levels_within_the_radius_and_paid_for(norm: str) -> None:
    asked: list[Tensor] = []

    def watched(images: Tensor) -> Tensor:
        asked.append(images)
        return NETWORK.function(images)

    epsilon = 0.1 if norm == "linf" else 0.4
    params = parameters(norm=norm, epsilon=epsilon, steps=20)
    one = (LEVELLED[:1], LABELS[:1])
    done = measure(params, Served(watched, 4), one)
    seen = torch.cat(asked)
    change = (seen - LEVELLED[:1]).flatten(1)
    length = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    # A search by decisions alone comes from afar; what it reports is within the radius, whatever it asks.
    assert (length <= epsilon + 1e-5).float().mean() > 0.7
    assert ((seen * 255) - (seen * 255).round()).abs().max() < 1e-3
    assert len(seen) <= done["attack"]["queries"][0].as_py() == questions("quick", 20).total


def test_it_comes_near_what_gradients_find_and_says_that_it_had_none() -> None:
    data = (LEVELLED, LABELS)
    by_gradients = measure(parameters(), NETWORK, data)["attack"]
    result, done = audit(parameters(effort="standard", steps=40), Served(NETWORK.function, 4), data)
    assert list(done) == ["attack"]
    reached, best = spans(Sample(done["attack"])).mean(), spans(Sample(by_gradients)).mean()
    assert 0.8 * best < reached
    assert result.estimates["mus_worst"].value == pytest.approx(float(reached))
    assert flags_of(result) == {"gradient_free": "warning", "few_steps": "warning"}
    assert "mus_calibrated" not in result.estimates
    assert "span_growth" not in result.estimates


def test_decisions_that_questions_change_are_counted_whatever_the_entropy_does() -> None:
    faint = Served(lambda images: NETWORK.function(images) / 1e3, 4)
    result, done = audit(parameters(steps=20), faint, (LEVELLED, LABELS))
    changed, crossed = (
        torch.tensor(done["attack"][name].to_numpy(zero_copy_only=False)) for name in ("changed", "crossed")
    )
    assert (changed | ~crossed).all()
    right = NETWORK.function(LEVELLED).argmax(1) == LABELS
    left = result.estimates["adversarial_accuracy"].value
    assert left == pytest.approx(float((right & ~changed).float().mean()))
    assert result.estimates["mus_worst"].value < 0.01
    assert left < result.estimates["clean_accuracy"].value - 0.2
    values = decision_kept(Records({}, {}, done.get))
    assert values is not None
    assert values.values.mean() == pytest.approx(left)


def one_hot(images: Tensor) -> Tensor:
    logits = NETWORK.function(images)
    return torch.where(logits == logits.amax(1, keepdim=True), 0.0, -744.44)


def rounded(images: Tensor) -> Tensor:
    tenths = (NETWORK.function(images) * 10).softmax(1).mul(10).round().div(10)
    return tenths.log().clamp_min(-744.44)


def constant_confidence(images: Tensor) -> Tensor:
    predicted = torch.nn.functional.one_hot(NETWORK.function(images).argmax(1), 4)
    return torch.where(predicted.bool(), 0.9, 0.1 / 3).log()


@pytest.mark.parametrize("fake", [one_hot, rounded, constant_confidence], ids=["labels", "rounded", "constant"])
def test_scores_that_hide_what_attacks_do_are_an_error(fake) -> None:
    result, _ = audit(parameters(steps=40), Served(fake, 4), DATA)
    assert flags_of(result)["gradient_free"] == "error"


def one_by_one(images: Tensor) -> Tensor:
    return torch.cat([NETWORK.function(image[None]) for image in images])


def test_any_cut_into_shards_gives_the_same_records() -> None:
    data, params = (LEVELLED[:12], LABELS[:12]), parameters(steps=8)
    tables = [
        measure(params, Served(one_by_one, 4), data, batch_size=size, shards=shards)["attack"]
        for size, shards in ((12, 1), (5, 3))
    ]
    assert tables[0].equals(tables[1])


def test_predictions_are_attacked_by_scores_and_decisions() -> None:
    params = parameters(steps=8, robust_accuracy={"epsilon": 0.1, "queries": 60})
    result, done = audit(params, Served(NETWORK.function, 4), (LEVELLED, LABELS))
    assert list(done) == ["attack", "robust_accuracy"]
    held = {name: found.value for name, found in result.estimates.items() if name.startswith("robust_accuracy")}
    assert list(held) == ["robust_accuracy", "robust_accuracy[attack=square]", "robust_accuracy[attack=rays]"]
    assert held["robust_accuracy"] == held["robust_accuracy[attack=rays]"] <= held["robust_accuracy[attack=square]"]
    assert held["robust_accuracy"] < result.estimates["clean_accuracy"].value
    assert [flag.code for flag in result.flags if flag.code != "few_steps"] == ["gradient_free", "gradient_free"]


def test_decisions_break_what_labels_alone_hide_from_scores() -> None:
    params = parameters(steps=4, robust_accuracy={"epsilon": 0.15, "queries": 400})
    result, _ = audit(params, Served(one_hot, 4), (LEVELLED, LABELS))
    broken = result.counts["broken[attack=rays]"]
    assert broken > 0
    assert math.isclose(result.estimates["robust_accuracy"].value, result.counts["robust_accuracy_held"] / len(LABELS))
