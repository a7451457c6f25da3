"""Doubts about defences that may refuse: what they refuse that nobody attacked, and what they hardly ever answered."""

from collections.abc import Mapping

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.families.transductive_attack.params import MODEL_SPACE
from workers.families.transductive_attack.names import called
from workers.families.transductive_attack.sample import CLEAN, Games

OWED = 0.05
"""Share of harmless examples that a defence may refuse; what it may cost in accuracy, too."""


def refuses_harmless(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Flag defences that surely refuse many examples nobody attacked, wherever that shows."""
    flags = []
    for defence in filter(games.is_rejecting, games.defences):
        told = []
        for row in games.rows:
            harmless = row == CLEAN or row in games.params.corruptions
            name = "rejection_rate" if harmless else "clean_rejection_rate"
            rate = estimates.get(metric_name(name, defence=defence, attack=row))
            if rate is None or rate.value is None or rate.low is None or rate.low <= OWED:
                continue
            what = "as they are" if row == CLEAN else f"under {row}" if harmless else f"beside those of {row}"
            told.append(f"{rate.value:.1%} {what} (at least {rate.low:.1%})")
        if told:
            flags.append(
                Flag(
                    code="refuses_harmless",
                    severity="warning",
                    message=f"{called(defence)} refuses examples nobody attacked: {', '.join(told)}. Its low error on "
                    "what it answers is paid for with refusals of what it should answer: judge selective_error "
                    "together with rejection_rate[attack=clean] and clean_rejection_rate, or raise its threshold.",
                )
            )
    return flags


def nearly_all_refused(games: Games, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Flag attacks that nearly always were refused; graver where that is so of all that could have evaded a refusal."""
    flags = []
    for defence in filter(games.is_rejecting, games.defences):
        rates = {
            row: rate.value
            for row in games.attacks
            if (rate := estimates.get(metric_name("rejection_rate", defence=defence, attack=row))) is not None
            and rate.value is not None
        }
        refused = {row: rate for row, rate in rates.items() if rate >= 1 - OWED}
        simulating = [row for row in rates if row in MODEL_SPACE]
        is_unknown = bool(simulating) and all(row in refused for row in simulating)
        if not refused:
            continue
        told = ", ".join(f"{rate:.1%} under {row}" for row, rate in refused.items())
        unnoticed = (
            " None of the attacks that simulate it went unnoticed, so nothing is known of one that does: raise steps "
            "and iterations, and see that what refuses has a gradient an attack can follow."
            if is_unknown
            else ""
        )
        flags.append(
            Flag(
                code="nearly_all_refused",
                severity="warning" if is_unknown else "info",
                message=f"{called(defence)} refused nearly every attacked example: {told}. It answers so few that its "
                f"errors can hardly be measured.{unnoticed}",
            )
        )
    return flags
