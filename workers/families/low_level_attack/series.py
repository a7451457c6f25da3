"""Curves, rankings, diagrams and examples behind the figures and the report, as JSON values."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.statistics.estimating import diagram
from workers.families.low_level_attack.audit import Answers, Audit
from workers.families.low_level_attack.examples import examples
from workers.families.low_level_attack.resampling import Cell, Resampled
from workers.families.low_level_attack.worst import Worst

SCORES = {MULTI_LABEL: "macro AUROC", TAGGING: "token accuracy"}
"""What a score is, where it is not the accuracy of texts."""


def make_series(
    audit: Audit, drawn: Resampled, worst: Mapping[float, Worst], estimates: Mapping[str, Estimate], seed: int
) -> dict[str, Any]:
    """Return all series of a result.

    ``worst_attackers`` counts examples of which some decision was lost: where nothing was, nobody did it.
    """
    ordered = by_harm(audit, estimates)
    return {
        "task": audit.task,
        "score": SCORES.get(audit.task, "accuracy"),
        "chance": chance(audit),
        "levels": audit.levels,
        "attackers": ordered,
        "curves": {attacker: curve(audit, estimates, "score", attacker) for attacker in ordered},
        "worst": [
            {"level": level} | _ends(estimates[metric_name("worst_case_score", level=level)]) for level in audit.levels
        ],
        "persistent": {
            attacker: curve(audit, estimates, "persistent_score", attacker)[1:]
            for attacker in (ordered if audit.params.draws > 1 else [])
        },
        "ranking": [_ranked(audit, estimates, attacker) for attacker in ordered],
        "edit_distance": [
            {"attacker": attacker, "level": level}
            | {name: _value(estimates, name, attacker, level) for name in ("characters_changed", "relative_score")}
            for attacker in ordered
            for level in audit.levels
        ],
        "calibration": {attacker: _calibration(drawn, attacker) for attacker in ordered},
        "worst_attackers": worst_attackers(audit, worst, ordered),
        "reliability": {"clean": _diagram(audit, audit.clean)}
        | {attacker: _diagram(audit, audit.noise(attacker, audit.highest).answers) for attacker in ordered},
        "examples": examples(audit, ordered, seed),
    }


def chance(audit: Audit) -> float | None:
    """Return the score of guessing: among classes, always the most frequent tag, and any order of texts."""
    if audit.task == MULTI_LABEL:
        return 0.5
    if audit.task != TAGGING:
        return None if audit.classes is None else 1 / audit.classes
    if not len(audit.decided_truths):
        return None
    return float(np.bincount(audit.decided_truths).max() / len(audit.decided_truths))


def by_harm(audit: Audit, estimates: Mapping[str, Estimate]) -> list[str]:
    """Return the attackers, the most harmful first; those without a rank last, equals in the order they ran."""
    ranks = {attacker: estimates[metric_name("rank", attacker=attacker)].value for attacker in audit.attackers}
    return sorted(audit.attackers, key=lambda attacker: _or_last(ranks[attacker]))


def curve(audit: Audit, estimates: Mapping[str, Estimate], name: str, attacker: str) -> list[dict[str, Any]]:
    """Return a score at level 0 and at each level of an attacker."""
    points = [(0.0, estimates[metric_name("score", level=0)])]
    points += [(level, estimates[metric_name(name, attacker=attacker, level=level)]) for level in audit.levels]
    return [
        {"level": level, "score": point.value, "low": point.low, "high": point.high, "n": point.n}
        for level, point in points
    ]


def worst_attackers(audit: Audit, worst: Mapping[float, Worst], ordered: list[str]) -> list[dict[str, Any]]:
    """Return for how many examples each attacker was the worst, of those that lost a decision; lowest level first."""
    rows = []
    for level in audit.levels:
        of = worst[level]
        is_lost = of.scored.correct < audit.clean.correct[of.scored.rows]
        for attacker in ordered:
            if attacker in audit.compared:
                is_worst = of.attacker == audit.compared.index(attacker)
                rows.append({"level": level, "attacker": attacker, "examples": int((is_worst & is_lost).sum())})
    return rows


def _ranked(audit: Audit, estimates: Mapping[str, Estimate], attacker: str) -> dict[str, Any]:
    rank = estimates[metric_name("rank", attacker=attacker)]
    relative = estimates[metric_name("relative_score", attacker=attacker, level=audit.highest)]
    return {
        "attacker": attacker,
        "rank": rank.value,
        "low": rank.low,
        "high": rank.high,
        "relative_score": relative.value,
        "relative_low": relative.low,
        "relative_high": relative.high,
    }


def _calibration(drawn: Resampled, attacker: str) -> list[dict[str, Any]]:
    """Return error and confidence at each level, 0 first; ``accuracy`` is what confidence is to be held against."""
    attacked = drawn.attacked(attacker)
    cells: list[tuple[float, Cell]] = [(0.0, drawn.clean), *attacked.cells.items()]
    names = {"ece": "ece", "mean_confidence": "confidence", "score": "score", "accuracy": "accuracy"}
    return [
        {"level": level} | {key: _finite(float(getattr(cell, name)[0])) for key, name in names.items()}
        for level, cell in cells
    ]


def _diagram(audit: Audit, answers: Answers) -> dict[str, Any]:
    made = np.isfinite(answers.confidences)
    return diagram(answers.confidences[made], answers.right[made], audit.params.bins)


def _ends(of: Estimate) -> dict[str, Any]:
    return {"score": of.value, "low": of.low, "high": of.high}


def _value(estimates: Mapping[str, Estimate], name: str, attacker: str, level: float) -> float | None:
    return estimates[metric_name(name, attacker=attacker, level=level)].value


def _or_last(rank: float | None) -> float:
    return math.inf if rank is None else rank


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
