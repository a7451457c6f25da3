"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.metric_ranges import Reach
from seatrial.families.certified_calibration.params import BOUNDS, CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import SMOOTHED
from workers.families.certified_calibration import admm_figures
from workers.figures.drawing import draw_figure
from workers.figures.intervals import FROM_ZERO, SHARE, Interval, draw_band, draw_intervals, say_dashed

DARK, BLUE, RED, GREEN, VIOLET, OCHRE, GREY = (
    "#222222",
    "#2e6f9e",
    "#c8553d",
    "#7a9a3a",
    "#8a5fa8",
    "#d99a2b",
    "#8c8c8c",
)
"""Told apart by lightness too; line styles and markers differ as well."""

COMPARED = {
    "ece": ("ECE without an attack", GREY, "--", ""),
    "brier_ece": ("ECE of worst Brier", GREEN, ":", "v"),
    "acce": ("found by ADMM", VIOLET, "-.", "s"),
    "dece": ("found by gradient ascent", OCHRE, (0, (5, 1, 1, 1, 1, 1)), "D"),
}
"""Label, colour, line and marker of what is compared with the certified calibration error."""

ATTACKS = {
    "ace_lower_true": ("^", "attack: less in the label"),
    "ace_raise_true": ("P", "attack: more in the label"),
    "ace_lower_predicted": ("X", "attack: less in the prediction"),
    "ace_raise_predicted": ("*", "attack: more in the prediction"),
}

WIDTH, HEIGHT = 3.5, 4.1
"""Inches of one of several panels."""

WIDE = 6.2
"""Inches of one panel alone."""

Points = list[tuple[float, Estimate]]


def draw(params: CertifiedCalibrationParams, result: Result) -> dict[str, str]:
    """Return SVG text by figure name; a figure whose numbers the result lacks is left out."""
    drawn: dict[str, str] = {}
    if _points(params, result, "certified_accuracy"):
        drawn["certified"] = _figure("certified", "What is certified, against the radius", _certified, params, result)
    reliability = result.series.get("reliability")
    if reliability:
        title = f"Reliability of the {reliability['n']} examples certified at radius {reliability['radius']:g}"
        drawn["reliability"] = _figure("reliability", title, _reliability, params, result, columns=2)
    if any(_points(params, result, "interval_width", bound=bound) for bound in BOUNDS):
        title = "Certified confidence intervals"
        drawn["interval_width"] = _figure("interval_width", title, _widths, params, result, columns=1)
    if _points(params, result, "certified_span", uncertainty="entropy"):
        title, columns = "Span of uncertainty within the radius", len(_spans_shown(params))
        drawn["span"] = _figure("span", title, _spans, params, result, columns=columns)
    if result.series.get("admm"):
        title = f"How the paper's ADMM met its constraints at radius {result.series['admm']['radius']:g}"
        drawn["admm"] = _figure("admm", title, admm_figures.constraints, params, result, columns=3, rows=2)
        title = f"Assignments to bins in the course of ADMM at radius {result.series['admm']['radius']:g}"
        panels = len(result.series["admm"]["assignments"])
        drawn["admm_assignment"] = _figure(
            "admm_assignment", title, admm_figures.assignments, params, result, rows=panels, columns=1
        )
    return drawn


def _figure(
    name: str,
    title: str,
    plot: Callable[[list[Axes], CertifiedCalibrationParams, Result], None],
    params: CertifiedCalibrationParams,
    result: Result,
    *,
    columns: int = 3,
    rows: int = 1,
) -> str:
    return draw_figure(
        f"certified_calibration {name}",
        title,
        lambda axes: plot(axes, params, result),
        columns=columns,
        rows=rows,
        size=(WIDE, 3.4 if rows == 1 else 2.2 * rows) if columns == 1 else (WIDTH * columns, HEIGHT * rows),
    )


def _certified(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    _accuracy(axes[0], params, result)
    _calibration(axes[1], params, result)
    _brier(axes[2], params, result)
    widest = 1.04 * result.series["fine_curve"][-1]["radius"] or 1.0
    for ax in axes:
        ax.set(xlabel="l_2 radius, pixels in [0, 1]", xlim=(0, widest), ylim=(0, None))
    axes[0].set_ylim(0, 1)
    legends = [ax.get_legend_handles_labels() for ax in axes]
    by_label = {label: handle for handles, labels in legends for handle, label in zip(handles, labels, strict=True)}
    axes[0].figure.legend(
        by_label.values(), by_label.keys(), loc="outside lower center", ncols=min(4, len(by_label)), fontsize=8
    )


def _accuracy(ax: Axes, params: CertifiedCalibrationParams, result: Result) -> None:
    curve = result.series["fine_curve"]
    radii = [point["radius"] for point in curve]
    fraction, accuracy = ([point[name] for point in curve] for name in ("certified_share", "certified_accuracy"))
    # Neither rises with the radius: a step that shows the later of two values claims no more than is certified.
    ax.step(radii, fraction, where="pre", color=GREY, ls=":", lw=1.6, label="share certified, right or wrong")
    ax.step(radii, accuracy, where="pre", color=BLUE, lw=1.4)
    points = _points(params, result, "certified_accuracy")
    _line(ax, points, "certified accuracy", BLUE, "none", "o")
    if draw_intervals(ax, *_intervals(points), SHARE, colour=BLUE, width=1, caps=False):
        say_dashed(ax)
    ax.set_title("accuracy, 95% intervals")


def _calibration(ax: Axes, params: CertifiedCalibrationParams, result: Result) -> None:
    _band(ax, _points(params, result, "cce"), DARK, SHARE)
    _line(ax, _points(params, result, "cce_system"), "CCE of all examples", BLUE, (0, (1, 1)), "")
    for name, (label, colour, line, marker) in COMPARED.items():
        _line(ax, _points(params, result, name), label, colour, line, marker)
    _line(ax, _points(params, result, "cce"), "certified, exactly", DARK, "-", "o")
    _same_examples(ax, result, "cce")
    _attacks(ax, params, result, "ece")
    ax.set_title("calibration error, CCE")


def _brier(ax: Axes, params: CertifiedCalibrationParams, result: Result) -> None:
    _band(ax, _points(params, result, "cbs"), DARK, SHARE)
    _line(ax, _points(params, result, "cbs"), "certified, exactly", DARK, "-", "o")
    _same_examples(ax, result, "cbs")
    _attacks(ax, params, result, "brier")
    ax.set_title("Brier score, CBS")


def _same_examples(ax: Axes, result: Result, name: str) -> None:
    """Draw how a bound grows over the same examples: the others' examples get fewer and easier with the radius."""
    fixed = result.series.get("fixed_subset")
    if fixed and len(fixed["points"]) > 1:
        radii, values = ([point[key] for point in fixed["points"]] for key in ("radius", name))
        label = f"certified, same {fixed['n']} examples"
        ax.plot(radii, values, color=DARK, ls=(0, (6, 2)), lw=0.8, marker=".", ms=3, label=label, clip_on=False)


def _attacks(ax: Axes, params: CertifiedCalibrationParams, result: Result, name: str) -> None:
    for attack in params.ace_attacks:
        marker, label = ATTACKS[attack]
        estimate = result.estimates.get(metric_name(name, attack=attack, radius=params.attack_radius))
        if estimate is None or estimate.value is None or params.attack_radius is None:
            continue
        ax.plot([params.attack_radius], [estimate.value], marker, color=RED, mec="white", mew=0.6, ms=9, label=label)


def _reliability(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    series = result.series["reliability"]
    radius = series["radius"]
    shown = (
        ("clean", "without an attack", "ECE", result.estimates.get(metric_name("ece", radius=radius)), GREY),
        ("worst", "worst case within the radius", "CCE", result.estimates.get(metric_name("cce", radius=radius)), RED),
    )
    for ax, (name, title, metric, estimate, colour) in zip(axes, shown, strict=True):
        diagram = series[name]
        total = sum(diagram["count"])
        edges = diagram["edges"]
        filled = [at for at, count in enumerate(diagram["count"]) if count]
        fractions = [diagram["count"][at] / total for at in filled]
        lefts, widths = [edges[at] for at in filled], [edges[at + 1] - edges[at] for at in filled]
        ax.bar(lefts, fractions, widths, align="edge", color=colour, alpha=0.25, label="share of examples")
        ax.plot([0, 1], [0, 1], color="#999999", lw=0.8, label="perfectly calibrated")
        accuracy, confidence = ([diagram[key][at] for at in filled] for key in ("accuracy", "confidence"))
        # How far a bin is off is what the error adds up, weighted by the bins' shares.
        ax.vlines(confidence, confidence, accuracy, color=colour, lw=1, alpha=0.7)
        ax.plot(confidence, accuracy, "o", color=DARK, ms=4, label="accuracy of a bin", clip_on=False)
        error = "" if estimate is None or estimate.value is None else f"\n{metric} {estimate.value:.3f}"
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", title=f"{title}{error}")
        ax.set_aspect("equal")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7, loc="upper left")


def _widths(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    styles = {
        "cdf": ("from the scores' distribution", BLUE, "-", "o"),
        "dkw": ("the same, band of one width (DKW)", GREEN, "-.", "^"),
        "standard": ("from their mean", RED, "--", "s"),
    }
    for bound in BOUNDS:
        points = _points(params, result, "interval_width", bound=bound)
        _band(axes[0], points, styles[bound][1], SHARE)
        _line(axes[0], points, *styles[bound])
    axes[0].set(xlabel="l_2 radius, pixels in [0, 1]", ylabel="mean width, 95% interval", xlim=(0, None))
    axes[0].set_ylim(0, 1)
    axes[0].legend(fontsize=8, loc="upper left")


def _spans_shown(params: CertifiedCalibrationParams) -> list[tuple[str, str]]:
    parts = [] if params.uncertainty is None else params.uncertainty.parts
    return [
        ("entropy", "entropy of the mean scores"),
        ("smoothed_entropy", "mean entropy of a draw's scores"),
        *((SMOOTHED[part], f"its {part} part") for part in parts),
    ]


def _spans(axes: list[Axes], params: CertifiedCalibrationParams, result: Result) -> None:
    for ax, (uncertainty, title) in zip(axes, _spans_shown(params), strict=True):
        certified = _points(params, result, "certified_span", uncertainty=uncertainty)
        attacked = _points(params, result, "attacked_span", uncertainty=uncertainty)
        _band(ax, certified, DARK, FROM_ZERO, axes[0])
        _band(ax, attacked, RED, FROM_ZERO, axes[0])
        _line(ax, certified, "certified: no attack exceeds it", DARK, "-", "o")
        _line(ax, attacked, "reached by an attack", RED, "--", "^")
        ax.set(xlabel="l_2 radius, pixels in [0, 1]", xlim=(0, None), ylim=(0, None), title=title)
    axes[0].set_ylabel("mean span, nat, 95% interval")
    axes[0].legend(fontsize=8, loc="upper left")


def _line(ax: Axes, points: Points, label: str, colour: str, line: Any, marker: str) -> None:
    if not points:
        return
    radii, values = [radius for radius, _ in points], [estimate.value or 0.0 for _, estimate in points]
    ax.plot(radii, values, color=colour, ls=line, marker=marker, ms=4, lw=1.4, label=label, clip_on=False)


def _band(ax: Axes, points: Points, colour: str, reach: Reach, legend: Axes | None = None) -> None:
    if draw_band(ax, *_intervals(points), reach, colour=colour):
        say_dashed(legend or ax)


def _intervals(points: Points) -> tuple[list[float], list[Interval]]:
    return [radius for radius, _ in points], [Interval.of(estimate) for _, estimate in points]


def _points(params: CertifiedCalibrationParams, result: Result, name: str, **qualifiers: str) -> Points:
    """Return the defined estimates of a metric by radius."""
    estimates: Mapping[str, Estimate] = result.estimates
    estimated = ((radius, estimates.get(metric_name(name, **qualifiers, radius=radius))) for radius in params.radii)
    return [(radius, estimate) for radius, estimate in estimated if estimate is not None and estimate.value is not None]
