"""What attacks that expect a test-time defence say about it, in sentences.

A defence is judged by what the strongest attack leaves, beside the static model: that it adds something is believed
only of attacks that simulate it and of numbers in good order. What attacks found is believed from any of them: every
number under attack is an upper bound, so bad news stays bad. Of several defences the least favourable decides.
"""

import math
from collections.abc import Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result
from seatrial.families.shared.estimates_in_words import at_least, at_most, defined, number_of
from seatrial.families.shared.figures import describe
from seatrial.families.transductive_attack.defence_findings import defence_findings, limit_findings, static_findings
from seatrial.families.transductive_attack.defences_narrative import (
    CLEAN,
    REFERENCE,
    Defended,
    asked,
    change,
    concerns,
    known_defences,
    missing,
    named_defences,
    place_of,
    plain,
)
from seatrial.families.transductive_attack.params import ADAPTIVE, CORRUPTIONS, TRANSFERS
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate, format_percentage_points
from seatrial.reporting.schemas import Answer, Scale, Standing
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import DEFENCES, enumerate_words, flags_mean

LARGE_OVERESTIMATE = 0.1
"""Overestimate from which (by the lower end of its interval) attacks on the static model say little of a defence, and
mostly invent its robustness where that is more than it really adds. Ours. In the paper's tables for AutoAttack: 0.38
for RMC on an adversarially trained CIFAR-10 model, 0.05 for DENT, 0.91 for DANN on MNIST."""

SMALL_OVERESTIMATE = 0.05
"""Overestimate (by the upper end) up to which they say about as much as attacks that know the defence. Ours."""

SMALL_GAIN = 0.02
"""Gain that nobody would adapt a model for: below it by the upper end, a defence adds nothing to speak of. Ours."""

ROBUST_FRACTION = 0.5
"""Share of its right answers a defended model must keep under attack to be called robust. Ours, and that of attacks at
other temperatures."""

ENOUGH = 50
"""Examples on which a defence is judged at least: on fewer, the 95% interval of a share may be 30 points wide."""

LIMITS = frozenset({"clean_accuracy_lost", "overestimated", "refuses_harmless", "worse_than_static"})
"""Flags that say what was found: no doubt about the numbers, and no plain yes."""

WEAK_STATIC = frozenset({"autoattack_weaker_than_pgd", "square_improves", "zero_gradients"})
"""Flags of a static model that looks more robust than it is: what a defence adds is then more than the gain."""

_WORST_FIRST: tuple[Standing, ...] = ("not_real", "unproven", "pending", "partly", "real")

_FIGURES = {
    "robustness": "Accuracy of each defence with its interval, a marker per attack and one without; the dashed line is "
    "the static model under attack. Where a defence stands well above the line under attacks made on the static model, "
    "and no longer under those that know it, the difference is an artefact of weak attacks.",
    "iterations": "Accuracy of the model that each iteration of an attack induces in the attacker's simulation, "
    "by iteration; the larger a marker, the more examples were sent as that iteration left them. The dotted line is "
    "the lowest so far. A line that goes up and down shows attacks undone by adapting.",
    "rejection": "Share of wrong answers among the examples a defence accepts, against the share it rejects, as its "
    "threshold moves. A useful defence falls steeply: it rejects what it would answer wrongly. Where the defence sees "
    "perturbed examples beside as many clean ones, both shares are over the two together; those of the tables are over "
    "the perturbed alone.",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Test-time defences"


def subject() -> str:
    """Return what a check doubts."""
    return "robustness"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    names = named_defences(params)
    told = [value_words("defence", name) for name in names if name != REFERENCE or len(names) == 1]
    place = place_of(params)
    if len(told) == 1:
        return f"Does {told[0]} hold against an attacker who knows it, within {place}?"
    who = enumerate_words(told) if told else "the defences"
    return f"Do {who} hold against an attacker who knows them, within {place}?"


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, _FIGURES)


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries a check's report uses."""
    attacks, defences = asked_attacks(params), named_defences(params)
    return [
        *("adaptive attack", "attack radius (epsilon)", "clean", "confidence interval", "flag", "gain over static"),
        *("overestimate", "private randomness", "static model", "test-time defence", "transferred attack"),
        *(["AutoAttack"] if {"transfer_autoattack", "defence_autoattack"} & {*attacks} else []),
        *(["AutoAttack on the defence"] if "defence_autoattack" in attacks else []),
        *(["PGD"] if set(attacks) - {"transfer_autoattack", "defence_autoattack"} else []),
        *(["FPA"] if "fpa" in attacks else []),
        *(["GMSA"] if {"gmsa_avg", "gmsa_min"} & {*attacks} else []),
        *(["rejection", "selective error"] if "urejectron" in defences else []),
        *(DEFENCES[name] for name in defences if name in DEFENCES),
    ]


def asked_attacks(params: Mapping[str, Any]) -> list[str]:
    """Return the attacks a check ran."""
    return [str(attack) for attack in asked(params, "attacks")]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return what an evaluation without adaptive attacks overstates, for the only defence; none where numbers lack."""
    defences = [one for one in known_defences(result, {}) if one.name != REFERENCE]
    static = defined(result, "static_robustness")
    if len(defences) != 1 or static is None:
        return None
    (defence,) = defences
    if defence.failed:
        return None
    knowing = [number_of(estimate) for attack, estimate in defence.under.items() if attack in ADAPTIVE]
    sent = next((number_of(defence.under[attack]) for attack in TRANSFERS if attack in defence.under), None)
    if not knowing or sent is None or min(knowing) > sent:
        return None
    return Scale(
        label=f"Robust accuracy of {defence.told}",
        unit="%",
        low=100 * min(knowing),
        mark=100 * number_of(static),
        high=100 * sent,
        maximum=100.0,
        band="what an evaluation without adaptive attacks overstates, from the strongest of those tried to an attack "
        "made on the static model",
        line="the static model under that attack",
    )


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return whether the least favourable defence holds, and why; the findings are of all."""
    n, errored = result.counts.get("n", 0), result.counts.get("errored", 0)
    defences = known_defences(result, params)
    judged = [(one, *_judge(result, one, defences)) for one in defences if one.name != REFERENCE]
    findings = [*static_findings(result, params)]
    if n and errored >= n:
        return _unproven(f"all {n:,} examples errored; nothing was measured.", findings)
    if not judged:
        why = (
            "the only defence requested is the static model itself, so there is nothing to compare."
            if defences
            else "no defence was measured."
        )
        return _unproven(
            why, [*findings, *(told for one in defences for told in defence_findings(result, params, one))]
        )
    worst, standing, headline = min(judged, key=lambda told: (_WORST_FIRST.index(told[1]), _surely_added(told[0])))
    for defence in defences:
        findings += [told for one, _, told in judged if one is defence and one is not worst]
        findings += defence_findings(result, params, defence)
    others = f" It is the least favourable of {len(judged)} defences." if len(judged) > 1 else ""
    return Answer(
        standing=standing, headline=headline + others, findings=[*findings, *limit_findings(result, params, defences)]
    )


def _surely_added(defence: Defended) -> float:
    """Return what a defence adds at least; nothing is sure of one whose gain is not known."""
    return -math.inf if defence.gain is None else at_least(defence.gain)


def _unproven(why: str, findings: list[str]) -> Answer:
    return Answer(standing="unproven", headline=f"Not shown: {why}", findings=findings)


def _judge(result: Result, defence: Defended, among: list[Defended]) -> tuple[Standing, str]:
    """Return whether a defence holds, and a sentence."""
    flags = [flag for flag in result.flags if flag.severity != "info" and concerns(flag, defence, among)]
    limits = [flag for flag in flags if flag.severity == "warning" and flag.code in LIMITS]
    doubts = [flag for flag in flags if flag not in limits]
    others = [flag for flag in doubts if flag.code not in WEAK_STATIC]
    harm = _harm(defence, trusts_static=len(others) == len(doubts))
    if harm is not None:
        return "not_real", f"No: {harm}{flags_mean(others, 'it may be worse still')}"
    obstacle = _obstacle(defence, doubts)
    return ("unproven", f"Not shown: {obstacle}") if obstacle is not None else _proof(defence, limits)


def _harm(defence: Defended, *, trusts_static: bool) -> str | None:
    """Return what is wrong where attacks showed that a defence adds nothing, or far less than it seems to."""
    extra, sentence = defence.overestimate, _sentence(defence)
    gain = defence.gain if trusts_static else None
    if gain is not None and gain.n >= ENOUGH and not _is_above_zero(gain):
        if gain.high is not None and gain.high <= 0:
            return f"{sentence}. It makes the model less robust."
        if number_of(gain) <= 0 or (gain.high is not None and at_most(gain) <= SMALL_GAIN):
            return f"{sentence}. That is no gain."
    if extra is None or extra.n < ENOUGH or extra.low is None or at_least(extra) <= LARGE_OVERESTIMATE:
        return None
    kept = gain or (defence.lowest[1] if defence.lowest else None)
    if kept is not None and number_of(extra) < number_of(kept):
        return None
    of_what = "there is of it" if gain is None else "it really adds"
    return (
        f"{sentence}. Attacks made on the static model alone make it look {change(extra)} better than it is, more "
        f"than {of_what}."
    )


def _obstacle(defence: Defended, doubts: list[Flag]) -> str | None:
    """Return why the numbers show nothing good of a defence; None where they can."""
    gain, name = defence.gain, defence.told
    if defence.failed:
        return f"{name} has no numbers {missing(defence)}; what it is worth there is not known."
    if not defence.is_simulated:
        if not defence.under:
            return f"none of the requested attacks can be run on {name}. Ask for gmsa_avg and gmsa_min."
        tried = enumerate_words([value_words("attack", attack) for attack in defence.under])
        why = (
            "of those only AutoAttack on the defence knows it, and that tends to make a defence look better than it is"
            if defence.is_known_to_attacker
            else "none of those expects it to adapt"
        )
        return f"{name} was tried with {tried}, and {why}. Ask for gmsa_avg and gmsa_min."
    if defence.is_outdone:
        return (
            f"no attack that knows {name} did better than one that does not. {_sentence(defence)}, and who knows a "
            "defence can do all that others can: raise steps and iterations."
        )
    if doubts:
        codes = ", ".join(flag.code.replace("_", " ") for flag in doubts)
        return f"the numbers of {name} cannot be relied on ({codes}) until the flags are resolved."
    if gain is None:
        return (
            f"how much {name} adds is undefined, as the static model was not attacked. Ask for transfer_autoattack or "
            "transfer_pgd as well."
        )
    if gain.n < ENOUGH:
        return f"{_sentence(defence)}. On {gain.n:,} examples that says little: audit {ENOUGH} at least."
    if gain.low is not None and not _is_above_zero(gain):
        return f"{_sentence(defence)}. On {gain.n:,} examples that may be chance: audit more."
    return None


def _proof(defence: Defended, limits: list[Flag]) -> tuple[Standing, str]:
    """Return the answer where a defence adds something: whether that is all it seems to add, and much."""
    gain, extra, lowest, clean = defence.gain, defence.overestimate, defence.lowest, defence.clean
    if gain is None or lowest is None or clean is None:
        raise AssertionError("unreachable: answered before")
    buts, codes = [], {flag.code for flag in limits}
    if gain.low is None:
        buts.append("the sampling uncertainty is not known")
    if extra is None:
        buts.append("what attacks made on the static model would show was not measured")
    elif number_of(extra) > SMALL_OVERESTIMATE or "overestimated" in codes:
        buts.append(f"attacks made on the static model make it look {change(extra)} better than it is")
    elif at_most(extra) > SMALL_OVERESTIMATE:
        measured = f"measured: {format_percentage_points(extra.value)}"
        buts.append(
            f"attacks made on the static model may make it look up to {format_percentage_points(at_most(extra))} "
            f"better than it is ({measured})"
        )
    own = defence.under.get("defence_autoattack")
    if own is not None and (more := number_of(own) - number_of(lowest[1])) > SMALL_OVERESTIMATE:
        buts.append(
            f"AutoAttack on the defence itself makes it look {format_percentage_points(more)} better than it is"
        )
    if number_of(lowest[1]) < ROBUST_FRACTION * number_of(clean):
        buts.append(
            f"of the {format_percentage(clean.value)} it answers rightly unattacked it keeps "
            f"{format_percentage(lowest[1].value)}"
        )
    if "clean_accuracy_lost" in codes:
        buts.append("it costs clean accuracy")
    if "refuses_harmless" in codes:
        buts.append(_refusing(defence))
    if "worse_than_static" in codes:
        buts.append("a flag says that it does harm")
    if buts:
        return "partly", f"In part: {_sentence(defence)}, but {enumerate_words(buts)}."
    kept = "rightly answered or rejected" if defence.abstains else "right"
    return "real", (
        f"Yes, against the attacks tried: {_sentence(defence)}. At worst it keeps {format_percentage(lowest[1].value)} "
        f"of the examples {kept}, of {format_percentage(clean.value)} unattacked."
    )


def _refusing(defence: Defended) -> str:
    """Return what a defence rejects at most of what nobody attacked."""
    harmless = [fraction for row, fraction in defence.rejected.items() if row == CLEAN or row in CORRUPTIONS]
    most = max((number_of(fraction) for fraction in [*harmless, *defence.clean_rejected.values()]), default=0.0)
    return f"it rejects up to {format_percentage(most)} of examples nobody attacked"


def _sentence(defence: Defended) -> str:
    """Return what a defence adds, and what it seems to add without an attack that expects it."""
    gain, lowest, seeming = defence.gain, defence.lowest, defence.seeming
    if lowest is None:
        return f"{defence.told} has no numbers under attack"
    attack = value_words("attack", lowest[0])
    how = "adaptive attack" if lowest[0] in ADAPTIVE else f"{attack}, the strongest attack tried"
    if gain is None:
        return f"{defence.told} keeps {format_percentage_estimate(lowest[1])} under {how}"
    is_loss = gain.high is not None and gain.high <= 0
    how += _pair(defence, lowest[0])
    if is_loss:
        told = f"{defence.told} takes {change(_turned(gain))} from what the static model keeps, under {how}"
    else:
        told = f"{defence.told} adds {change(gain)} over the static model under {how}"
    if seeming is None or seeming[0] == lowest[0]:
        return told
    alone = "AutoAttack" if seeming[0] == "defence_autoattack" else value_words("attack", seeming[0])
    if is_loss:
        done = f"takes {plain(-seeming[1])}" if seeming[1] < 0 else f"adds {plain(seeming[1])}"
        return f"{told}; under {alone} alone it {done}"
    return f"{told}; {plain(seeming[1])} under {alone} alone"


def _pair(defence: Defended, attack: str) -> str:
    """Return what a defence that may reject does under an attack: what it rejects, and its error on the others."""
    rejected, error = defence.rejected.get(attack), defence.selective.get(attack)
    if rejected is None:
        return ""
    others = "" if error is None else f" and answers {format_percentage(error.value)} of the others wrongly"
    return f" (there it rejects {format_percentage(rejected.value)} of the examples{others})"


def _turned(gain: Estimate) -> Estimate:
    low, high = (None if end is None else 0 - end for end in (gain.high, gain.low))
    return gain.model_copy(update={"value": 0 - number_of(gain), "low": low, "high": high})


def _is_above_zero(gain: Estimate) -> bool:
    return gain.low is not None and gain.low > 0
