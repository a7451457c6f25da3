"""The texts a report shows beside what noise made of them."""

import hashlib
import math
from typing import Any

import numpy as np

from seatrial.contracts.models import SINGLE_LABEL_TEXTS
from workers.families.low_level_attack.audit import Answers, Audit

EXAMPLES = 12
EXAMPLE_CHARACTERS = 500_000
"""Of all examples together, every attacker's text included: a result is read whole whenever an audit is asked for."""


def examples(audit: Audit, ordered: list[str], seed: int) -> list[dict[str, Any]]:
    """Return texts beside what every attacker made of them at the lowest level that did harm, most telling first.

    At most twelve, of very long ones few. First those that were wholly right and of which some attackers break
    decisions and others do not; then those that every one breaks; then those that hold; then those wrong from the
    start. Within equals the seed decides. An attack is shown at the lowest level at which a decision was lost, else at
    the highest, and where there were several draws as the worst of them.
    """
    everything = [place for place in range(len(audit)) if audit.decisions[place]]
    shuffled = sorted(everything, key=lambda place: _shuffle(seed, int(audit.ids[place])))
    at = {attacker: _rows(audit, attacker) for attacker in ordered}
    lost = {place: _lost(audit, at, place) for place in everything}
    shown: list[dict[str, Any]] = []
    left = EXAMPLE_CHARACTERS
    for place in sorted(shuffled, key=lambda place: _telling(audit, place, lost[place])):
        if len(shown) == EXAMPLES:
            break
        example = _example(audit, at, place, lost[place])
        texts = [example["original"], *(attack["text"] for attack in example["attacks"])]
        characters = sum(len(part) for parts in texts for part in parts)
        # One is shown whatever its length.
        if characters <= left or not shown:
            shown.append(example)
            left -= characters
    return shown


def _rows(audit: Audit, attacker: str) -> dict[int, int]:
    rows = audit.noise(attacker, audit.highest).answers.rows
    return {int(place): row for row, place in enumerate(rows)}


def _lost(audit: Audit, at: dict[str, dict[int, int]], place: int) -> dict[str, float | None]:
    """Return by attacker answered the lowest level at which a decision was lost, None where none was."""
    before = audit.clean.correct[place]
    values: dict[str, float | None] = {}
    for attacker, rows in at.items():
        if place in rows:
            after = ((level, audit.worst(attacker, level).answers.correct[rows[place]]) for level in audit.levels)
            values[attacker] = next((level for level, correct in after if correct < before), None)
    return values


def _telling(audit: Audit, place: int, lost: dict[str, float | None]) -> tuple[int, int]:
    """Return how late an example comes: by what it shows, and then by whether a little noise does it."""
    broken = sum(level is not None for level in lost.values())
    if not audit.clean.correct[place]:
        return 3, 0
    if not broken:
        return 2, 0
    return (0 if broken < len(lost) else 1), -broken


def _example(audit: Audit, at: dict[str, dict[int, int]], place: int, lost: dict[str, float | None]) -> dict[str, Any]:
    label = int(audit.labels[place])
    return {
        "example_id": int(audit.ids[place]),
        "label": label if label >= 0 else None,
        "original": audit.clean.texts[place],
        "prediction": _prediction(audit, audit.clean, place),
        "truths": audit.truths_of(place),
        "correct": int(audit.clean.correct[place]),
        "attacks": [
            _attack(audit, attacker, audit.highest if level is None else level, place, at[attacker][place])
            for attacker, level in lost.items()
        ],
    }


def _attack(audit: Audit, attacker: str, level: float, place: int, row: int) -> dict[str, Any]:
    answers = audit.worst(attacker, level).answers
    confidence = float(answers.mean_confidence[row])
    return {
        "attacker": attacker,
        "level": level,
        "text": answers.texts[row],
        "prediction": _prediction(audit, answers, place),
        "confidence": confidence if math.isfinite(confidence) else None,
        "correct": int(answers.correct[row]),
        "decisions": int(audit.decisions[place]),
    }


def _prediction(audit: Audit, answers: Answers, place: int) -> int | None:
    """Return the class an example was given; None where it has several decisions."""
    if audit.task not in SINGLE_LABEL_TEXTS:
        return None
    return int(answers.predictions[np.searchsorted(answers.owner, place)])


def _shuffle(seed: int, example: int) -> str:
    return hashlib.sha256(f"{seed} {example}".encode()).hexdigest()
