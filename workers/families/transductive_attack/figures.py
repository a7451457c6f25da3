"""Result to SVG figures: text that is the same for the same result, on any machine with the same matplotlib."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.families.transductive_attack.params import MODEL_SPACE, TransductiveAttackParams
from workers.families.transductive_attack.names import called
from workers.families.transductive_attack.sample import CLEAN
from workers.figures.drawing import draw_figure
from workers.figures.intervals import SHARE, Interval, draw_band, draw_intervals, say_dashed

ATTACKS = {
    CLEAN: ("no attack", "#8c8c8c", "X"),
    "brightness": ("brightness", "#b5a642", "*"),
    "transfer_autoattack": ("AutoAttack, transferred", "#8fb8d6", "s"),
    "transfer_pgd": ("PGD, transferred", "#2e6f9e", "D"),
    "transfer_confidence": ("14 runs of PGD, transferred", "#1d4566", "d"),
    "transfer_cw": ("Carlini-Wagner l_2, transferred", "#4fa3a5", "p"),
    "defence_autoattack": ("AutoAttack on the defence", "#7a9a3a", "P"),
    "fpa": ("FPA", "#d99a2b", "^"),
    "gmsa_avg": ("GMSA-AVG", "#c8553d", "v"),
    "gmsa_min": ("GMSA-MIN", "#6e2438", "o"),
}
"""Label, colour and marker: cool colours do not know the defence, warm ones simulate it."""

COLOURS = ("#2e6f9e", "#c8553d", "#7a9a3a", "#8a5fa8", "#d99a2b", "#222222", "#4fa3a5", "#b0708f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Of defences, in the order asked for; at most eight."""

STATIC_LABELS = {"transfer_autoattack": "AutoAttack", "transfer_pgd": "PGD", "transfer_confidence": "PGD of 14 runs"}

HEIGHT = 3.9
"""Inches."""

WIDEST = 13.0

ITERATIONS, REJECTION = "iterations", "rejection"


def draw(params: TransductiveAttackParams, result: Result) -> dict[str, str]:
    """Return SVG text by figure name; a figure whose numbers the result lacks is left out."""
    drawn: dict[str, str] = {}
    defences = [one.name for one in params.defences]
    attacks = [CLEAN, *params.corruptions, *params.attacks]
    if any(_kept(result, defence, attack) for defence in defences for attack in attacks):
        width = min(WIDEST, max(6.2, 1.8 + len(defences) * (0.5 + 0.2 * len(attacks))))
        drawn["robustness"] = draw_figure(
            "transductive_attack robustness",
            "What defences keep, by what the attacker knows",
            lambda axes: _robustness(axes[0], params, result),
            size=(width, HEIGHT),
        )
    simulated = [attack for attack in MODEL_SPACE if _of(result, ITERATIONS, attack)]
    # Nothing but zeros is a frame with dots on its floor; the tables say as much.
    if any(
        point["score"] for attack in simulated for one in _of(result, ITERATIONS, attack) for point in one["points"]
    ):
        drawn[ITERATIONS] = draw_figure(
            "transductive_attack iterations",
            "Accuracy of the simulated defence, by iteration of the attack",
            lambda axes: _iterations(axes, simulated, defences, result),
            columns=len(simulated),
            size=(max(6.2, 3.4 * len(simulated)), HEIGHT),
        )
    rejecting = [name for name in defences if any(one["defence"] == name for one in result.series.get(REJECTION, []))]
    if rejecting:
        drawn[REJECTION] = draw_figure(
            "transductive_attack rejection",
            "Wrong answers among the accepted, against the share rejected",
            lambda axes: _rejection(axes, rejecting, result),
            columns=len(rejecting),
            size=(min(WIDEST, max(6.2, 3.4 * len(rejecting))), HEIGHT),
        )
    return drawn


def _robustness(ax: Axes, params: TransductiveAttackParams, result: Result) -> None:
    defences, attacks = [one.name for one in params.defences], [CLEAN, *params.corruptions, *params.attacks]
    static, is_dashed = result.estimates.get("static_robustness"), False
    if static is not None and static.value is not None:
        by = next((label for attack, label in STATIC_LABELS.items() if attack in params.attacks), "")
        ax.axhline(static.value, color="#222222", lw=1, ls="--", label=f"static model, {by}")
        edges = [-0.5, len(defences) - 0.5]
        is_dashed = draw_band(ax, edges, [Interval.of(static)] * 2, SHARE, colour="#222222", alpha=0.08)
    step = 0.8 / len(attacks)
    for place, attack in enumerate(attacks):
        label, colour, marker = ATTACKS[attack]
        points = [(at, kept) for at, defence in enumerate(defences) if (kept := _kept(result, defence, attack))]
        if not points:
            continue
        positions = [at + (place - (len(attacks) - 1) / 2) * step for at, _ in points]
        values = [kept.value or 0.0 for _, kept in points]
        ends = [Interval.of(kept) for _, kept in points]
        is_dashed = draw_intervals(ax, positions, ends, SHARE, colour=colour) or is_dashed
        # Markers at 0 and 1 are whole.
        ax.plot(positions, values, marker, color=colour, ms=5, label=label, clip_on=False)
    if is_dashed:
        say_dashed(ax)
    for edge in range(1, len(defences)):
        ax.axvline(edge - 0.5, color="#d0d0d0", lw=0.8)
    ax.set_xticks(range(len(defences)), [_label(name) for name in defences])
    ax.grid(visible=False, axis="x")
    ax.set(ylabel="accuracy, 95% interval", ylim=(0, 1), xlim=(-0.5, len(defences) - 0.5))
    ax.figure.legend(loc="outside lower center", ncols=4, fontsize=8)


def _iterations(axes: list[Axes], attacks: Sequence[str], defences: Sequence[str], result: Result) -> None:
    handles: dict[str, Any] = {}
    longest = 1
    for ax, attack in zip(axes, attacks, strict=True):
        for series in _of(result, ITERATIONS, attack):
            name = series["defence"]
            colour, marker = COLOURS[defences.index(name)], MARKERS[defences.index(name)]
            points = [point for point in series["points"] if point["score"] is not None]
            numbers, scores = ([point[key] for point in points] for key in ("iteration", "score"))
            longest = max([longest, *numbers])
            # What a marker's area shows: how often these images were sent. One never sent is a dot all the same.
            areas = [6 + 90 * point["selected"] / series["n"] for point in points]
            ax.plot(numbers, scores, color=colour, lw=1.1)
            handles[_label(name)] = Line2D([], [], color=colour, lw=1.1, marker=marker, ms=5)
            ax.scatter(numbers, scores, areas, color=colour, marker=marker, alpha=0.85, lw=0, clip_on=False, zorder=3)
            best = [point["best"] for point in points]
            ax.plot(numbers, best, color=colour, lw=0.9, ls=":")
        ax.set(title=ATTACKS[attack][0], xlabel="iteration", ylim=(0, 1))
    for ax in axes:
        ax.set_xlim(-0.3, longest + 0.3)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("accuracy; area: how often sent;\ndotted: lowest so far", fontsize=8)
    axes[0].figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)), fontsize=8
    )


def _rejection(axes: list[Axes], defences: Sequence[str], result: Result) -> None:
    handles: dict[str, Any] = {}
    has_twins = any(curve["clean_rejection_rate"] is not None for curve in result.series[REJECTION])
    for ax, defence in zip(axes, defences, strict=True):
        for curve in result.series[REJECTION]:
            if curve["defence"] != defence:
                continue
            label, colour, _ = ATTACKS[curve["attack"]]
            if curve["clean_rejection_rate"] is not None:
                label += ", half clean"
            (handles[label],) = ax.plot(
                curve["rejection_rate"], curve["error_among_accepted"], color=colour, lw=1.4, marker=".", ms=3
            )
        ax.set(title=_label(defence), xlabel="share rejected", xlim=(0, 1), ylim=(0, 1))
    of = ";\nhalf of all points perturbed, half clean" if has_twins else ""
    axes[0].set_ylabel(f"share wrong of the accepted{of}", fontsize=8)
    axes[0].figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(2, len(handles)), fontsize=8
    )


def _label(defence: str) -> str:
    return "static model" if defence == "identity" else called(defence)


def _kept(result: Result, defence: str, attack: str) -> Estimate | None:
    """Return the defined estimate of what a defence keeps, or None."""
    named = {"defence": defence} if attack == CLEAN else {"defence": defence, "attack": attack}
    estimate = result.estimates.get(metric_name("clean_accuracy" if attack == CLEAN else "robustness", **named))
    return None if estimate is None or estimate.value is None else estimate


def _of(result: Result, series: str, attack: str) -> list[dict[str, Any]]:
    return [one for one in result.series.get(series, []) if one["attack"] == attack]
