"""Intervals as every figure draws them: dashed where too few examples bound an end, which is then the metric's own.

So do the figures of the console. An end that nobody knows is not drawn at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.metric_ranges import Reach, open_ends

SHARE = Reach(0.0, 1.0)
FROM_ZERO = Reach(0.0, None)

DASHES = (0, (2, 2.5))
NOT_BOUNDED = "not bounded"
"""What a legend says of dashes and hatching."""

TITLES = {False: "95% interval", True: "95% interval, dashed where not bounded"}
"""What the title of an axis says of them, by whether there are any."""


class Interval(NamedTuple):
    """A value and the ends around it.

    Attributes:
        value: What was measured.
        low: Lower end; None where it is not known.
        high: Upper end; likewise.
    """

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, estimate: Estimate) -> "Interval":
        """Return that of an estimate, which has a value."""
        return cls(estimate.value or 0.0, estimate.low, estimate.high)


def draw_intervals(
    ax: Axes,
    places: Sequence[float],
    intervals: Sequence[Interval],
    reach: Reach,
    *,
    colour: str,
    is_horizontal: bool = False,
    width: float = 1.1,
    caps: bool = True,
) -> bool:
    """Draw a line from end to end through each value; return whether any part of one is dashed.

    Args:
        ax: Where to.
        places: Of each, on the axis that is not the metric's.
        intervals: Of each.
        reach: Between which values the metric lies.
        colour: Of the lines.
        is_horizontal: Whether the metric's axis is the horizontal one.
        width: Of the lines.
        caps: Whether ends that are bounded have a cap.
    """
    is_dashed = False
    for place, interval in zip(places, intervals, strict=True):
        opened = open_ends(*interval, reach)
        for end, is_open in zip((interval.low, interval.high), opened, strict=True):
            if end is None or end == interval.value:
                continue
            is_dashed = is_dashed or is_open
            along, across = [interval.value, end], [place, place]
            x, y = (along, across) if is_horizontal else (across, along)
            ax.plot(x, y, color=colour, lw=width, ls=DASHES if is_open else "-", clip_on=False, zorder=2.5)
            if caps and not is_open:
                marker = "|" if is_horizontal else "_"
                ax.plot(x[1:], y[1:], marker, color=colour, ms=4, mew=width, clip_on=False, zorder=2.5)
    return is_dashed


def draw_band(
    ax: Axes,
    places: Sequence[float],
    intervals: Sequence[Interval],
    reach: Reach,
    *,
    colour: str,
    alpha: float = 0.12,
    label: str | None = None,
) -> bool:
    """Fill what lies between the ends along a curve, hatched beyond values with an open end; return whether any is.

    Args:
        ax: Where to.
        places: Of each interval on the curve, ascending.
        intervals: Of each.
        reach: Between which values the metric lies.
        colour: Of the band.
        alpha: How opaque it is.
        label: In a legend.
    """
    values = [one.value for one in intervals]
    opened = [open_ends(*one, reach) for one in intervals]
    ends = {
        "low": [one.value if one.low is None else one.low for one in intervals],
        "high": [one.value if one.high is None else one.high for one in intervals],
    }
    for at, (name, reached) in enumerate(ends.items()):
        whole = zip(values, reached, opened, strict=True)
        bounded = [value if is_open[at] else end for value, end, is_open in whole]
        told = label if name == "low" else None
        ax.fill_between(places, values, bounded, color=colour, alpha=alpha, lw=0, label=told, zorder=1.5)
        if any(is_open[at] for is_open in opened):
            # Between a bounded end and an open one the hatching narrows to nothing.
            ax.fill_between(
                places, bounded, reached, facecolor="none", edgecolor=colour, alpha=0.4, hatch="////", lw=0, zorder=1.5
            )
    return any(any(is_open) for is_open in opened)


def say_dashed(ax: Axes) -> None:
    """Put what dashes, and hatching, mean into the legend, once."""
    if NOT_BOUNDED not in ax.get_legend_handles_labels()[1]:
        ax.plot([], [], color="#555555", lw=1.1, ls=DASHES, label=NOT_BOUNDED)
