"""What a result of temperature_attack holds: accuracies by arm and recipe, the gap between them, what it may be."""

from seatrial.contracts.estimates import Estimate, Result, split_name

SERVED = "as_served"
"""The arm that shows the model as it is."""

UNCOUNTED = frozenset({"input_reduction"})
"""Recipes that leave the class as it is: reported, and in no gap and no worst case."""

SMALL_GAP = 0.05
"""Adversarial accuracy by which a model may look better as served than it is without being called an illusion. Ours;
in the paper's tables calibrated models lie within 0.015 of the baseline, illusions are 0.2 and more."""


def value_of(result: Result, name: str) -> float | None:
    """Return a number's value; None where it is undefined or was not published."""
    estimate = result.estimates.get(name)
    return None if estimate is None else estimate.value


def inert(result: Result) -> set[str]:
    """Return the recipes that could hardly write anything: what withstands them shows nothing."""
    strengths = result.series.get("attack_strength") or {}
    return {recipe for recipe, strength in strengths.items() if strength is not None and strength.get("inert")}


def by_recipe(result: Result, name: str, arm: str | None = None) -> dict[str, Estimate]:
    """Return ``name[recipe=]``, or ``name[arm=,recipe=]`` of an arm, by recipe that counts."""
    estimates, uncounted = {}, UNCOUNTED | inert(result)
    for full, estimate in result.estimates.items():
        base, qualifiers = split_name(full)
        is_counted = "recipe" in qualifiers and qualifiers["recipe"] not in uncounted
        if base == name and is_counted and qualifiers.get("arm") == arm:
            estimates[qualifiers["recipe"]] = estimate
    return estimates


def overall(result: Result, name: str) -> Estimate | None:
    """Return a number with the worst recipe per text; with one recipe that recipe's."""
    alone = list(by_recipe(result, name).values())
    return result.estimates.get(name) or (alone[0] if len(alone) == 1 else None)


def accuracy_in(result: Result, arm: str) -> Estimate | None:
    """Return the accuracy an arm leaves with the worst recipe per text; with one recipe that recipe's."""
    alone = list(by_recipe(result, "adversarial_accuracy", arm).values())
    return result.estimates.get(f"adversarial_accuracy[arm={arm}]") or (alone[0] if len(alone) == 1 else None)


def answered_arms(result: Result) -> set[str]:
    """Return the arms beside as served that have an adversarial accuracy."""
    arms = {split_name(name)[1].get("arm", SERVED) for name in result.estimates if name.startswith("adversarial_acc")}
    return {
        arm
        for arm in arms - {SERVED}
        if (accuracy := accuracy_in(result, arm)) is not None and accuracy.value is not None
    }


def lowest_arm(result: Result) -> tuple[str, Estimate] | None:
    """Return the arm in which the model keeps least, and what it keeps."""
    accuracies = [(arm, estimate) for arm in sorted(answered_arms(result)) if (estimate := accuracy_in(result, arm))]
    return min(accuracies, key=lambda pair: pair[1].value or 0.0) if accuracies else None


def is_shown(gap: Estimate) -> bool:
    """Return whether a gap above 0 is more than chance: its interval knows that the lowest arm was picked."""
    return gap.low is not None and gap.low > 0


def is_small(gap: Estimate, served: Estimate) -> bool:
    """Return whether a gap is little, by itself and beside what the model keeps as served."""
    return at_most(gap) <= SMALL_GAP and 2 * (gap.value or 0.0) < (served.value or 0.0)


def at_most(gap: Estimate) -> float:
    """Return how large a gap may be."""
    return 1.0 if gap.value is None or gap.high is None else max(gap.high, gap.value)
