"""How far one example's value can lie from the others', by metric: what a bootstrap cannot see in a sample."""

from functools import lru_cache

from app.gates.evidence import Range
from app.gates.measured import MeasuredCheck
from seatrial.contracts.family import Measurement, Metric
from seatrial.contracts.metric_ranges import Reach, reach_of
from seatrial.contracts.policies import MetricName, described_metric, parse_metric


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
    found = described(metric)
    if found.example_range is not None:
        return found.example_range(_measured(metric, check))
    lowest, highest = found.range
    return None if lowest is None or highest is None else (lowest, highest)


def limits_of(metric: str, check: MeasuredCheck) -> Reach:
    """Return between which values a metric lies, whatever is drawn."""
    found = described(metric)
    return reach_of(found) if found.limits is None else Reach(*found.limits(_measured(metric, check)))


def examples_of(metric: str, check: MeasuredCheck) -> int | None:
    """Return how many examples a number rests on where its ``n`` adds up two samples: those of the smaller one."""
    found = described(metric)
    return None if found.examples is None or check.result is None else found.examples(check.result)


def is_fixed(metric: str) -> bool:
    """Tell whether a metric rests on the same examples however many are drawn."""
    return described(metric).is_fixed


def _measured(metric: str, check: MeasuredCheck) -> Measurement:
    return Measurement(named(metric).qualifiers, check.params, check.result)
