"""Between which values a metric lies, in words, and which demands on it test nothing."""

from typing import NamedTuple

from seatrial.contracts.family import Metric


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
