"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

import itertools

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Result
from workers.figures.drawing import draw_figure

COLOURS = {"clean": "#4d4d4d", "attacked": "#c8553d"}
STYLES = {"clean": "-", "attacked": "--"}


def draw(result: Result) -> dict[str, str]:
    """Return SVG text by figure name."""
    arms = list(result.series["reliability"])
    return {
        "reliability": draw_figure(
            "calibration reliability",
            "Reliability",
            lambda axes: _reliability(axes, result),
            columns=len(arms),
            size=(4.2 * len(arms), 4.2),
        ),
        "risk_coverage": draw_figure(
            "calibration risk_coverage",
            "Error of the surest examples",
            lambda axes: _risk_coverage(axes[0], result),
            size=(6.2, 3.4),
        ),
    }


def _reliability(axes: list[Axes], result: Result) -> None:
    for ax, (arm, diagram) in zip(axes, result.series["reliability"].items(), strict=True):
        total, edges = max(1, sum(diagram["count"])), diagram["edges"]
        widths = [right - left for left, right in itertools.pairwise(edges)]
        shares = [count / total for count in diagram["count"]]
        ax.bar(edges[:-1], shares, widths, align="edge", color=COLOURS[arm], alpha=0.18, label="share of examples")
        ax.plot([0, 1], [0, 1], color="#999999", lw=0.8, label="perfectly calibrated")
        pairs = zip(diagram["confidence"], diagram["accuracy"], strict=True)
        points = [(sure, right) for sure, right in pairs if sure is not None and right is not None]
        ax.plot(*zip(*points, strict=True), color=COLOURS[arm], marker="o", ms=3, lw=1.2, label="accuracy")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", title=arm)
        ax.set_aspect("equal")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7, loc="upper left")


def _risk_coverage(ax: Axes, result: Result) -> None:
    for arm, curve in result.series["risk_coverage"].items():
        style = {"color": COLOURS[arm], "linestyle": STYLES[arm], "label": arm}
        ax.plot(curve["coverage"], curve["risk"], lw=1.6, drawstyle="steps-post", **style)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="share of examples answered", ylabel="error among them")
    ax.legend()
