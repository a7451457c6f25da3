"""Between which values a metric lies, as far as its family and its unit tell."""

from typing import NamedTuple

from seatrial.contracts.estimates import Metric

_DIFFERENCES = frozenset({"illusion_gap", "overestimate", "gain_over_static"})
"""Metrics that are one share less another."""

SIGNED = frozenset({"s_ece", "importance_correlation", "span_growth", "score_drop", "edit_correlation"})
"""Metrics that reach as far below 0 as above."""

UNLIMITED = frozenset(
    {
        *("temperature", "mean_queries", "nud"),
        *("relative_score", "mean_relative_score", "rank", "characters_changed"),
    }
)
"""Metrics without a largest value. ``nud`` has one in the arm that raises entropy. A score under noise may be above the
one without, and what became of a text longer than the text."""

_LEAST = {"rank": 1.0}
"""Metrics that begin elsewhere than at 0."""


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

    >>> from seatrial.families import METRICS
    >>> [str(reach_of(metric)) for metric in METRICS["temperature_attack"] if metric.name in ("temperature", "mce")]
    ['a share from 0 to 1 (0.05 for 5 %)', 'never below 0']
    """
    highest = 1.0 if metric.unit == "1" and metric.name not in UNLIMITED else None
    if metric.name in SIGNED | _DIFFERENCES:
        return Reach(None if highest is None else -highest, highest)
    return Reach(_LEAST.get(metric.name, 0.0), highest)


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
