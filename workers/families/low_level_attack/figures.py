"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from seatrial.contracts.estimates import Result
from seatrial.contracts.noise import ATTACKERS, COMBINED
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from workers.families.low_level_attack.names import called
from workers.figures.drawing import draw_figure
from workers.figures.intervals import (
    FROM_ZERO,
    SHARE,
    TITLES,
    Interval,
    draw_band,
    draw_intervals,
    say_dashed,
)

MARKERS = dict(zip((*ATTACKERS, COMBINED), "os^vDPX*<>h", strict=True))
"""Attackers are told apart by shape; colours repeat, in another lightness."""

COLOURS = dict(
    zip(
        (*ATTACKERS, COMBINED),
        (
            *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
            *("#003f63", "#8a3c00", "#7a7a7a", "#5b2a6e", "#111111"),
        ),
        strict=True,
    )
)
"""Okabe and Ito's colours that are seen by all, and dark ones."""

ONE, OTHERS, WORST = "#0072b2", "#c9c9c9", "#d55e00"
WIDTH = 6.2
"""Inches."""

COLUMNS = 3


def draw(params: LowLevelAttackParams, result: Result) -> dict[str, str]:
    """Return SVG text by figure name; a figure whose numbers the result lacks is left out."""
    series, highest = result.series, f"{params.levels[-1]:g}"
    score = series.get("score", "score")
    drawn: dict[str, str] = {}
    curves = {
        attacker: points
        for attacker, points in series.get("curves", {}).items()
        if any(point["score"] is not None for point in points[1:])
    }
    if curves:
        columns = min(COLUMNS, len(curves))
        rows = math.ceil(len(curves) / columns)
        drawn["curves"] = draw_figure(
            "low_level_attack curves",
            f"{_capital(score)} against the level of noise",
            lambda axes: _curves(axes, curves, series, columns),
            columns=columns,
            rows=rows,
            size=(WIDTH if columns > 1 else 4.2, 1.1 + 1.65 * rows),
        )
    ranking = [ranked for ranked in series.get("ranking", []) if ranked["relative_score"] is not None]
    if ranking:
        drawn["ranking"] = draw_figure(
            "low_level_attack ranking",
            f"{_capital(score)} kept at level {highest}, the most harmful first",
            lambda axes: _ranking(axes[0], ranking),
            size=(WIDTH, 1.2 + 0.28 * len(ranking)),
        )
    distances = [point for point in series.get("edit_distance", []) if _has(point, "characters_changed")]
    if distances:
        correlation = result.estimates.get("edit_correlation")
        told = "" if correlation is None or correlation.value is None else f" (r = {correlation.value:.2f})"
        drawn["edit_distance"] = draw_figure(
            "low_level_attack edit_distance",
            f"Relative score against edit distance{told}",
            lambda axes: _distances(axes[0], distances),
            size=(WIDTH, 4.2),
        )
    calibration = {
        attacker: [point for point in points if _has(point, "mean_confidence") and _has(point, "accuracy")]
        for attacker, points in series.get("calibration", {}).items()
    }
    if any(len(points) > 1 for points in calibration.values()):
        drawn["confidence"] = draw_figure(
            "low_level_attack confidence",
            "Confidence against accuracy under noise",
            lambda axes: _confidence(axes[0], calibration),
            size=(WIDTH, 4.6),
        )
    return drawn


def _curves(axes: list[Axes], curves: dict[str, list[dict[str, Any]]], series: dict[str, Any], columns: int) -> None:
    """Draw one attacker to each panel, the others in grey behind it."""
    known = {attacker: [point for point in points if point["score"] is not None] for attacker, points in curves.items()}
    worst = [point for point in series["worst"] if point["score"] is not None]
    if worst:
        # From the score without noise on, as every curve.
        worst = [next(iter(known.values()))[0], *worst]
    shown = [*[point for points in known.values() for point in points], *worst]
    lows = [point["score"] if point["low"] is None else point["low"] for point in shown]
    chance = series.get("chance")
    floor = min([*lows, *([] if chance is None else [chance])])
    bottom = max(0.0, math.floor(floor * 10 - 0.3) / 10)
    is_dashed = False
    for place, ax in enumerate(axes):
        if place >= len(known):
            ax.set_visible(False)
            continue
        attacker, points = list(known.items())[place]
        for other, line in known.items():
            if other != attacker:
                ax.plot(*_line(line), color=OTHERS, lw=0.7, zorder=1)
        if chance is not None:
            ax.axhline(chance, color="#555555", lw=0.9, ls=":", label="chance", zorder=1)
        if worst:
            ax.plot(*_line(worst), color=WORST, lw=1.1, ls="--", label="worst attacker per example", zorder=2)
        ends = [point for point in points if point["low"] is not None]
        levels = [point["level"] for point in ends]
        intervals = [Interval(point["score"], point["low"], point["high"]) for point in ends]
        is_dashed = draw_band(ax, levels, intervals, SHARE, colour=ONE, alpha=0.18, label="95% interval") or is_dashed
        ax.plot(*_line(points), color=ONE, marker="o", ms=3.2, lw=1.5, label="this attacker", zorder=3)
        if series["persistent"].get(attacker):
            own = [points[0], *[point for point in series["persistent"][attacker] if point["score"] is not None]]
            ax.plot(*_line(own), color="#003f63", lw=1.0, ls="-.", marker="v", ms=3, label="its worst draw", zorder=3)
        ax.set(ylim=(bottom, 1.02), title=called(attacker), xlim=(0, max(levels, default=1.0) * 1.04))
        ax.set_xticks([0.0, *series["levels"]] if len(series["levels"]) <= 4 else [0.0, 0.5, 1.0])
        ax.yaxis.set_major_locator(MaxNLocator(4))
        if place % columns:
            ax.set_yticklabels([])
        else:
            ax.set_ylabel(series["score"], fontsize=8)
        if place + columns < len(known):
            ax.set_xticklabels([])
        else:
            ax.set_xlabel("share of words attacked", fontsize=8)
    if is_dashed:
        say_dashed(axes[0])
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), fontsize=8)


def _ranking(ax: Axes, ranking: list[dict[str, Any]]) -> None:
    at = list(range(len(ranking)))
    values = [ranked["relative_score"] for ranked in ranking]
    ends = [Interval(one["relative_score"], one["relative_low"], one["relative_high"]) for one in ranking]
    ax.barh(at, values, 0.62, color=ONE, alpha=0.35)
    ax.plot(values, at, "o", ms=4, color="#111111")
    is_dashed = draw_intervals(ax, at, ends, FROM_ZERO, colour="#111111", is_horizontal=True)
    ax.axvline(1.0, color="#555555", lw=0.8, ls=":")
    ax.set_yticks(at, [called(ranked["attacker"]) for ranked in ranking])
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    top = max([1.0, *[one.value if one.high is None else one.high for one in ends]])
    ax.set(xlim=(0, top * 1.02), xlabel=f"score over the score without noise, {TITLES[is_dashed]}")
    right = ax.secondary_yaxis("right")
    right.set_yticks(at, [_rank(ranked) for ranked in ranking])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel("rank, 95% interval", fontsize=8)


def _distances(ax: Axes, points: list[dict[str, Any]]) -> None:
    for attacker in dict.fromkeys(point["attacker"] for point in points):
        own = [point for point in points if point["attacker"] == attacker and point["relative_score"] is not None]
        x, y = ([point[key] for point in own] for key in ("characters_changed", "relative_score"))
        ax.plot(x, y, "-", marker=MARKERS[attacker], color=COLOURS[attacker], ms=6, lw=0.8, label=called(attacker))
    ax.axhline(1.0, color="#555555", lw=0.8, ls=":")
    ax.set(xlabel="edit distance per character", ylabel="score over the score without noise")
    ax.set_xlim(left=0)
    ax.figure.legend(loc="outside lower center", ncols=4, fontsize=8)


def _confidence(ax: Axes, calibration: dict[str, list[dict[str, Any]]]) -> None:
    accuracies, confidences = (
        [point[key] for points in calibration.values() for point in points] for key in ("accuracy", "mean_confidence")
    )
    least = max(0.0, min(*accuracies, *confidences) - 0.05)
    ax.plot([least, 1], [least, 1], color="#555555", lw=0.9, ls=":", label="as sure as right")
    for attacker, points in calibration.items():
        x, y = ([point[key] for point in points] for key in ("accuracy", "mean_confidence"))
        # From the clean texts on, which all attackers share.
        ax.plot(x, y, "-", color=COLOURS[attacker], lw=0.8)
        ax.plot(
            x[1:], y[1:], marker=MARKERS[attacker], ls="none", color=COLOURS[attacker], ms=6, label=called(attacker)
        )
    clean = next(points[0] for points in calibration.values() if points)
    ax.plot(
        *[[clean["accuracy"]], [clean["mean_confidence"]]], marker="o", ms=9, mfc="white", mec="#111111", ls="none",
        label="without noise",
    )  # fmt: skip
    ax.set(xlabel="share of decisions that are right", ylabel="mean confidence", xlim=(least, 1), ylim=(least, 1.01))
    ax.figure.legend(loc="outside lower center", ncols=4, fontsize=8)


def _line(points: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    return [point.get("level", 0.0) for point in points], [point["score"] for point in points]


def _rank(ranked: dict[str, Any]) -> str:
    if ranked["rank"] is None:
        return "none"
    places = [f"{ranked[key]:.1f}".removesuffix(".0") for key in ("rank", "low", "high") if ranked[key] is not None]
    return places[0] if len(places) < 3 else f"{places[0]}  [{places[1]}, {places[2]}]"


def _has(point: dict[str, Any], key: str) -> bool:
    return point.get(key) is not None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
