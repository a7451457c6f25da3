"""How far one example's value can lie from the others', by metric: what a sample does not show."""

import math
from functools import lru_cache
from typing import Literal

from seatrial.contracts import metric_ranges
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.family import Measurement, Metric, Range
from seatrial.contracts.metric_ranges import example_range_of, limits_of
from seatrial.contracts.policies import MetricName, described_metric, parse_metric
from seatrial.judging.measured import MeasuredCheck


@lru_cache(maxsize=4096)
def named(metric: str) -> MetricName:
    """Return a full metric name taken apart."""
    return parse_metric(metric)


@lru_cache(maxsize=4096)
def described(metric: str) -> Metric:
    """Return what a family says of a metric."""
    return described_metric(metric)


def range_of(metric: str, check: MeasuredCheck) -> Range | None:
    """Return the least and largest value an example can have; None where they are not known."""
    return example_range_of(described(metric), measured(metric, check))


def examples_of(metric: str, check: MeasuredCheck) -> int | None:
    """Return how many examples a number rests on where its ``n`` adds up two samples: those of the smaller one."""
    return metric_ranges.examples_of(described(metric), check.result)


def is_open(estimate: Estimate, metric: str, check: MeasuredCheck, end: Literal["low", "high"]) -> bool:
    """Tell whether a number's interval ends where the metric does, because the sample does not bound it any better."""
    return metric_ranges.is_open(estimate, limits_of(described(metric), measured(metric, check)), end)


def is_fixed(metric: str) -> bool:
    """Tell whether a metric rests on the same examples however many are drawn."""
    return described(metric).is_fixed


def measured(metric: str, check: MeasuredCheck) -> Measurement:
    """Return what the ranges of a metric depend on."""
    return Measurement(named(metric).qualifiers, check.params, check.result)


def highest_of(metric: str, check: MeasuredCheck) -> float | None:
    """Return the largest value a number from 0 can have that is no share; None where it is one or that is not known."""
    if described(metric).unit == "1":
        return None
    lowest, highest = range_of(metric, check) or (None, None)
    return highest if lowest == 0 and highest and math.isfinite(highest) else None
