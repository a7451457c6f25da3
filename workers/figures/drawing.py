"""The frame of every figure: SVG text that is the same for the same numbers, with the same matplotlib."""

import io
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

STYLE: dict[str, Any] = {
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "legend.frameon": False,
}


def draw_figure(
    salt: str,
    title: str,
    plot: Callable[[list[Axes]], None],
    *,
    columns: int = 1,
    rows: int = 1,
    size: tuple[float, float],
) -> str:
    """Return a figure's SVG element, titled for those who do not see it.

    Args:
        salt: Makes ids repeatable, and different between figures that end up in one page.
        title: Above the figure, and its accessible name.
        plot: Draws into the axes it is given.
        columns: Axes side by side.
        rows: Rows of them; axes are given row by row.
        size: Width and height in inches.
    """
    style: Any = STYLE | {"svg.hashsalt": salt}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        axes = [figure.add_subplot(rows, columns, place + 1) for place in range(rows * columns)]
        figure.suptitle(title)
        plot(axes)
        text = io.StringIO()
        # What savefig draws first, to have a renderer for the layout, is thrown away: drawing lays out by itself.
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(text, metadata={"Date": None, "Creator": None, "Title": title})
    svg = text.getvalue()
    # From the root element on: an XML declaration and a doctype may not stand inside a page.
    svg = svg[svg.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    return svg.replace(">", f"><title>{escape(title)}</title>", 1)
