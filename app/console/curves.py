"""Where the lines of a training's curves stand: numbers over epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.console.chart import polyline, round_ticks

WIDTH, HEIGHT = 560, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 16, 40
_MOST_LABELS = 10


@dataclass(frozen=True)
class Line:
    """One curve, in the units of the view box; y grows downwards.

    Attributes:
        title: What it shows.
        points: Of each epoch that has a value.
        last: The newest value.
    """

    title: str
    points: list[tuple[float, float]]
    last: float

    @property
    def path(self) -> str:
        """The points as SVG has them."""
        return polyline(self.points)


@dataclass(frozen=True)
class Curves:
    """Some curves over the same epochs.

    Attributes:
        title: What they have in common.
        lines: The curves that have values.
        ticks: Height and value of each line across.
        epochs: Place and number of the epochs that are labelled.
        kept: Place of the epoch whose weights were kept; None where none is.
    """

    title: str
    lines: list[Line]
    ticks: list[tuple[float, float]]
    epochs: list[tuple[float, int]]
    kept: float | None

    @property
    def is_single(self) -> bool:
        """Whether no curve has a second point to be drawn to."""
        return all(len(line.points) == 1 for line in self.lines)


def draw(
    title: str,
    points: Sequence[Mapping[str, float | None]],
    names: Mapping[str, str],
    *,
    kept: int | None,
    within: tuple[float, float] | None = None,
) -> Curves | None:
    """Return curves of ``points``, one an epoch; None where nothing has been measured.

    Args:
        title: What the curves have in common.
        points: Numbers by name, from the first epoch on.
        names: The numbers drawn, and what each shows.
        kept: Epoch whose weights were kept, from 1.
        within: Ends of the axis; by default those of the values.
    """
    values = {name: [(n, v) for n, one in enumerate(points) if (v := one.get(name)) is not None] for name in names}
    reached = [value for curve in values.values() for _, value in curve]
    if not reached:
        return None
    ticks = round_ticks(*(within or (min(reached), max(reached))))
    bottom, top = ticks[0], ticks[-1]
    step = (WIDTH - LEFT - RIGHT) / len(points)

    def x(position: int) -> float:
        return LEFT + (position + 0.5) * step

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    lines = [
        Line(names[name], [(x(position), y(value)) for position, value in curve], curve[-1][1])
        for name, curve in values.items()
        if curve
    ]
    every = -(-len(points) // _MOST_LABELS)
    labelled = [(x(position), position + 1) for position in range(0, len(points), every)]
    return Curves(title, lines, [(y(tick), tick) for tick in ticks], labelled, None if kept is None else x(kept - 1))
