"""What attacks at other temperatures say about a text classifier, in sentences.

Two questions are kept apart: is the robustness it shows its own, and is there much of it. A text that fools the
unmodified model is proof whatever found it, so an illusion is believed even from a doubtful attack; that there is none
is believed only of an attack in good order, on enough texts, at a temperature that was sought.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result
from seatrial.families.shared.figures import describe
from seatrial.families.temperature_attack.illusion_gap import (
    SERVED,
    SMALL_GAP,
    UNCOUNTED,
    accuracy_in,
    answered_arms,
    at_most,
    by_recipe,
    inert,
    is_shown,
    is_small,
    lowest_arm,
    overall,
    value_of,
)
from seatrial.reporting.adversarial_texts import comparisons as comparisons
from seatrial.reporting.numbers import (
    format_percentage,
    format_percentage_estimate,
    format_percentage_points,
    format_percentage_points_estimate,
)
from seatrial.reporting.schemas import Answer, Scale, Standing
from seatrial.reporting.words import enumerate_words, flags_mean, words

ROBUST_FRACTION = 0.5
"""Share of its right answers a model must keep under attack to be called robust. Ours."""

WEAK_FRACTION = 0.25
"""The same below which a model as served shows too little for an illusion to matter: few texts suffice to say so."""

SEARCHED = frozenset({"calibrated", "optimized", "platt_vector", "platt_matrix"})
"""Arms that find a fitting scale whatever the model was served with. Not the paper's calibration, which stays where it
began on under-confident models (spec A.3), nor transfer, whose texts belong to another model."""

FINDING = "illusion"
"""The flag that reports what was found rather than a doubt about it."""

_HOW = {
    "calibrated": "at its calibrated temperature",
    "calibrated_paper": "at the temperature of the paper's calibration",
    "optimized": "at the most harmful temperature found",
    "platt_vector": "through Platt scaling (vector)",
    "platt_matrix": "through Platt scaling (matrix)",
    "transfer": "with texts found on another model",
    "label_only": "with labels alone",
}

_CAUSE = {
    "platt_vector": "from how its scores are scaled",
    "platt_matrix": "from how its scores are scaled",
    "transfer": "from attacks that could not optimise against it",
    "label_only": "from scores that tell an attack less than the labels do",
}

_FIGURES = {
    "adversarial_accuracy": "Bars of adversarial accuracy with intervals, as served and attacked in other ways, for "
    "each recipe. Where the bar as served stands well above the others, the difference is an illusion.",
    "temperature_curve": "Accuracy under DeepWordBug against the temperature put on top of the served scores "
    "(logarithmic): a line for the validation texts of the search, a marker per way of attacking for the audited ones. "
    "A model with an illusion stands high at 1 and falls elsewhere; an honest one is flat or lowest near 1. Beside it "
    "the same against the mean confidence each temperature makes on unattacked texts: what stands high at either end, "
    "at chance or at certainty, is made by the scores.",
    "reliability": "Reliability diagrams: accuracy against mean confidence in each bin, as served and, where a "
    "temperature was fitted, at that. Below the diagonal the model claims more than it achieves.",
    "margins": "Histogram of the margins between the largest and the smallest logit. With two classes, margins beyond "
    "about 17 leave a 32-bit softmax no difference for an attack to follow; with more classes they need not.",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Attacks at other temperatures"


def subject() -> str:
    """Return what a check doubts."""
    return "robustness"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    names = enumerate_words([words(one) for one in _recipes(params)])
    return f"Is the robustness it shows under {names} its own, or made by the temperature it is served at?"


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, _FIGURES)


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries a check's report uses."""
    arms = {
        "calibrated": "calibrated",
        "calibrated_paper": "calibrated as in the paper",
        "optimized": "optimized",
        "platt_vector": "Platt scaling",
        "platt_matrix": "Platt scaling",
        "transfer": "transfer",
        "label_only": "labels only",
    }
    return [
        *("adversarial accuracy", "as served", "attack success rate", "calibration", "clean", "confidence"),
        *(
            "confidence interval",
            "ECE",
            "flag",
            "illusion gap",
            "MCE",
            "McNemar's test",
            "queries",
            "saturated softmax",
        ),
        *("temperature", "worst recipe per text"),
        *(arms[arm] for arm in [*params.get("arms", []), "label_only"] if arm in arms),
        *(words(recipe) for recipe in _recipes(params)),
    ]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return what the model keeps under attack, as served and at worst, against what it gets right unattacked."""
    clean, served, lowest = value_of(result, "clean_accuracy"), accuracy_in(result, SERVED), lowest_arm(result)
    if not any(by_recipe(result, "adversarial_accuracy", SERVED)):
        return None
    if clean is None or served is None or served.value is None or lowest is None:
        return None
    low, high = sorted((100 * float(lowest[1].value or 0.0), 100 * served.value))
    is_gap = float(lowest[1].value or 0.0) <= served.value
    return Scale(
        label="Accuracy",
        unit="%",
        low=low,
        mark=100 * clean,
        high=high,
        maximum=100.0,
        band="accuracy under attack, from the strongest way of attacking to the model as served"
        if is_gap
        else "accuracy under attack, from the model as served to the strongest other way of attacking",
        line="unattacked",
    )


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return whether the robustness is real, how much there is of it, and why."""
    findings = [*_findings(result, params)]
    standing, headline = _illusion(result, params) or _obstacle(result, params, classes) or _honest(result, params)
    return Answer(standing=standing, headline=headline, findings=findings)


def _illusion(result: Result, params: Mapping[str, Any]) -> tuple[Standing, str] | None:
    """Return the answer where robustness of note was shown to be an illusion."""
    gap, served, lowest = overall(result, "illusion_gap"), accuracy_in(result, SERVED), lowest_arm(result)
    if gap is None or served is None or lowest is None or not _counted(result, params):
        return None
    if not is_shown(gap) or is_small(gap, served):
        return None
    worse = flags_mean(_doubts(result), "the gap may be larger still")
    return "not_real", f"No: {_told(result, params, gap, served, lowest)}{worse}"


def _told(
    result: Result, params: Mapping[str, Any], gap: Estimate, served: Estimate, lowest: tuple[str, Estimate]
) -> str:
    arm, low = lowest
    return (
        f"{_served(params, start=False)} the model keeps {format_percentage(served.value)} accuracy under "
        f"{_attack(result, params)}, but {format_percentage(low.value)} when attacked {_HOW.get(arm, words(arm))}: "
        f"{format_percentage_points_estimate(gap)} of its robustness come {_CAUSE.get(arm, 'from its temperature')}, "
        "not from the model."
    )


def _obstacle(result: Result, params: Mapping[str, Any], classes: int | None) -> tuple[Standing, str] | None:
    """Return the answer where the numbers cannot show that robustness is real."""
    n, errored = result.counts.get("n", 0), result.counts.get("errored", 0)
    if n and errored >= n:
        return "unproven", f"Not shown: all {n:,} examples errored; nothing was measured."
    if not _counted(result, params) and inert(result):
        return "unproven", (
            f"Not shown: {_attack(result, params)} could hardly write anything under its constraints, so what "
            "withstands it shows nothing. Ask for a recipe that can do more, or install the resources it was "
            "published with."
        )
    if not _counted(result, params):
        return "unproven", (
            f"Not shown: {_attack(result, params)} leaves the class as it is and cannot tell robustness from an "
            "illusion. Ask for another recipe as well."
        )
    clean, served = value_of(result, "clean_accuracy"), accuracy_in(result, SERVED)
    if clean is None or served is None or served.value is None:
        return "unproven", "Not shown: the accuracy under attack is undefined on this sample."
    if clean <= (1 / classes if classes else 0.0):
        reason = f"unattacked it is right on {format_percentage(clean)} of the texts, no better than guessing"
        return "unproven", f"Not shown: {reason}; there is no accuracy for an attack to take."
    if doubts := _doubts(result):
        codes = ", ".join(flag.code.replace("_", " ") for flag in doubts)
        kept = f"The {format_percentage(served.value)} accuracy it keeps as served proves nothing ({codes})"
        return "unproven", f"Not shown: the attacks cannot be relied on. {kept} until the flags are resolved."
    gap, lowest = overall(result, "illusion_gap"), lowest_arm(result)
    if lowest is None or gap is None or gap.value is None:
        return "unproven", (
            f"Not shown: it keeps {format_percentage(served.value)} accuracy under {_attack(result, params)} as "
            "served, but no other arm was run, so what its temperature hides is unknown."
        )
    if not SEARCHED & answered_arms(result):
        tried = enumerate_words([words(arm) for arm in sorted(answered_arms(result))])
        return "unproven", (
            f"Not shown: the only other way tried ({tried}) can miss an illusion. Ask for the arm calibrated or "
            "optimized."
        )
    if (most := at_most(gap)) > SMALL_GAP and served.value >= WEAK_FRACTION * clean:
        return "unproven", (
            f"Not shown: no illusion was proven, but one of up to {format_percentage_points(most)} is not excluded on "
            f"{gap.n:,} texts. Attack more of them."
        )
    return None


def _honest(result: Result, params: Mapping[str, Any]) -> tuple[Standing, str]:
    """Return the answer where no illusion of note is left: what remains is how robust the model is."""
    lowest, served, clean = lowest_arm(result), accuracy_in(result, SERVED), value_of(result, "clean_accuracy")
    if lowest is None or lowest[1].value is None or served is None or served.value is None or not clean:
        raise AssertionError("unreachable: answered before")
    gap = overall(result, "illusion_gap")
    if gap is not None and is_shown(gap):
        return "partly", f"In part: {_told(result, params, gap, served, lowest)} It is small, but not due to chance."
    least = min(lowest[1].value, served.value)
    hidden = {
        recipe: gap
        for recipe, gap in by_recipe(result, "illusion_gap").items()
        if is_shown(gap) and at_most(gap) > SMALL_GAP
    }
    if hidden:
        told = enumerate_words(
            [f"{format_percentage_points(gap.value)} under {words(recipe)}" for recipe, gap in hidden.items()]
        )
        return "partly", (
            f"In part: against the worst recipe for each text nothing is hidden (it keeps {format_percentage(least)}), "
            f"but one recipe alone makes it look better than it is: {told} come from its temperature."
        )
    most = at_most(gap) if gap is not None else 1.0
    if most > SMALL_GAP:
        return "partly", (
            f"In part: it shows little robustness, and no illusion was found. {_served(params)} it "
            f"{_falls(clean, served.value)} under {_attack(result, params)}: the model "
            f"is weak and honest about it, as far as {served.n:,} texts tell."
        )
    if least < ROBUST_FRACTION * clean:
        return "partly", (
            f"In part: what it shows is real, and it is little. {_served(params)} it {_falls(clean, served.value)} "
            f"under {_attack(result, params)}, and attacked in other ways hardly further "
            f"({format_percentage(lowest[1].value)}): the model is weak and honest about it."
        )
    return "real", (
        f"Yes, against these attacks: {_served(params, start=False)} it {_falls(clean, served.value)} under "
        f"{_attack(result, params)}, and attacked in other ways it keeps {format_percentage(lowest[1].value)}."
    )


def _falls(clean: float, left: float) -> str:
    """Say what an attack leaves of the accuracy.

    >>> _falls(0.875, 0.1), _falls(0.8, 0.8)
    ('falls from 87.5% accuracy to 10%', 'keeps its accuracy of 80%')
    """
    before, after = format_percentage(clean), format_percentage(left)
    return f"keeps its accuracy of {before}" if before == after else f"falls from {before} accuracy to {after}"


def _recipes(params: Mapping[str, Any]) -> list[str]:
    return list(params.get("recipes") or ["deepwordbug"])


def _counted(result: Result, params: Mapping[str, Any]) -> list[str]:
    uncounted = UNCOUNTED | inert(result)
    return [recipe for recipe in _recipes(params) if recipe not in uncounted]


def _attack(result: Result, params: Mapping[str, Any]) -> str:
    names = [words(one) for one in _counted(result, params) or _recipes(params)]
    return names[0] if len(names) == 1 else f"the worst of {enumerate_words(names)} for each text"


def _served(params: Mapping[str, Any], *, start: bool = True) -> str:
    temperature = float(params.get("design_temperature") or 1.0)
    told = "served as it is" if temperature == 1 else f"served with its logits divided by {_plain(temperature)}"
    return f"{told.capitalize() if start else told},"


def _plain(temperature: float) -> str:
    """Return a temperature in few digits.

    >>> _plain(1e6), _plain(0.01), _plain(97.5312)
    ('1e6', '0.01', '97.53')
    """
    mantissa, exponent, power = f"{temperature:.4g}".partition("e")
    return f"{mantissa}{exponent}{int(power)}" if exponent else mantissa


def _doubts(result: Result) -> list[Flag]:
    return [flag for flag in result.flags if flag.severity != "info" and flag.code != FINDING]


def _findings(result: Result, params: Mapping[str, Any]) -> Iterator[str]:
    clean = result.estimates.get("clean_accuracy")
    if clean is not None and clean.value is not None:
        yield f"Unattacked, it is right on {format_percentage_estimate(clean, f' of {clean.n:,} texts')}."
    if powerless := sorted(inert(result)):
        yield (
            f"{enumerate_words([words(recipe) for recipe in powerless])} could hardly write anything: that a text "
            "withstands it counts for nothing here."
        )
    if not _counted(result, params):
        return
    if params.get("survivors") is not None and (met := result.counts.get("worst_n")) is not None:
        first, *others = [words(recipe) for recipe in _recipes(params) if recipe not in UNCOUNTED]
        yield (
            f"{first} attacked every text; {enumerate_words(others)} attacked what it left of the first {met:,}, "
            "a random part."
        )
    served = accuracy_in(result, SERVED)
    if served is not None and served.value is not None:
        yield f"{_served(params)} it keeps {format_percentage_estimate(served)} under {_attack(result, params)}."
    for arm in [*params.get("arms", []), *({"label_only"} & answered_arms(result))]:
        accuracy, temperature = accuracy_in(result, arm), value_of(result, f"temperature[arm={arm}]")
        at = "" if temperature is None else f" (logits divided by {_plain(temperature)})"
        if temperature is not None and params.get("design_temperature", 1) != 1:
            at = f" (logits divided by a further {_plain(temperature)})"
        if temperature == 1:
            at = " (the one it is served at)"
        if accuracy is None or accuracy.value is None:
            yield f"Attacked {_HOW.get(arm, words(arm))}{at} it has no numbers: the flags or the error say why."
        else:
            yield f"Attacked {_HOW.get(arm, words(arm))}{at} it keeps {format_percentage_estimate(accuracy)}."
    yield from _gaps(result)
    yield from _confidence(result)
    for recipe, correlation in by_recipe(result, "importance_correlation").items():
        if correlation.value is not None:
            yield (
                f"The words {words(recipe)} finds important as served and calibrated agree with a rank correlation of "
                f"{correlation.value:.2f} (1: the same order; 0: none in common)."
            )
    if errored := result.counts.get("errored", 0):
        yield (
            f"{errored:,} of {result.counts.get('n', errored):,} examples errored (no answer, or a budget was spent); "
            "they are in no estimate and never count as robust."
        )


def _gaps(result: Result) -> Iterator[str]:
    gap, p, lowest = overall(result, "illusion_gap"), overall(result, "mcnemar_p"), lowest_arm(result)
    if gap is not None and gap.value is not None and lowest is not None:
        told = "" if p is None or p.value is None else "< 0.001" if p.value < 0.001 else f"= {p.value:.2g}"
        chance = f"; McNemar's exact p {told}" if told else ""
        is_chosen = bool(chance and gap.low is not None) and len(answered_arms(result)) > 1
        chosen = ". The interval allows for this arm having been chosen as the lowest, p does not" if is_chosen else ""
        yield (
            f"The illusion gap, as served minus {words(lowest[0])} on the same {gap.n:,} texts, is "
            f"{format_percentage_points_estimate(gap)}{chance}{chosen}."
        )
    gaps = {recipe: one for recipe, one in by_recipe(result, "illusion_gap").items() if one.value is not None}
    if len(gaps) > 1:
        each = [f"{format_percentage_points_estimate(one)} under {words(recipe)}" for recipe, one in gaps.items()]
        yield f"Recipe by recipe it is {enumerate_words(each)}."


def _confidence(result: Result) -> Iterator[str]:
    for arm in (SERVED, "calibrated"):
        confidence, ece = value_of(result, f"mean_confidence[arm={arm}]"), value_of(result, f"ece[arm={arm}]")
        if confidence is None:
            continue
        error = "" if ece is None else f" (ECE {ece:.3f})"
        yield (
            f"{words(arm).capitalize()}, it claims {format_percentage(confidence)} confidence on average, "
            f"unattacked{error}."
        )
