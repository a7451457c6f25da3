"""Where the marks of a chart stand: a number over versions, each with its interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.metric_ranges import Reach, is_open

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 16, 44
_TICKS = 5
_NO_WIDTH = 1e-300
# More labels than this would run into each other.
_MOST_LABELS = 12


@dataclass(frozen=True)
class Mark:
    """A point of a chart, in the units of its view box; y grows downwards.

    Attributes:
        x: Where it stands.
        y: Height of its value.
        low: Height of the lower end of its interval; None without one.
        high: Height of the upper end.
        label: What stands under it; nothing where labels would be too many.
        is_comparable: Whether it means what the others mean.
        is_open_low: Whether the lower end is the metric's own, as too few examples bound it.
        is_open_high: Whether the upper end is.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    label: str
    is_comparable: bool
    is_open_low: bool = False
    is_open_high: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        marks: Its points from left to right.
        ticks: Height and value of each line across.
    """

    marks: list[Mark]
    ticks: list[tuple[float, float]]

    @property
    def line(self) -> str:
        """The line through the points that can be compared, as SVG has it."""
        return polyline((mark.x, mark.y) for mark in self.marks if mark.is_comparable)


def draw(points: Sequence[tuple[str, Estimate, bool]], reach: Reach | None = None) -> Chart | None:
    """Return the chart of labelled estimates; None where none has a value.

    Args:
        points: Label, estimate, and whether it can be compared.
        reach: Between which values the number always lies, where that is known.
    """
    shown = [(label, one, fits) for label, one, fits in points if one.value is not None]
    if not shown:
        return None
    reached = [end for _, one, _ in shown for end in (one.value, one.low, one.high) if end is not None]
    ticks = round_ticks(min(reached), max(reached))
    bottom, top = ticks[0], ticks[-1]

    def height(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    every = math.ceil(len(shown) / _MOST_LABELS)
    step = (WIDTH - LEFT - RIGHT) / len(shown)
    marks = [
        Mark(
            x=LEFT + (position + 0.5) * step,
            y=height(one.value or 0.0),
            low=None if one.low is None else height(one.low),
            high=None if one.high is None else height(one.high),
            label=label if position % every == 0 else "",
            is_comparable=fits,
            is_open_low=reach is not None and is_open(one, reach, "low"),
            is_open_high=reach is not None and is_open(one, reach, "high"),
        )
        for position, (label, one, fits) in enumerate(shown)
    ]
    return Chart(marks, [(height(tick), tick) for tick in ticks])


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """Return points as the attribute ``points`` of SVG has them.

    >>> polyline([(0, 1.25), (10, 2)])
    '0.0,1.2 10.0,2.0'
    """
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def round_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from one at or below ``low`` to one at or above ``high``.

    >>> round_ticks(0.31, 0.48), round_ticks(1.0, 1.0), round_ticks(-3, 70)
    ([0.3, 0.35, 0.4, 0.45, 0.5], [0.9, 1.0, 1.1], [-20.0, 0.0, 20.0, 40.0, 60.0, 80.0])
    >>> round_ticks(0.019459048292, 0.019459048292)
    [0.017, 0.018, 0.019, 0.02, 0.021, 0.022]
    """
    # Numbers that differ in their last digits next to 0 have no room for a tick between them.
    if not high - low > _NO_WIDTH:
        margin = abs(low) / 10 if abs(low) > _NO_WIDTH else 0.1
        low, high = low - margin, high + margin
        power = 10.0 ** math.floor(math.log10(margin * 1.001))
        step = next(times * power for times in (5, 2, 1) if times * power <= margin * 1.001)
    else:
        rough = (high - low) / (_TICKS - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((times * power for times in (1, 2, 5) if times * power >= rough * 0.999), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]
