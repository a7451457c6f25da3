"""What noise made without looking at a model says about it, in sentences.

Bad news is believed whatever the doubts: a text that fools the model is proof, and who knows the model finds more of
them. That little is lost is good news of this noise alone, and never of an attacker who may ask the model.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result
from seatrial.contracts.noise import ATTACKERS, COMBINED
from seatrial.families.low_level_attack.noise_narrative import (
    AUROC,
    attackers_of,
    chance_of,
    estimate_of,
    first_of,
    how_made,
    in_full,
    kept,
    levels_of,
    score_name,
    scored,
    things,
    value_of,
    with_interval,
    worst_fractions,
)
from seatrial.families.shared.figures import describe
from seatrial.reporting.adversarial_texts import noisy_comparisons
from seatrial.reporting.numbers import format_percentage, format_percentage_points
from seatrial.reporting.schemas import Answer, Comparison, Scale, Standing
from seatrial.reporting.words import enumerate_words, flags_mean, words

ROBUST_FRACTION = 0.9
"""Share of its score a model must keep at the highest level, each text under its worst attacker, to be called robust.
Ours. For scale: RoBERTa keeps 0.2 to 0.5 there under the worst attacker alone (the paper's Table 6)."""

FRAGILE_FRACTION = 0.5
"""The same at the lowest level, below which a model is called broken."""

LOST_FRACTION = 0.1
"""Share of what a score has above guessing that counts as nothing, where the interval reaches down to guessing."""

NOTABLE_DROP = 0.1
"""Drop of a score from which confidence should have fallen as well."""

UNNOTICED_FRACTION = 0.2
"""Share of that drop below which confidence is said to stay where it was."""

FINDING = "confident_under_noise"
"""The flag that reports what was found rather than a doubt about it."""

NOTHING_TO_LOSE = "score_at_chance"
"""The flag of a model from which noise cannot take anything, so that a fall of its score means nothing."""

MOST_LEVELS = 4
"""Levels each of which is told in a sentence; of more, the lowest and the highest."""

MOST_NAMED = 3
"""Attackers named where it is open which of them does most harm; of more, the others are counted."""

_FIGURES = {
    "curves": "Score against the level of noise, a panel for each attacker with the others in grey: from the score "
    "without noise on, with its interval, dashed where each example meets its worst attacker, dotted what guessing "
    "gives. The steeper a line falls, the less of that noise the model tolerates.",
    "ranking": "Share of the score that is left under each attacker at the highest level, with intervals, the most "
    "harmful attacker first. Attackers whose intervals overlap widely may change places on other texts.",
    "edit_distance": "Share of the score that is left against how much of a text was changed (Levenshtein distance per "
    "character), a point for each attacker and level. Attackers below the others do more harm with the same change.",
    "confidence": "Mean confidence against the share of decisions that are right, from the texts without noise on and "
    "under each attacker. Points above the diagonal claim more than they achieve: the model does not notice that it is "
    "wrong.",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Noise without access to the model"


def subject() -> str:
    """Return what a check doubts."""
    return "robustness"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    names = _named(params)
    how = f"{len(names)} kinds of noise" if len(names) > 3 else enumerate_words([in_full(one) for one in names])
    levels = enumerate_words([f"{level:.0%}" for level in params.get("levels", [])])
    return (
        f"How much of its score is left when an attacker who knows nothing of the model applies {how} to {levels} of "
        "the words?"
    )


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, _FIGURES)


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries a check's report uses."""
    return [
        *("chance level", "confidence", "confidence interval", "ECE", "edit distance", "flag", "flip rate", "level"),
        *("macro AUROC", "rank of an attacker", "relative score", "token accuracy", "worst case"),
        *(["best-of-k black-box attacker"] if int(params.get("draws", 1)) > 1 else []),
        *(words(attacker) for attacker in _named(params)),
    ]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return what is left at the highest level, from each text's worst attacker to the gentlest one."""
    clean, levels = value_of(result, "score", level=0.0), levels_of(result)
    if clean is None or not levels:
        return None
    top = levels[-1]
    each = [value_of(result, "score", attacker=one, level=top) for one in attackers_of(result)]
    scores = [one for one in (value_of(result, "worst_case_score", level=top), *each) if one is not None]
    if len(scores) < 2:
        return None
    name = score_name(result)
    maximum = 1.0 if name == AUROC else 100.0
    return Scale(
        label=name[0].upper() + name[1:],
        unit="1" if name == AUROC else "%",
        low=maximum * min(scores),
        mark=maximum * clean,
        high=maximum * max(scores),
        maximum=maximum,
        band=f"what is left at level {top:g}, from each of the {things(result)} under its worst attacker to all under "
        "the gentlest",
        line="without noise",
    )


def comparisons(result: Result, labels: list[str] | None) -> list[Comparison]:
    """Return some texts beside what noise made of them, the most telling first."""
    return noisy_comparisons(result, labels)


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return how much of the model noise takes, and which."""
    standing, headline = _judged(result)
    return Answer(standing=standing, headline=headline, findings=[*_findings(result, params)])


def _judged(result: Result) -> tuple[Standing, str]:
    clean, levels, attackers = estimate_of(result, "score", level=0.0), levels_of(result), attackers_of(result)
    n = result.counts.get("n", 0)
    if clean is None and n and result.counts.get("errored", 0) >= n:
        return "unproven", f"Not shown: all {n:,} examples errored; nothing was measured."
    worst = [estimate_of(result, "worst_case_score", level=level) for level in levels]
    if clean is None or clean.value is None or not worst or not attackers or any(one is None for one in worst):
        return "unproven", "Not shown: the score under noise is undefined on this sample."
    name, chance = score_name(result), chance_of(result)
    if clean.value <= chance:
        return "unproven", (
            f"Not shown: without noise its {name} is {scored(clean.value, result)}, no better than guessing "
            f"({scored(chance, result)}); there is nothing for noise to take."
        )
    least, most = worst[0], worst[-1]
    if least is None or most is None or least.value is None or most.value is None:
        raise AssertionError("unreachable: answered before")
    doubts = [flag for flag in result.flags if flag.severity != "info" and flag.code != FINDING]
    told = _told(result, clean.value, most, levels[-1])
    hardest = estimate_of(result, "score", attacker=attackers[0], level=levels[-1])
    is_lost = hardest is not None and _is_lost(hardest, clean.value, chance)
    if nothing := [flag for flag in doubts if flag.code == NOTHING_TO_LOSE]:
        return _unresolved(nothing, told)
    # What noise did take stays taken; a flag leaves open how much more it would take.
    worse = flags_mean(doubts, "it may be less still")
    if is_lost or kept(least.value if least.high is None else least.high, clean.value, result) < FRAGILE_FRACTION:
        why = (
            f" Under {in_full(attackers[0])} alone it is not shown to do better than guessing "
            f"({scored(chance, result)})."
            if is_lost
            else f" At level {levels[0]:g} already it is {scored(least.value, result)}."
            if len(levels) > 1
            else ""
        )
        return "not_real", f"No: {told}{why}{worse}"
    if kept(most.value if most.low is None else most.low, clean.value, result) >= ROBUST_FRACTION:
        return _unresolved(doubts, told) if doubts else ("real", f"Yes, against this noise: {told}")
    if void := [flag for flag in doubts if flag.severity == "error"]:
        return _unresolved(void, told)
    gentle = f" At level {levels[0]:g} it is {scored(least.value, result)}." if len(levels) > 1 else ""
    return "partly", f"In part: {told}{gentle}{worse}"


def _is_lost(score: Estimate, clean: float, chance: float) -> bool:
    if score.value is None or score.value - chance > LOST_FRACTION * (clean - chance):
        return False
    return (score.value if score.low is None else score.low) <= chance


def _told(result: Result, clean: float, worst: Estimate, level: float) -> str:
    attackers = attackers_of(result)
    one = things(result).removesuffix("s")
    by = (
        f"each {one} by whichever attacker does it most harm"
        if len(attackers) > 1
        else f"each {one} by {in_full(attackers[0])}"
    )
    said = (
        f"with {level:.0%} of the words attacked, {by}, its {score_name(result)} is {with_interval(worst, result)} "
        f"instead of {scored(clean, result)}."
    )
    return f"{said} {_most_harm(result, level)}".rstrip() if len(attackers) > 1 else said


def _most_harm(result: Result, level: float) -> str:
    """Return who does most harm and what that leaves, or between whom it is open."""
    first = first_of(result)
    scores = [value_of(result, "score", attacker=one, level=level) for one in first]
    left = sorted(score for score in scores if score is not None)
    if len(left) < len(first):
        return ""
    if len(first) == 1:
        return f"{_sentence(in_full(first[0]))} does most harm: alone it leaves {scored(left[0], result)}."
    ends = [scored(left[0], result), scored(left[-1], result)]
    leave = f"alone each leaves {ends[0]}" if ends[0] == ends[1] else f"alone they leave {ends[0]} to {ends[1]}"
    if len(first) == len(attackers_of(result)) > 2:
        return f"Which attacker does most harm is not certain: {leave}."
    named = [in_full(one) for one in first]
    if len(named) > MOST_NAMED:
        named[MOST_NAMED - 1 :] = [f"{len(named) - MOST_NAMED + 1} others"]
    return f"{_sentence(enumerate_words(named))} do most harm (their order is not certain): {leave}."


def _unresolved(doubts: list[Flag], told: str) -> tuple[Standing, str]:
    codes = ", ".join(flag.code.replace("_", " ") for flag in doubts)
    return "unproven", (
        f"Not shown: the numbers cannot be relied on. {_sentence(told)} That shows nothing either "
        f"way while {'a flag stands' if len(doubts) == 1 else 'flags stand'} ({codes})."
    )


def _findings(result: Result, params: Mapping[str, Any]) -> Iterator[str]:
    clean, levels = estimate_of(result, "score", level=0.0), levels_of(result)
    if clean is None or clean.value is None or not levels:
        return
    name = score_name(result)
    yield f"Without noise its {name} is {with_interval(clean, result, f' on {clean.n:,} {things(result)}')}."
    yield from _by_level(result, levels)
    yield from _by_harm(result, levels[-1])
    yield from _tries(result, params, levels[-1])
    yield from _confidence(result, levels[-1])
    correlation = value_of(result, "edit_correlation")
    if correlation is not None:
        yield (
            "Over attackers and levels, what is left of the score and how much of a text was changed have a "
            f"correlation of {correlation:.2f} (-1: harm goes by how much is changed; 0: it does not)."
        )
    yield from how_made(params, attackers_of(result), _named(params))
    if errored := result.counts.get("errored", 0):
        yield (
            f"{errored:,} of {result.counts.get('n', errored):,} examples had no answer under some attacker, or at "
            "all; no number that compares attackers has them."
        )
    yield (
        "None of these attackers queries the model. The harm they do is a lower bound: an attacker with "
        "access to the model does at least as much."
    )


def _by_level(result: Result, levels: list[float]) -> Iterator[str]:
    shown = levels if len(levels) <= MOST_LEVELS else [levels[0], levels[-1]]
    for level in shown:
        worst = estimate_of(result, "worst_case_score", level=level)
        mean = value_of(result, "mean_relative_score", level=level)
        if worst is not None:
            average = (
                "" if mean is None else f"; on average over the attackers, {format_percentage(mean)} of it is left"
            )
            under = f"with each of the {things(result)} under its worst attacker"
            yield f"At level {level:g} it is {with_interval(worst, result)} {under}{average}."


def _by_harm(result: Result, level: float) -> Iterator[str]:
    attackers = attackers_of(result)
    if len(attackers) < 2:
        return
    told = []
    for attacker in attackers[:3]:
        rank, left = (
            estimate_of(result, "rank", attacker=attacker),
            value_of(result, "relative_score", attacker=attacker, level=level),
        )
        if rank is None or left is None:
            continue
        reach = (
            f" (rank {rank.value:g}, 95% interval {rank.low:g} to {rank.high:g})"
            if rank.low is not None and rank.high is not None
            else ""
        )
        told.append(f"{in_full(attacker)}, which leaves {format_percentage(left)} of the score{reach}")
    least = value_of(result, "relative_score", attacker=attackers[-1], level=level)
    has_others = len(attackers) > 3
    if told:
        yield f"Most harm at level {level:g} is done by {'; then by '.join(told)}."
    if has_others and least is not None:
        yield f"Least harm is done by {in_full(attackers[-1])}, which leaves {format_percentage(least)}."
    kind = things(result)
    fractions = [
        f"{words(attacker)} to {format_percentage(fraction)}" for attacker, fraction in worst_fractions(result, level)
    ]
    if len(fractions) > 1:
        yield f"Of the {kind} that noise harms there, most harm is done by {enumerate_words(fractions[:3])}."


def _tries(result: Result, params: Mapping[str, Any], level: float) -> Iterator[str]:
    draws, attackers = int(params.get("draws", 1)), attackers_of(result)
    if draws == 1:
        yield (
            f"Each attacker tried each of the {things(result)} once at each level. More tries find worse cases: raise "
            "the parameter draws."
        )
        return
    once = value_of(result, "score", attacker=attackers[0], level=level)
    worst = value_of(result, "persistent_score", attacker=attackers[0], level=level)
    if once is not None and worst is not None:
        yield (
            f"Each attacker tried {draws} times. Under {words(attackers[0])} at level {level:g} one try leaves "
            f"{scored(once, result)} and the worst of {draws} {scored(worst, result)}; the worst case above is over "
            "all tries."
        )


def _confidence(result: Result, level: float) -> Iterator[str]:
    attacker = attackers_of(result)[0]
    at: dict[str, str | float] = {"attacker": attacker, "level": level}
    before, after = value_of(result, "mean_confidence", level=0.0), value_of(result, "mean_confidence", **at)
    clean, noisy = value_of(result, "score", level=0.0), value_of(result, "score", **at)
    if before is None or after is None or clean is None or noisy is None:
        return
    ece = [value_of(result, "ece", level=0.0), value_of(result, "ece", **at)]
    errors = "" if None in ece else f"; ECE goes from {ece[0]:.3f} to {ece[1]:.3f}"
    told = (
        f"Under {words(attacker)} at level {level:g} its mean confidence goes from {format_percentage(before)} to "
        f"{format_percentage(after)}, its {score_name(result)} from {scored(clean, result)} to "
        f"{scored(noisy, result)}{errors}."
    )
    if score_name(result) == AUROC or clean - noisy < NOTABLE_DROP:
        yield told
    elif before - after < UNNOTICED_FRACTION * (clean - noisy):
        yield f"It hardly notices the noise. {told}"
    elif before - after < (clean - noisy) / 2:
        yield f"Its confidence falls less than half as far as its score. {told}"
    else:
        yield (
            f"Its confidence falls with its score, by {format_percentage_points(before - after)} where that falls by "
            f"{format_percentage_points(clean - noisy)}. {told}"
        )


def _named(params: Mapping[str, Any]) -> list[str]:
    asked = params.get("attackers", "all")
    return [*(ATTACKERS if asked == "all" else asked), *([COMBINED] if params.get("combined") else [])]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
