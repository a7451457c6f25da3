"""Where the marks of a leaderboard's figures stand: a number against another, and against the radius it is at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.console.chart import polyline, round_ticks
from app.leaderboards.tables import varied_in_words
from seatrial.contracts.estimates import Estimate, metric_name, split_name
from seatrial.contracts.leaderboards import LeaderboardRead, LeaderboardRow

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 16, 48
MOST_CURVES = 6
"""More would not be told apart by their dashes."""
DASHES = ("", "6 3", "2 3", "10 3 2 3", "12 4", "1 5")


@dataclass(frozen=True)
class Frame:
    """The two axes of a figure, in the units of its view box; y grows downwards.

    Attributes:
        across: Place and value of each tick of x.
        up: Place and value of each tick of y.
    """

    across: list[tuple[float, float]]
    up: list[tuple[float, float]]

    @classmethod
    def around(cls, xs: Sequence[float], ys: Sequence[float]) -> "Frame":
        """Return axes that hold all values."""
        across, up = round_ticks(min(xs), max(xs)), round_ticks(min(ys), max(ys))
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return cls(
            [(LEFT + width * (tick - across[0]) / (across[-1] - across[0]), tick) for tick in across],
            [(TOP + height * (up[-1] - tick) / (up[-1] - up[0]), tick) for tick in up],
        )

    def x(self, value: float) -> float:
        """Return where a value stands."""
        (left, low), (right, high) = self.across[0], self.across[-1]
        return left + (right - left) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Return where a value stands."""
        (bottom, low), (top, high) = self.up[0], self.up[-1]
        return bottom + (top - bottom) * (value - low) / (high - low)


@dataclass(frozen=True)
class Dot:
    """A row of the scatter.

    Attributes:
        x: Where the number that sorts stands.
        y: Where the other one does.
        wide: Ends of the first one's interval; its value twice without one.
        high: Of the other's.
        label: Name of the row.
        is_efficient: Whether it is on the Pareto front.
    """

    x: float
    y: float
    wide: tuple[float, float]
    high: tuple[float, float]
    label: str
    is_efficient: bool


@dataclass(frozen=True)
class Scatter:
    """Two numbers of all rows that have both."""

    frame: Frame
    dots: list[Dot]

    @property
    def front(self) -> str:
        """The line through the Pareto front, as SVG has it."""
        efficient = sorted((dot for dot in self.dots if dot.is_efficient), key=lambda dot: (dot.x, dot.y))
        return polyline((dot.x, dot.y) for dot in efficient)


@dataclass(frozen=True)
class Curve:
    """A row's number at every value of a qualifier.

    Attributes:
        label: Name of the row.
        dash: How its line is drawn.
        points: Its values.
        whiskers: Of each, where it stands and the ends of its interval.
    """

    label: str
    dash: str
    points: list[tuple[float, float]]
    whiskers: list[tuple[float, float, float]]

    @property
    def path(self) -> str:
        """The points as SVG has them."""
        return polyline(self.points)


@dataclass(frozen=True)
class Curves:
    """A number against a qualifier, a line for each row.

    Attributes:
        title: Name of the number, without the qualifier.
        against: Name of the qualifier.
        frame: The axes.
        lines: The curves, those of the best rows.
        left_out: Rows without a line.
    """

    title: str
    against: str
    frame: Frame
    lines: list[Curve]
    left_out: int


def label_of(row: LeaderboardRow, across: str | None) -> str:
    """Return a row's name, with the value of what rows may differ in."""
    more = "" if across is None else f", {across} {varied_in_words(row)}"
    return f"{row.model_name} {row.model_version}{more}"


def draw_scatter(board: LeaderboardRead) -> Scatter | None:
    """Return the metric of every row against the one beside it; None where fewer than one row has both."""
    if board.metric is None or board.beside is None:
        return None
    rows = [row for row in board.rows if row.is_efficient is not None]
    if not rows:
        return None
    first, second = ([row.estimates[name] for row in rows] for name in (board.metric, board.beside))
    frame = Frame.around([*_reached(first)], [*_reached(second)])
    dots = []
    for row, across, up in zip(rows, first, second, strict=True):
        wide, high = _ends(across), _ends(up)
        x, y = frame.x(across.value or 0.0), frame.y(up.value or 0.0)
        ends = (frame.x(wide[0]), frame.x(wide[1])), (frame.y(high[0]), frame.y(high[1]))
        dots.append(Dot(x, y, *ends, label_of(row, board.across), bool(row.is_efficient)))
    return Scatter(frame, dots)


def draw_curves(board: LeaderboardRead) -> Curves | None:
    """Return the metric at every value of its numeric qualifier; None where it has none, or one value of it."""
    if board.metric is None:
        return None
    base, qualifiers = split_name(board.metric)
    against = next((name for name, value in qualifiers.items() if _number(value) is not None), None)
    if against is None:
        return None
    values = [dict(_along(row, base, qualifiers, against)) for row in board.rows]
    shown = [(row, found) for row, found in zip(board.rows, values, strict=True) if len(found) > 1]
    if not shown:
        return None
    drawn = shown[:MOST_CURVES]
    places = [place for _, found in drawn for place in found]
    frame = Frame.around(places, [end for _, found in drawn for end in _reached([*found.values()])])
    lines = []
    for (row, found), dash in zip(drawn, DASHES, strict=False):
        told = sorted(found.items())
        whiskers = [(frame.x(at), *(frame.y(end) for end in _ends(one))) for at, one in told]
        points = [(frame.x(at), frame.y(one.value or 0.0)) for at, one in told]
        lines.append(Curve(label_of(row, board.across), dash, points, [(x, low, high) for x, low, high in whiskers]))
    rest = {name: value for name, value in qualifiers.items() if name != against}
    return Curves(metric_name(base, **rest), against, frame, lines, len(shown) - len(drawn))


def _along(
    row: LeaderboardRow, base: str, qualifiers: Mapping[str, str], against: str
) -> Iterator[tuple[float, Estimate]]:
    """Yield a number at each value of a qualifier, the others being the same."""
    for name, estimate in row.estimates.items():
        told, of = split_name(name)
        if told != base or of.keys() != qualifiers.keys() or estimate.value is None:
            continue
        place = _number(of[against])
        if place is not None and all(of[one] == value for one, value in qualifiers.items() if one != against):
            yield place, estimate


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _ends(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value or 0.0
    return (value if estimate.low is None else estimate.low), (value if estimate.high is None else estimate.high)


def _reached(estimates: Sequence[Estimate]) -> Iterator[float]:
    for one in estimates:
        yield from _ends(one)
        yield one.value or 0.0
