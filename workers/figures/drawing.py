"""The frame of every figure: SVG text that is the same for the same numbers, with the same matplotlib."""

import io
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

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


class Margins(NamedTuple):
    """Inches around the axes of a figure, and between two side by side."""

    left: float = 0.62
    right: float = 0.12
    top: float = 0.42
    bottom: float = 0.48
    between: float = 0.36


def draw_figure(
    salt: str,
    title: str,
    plot: Callable[[list[Axes]], None],
    *,
    columns: int = 1,
    rows: int = 1,
    size: tuple[float, float],
    margins: Margins | None = None,
) -> str:
    """Return a figure's SVG element, titled for those who do not see it.

    Args:
        salt: Makes ids repeatable, and different between figures that end up in one page.
        title: Above the figure, and its accessible name.
        plot: Draws into the axes it is given.
        columns: Axes side by side.
        rows: Rows of them; axes are given row by row.
        size: Width and height in inches.
        margins: Where they are known, as all ticks are short numbers; else the figure is laid out by what it shows,
            which takes half as long again.
    """
    style: Any = STYLE | {"svg.hashsalt": salt}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained" if margins is None else None)
        if margins is not None:
            _leave(figure, margins, columns)
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


def _leave(figure: Figure, margins: Margins, columns: int) -> None:
    width, height = figure.get_size_inches()
    axis = (width - margins.left - margins.right - margins.between * (columns - 1)) / columns
    figure.subplots_adjust(
        left=margins.left / width,
        right=1 - margins.right / width,
        top=1 - margins.top / height,
        bottom=margins.bottom / height,
        wspace=margins.between / axis,
    )
