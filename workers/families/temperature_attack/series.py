"""Curves, histograms and examples behind the figures and the report, as JSON values."""

import hashlib
from dataclasses import asdict
from typing import Any

import numpy as np

from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, UNSCORED
from seatrial.families.temperature_attack.records import UNCOUNTED
from seatrial.statistics.arrays import Floats
from seatrial.statistics.estimating import diagram, proportion
from workers.calibration.scaling import Scaling
from workers.families.temperature_attack.arms import rounded_to, view_at
from workers.families.temperature_attack.audit import Audit
from workers.families.temperature_attack.records import AttackSample
from workers.families.temperature_attack.score_flags import score_agreement

CURVE_RECIPE = "deepwordbug"
"""What the temperature search attacks with."""

HISTOGRAM_BINS = 30
EXAMPLES = 12
EXAMPLE_CHARACTERS = 500_000
"""Of all examples together, every arm's text included: a result is read whole whenever an audit is asked for."""


def make_series(audit: Audit, seed: int) -> dict[str, Any]:
    """Return all series of a result."""
    arms = [AS_SERVED, *audit.arms.others]
    return {
        "arms": {name: _arm(audit, name) for name in arms},
        "score_digits": rounded_to(audit.params, audit.clean),
        "surrogate_agreement": _agreement(audit),
        "attack_strength": {recipe: attack_strength(sample) for recipe, sample in audit.attacks.items()},
        "temperature_curve": temperature_curve(audit),
        "margins": margins(audit),
        "reliability": {
            arm: diagram(audit.confidence(arm, audit.clean.logits), audit.right(arm), audit.params.bins)
            for arm in arms
            if arm not in UNSCORED
        },
        "adversarial_accuracy": [
            {"arm": arm, "recipe": recipe} | _accuracy(sample.robust(arm))
            for recipe, sample in audit.attacks.items()
            for arm in arms
            if arm in sample.arms
        ],
        "examples": examples(audit, seed),
    }


def _agreement(audit: Audit) -> dict[str, float] | None:
    """Return the rank correlation of what edits do to scores and to a surrogate of the decisions, with its interval."""
    agreement = score_agreement(audit)
    return None if agreement is None else asdict(agreement)


def _arm(audit: Audit, name: str) -> dict[str, Any]:
    """Return what an arm's attacker looked at, and in which precision its probabilities were computed."""
    arm = audit.arms[name]
    native = str(audit.clean.logits.dtype).removeprefix("torch.")
    return {
        "temperature": arm.temperature,
        "precision": "labels" if name == LABEL_ONLY else _precision(arm.scaling, native),
        "degenerate": arm.degenerate,
    }


def attack_strength(sample: AttackSample) -> dict[str, float] | None:
    """Return candidates a word, shares of words without any and of texts in the recipe's limit; None if unmeasured.

    ``inert``: whether the candidates are too few for what withstands the recipe to show anything.
    """
    if sample.strength is None:
        return None
    words, candidates, without, limited, attacked = sample.strength
    return {
        "candidates_per_word": candidates / words,
        "words_without": without / words,
        "limited": limited / attacked,
        "attacked": attacked,
        "inert": sample.is_inert,
    }


def _precision(scaling: Scaling, native: str) -> str:
    if scaling.is_single:
        return "float32"
    return native if scaling.is_native else "float64"


def temperature_curve(audit: Audit) -> dict[str, Any]:
    """Return adversarial accuracy against temperature and against the confidence it makes (the paper's Figure 1).

    Temperatures are on top of the served logits; ``confidence`` is the mean of the largest probability at each, on the
    unattacked texts and as the attacker computed it. ``points``: validation examples under DeepWordBug, as far as the
    temperature search went. ``arms``: by arm with a temperature, the audited examples under the same recipe; left out
    where it was not asked for.
    """
    points = []
    if audit.search is not None:
        points = [
            {"temperature": temperature, "confidence": _validation_confidence(audit, temperature)}
            | _accuracy(audit.search.robust[:, column])
            for column, temperature in enumerate(audit.search.temperatures)
        ]
    tested = {}
    if CURVE_RECIPE in audit.attacks:
        for name, arm in audit.arms.by_name.items():
            # As served, nothing is done to what is served.
            temperature = 1.0 if name == AS_SERVED else arm.temperature
            if temperature is not None:
                confidence = _mean(audit.confidence(name, audit.clean.logits))
                at = {"temperature": temperature, "confidence": confidence}
                tested[name] = at | _accuracy(audit.robust(name, CURVE_RECIPE))
    return {"points": sorted(points, key=lambda point: point["temperature"]), "arms": tested}


def _validation_confidence(audit: Audit, temperature: float) -> float | None:
    if audit.validation is None or not len(audit.validation):
        return None
    probabilities = view_at(audit.params, temperature).probabilities(audit.validation.logits)
    return _mean(probabilities.amax(dim=1).double().numpy())


def _mean(confidence: Floats) -> float | None:
    return float(confidence.mean()) if len(confidence) else None


def margins(audit: Audit) -> dict[str, Any]:
    """Return histograms of the largest less the smallest logit (appendix F.1): as served, and calibrated if it was."""
    fitted = [arm for arm in ("calibrated", "calibrated_paper", "optimized") if arm in audit.arms.by_name][:1]
    histograms: dict[str, Any] = {}
    for name in [AS_SERVED, *fitted] if len(audit.clean) else []:
        arm = audit.arms[name].scaling
        logits = Scaling(arm.design_temperature, arm.temperature).logits(audit.clean.logits).numpy()
        widths = logits.max(axis=1) - logits.min(axis=1)
        counts, edges = np.histogram(widths, HISTOGRAM_BINS, range=(0.0, float(widths.max()) or 1.0))
        histograms[name] = {
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "temperature": arm.temperature,
            "classes": logits.shape[1],
        }
    return histograms


def examples(audit: Audit, seed: int) -> list[dict[str, Any]]:
    """Return texts beside what the attacks made of them, the most telling first, at most twelve; very long ones few.

    First those that held as served and fell in another arm, then the other way round, then those that fell everywhere,
    then those that held; in turn over recipes, the seed deciding within. Those wrong unattacked are left out.
    """
    ranked = []
    for order, recipe in enumerate(recipe for recipe in audit.attacks if recipe != UNCOUNTED):
        sample = audit.attacks[recipe]
        kept = {arm: sample.robust(arm) for arm in sample.arms}
        for row in np.flatnonzero(sample.clean.right).tolist():
            example = int(sample.clean.example_ids[row])
            others = [bool(robust[row]) for arm, robust in kept.items() if arm != AS_SERVED]
            shuffled = hashlib.sha256(f"{seed} {recipe} {example}".encode()).hexdigest()
            ranked.append((_telling(bool(kept[AS_SERVED][row]), others), shuffled, order, recipe, row))
    ranked.sort()
    # One of each recipe at a time, within equals.
    turns: dict[tuple[int, int], int] = {}
    turned = []
    for telling, shuffled, order, recipe, row in ranked:
        turn = turns[telling, order] = turns.get((telling, order), -1) + 1
        turned.append((telling, turn, order, shuffled, recipe, row))
    shown: list[dict[str, Any]] = []
    left = EXAMPLE_CHARACTERS
    for *_, recipe, row in sorted(turned):
        sample = audit.attacks[recipe]
        versions = [sample.texts[row], *(ended.texts[row] for ended in sample.arms.values())]
        characters = sum(len(part) for parts in versions for part in parts)
        if len(shown) == EXAMPLES:
            break
        # One is shown whatever its length.
        if characters <= left or not shown:
            shown.append(_example(audit, recipe, row))
            left -= characters
    return shown


def _telling(served: bool, others: list[bool]) -> int:
    if served and not all(others):
        return 0
    if not served and any(others):
        return 1
    return 3 if served else 2


def _example(audit: Audit, recipe: str, row: int) -> dict[str, Any]:
    sample: AttackSample = audit.attacks[recipe]
    return {
        "example_id": int(sample.clean.example_ids[row]),
        "label": int(sample.clean.labels[row]),
        "recipe": recipe,
        "original": list(sample.texts[row]),
        "prediction": int(sample.clean.predictions[row]),
        "arms": {
            arm: {
                "text": list(ended.texts[row]),
                "status": str(ended.status[row]),
                "prediction": int(ended.predictions[row]),
                "confidence": float(audit.confidence(arm, ended.logits[row : row + 1])[0]),
            }
            for arm, ended in sample.arms.items()
        },
    }


def _accuracy(robust: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    estimate = proportion(robust)
    return {
        "accuracy": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "robust": int(robust.sum()),
    }
