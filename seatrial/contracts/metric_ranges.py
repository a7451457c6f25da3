"""Between which values a metric lies, or one example in a check that was run, and which demands on it test nothing."""

from typing import Literal, NamedTuple

from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.family import Measurement, Metric, Range


class Reach(NamedTuple):
    """What values a metric can have.

    Attributes:
        lowest: The least; None where it is not known.
        highest: The largest; None where it is not known, as of what depends on the number of classes.
    """

    lowest: float | None
    highest: float | None

    def __str__(self) -> str:
        if self == (0, 1):
            return "a share from 0 to 1 (0.05 for 5 %)"
        if self.lowest is not None and self.highest is not None:
            return f"from {self.lowest:g} to {self.highest:g} (0.05 for 5 %)"
        return "any number" if self.lowest is None else f"never below {self.lowest:g}"


def reach_of(metric: Metric) -> Reach:
    """Return between which values a metric always lies; what is not known is None.

    >>> print(reach_of(Metric(name="mce", unit="1", better="lower", description="Largest error of any bin.")))
    a share from 0 to 1 (0.05 for 5 %)
    """
    return Reach(*metric.range)


def foregone(reach: Reach, asked: str, bound: float) -> str | None:
    """Return how a demand comes out whatever is measured; None where that is open.

    Args:
        reach: Of the metric.
        asked: `min`, `max` or `max_regression`.
        bound: The bound; at the edge it always holds.
    """
    lowest, highest = reach
    if asked == "max_regression":
        lowest, highest = 0.0, None if lowest is None or highest is None else highest - lowest
    if asked == "min":
        always = lowest is not None and bound <= lowest
        never = highest is not None and bound > highest
    else:
        always = highest is not None and bound >= highest
        never = lowest is not None and bound < lowest
    return "always holds" if always else "can never hold" if never else None


def example_range_of(metric: Metric, measured: Measurement) -> Range | None:
    """Return the least and largest value one example can have in a check that has been run; None where not known."""
    if metric.example_range is not None:
        return metric.example_range(measured)
    lowest, highest = metric.range
    return None if lowest is None or highest is None else (lowest, highest)


def limits_of(metric: Metric, measured: Measurement) -> Reach:
    """Return between which values a metric lies in a check that has been run, whatever is drawn."""
    return reach_of(metric) if metric.limits is None else Reach(*metric.limits(measured))


def examples_of(metric: Metric, result: Result | None) -> int | None:
    """Return how many examples a number rests on where its ``n`` adds up two samples: those of the smaller one."""
    return None if metric.examples is None or result is None else metric.examples(result)


def is_open(estimate: Estimate, reach: Reach, end: Literal["low", "high"]) -> bool:
    """Tell whether an interval ends where the metric does, because the sample does not bound it any better.

    >>> told = Estimate(value=0.4, low=0.2, high=1.0, n=50, method="resampled")
    >>> is_open(told, Reach(0.0, 1.0), "high"), is_open(told, Reach(0.0, 1.0), "low")
    (True, False)
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return False
    return open_ends(estimate.value, estimate.low, estimate.high, reach)[end == "high"]


def open_ends(value: float, low: float | None, high: float | None, reach: Reach) -> tuple[bool, bool]:
    """Tell the same of the lower and the upper end; one that is not known is not open.

    >>> open_ends(0.4, 0.2, 1.0, Reach(0.0, 1.0)), open_ends(0.0, 0.0, None, Reach(0.0, 1.0))
    ((False, True), (False, False))
    """
    is_low = low is not None and reach.lowest is not None and low <= reach.lowest < value
    is_high = high is not None and reach.highest is not None and value < reach.highest <= high
    return is_low, is_high
