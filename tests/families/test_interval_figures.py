"""Intervals in figures: an end that the sample does not bound is no measurement, and is not drawn as one."""

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workers.figures.intervals import (
    FROM_ZERO,
    NOT_BOUNDED,
    SHARE,
    Interval,
    draw_band,
    draw_intervals,
    say_dashed,
)


@pytest.fixture
def ax() -> Axes:
    return Figure().add_subplot()


def drawn(ax: Axes) -> list[tuple[str, list[float]]]:
    """Return the style and the ends of every line with a length; caps have none."""
    lines = [(str(line.get_linestyle()), [float(end) for end in line.get_ydata()]) for line in ax.lines]
    return [(style, ends) for style, ends in lines if len(ends) == 2]


def test_ends_that_are_bounded_are_solid_and_have_caps(ax: Axes) -> None:
    assert not draw_intervals(ax, [0], [Interval(0.5, 0.4, 0.7)], SHARE, colour="#111111")
    assert drawn(ax) == [("-", [0.5, 0.4]), ("-", [0.5, 0.7])]
    assert len(ax.lines) == 4


def test_an_end_that_is_the_range_s_own_is_dashed_and_has_none(ax: Axes) -> None:
    assert draw_intervals(ax, [0], [Interval(0.5, 0.0, 0.7)], SHARE, colour="#111111")
    assert drawn(ax) == [("--", [0.5, 0.0]), ("-", [0.5, 0.7])]
    assert len(ax.lines) == 3


def test_a_value_at_the_end_of_its_range_is_measured(ax: Axes) -> None:
    assert not draw_intervals(ax, [0], [Interval(1.0, 0.8, 1.0)], SHARE, colour="#111111")
    assert drawn(ax) == [("-", [1.0, 0.8])]


def test_an_end_nobody_knows_is_not_drawn(ax: Axes) -> None:
    intervals = [Interval(0.5, None, None), Interval(2.0, 1.0, None)]
    assert not draw_intervals(ax, [0, 1], intervals, FROM_ZERO, colour="#111111")
    assert drawn(ax) == [("-", [2.0, 1.0])]


def test_a_horizontal_interval_lies_along_the_other_axis(ax: Axes) -> None:
    draw_intervals(ax, [3], [Interval(0.5, 0.4, 1.0)], SHARE, colour="#111111", is_horizontal=True)
    lines = [[float(one) for one in line.get_xdata()] for line in ax.lines]
    assert [line for line in lines if len(line) == 2] == [[0.5, 0.4], [0.5, 1.0]]
    assert {float(one) for line in ax.lines for one in line.get_ydata()} == {3.0}


@pytest.mark.parametrize(("low", "is_open"), [(0.3, False), (0.0, True)], ids=["bounded", "open"])
def test_a_band_is_hatched_where_it_is_open(ax: Axes, low: float, is_open: bool) -> None:
    points = [Interval(0.5, low, 0.6), Interval(0.4, 0.2, 0.5)]
    assert draw_band(ax, [0, 1], points, SHARE, colour="#2e6f9e", label="95% interval") is is_open
    assert any(one.get_hatch() for one in ax.collections) is is_open
    filled = [one for one in ax.collections if not one.get_hatch()]
    corners = [tuple(corner) for one in filled for path in one.get_paths() for corner in path.vertices]
    # What is filled at the first point ends at its value where its lower end is open.
    assert min(y for x, y in corners if x == 0) == pytest.approx(0.5 if is_open else 0.3)
    assert min(y for x, y in corners if x == 1) == pytest.approx(0.2)
    assert ax.get_legend_handles_labels()[1] == ["95% interval"]


def test_the_legend_says_once_what_dashes_mean(ax: Axes) -> None:
    say_dashed(ax)
    say_dashed(ax)
    assert ax.get_legend_handles_labels()[1] == [NOT_BOUNDED]
