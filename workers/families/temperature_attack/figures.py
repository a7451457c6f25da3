"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from seatrial.contracts.estimates import Result
from seatrial.families.temperature_attack.illusion_gap import inert
from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, TemperatureAttackParams
from workers.figures.drawing import draw_figure
from workers.figures.intervals import SHARE, Interval, draw_band, draw_intervals, say_dashed

COLOURS = {
    AS_SERVED: "#4d4d4d",
    "calibrated": "#2e6f9e",
    "calibrated_paper": "#8fb8d6",
    "optimized": "#c8553d",
    "platt_vector": "#7a9a3a",
    "platt_matrix": "#c0d08e",
    "transfer": "#8a5fa8",
    LABEL_ONLY: "#d9a441",
}
"""Told apart by lightness too; in the curve markers differ as well."""

MARKERS = {AS_SERVED: "s", "calibrated": "o", "calibrated_paper": "v", "optimized": "D"}
LABELS = {
    AS_SERVED: "as served",
    "calibrated": "calibrated",
    "calibrated_paper": "calibrated (paper)",
    "optimized": "optimized",
    "platt_vector": "Platt (vector)",
    "platt_matrix": "Platt (matrix)",
    "transfer": "transfer",
    LABEL_ONLY: "labels only",
}

WIDTH, HEIGHT = 6.2, 3.4
"""Inches."""

BAR = 0.2
"""Inches per bar, from which on a figure with many grows wider."""

WIDEST = 13.0


def draw(params: TemperatureAttackParams, result: Result) -> dict[str, str]:
    """Return SVG text by figure name; a figure whose numbers the result lacks is left out."""
    series = result.series
    drawn: dict[str, str] = {}
    bars = [bar for bar in series.get("adversarial_accuracy", []) if bar["accuracy"] is not None]
    if bars:
        title = "Accuracy under attack, of the unmodified model"
        drawn["adversarial_accuracy"] = _figure(
            "adversarial_accuracy", title, _bars, (bars, inert(result)), width=len(bars) * BAR + 1.5
        )
    curve = series.get("temperature_curve") or {"points": [], "arms": {}}
    if any(point["accuracy"] is not None for point in curve["points"]):
        title = "Accuracy under attack against the attacker's temperature, and the confidence it makes"
        axes = ["temperature", *(["confidence"] if _has_confidence(curve) else [])]
        drawn["temperature_curve"] = _figure(
            "temperature_curve", title, _curves, (curve, axes), columns=len(axes), width=WIDTH + 2.0 * (len(axes) - 1)
        )
    reliability = series.get("reliability") or {}
    shown = [arm for arm in (AS_SERVED, _fitted(params)) if arm in reliability and sum(reliability[arm]["count"])]
    if shown:
        diagrams = [(arm, reliability[arm], result.estimates.get(f"ece[arm={arm}]")) for arm in shown]
        title = "Reliability on the clean texts"
        drawn["reliability"] = _figure("reliability", title, _reliability, diagrams, columns=len(shown), height=3.5)
    margins = series.get("margins") or {}
    if margins:
        title = "Margins between the largest and the smallest logit"
        drawn["margins"] = _figure("margins", title, _margins, list(margins.items()), columns=len(margins))
    return drawn


def _fitted(params: TemperatureAttackParams) -> str:
    """Return the arm shown beside as served."""
    return next((arm for arm in params.arms if arm.startswith("calibrated")), params.arms[0] if params.arms else "")


def _figure(
    name: str,
    title: str,
    plot: Callable[[list[Axes], Any], None],
    shown: Any,
    *,
    columns: int = 1,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> str:
    size = (min(WIDEST, max(WIDTH, width)), height)
    return draw_figure(f"temperature_attack {name}", title, lambda axes: plot(axes, shown), columns=columns, size=size)


def _bars(axes: list[Axes], shown: tuple[list[dict[str, Any]], set[str]]) -> None:
    bars, powerless = shown
    recipes, arms = (list(dict.fromkeys(bar[key] for bar in bars)) for key in ("recipe", "arm"))
    width, is_dashed = 0.8 / len(arms), False
    for place, arm in enumerate(arms):
        own = [bar for bar in bars if bar["arm"] == arm]
        at = [recipes.index(bar["recipe"]) + (place - (len(arms) - 1) / 2) * width for bar in own]
        values = [bar["accuracy"] for bar in own]
        axes[0].bar(at, values, width * 0.92, color=COLOURS[arm], label=LABELS[arm])
        ends = [_interval(bar) for bar in own]
        is_dashed = draw_intervals(axes[0], at, ends, SHARE, colour="#111111", width=0.9) or is_dashed
    names = [f"{recipe} (inert)" if recipe in powerless else recipe for recipe in recipes]
    axes[0].set_xticks(range(len(recipes)), names)
    axes[0].grid(visible=False, axis="x")
    axes[0].set(ylabel="accuracy, 95% interval", ylim=(0, 1))
    if is_dashed:
        say_dashed(axes[0])
    axes[0].figure.legend(loc="outside lower center", ncols=min(len(arms), 4), fontsize=8)


def _has_confidence(curve: dict[str, Any]) -> bool:
    """Return whether it is known at every point; results of earlier versions lack it."""
    return all(point.get("confidence") is not None for point in [*curve["points"], *curve["arms"].values()])


def _curves(axes: list[Axes], shown: tuple[dict[str, Any], list[str]]) -> None:
    curve, names = shown
    if any([_curve(ax, curve, name) for ax, name in zip(axes, names, strict=True)]):
        say_dashed(axes[0])
    axes[0].set_xscale("log")
    axes[0].set(xlabel="temperature, on top of what is served", ylabel="accuracy under DeepWordBug")
    for ax in axes[1:]:
        ax.set(xlabel="mean confidence on unattacked texts")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)


def _curve(ax: Axes, curve: dict[str, Any], against: str) -> bool:
    """Draw one, and tell whether any interval of it has an open end."""
    points = [point for point in curve["points"] if point["accuracy"] is not None]
    places = [point[against] for point in points]
    is_dashed = draw_band(ax, places, [_interval(point) for point in points], SHARE, colour="#2e6f9e")
    label = f"search, {points[0]['n']} validation texts"
    ax.plot(places, [point["accuracy"] for point in points], "-", marker=".", color="#2e6f9e", lw=1, label=label)
    for arm, at in curve["arms"].items():
        if at["accuracy"] is None:
            continue
        is_dashed = draw_intervals(ax, [at[against]], [_interval(at)], SHARE, colour=COLOURS[arm]) or is_dashed
        ax.plot(
            [at[against]],
            [at["accuracy"]],
            MARKERS.get(arm, "o"),
            color=COLOURS[arm],
            ms=9 if arm == AS_SERVED else 6,
            # Hollow, so that an arm at the same temperature is seen inside it.
            mfc="none" if arm == AS_SERVED else COLOURS[arm],
            label=f"{LABELS[arm]}, {at['n']} texts",
        )
    ax.set(ylim=(0, 1))
    return is_dashed


def _interval(point: dict[str, Any]) -> Interval:
    return Interval(point["accuracy"], point["low"], point["high"])


def _reliability(axes: list[Axes], diagrams: list[tuple[str, dict[str, Any], Any]]) -> None:
    for ax, (arm, diagram, ece) in zip(axes, diagrams, strict=True):
        total = sum(diagram["count"])
        edges = diagram["edges"]
        filled = [at for at, count in enumerate(diagram["count"]) if count]
        fractions = [diagram["count"][at] / total for at in filled]
        lefts, widths = [edges[at] for at in filled], [edges[at + 1] - edges[at] for at in filled]
        ax.bar(lefts, fractions, widths, align="edge", color=COLOURS[arm], alpha=0.2, label="share of texts")
        ax.plot([0, 1], [0, 1], color="#999999", lw=0.8, label="perfectly calibrated")
        accuracy, confidence = ([diagram[name][at] for at in filled] for name in ("accuracy", "confidence"))
        ax.plot(confidence, accuracy, color=COLOURS[arm], marker="o", ms=3, lw=1.2, label="accuracy", clip_on=False)
        error = "" if ece is None or ece.value is None else f", ECE {ece.value:.3f}"
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", title=f"{LABELS[arm]}{error}")
        ax.set_aspect("equal")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7, loc="upper left")


def _margins(axes: list[Axes], histograms: list[tuple[str, dict[str, Any]]]) -> None:
    for ax, (arm, histogram) in zip(axes, histograms, strict=True):
        total = max(1, sum(histogram["counts"]))
        fractions = [count / total for count in histogram["counts"]]
        ax.stairs(fractions, histogram["edges"], fill=True, color=COLOURS[arm], alpha=0.75)
        # Room for the legend above the bars.
        top = 1.2 * max(fractions, default=0.0) or 1.0
        ax.set(xlabel="margin of the logits", title=LABELS[arm], ylim=(0, top), xlim=(0, histogram["edges"][-1]))
        # Of two classes, the margin says where a softmax is 1; of more, the smallest logit has no part in it.
        if histogram["classes"] == 2 and histogram["edges"][-1] > FLOAT32_ONE:
            ax.axvline(FLOAT32_ONE, color="#111111", lw=0.9, ls="--", label="to the right: float32 softmax is 1")
            ax.legend(fontsize=7, loc="upper right")
    axes[0].set_ylabel("share of texts")


FLOAT32_ONE = 16.6355
"""Margin of two logits from which on a float32 softmax is exactly 1."""
