"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.passes import PARTS
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from workers.figures.drawing import Margins, draw_figure
from workers.figures.intervals import SHARE, TITLES, Interval, draw_intervals, say_dashed

COLOURS = {"clean": "#4d4d4d", "over": "#c8553d", "under": "#2e6f9e"}
"""Told apart also in print and by colour-blind readers; line styles differ as well."""

STYLES = {"clean": "-", "over": "--", "under": ":"}
ACROSS = 3
"""Diagrams side by side."""

LABELS = {"clean": "clean", "over": "over-confidence attack", "under": "under-confidence attack"}


def draw(params: UncertaintySpanParams, result: Result) -> dict[str, str]:
    """Return SVG text by figure name; a figure whose numbers the result lacks is left out."""
    drawn: dict[str, str] = {}
    if sum(sum(result.series["entropy_histogram"][arm]) for arm in ARMS):
        drawn["entropy"] = _figure(
            "entropy", "Predictive entropy, clean and attacked", _entropy, result, margins=Margins()
        )
        drawn["reliability"] = _figure(
            *("reliability", "Reliability, clean and attacked", _reliability, result),
            columns=3,
            margins=Margins(top=1.0),
        )
    if len(result.series.get("span_by_epsilon", [])) > 1:
        drawn["span_by_epsilon"] = _figure(
            "span_by_epsilon", "Mean uncertainty span against epsilon", _growth, result, margins=Margins()
        )
    if any(metric_name("part_span", part=part) in result.estimates for part in params.parts):
        drawn["parts"] = _figure("parts", "Parts of the predictive entropy, clean and attacked", _parts, result)
    if params.attacks:
        drawn["attacks"] = _figure("attacks", "ECE under label-preserving attacks", _attacks, result)
    if diagrams := _under_attacks(result):
        title, columns = "Reliability under label-preserving attacks", min(len(diagrams), ACROSS)
        rows = -(-len(diagrams) // columns)
        drawn["attack_reliability"] = _figure(
            "attack_reliability", title, _attack_reliability, result, columns=columns, rows=rows
        )
    if _by_qualifier(result.estimates, "auroc", "epsilon"):
        drawn["outliers"] = _figure("outliers", "Telling outliers by entropy, under attack", _outliers, result)
    return drawn


def _figure(
    name: str,
    title: str,
    plot: Callable[[list[Axes], Result], None],
    result: Result,
    *,
    columns: int = 1,
    rows: int = 1,
    margins: Margins | None = None,
) -> str:
    size = (6.2, 3.4) if columns == 1 else (3.1 * columns, 3.8 * rows)
    return draw_figure(
        *(f"uncertainty_span {name}", title, lambda axes: plot(axes, result)),
        columns=columns,
        rows=rows,
        size=size,
        margins=margins,
    )


def _entropy(axes: list[Axes], result: Result) -> None:
    histogram = result.series["entropy_histogram"]
    for arm in ARMS:
        total = max(1, sum(histogram[arm]))
        shares = [count / total for count in histogram[arm]]
        axes[0].stairs(shares, histogram["edges"], color=COLOURS[arm], linestyle=STYLES[arm], lw=1.6, label=LABELS[arm])
        mean = result.estimates[f"entropy[arm={arm}]"].value
        if mean is not None:
            axes[0].axvline(mean, color=COLOURS[arm], linestyle=STYLES[arm], lw=0.8, alpha=0.6)
    axes[0].set(xlabel="predictive entropy (nat); thin lines: means", ylabel="share of examples", ylim=(0, None))
    axes[0].legend()


def _reliability(axes: list[Axes], result: Result) -> None:
    for ax, arm in zip(axes, ARMS, strict=True):
        _diagram(ax, result.series["reliability"][arm], COLOURS[arm], f"{LABELS[arm]}\n{_ece(result, arm=arm)}")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7, loc="upper left")


def _diagram(ax: Axes, diagram: Mapping[str, Any], colour: str, title: str) -> None:
    total = max(1, sum(diagram["count"]))
    points = [
        (left, right - left, accuracy, confidence, count / total)
        for left, right, accuracy, confidence, count in zip(
            diagram["edges"],
            diagram["edges"][1:],
            diagram["accuracy"],
            diagram["confidence"],
            diagram["count"],
            strict=False,
        )
        if accuracy is not None
    ]
    lefts, widths, accuracies, confidences, shares = zip(*points, strict=True)
    ax.bar(lefts, shares, widths, align="edge", color=colour, alpha=0.18, label="share of examples")
    ax.plot([0, 1], [0, 1], color="#999999", lw=0.8, label="perfectly calibrated")
    ax.plot(confidences, accuracies, color=colour, marker="o", ms=3, lw=1.2, label="accuracy", clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", title=title)
    ax.set_aspect("equal")


def _under_attacks(result: Result) -> Mapping[str, Any]:
    """Return the diagrams under attacks, after the one without; nothing where no attack has any."""
    found: Mapping[str, Any] = result.series.get("attack_reliability") or {}
    return {"none": result.series["reliability"]["clean"], **found} if found else {}


def _attack_reliability(axes: list[Axes], result: Result) -> None:
    diagrams = _under_attacks(result)
    for at, (ax, (attack, diagram)) in enumerate(zip(axes, diagrams.items(), strict=False)):
        told = _ece(result, arm="clean") if at == 0 else _ece(result, attack=attack)
        _diagram(ax, diagram, COLOURS["over" if at else "clean"], f"{attack}\n{told}")
        if at % ACROSS == 0:
            ax.set_ylabel("accuracy")
    for ax in axes[len(diagrams) :]:
        ax.set_axis_off()
    axes[0].legend(fontsize=7, loc="upper left")


def _ece(result: Result, **of: str) -> str:
    found = [result.estimates.get(metric_name(name, **of)) for name in ("ece", "s_ece", "ece_equal_mass")]
    ece, signed, adaptive = (None if one is None else one.value for one in found)
    if ece is None or signed is None:
        return ""
    more = "" if adaptive is None else f"\nAdaECE {adaptive:.3f}"
    return f"ECE {ece:.3f}, signed {signed:+.3f}{more}"


def _growth(axes: list[Axes], result: Result) -> None:
    points = result.series["span_by_epsilon"]
    epsilons, means = [point["epsilon"] for point in points], [point["mus"] for point in points]
    axes[0].plot(epsilons, means, color=COLOURS["under"], marker="o", clip_on=False)
    axes[0].set(xlabel="epsilon", ylabel=f"mean span (nat), {points[-1]['n']} examples", xlim=(0, None), ylim=(0, None))


def _parts(axes: list[Axes], result: Result) -> None:
    def value_of(name: str) -> float:
        value = result.estimates[name].value
        return math.nan if value is None else value

    named = [part for part in PARTS if metric_name("part_span", part=part) in result.estimates]
    for row, part in enumerate(named):
        ends = [value_of(metric_name(f"part_{end}", part=part)) for end in ("lowest", "highest")]
        label = "attacks on the part itself" if row == 0 else None
        axes[0].plot(ends, [row, row], color="#222222", lw=7, alpha=0.2, solid_capstyle="butt", label=label)
        for arm, marker in zip(ARMS, "o<>", strict=True):
            value = value_of(metric_name("entropy_part", part=part, arm=arm))
            axes[0].plot(
                [value], [row], marker, color=COLOURS[arm], ms=6, ls="none", label=LABELS[arm] if row == 0 else None
            )
    axes[0].set_yticks(range(len(named)), named)
    axes[0].set(xlabel="mean part (nat)", xlim=(0, None), ylim=(len(named) - 0.4, -0.9))
    axes[0].legend(fontsize=7, loc="upper right", ncols=2)


def _attacks(axes: list[Axes], result: Result) -> None:
    found = {"none": result.estimates["ece[arm=clean]"]} | _by_qualifier(result.estimates, "ece", "attack")
    defined = {name: estimate for name, estimate in found.items() if estimate.value is not None}
    values = [estimate.value or 0.0 for estimate in defined.values()]
    axes[0].barh(list(defined), values, color=COLOURS["over"], alpha=0.75, height=0.6)
    ends = [Interval.of(estimate) for estimate in defined.values()]
    is_dashed = draw_intervals(axes[0], range(len(ends)), ends, SHARE, colour="#222222", is_horizontal=True, caps=False)
    axes[0].invert_yaxis()
    axes[0].set(xlabel=f"expected calibration error, {TITLES[is_dashed]}", xlim=(0, None))


def _outliers(axes: list[Axes], result: Result) -> None:
    is_dashed = False
    curves = {"auroc": ("AUROC", "under", "o"), "fpr95": ("FPR at 95% TPR", "over", "s")}
    for name, (label, colour, marker) in curves.items():
        found = _by_qualifier(result.estimates, name, "epsilon")
        points = sorted((float(epsilon), estimate) for epsilon, estimate in found.items() if estimate.value is not None)
        epsilons, values = [x for x, _ in points], [estimate.value or 0.0 for _, estimate in points]
        axes[0].plot(epsilons, values, marker=marker, label=label, color=COLOURS[colour], linestyle=STYLES[colour])
        ends = [Interval.of(estimate) for _, estimate in points]
        is_dashed |= draw_intervals(axes[0], epsilons, ends, SHARE, colour=COLOURS[colour], width=1, caps=False)
    if is_dashed:
        say_dashed(axes[0])
    axes[0].axhline(0.5, color="#999999", lw=0.8)
    axes[0].set(xlabel="epsilon of the attack on the outliers", ylim=(0, 1.02))
    axes[0].legend()


def _by_qualifier(estimates: Mapping[str, Estimate], name: str, qualifier: str) -> dict[str, Estimate]:
    """Return the estimates called ``name[qualifier=value]``, by value."""
    start = f"{name}[{qualifier}="
    return {key[len(start) : -1]: estimate for key, estimate in estimates.items() if key.startswith(start)}
