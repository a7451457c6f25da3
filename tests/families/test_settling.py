"""One interval for a number: what is read of results that hold bootstraps, whoever stored them."""

from typing import Any

import pytest

from seatrial.contracts.estimates import Estimate, Result
from seatrial.families.shared.settling import settled, settled_document
from seatrial.statistics.widening import widen, within

SPAN = "uncertainty_span"


def bootstrap(value: float, side: float, n: int = 60, method: Any = "bootstrap") -> Estimate:
    return Estimate(value=value, low=value - side, high=value + side, n=n, method=method)


def result(**estimates: Estimate) -> Result:
    return Result(
        estimates=estimates,
        series={"entropy_histogram": {"edges": [0.0, 2.0]}},
        counts={"n": 60, "errored": 0, "outliers_n": 20, "outliers_errored": 0},
    )


def test_a_bootstrap_is_widened_by_what_the_family_says_of_its_metric() -> None:
    stored = bootstrap(0.4, 0.1)
    found = settled(SPAN, {}, result(mus=stored)).estimates["mus"]
    assert found == within(widen(stored, (0.0, 2.0)), 0.0, None)
    assert found.method == "widened"
    assert found.low < 0.3 < 0.5 < found.high


def test_a_ranking_is_widened_by_the_smaller_of_its_samples() -> None:
    stored = bootstrap(0.9, 0.05, n=80)
    found = settled(SPAN, {}, result(**{"auroc[epsilon=0]": stored})).estimates["auroc[epsilon=0]"]
    assert found == within(widen(stored, (0.0, 1.0), examples=20), 0.0, 1.0)


def test_no_end_leaves_the_range_of_its_metric() -> None:
    found = settled(SPAN, {}, result(**{"mce[arm=clean]": bootstrap(0.02, 0.1)})).estimates["mce[arm=clean]"]
    assert found.low == 0


@pytest.mark.parametrize("kind", ["no_such_family", SPAN])
def test_what_this_version_does_not_know_is_stretched(kind: str) -> None:
    found = settled(kind, {}, result(no_such_metric=bootstrap(0.4, 0.1))).estimates["no_such_metric"]
    assert found == widen(bootstrap(0.4, 0.1), None)


def test_settling_twice_is_settling_once_and_what_holds_is_left_alone() -> None:
    told = result(mus=bootstrap(0.4, 0.1), msus=bootstrap(0.4, 0.1, method="gaffke"))
    once = settled(SPAN, {}, told)
    assert settled(SPAN, {}, once) is once
    assert once.estimates["msus"] is told.estimates["msus"]
    document = told.model_dump(mode="json")
    assert settled_document(SPAN, {}, document) == once.model_dump(mode="json")
    assert document == told.model_dump(mode="json")
    held = once.model_dump(mode="json")
    assert settled_document(SPAN, {}, held) is held
    assert settled_document(SPAN, {}, None) is None
