"""Figures of how the paper's ADMM converges (appendix G.1, figures 10 and 11): series to axes."""

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Result, metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams

CONSTRAINTS = {
    "bounded_confidence": "bounded confidence",
    "binary_assignment": "binary assignment",
    "unique_assignment": "unique assignment",
    "valid_assignment": "valid assignment",
}

LEAST = 1e-12
"""Norms below this are drawn as it: the axis is logarithmic."""


def constraints(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    """Draw how far each constraint is from holding by step, and the ECE of the nearest allowed point."""
    series = result.series["admm"]
    steps = series["steps"]
    for ax, (name, title) in zip(axes, CONSTRAINTS.items(), strict=False):
        norms = series["violations"][name]
        for norm, label, colour, line in (("l2", "l_2", "#2e6f9e", "-"), ("linf", "l_inf", "#c8553d", "--")):
            ax.plot(steps, [max(LEAST, value) for value in norms[norm]], color=colour, ls=line, lw=1.3, label=label)
        ax.set(yscale="log", title=title)
    found = axes[4]
    found.plot(steps, series["ece"], color="#8a5fa8", lw=1.3, label="ADMM, projected")
    exact = result.estimates.get(metric_name("cce", radius=series["radius"]))
    if exact is not None and exact.value is not None:
        found.axhline(exact.value, color="#222222", lw=1, ls=":", label="exact")
    found.set(title="calibration error", ylim=(0, None))
    found.legend(fontsize=8)
    for ax in axes[:5]:
        ax.set(xlabel="step", xlim=(0, None))
    for ax in (axes[0], axes[3]):
        ax.set_ylabel("norm of the distance")
    axes[0].legend(fontsize=8)
    axes[5].set_axis_off()


def assignments(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    """Draw the assignment of the first examples to their bins at the beginning, between and at the end."""
    for ax, one in zip(axes, result.series["admm"]["assignments"], strict=True):
        flat = [value for row in one["values"] for value in row]
        bins = len(one["values"][0])
        ax.vlines(range(len(flat)), 0, flat, color="#2e6f9e", lw=0.9)
        for edge in range(bins, len(flat), bins):
            ax.axvline(edge - 0.5, color="#cccccc", lw=0.6)
        ax.axhline(0, color="#999999", lw=0.6)
        ax.set(title=f"step {one['step']}", ylabel="a", xlim=(-1, len(flat)))
    axes[-1].set_xlabel("example by example, its bins")
