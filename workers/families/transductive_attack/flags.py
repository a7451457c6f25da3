"""Doubts about the numbers, and what they say of a defence: each with what it means and what to do."""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.families.transductive_attack.params import (
    ADAPTIVE,
    MODEL_SPACE,
    NEEDS_TRAINING,
    WHOLE_SAMPLE,
    TransductiveAttackParams,
)
from workers.attacks.levels import VALUES, told_radius
from workers.families.contexts import Records
from workers.families.transductive_attack.autoattack_flags import (
    autoattack_doubted,
    autoattack_weaker_than_pgd,
    autoattack_without_square,
)
from workers.families.transductive_attack.names import called, listed
from workers.families.transductive_attack.refusals import nearly_all_refused, refuses_harmless
from workers.families.transductive_attack.rules import starts_static
from workers.families.transductive_attack.sample import (
    CLEAN,
    STATIC,
    UNADAPTED,
    Games,
    drop,
    loss_to_static,
    overestimate,
)

OVERSTATED = 0.02
"""Robustness that may surely be made up before it is told; in the paper it is 4.8 points of DENT's, 38 of RMC's."""

LOST = 0.05
"""Accuracy that a defence may cost where nobody attacks."""

REASON = 300
"""Characters of a reason that are told."""

BY_STEPS = (*MODEL_SPACE, "transfer_pgd", "transfer_confidence")
"""Attacks whose steps are the check's."""

FEW_STEPS, REACH = 20, 1.25
"""Steps below which an attack is short, and how often it is to go as far as the radius: the default goes five times."""

ASK = "Ask for fpa, gmsa_avg and gmsa_min."


def doubt(
    params: TransductiveAttackParams,
    done: Mapping[str, Records],
    estimates: Mapping[str, Estimate],
    *,
    randomized: Collection[str] = NEEDS_TRAINING,
) -> list[Flag]:
    """Return every flag of a result, the graver ones first.

    Args:
        params: Of the check.
        done: Records by stage.
        estimates: Of the result.
        randomized: Defences that draw random numbers; of those shipped these are the ones that learn.
    """
    games = Games(params, done)
    flags = [
        *defence_failed(games),
        *_radius(params, done),
        *few_steps(params),
        *overestimated(games, estimates),
        *worse_than_static(games, estimates),
        *no_adaptive_attack(games),
        *adaptive_weaker_than_transfer(games, estimates),
        *refuses_harmless(games, estimates),
        *nearly_all_refused(games, estimates),
        *clean_accuracy_lost(games),
        *autoattack_weaker_than_pgd(games),
        *autoattack_doubted(params, done),
        *autoattack_without_square(params),
        *selection_fell_back(games),
        *varies_between_repeats(games, estimates),
        *one_repeat(games, randomized),
        *adversarial_order(games),
    ]
    return sorted(flags, key=lambda flag: ("error", "warning", "info").index(flag.severity))


def few_steps(params: TransductiveAttackParams) -> list[Flag]:
    """Flag attacks that are too short to say what an attacker reaches; AutoAttack has steps of its own."""
    if not any(attack in BY_STEPS for attack in params.attacks):
        return []
    why = []
    if params.steps < FEW_STEPS:
        why.append(f"{params.steps} {'step is' if params.steps == 1 else 'steps are'} few")
    if (reach := params.steps * params.step_size) < REACH * params.epsilon:
        why.append(f"all steps together go {reach / params.epsilon:.2g} times the radius")
    if not params.iterations and any(attack in MODEL_SPACE for attack in params.attacks):
        why.append("without iterations an attack that simulates a defence meets its first model alone")
    if not why:
        return []
    told = "; ".join(why)
    return [
        _flag(
            "few_steps",
            "warning",
            f"{told[0].upper()}{told[1:]}: that is too little to say what an attacker reaches, and whatever the "
            "defence keeps it may keep for that. Audit with the defaults, or with more.",
        )
    ]


def defence_failed(games: Games) -> list[Flag]:
    """Flag every game that has no numbers, with its reason; games of a defence that failed alike are told together."""
    flags = []
    for defence in games.defences:
        alike: dict[str, dict[str, list[int]]] = {}
        for attack in games.rows:
            for repeat, reason in games.failures(defence, attack).items():
                alike.setdefault(reason, {}).setdefault(attack, []).append(repeat)
        for reason, failed in alike.items():
            told = ", ".join(_game(games, attack, repeats) for attack, repeats in failed.items())
            flag = _flag(
                "defence_failed",
                "error",
                f"{called(defence)} failed {told}: {reason[:REASON].rstrip('. ')}. These games have no numbers: "
                "estimates that rest on them alone are null, and where other repeats finished, those count, which may "
                "flatter a defence that fails when it is hard pressed. The other games stand. Fix the defence or its "
                "hyper-parameters, or give it more time (round_timeout_s), and submit again.",
            )
            flags.append(flag)
    return flags


def overestimated(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Flag robustness that is surely there under attacks on the static model alone."""
    flags = []
    for defence in games.defences:
        gap, low = overestimate(games, defence), estimates[metric_name("overestimate", defence=defence)].low
        if gap is None or low is None or low <= OVERSTATED:
            continue
        flag = _flag(
            "overestimated",
            "warning",
            f"Under {gap.reference}, made on the static model, {called(defence)} keeps {gap.reference_rate:.1%}; under "
            f"{gap.lowest}, which knows it, {gap.lowest_rate:.1%}. Transfer attacks overstate it by "
            f"{_points(gap.value)} (at least {_points(low)}): that part of its robustness only holds against attackers "
            "who do not know of the defence. Quote the lowest number, and compare defences by gain_over_static.",
        )
        flags.append(flag)
    return flags


def worse_than_static(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Flag a defence that surely does harm: under attack it keeps less than the model without it."""
    flags = []
    for defence in games.defences:
        gap, high = loss_to_static(games, defence), estimates[metric_name("gain_over_static", defence=defence)].high
        if gap is None or high is None or high >= 0:
            continue
        flag = _flag(
            "worse_than_static",
            "warning",
            f"Under {gap.lowest} {called(defence)} keeps {gap.lowest_rate:.1%}, the static model under {gap.reference} "
            f"{gap.reference_rate:.1%}: with the defence the model is {_points(gap.value)} less robust (at least "
            f"{_points(-high)}). Adapting gives an attacker one more thing to exploit. Serve the model without it.",
        )
        flags.append(flag)
    return flags


def no_adaptive_attack(games: Games) -> list[Flag]:
    """Flag defences of which no number is about an attacker who knows them, and those nobody simulated."""
    unknown: list[str] = []
    unsimulated: list[str] = []
    for defence in games.defences:
        known = [attack for attack in games.attacks if attack in ADAPTIVE and games.outcomes(defence, attack)]
        simulated = set(known) & set(MODEL_SPACE)
        if defence == UNADAPTED or (simulated and not _is_unmoved(games, defence, simulated)):
            continue
        (unsimulated if known and not simulated else unknown).append(defence)
    flags = []
    if unknown:
        alike: dict[tuple[str, str], list[str]] = {}
        for defence in unknown:
            alike.setdefault(_why_unknown(games, defence), []).append(defence)
        told = " ".join(f"On {listed(names)} {why}. {remedy}" for (why, remedy), names in alike.items())
        flag = _flag(
            "no_adaptive_attack",
            "warning",
            f"{told} The numbers say nothing about an attacker who knows the defence: carried over from the static "
            "model, attacks meet another model than they were made for. Until then, do not rely on any robustness "
            "here.",
        )
        flags.append(flag)
    if unsimulated:
        flag = _flag(
            "defence_not_simulated",
            "warning",
            f"On {listed(unsimulated)} the only attack that knows the defence is defence_autoattack. It takes the "
            "batch apart while it runs, so the model it attacks is not the one that answers, and it is known to "
            "overestimate (DENT: 78.8 % against 59.6 % under gmsa_min). Ask for fpa, gmsa_avg and gmsa_min.",
        )
        flags.append(flag)
    return flags


def _is_unmoved(games: Games, defence: str, attacks: Iterable[str]) -> bool:
    """Tell whether every model that attacks simulated answers as the first one, with nothing else to attack."""
    if games.params.iterations == 0 and games.is_rejecting(defence) and starts_static(defence, games.params):
        # The first model never refuses, and no other is attacked.
        return True
    adapted = [games.outcomes(defence, attack, "adapted") for attack in attacks]
    return all(outcomes is not None and len(outcomes) and not outcomes.successes.any() for outcomes in adapted)


def _why_unknown(games: Games, defence: str) -> tuple[str, str]:
    """Return why no attack that knows a defence has numbers, or none of its own, and what to do."""
    asked = [attack for attack in games.attacks if attack in ADAPTIVE]
    if any(games.outcomes(defence, attack) for attack in asked if attack in MODEL_SPACE):
        return (
            "every model the attacks simulated answers like the one they began with, so they are no more than "
            "transferred attacks",
            "Where it refuses examples, ask for iterations and give rejection_scores a gradient; where it never "
            "adapts, it is not a defence.",
        )
    played = [attack for attack in asked if games.sizes(defence, attack)]
    if not asked:
        return "no attack that knows the defence was asked for", ASK
    if not played:
        why = "defence_autoattack cannot be run, as it needs a defence without memory that adapts batch by batch"
        return f"{why}, and no other attack that knows the defence was asked for", ASK
    reasons = [reason for attack in played for reason in games.failures(defence, attack).values()]
    if not reasons:
        return "every example errored under the attacks that know the defence", "Look at the examples and at the model."
    if any("round_timeout_s" in reason for reason in reasons):
        return "every attack that knows the defence failed, for want of time", "Raise round_timeout_s."
    return "every attack that knows the defence failed in every repeat", "Fix what defence_failed says."


def adaptive_weaker_than_transfer(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Flag attacks that know a defence and surely do less than one that does not: they were not at their best.

    An error: whatever such an attack leaves, it says nothing of an attacker who knows the defence, and a low or
    negative overestimate would read as a good one. A tie is no weakness.
    """
    flags = []
    for defence in games.defences:
        gap, high = overestimate(games, defence), estimates[metric_name("overestimate", defence=defence)].high
        if defence == UNADAPTED or gap is None or high is None or high >= 0:
            continue
        flag = _flag(
            "adaptive_weaker_than_transfer",
            "error",
            f"{gap.lowest}, which knows {called(defence)}, leaves {gap.lowest_rate:.1%}; {gap.reference}, without "
            f"knowing it, {gap.reference_rate:.1%}. An attacker who knows a defence can do all that others can, so the "
            "attack was too weak: short of steps or iterations, or plain PGD where AutoAttack gets further. Its "
            "numbers say nothing about an attacker who knows the defence, and a negative overestimate is no sign of "
            "strength. Raise steps and iterations, see that step_size times steps exceeds epsilon, and submit again.",
        )
        flags.append(flag)
    return flags


def clean_accuracy_lost(games: Games) -> list[Flag]:
    """Flag a defence that costs accuracy where nobody attacks."""
    flags = []
    static = games.static("correct")
    for defence in games.defences:
        clean = games.outcomes(defence, CLEAN)
        lost = None if static is None or clean is None else drop(static, clean)
        if lost is None or lost[0] <= LOST or lost[1][0] <= 0:
            continue
        rejected = games.outcomes(defence, CLEAN, "rejected") if games.is_rejecting(defence) else None
        refused = (
            ""
            if rejected is None
            else f" It rejects {rejected.successes.mean():.1%} of the examples; they count as wrong."
        )
        flag = _flag(
            "clean_accuracy_lost",
            "warning",
            f"Without an attack the accuracy of {called(defence)} is {_points(lost[0])} below that of the static model "
            f"(at least {_points(lost[1][0])}).{refused} This cost, paid on every example, has to be weighed against "
            "the gain under attack; see that its preset was made for this model and data, and that its batches are as "
            "large as it needs.",
        )
        flags.append(flag)
    return flags


def selection_fell_back(games: Games) -> list[Flag]:
    """Note how often an attacker found nothing better to send than the clean batch."""
    flags = []
    for defence in games.defences:
        told = []
        for attack in (attack for attack in games.attacks if attack in MODEL_SPACE):
            read = games.samples(defence, attack, ["selected"]).values()
            selected = np.concatenate([np.empty(0), *(sample.floats("selected") for sample in read)])
            selected = selected[np.isfinite(selected)]
            if (selected < 0).any():
                told.append(f"{attack} {float((selected < 0).mean()):.1%}")
        if not told:
            continue
        flag = _flag(
            "selection_fell_back",
            "info",
            f"In some rounds no iteration brought the simulated {called(defence)} lower than the clean batch leaves "
            f"it, and the clean batch was sent, as the authors' code does (share of examples: {', '.join(told)}). "
            "These were not attacked at all. Where this happens often, the attack may be weak rather than the defence "
            "strong: raise steps, step_size or iterations.",
        )
        flags.append(flag)
    return flags


def varies_between_repeats(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Note numbers that the defender's randomness moves by more than their intervals, of examples alone, are wide."""
    told = []
    for defence in games.defences if games.params.repeats > 1 else []:
        for attack in games.attacks:
            named = {"defence": defence, "attack": attack}
            outcomes = games.outcomes(defence, attack)
            std, kept = (estimates[metric_name(name, **named)] for name in ("robustness_std", "robustness"))
            if outcomes is None or std.value is None or kept.low is None or kept.high is None:
                continue
            chance = 2 * std.value / float(np.sqrt(len(outcomes.successes)))
            if chance > kept.high - kept.low:
                told.append(f"{called(defence)} under {attack} +-{_points(chance)}")
    if not told:
        return []
    return [
        _flag(
            "varies_between_repeats",
            "info",
            "Intervals are about other examples, given what the defender drew in these repeats. Here the draws matter "
            f"more than the width of the intervals (two standard errors of the mean over repeats: {', '.join(told)}). "
            "Raise repeats, and state robustness_std beside the mean.",
        )
    ]


def one_repeat(games: Games, randomized: Collection[str]) -> list[Flag]:
    """Note defences that draw random numbers and were played once."""
    once = [defence for defence in games.defences if defence in randomized]
    if games.params.repeats > 1 or not once:
        return []
    return [
        _flag(
            "one_repeat_of_a_randomised_defence",
            "info",
            f"The answers of {listed(once)} depend on what the defender draws, and each game was played once. How much "
            "the numbers vary with that is not known and is part of no interval (the paper found a standard deviation "
            "of 1.6 to 2.1 points for RMC). Set repeats to 3 or more before comparing defences.",
        )
    ]


def adversarial_order(games: Games) -> list[Flag]:
    """Note that examples came sorted by label, for the defences that adapt batch by batch."""
    moved = [defence for defence in games.defences if defence not in (*WHOLE_SAMPLE, UNADAPTED)]
    if games.params.order != "adversarial" or not moved:
        return []
    return [
        _flag(
            "adversarial_order",
            "info",
            "Examples came sorted by label within windows of two batches, as an attacker who decides the order would "
            f"send them, so batches of {listed(moved)} hold few classes, also where nobody attacks. Compare these "
            "numbers with those of a second check in natural order: the difference is the price of trusting the "
            "order.",
        )
    ]


def _flag(code: str, severity: Literal["info", "warning", "error"], message: str) -> Flag:
    return Flag(code=code, severity=severity, message=message)


def _radius(params: TransductiveAttackParams, done: Mapping[str, Records]) -> list[Flag]:
    static = done.get(STATIC)
    # Records from before it was kept do not tell.
    values = None if static is None or VALUES not in static.column_names else static[VALUES][0].as_py()
    return told_radius(params.norm, params.epsilon, values)


def _game(games: Games, attack: str, repeats: Iterable[int]) -> str:
    under = "without an attack" if attack == CLEAN else f"under {attack}"
    return under if games.params.repeats == 1 else f"{under} (repeat {', '.join(str(repeat) for repeat in repeats)})"


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f} points"
