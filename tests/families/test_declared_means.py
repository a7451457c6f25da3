"""A metric that is declared and not worked out: workers publish it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.family import FROM_ZERO, SIGNED_SHARE, Metric, equals, value
from seatrial.contracts.registry import families
from seatrial.families.shared.means import declared_means
from seatrial.families.uncertainty_span.spec import SPEC
from seatrial.statistics.bounded import mean_interval
from tests.families import in_memory
from tests.families.uncertainty_span import audits
from tests.gates.test_pairing import RUNS

RECORDS = pa.table(
    {
        "example_id": [3, 1, 2, 0],
        "errored": [False, False, True, False],
        "label": [1, 0, 1, 1],
        "prediction": [1, 1, None, 1],
        "gap_up": [0.5, -0.25, None, 0.0],
        "gap_down": [1.0, 1.0, None, 0.0],
    }
)


def metric(name: str, **more: Any) -> Metric:
    return Metric(name=name, unit="1", better="higher", description="Made up.", **more)


def published(*metrics: Metric, already: dict[str, Estimate] | None = None) -> dict[str, Estimate]:
    spec = replace(SPEC, metrics=metrics)
    return declared_means(spec, {}, {"look": RECORDS}.get, Result(estimates=already or {}, counts={}))


def test_a_share_is_exact_and_a_mean_has_the_interval_of_its_range() -> None:
    right, gap = (
        metric("right", per_example=equals("look", "prediction")),
        metric("gap", per_example=value("look", "gap_up"), range=SIGNED_SHARE),
    )
    found = published(right, gap)
    assert (found["right"].value, found["right"].n, found["right"].method) == (2 / 3, 3, "clopper-pearson")
    assert (found["gap"].value, found["gap"].method) == (pytest.approx(0.25 / 3), "gaffke")
    assert (found["gap"].low, found["gap"].high) == pytest.approx(mean_interval([0.5, -0.25, 0.0], -1, 1))
    open_ended = published(metric("gap", per_example=value("look", "gap_up"), range=FROM_ZERO))["gap"]
    assert open_ended.method == "gaffke-seen"
    assert found == published(right, gap)


def test_a_metric_with_qualifiers_is_published_for_each_of_their_values() -> None:
    gaps = metric(
        "gap", qualifiers=("way",), values={"way": ("up", "down", "left")}, per_example=value("look", "gap_{way}")
    )
    found = published(gaps)
    # Of the third way nothing is recorded.
    assert list(found) == ["gap[way=up]", "gap[way=down]"]
    assert found["gap[way=down]"].value == pytest.approx(2 / 3)
    assert published(replace(gaps, values={})) == {}


def test_what_the_family_published_stays_and_what_nobody_recorded_is_left_out() -> None:
    own = Estimate(value=0.5, low=None, high=None, n=2, method="none")
    right = metric("right", per_example=equals("look", "prediction"))
    assert published(right, already={"right": own}) == {}
    assert published(metric("elsewhere", per_example=value("search", "gap_up"))) == {}
    assert published(metric("no_mean")) == {}


@pytest.mark.parametrize(
    "run", ["texts", "certificates", "games", "games without AutoAttack", "noise", "noise on tags"]
)
def test_the_shipped_families_publish_all_they_declare(run: str) -> None:
    kind, made = RUNS[run]
    params, estimates, done = made()
    assert declared_means(families()[kind], params, done.get, Result(estimates=estimates, counts={})) == {}


def test_values_of_examples_keep_their_order_whatever_that_of_the_records() -> None:
    shuffled = RECORDS.take(np.array([2, 3, 0, 1]))
    gap = metric("gap", per_example=value("look", "gap_up"), range=SIGNED_SHARE)
    spec = replace(SPEC, metrics=(gap,))
    assert declared_means(spec, {}, {"look": shuffled}.get, Result(estimates={}, counts={})) == published(gap)


def test_a_check_in_memory_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = metric("declared_accuracy", per_example=equals("attack", "prediction_clean"))
    monkeypatch.setattr(in_memory, "family_spec", lambda _kind: replace(SPEC, metrics=(*SPEC.metrics, right)))
    result, _ = audits.audit(audits.parameters(steps=1), audits.NETWORK, (audits.IMAGES, audits.LABELS))
    assert result.estimates["declared_accuracy"] == result.estimates["clean_accuracy"]
    assert list(result.estimates)[-1] == "declared_accuracy"
