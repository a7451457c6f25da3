"""What was found of test-time defences, a sentence each: what they keep, what attackers chose, what is not claimed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Result
from seatrial.families.shared.estimates_in_words import defined, number_of
from seatrial.families.transductive_attack.defences_narrative import (
    CLEAN,
    REFERENCE,
    Defended,
    asked,
    change,
    iterated,
    missing,
    place_of,
)
from seatrial.families.transductive_attack.params import CORRUPTIONS
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate, format_percentage_points
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import enumerate_words

DETERMINISTIC = frozenset({"identity", "tent", "dent"})
"""Shipped defences that draw nothing: what varies over repeats are the attacks on them."""

_UNMENDED = " These games have no numbers: "
"""From here on a flag of a failed game says what it says of every other."""


def static_findings(result: Result, params: Mapping[str, Any]) -> Iterator[str]:
    """Say what the model keeps without a defence."""
    clean, robust = defined(result, "static_accuracy"), defined(result, "static_robustness")
    if clean is not None:
        yield (
            f"Without a defence the model is right on {format_percentage_estimate(clean)} of {clean.n:,} examples, "
            f"unattacked."
        )
    if robust is not None:
        attacks = asked(params, "attacks")
        by = "AutoAttack" if "transfer_autoattack" in attacks else "PGD" if "transfer_pgd" in attacks else "attack"
        yield (
            f"Under {by} within {place_of(params)} it keeps {format_percentage_estimate(robust)}: what a defence has "
            f"to improve on."
        )


def defence_findings(result: Result, params: Mapping[str, Any], defence: Defended) -> Iterator[str]:
    """Say what one defence keeps under each attack, and what the attackers did about it; of no defence only that."""
    name, extra, lowest = defence.told, defence.overestimate, defence.lowest
    start = name[:1].upper() + name[1:]
    if defence.clean is not None:
        yield (
            f"{start} is right on {format_percentage_estimate(defence.clean)} of {defence.clean.n:,} examples, "
            f"unattacked."
        )
    if defence.abstains:
        yield from _pair(defence, start)
    if defence.failed:
        yield f"{start} has no numbers {missing(defence)}."
    if lowest is not None:
        kept = [f"{_briefly(estimate)} under {value_words('attack', one)}" for one, estimate in defence.under.items()]
        strongest = f" The strongest was {value_words('attack', lowest[0])}." if len(kept) > 1 else ""
        meaning = HOLDS if defence.abstains else ""
        yield f"{start} keeps {enumerate_words(kept)}.{strongest}{meaning}"
    for row, estimate in defence.beside.items():
        yield _beside(defence, start, row, estimate)
    if defence.name == REFERENCE:
        return
    if extra is not None:
        told = (
            f"leave {name} {change(extra)} more than the strongest that knows it"
            if number_of(extra) > 0
            else f"are no weaker on {name} than those that know it ({change(extra)})"
        )
        yield f"On the same {extra.n:,} examples, attacks made on the static model {told}."
    yield from _selection(result, defence)
    if defence.spread:
        attack, widest = max(defence.spread.items(), key=lambda pair: number_of(pair[1]))
        drew = "the attacks" if defence.name in DETERMINISTIC else "attacks and defence"
        yield (
            f"Over {asked(params, 'repeats')} repeats, in each of which {drew} drew anew, what {name} keeps varies by "
            f"a standard deviation of {format_percentage_points(widest.value)} at most, under "
            f"{value_words('attack', attack)}."
        )


HOLDS = (
    " It may reject: an attacked example is kept if it is answered rightly or rejected, and its unattacked copy is "
    "answered rightly by the same adapted model. Rejecting everything keeps nothing."
)


def _pair(defence: Defended, start: str) -> Iterator[str]:
    """Say what a defence that may reject answers wrongly and what it rejects: neither means anything alone."""
    for row, rejected in defence.rejected.items():
        where = "unattacked" if row == CLEAN else f"under {value_words('attack', row)}"
        error = defence.selective.get(row)
        if error is not None:
            answers = f", and answers {_briefly(error)} of the other {error.n:,} wrongly"
        else:
            answers = ", so there is no error on what it answers" if number_of(rejected) == 1 else ""
        copies = defence.clean_rejected.get(row)
        beside = "" if copies is None else f"; of the unperturbed copies beside them it rejects {_briefly(copies)}"
        yield f"{start} rejects {_briefly(rejected)} of the examples {where}{answers}{beside}."


def _beside(defence: Defended, start: str, row: str, estimate: Estimate) -> str:
    """Say what a defence keeps in a row that no comparison within the radius is made of."""
    told = f"{start} keeps {_briefly(estimate)} under {value_words('attack', row)}"
    if row in CORRUPTIONS:
        rejecting = ", where a rejection counts as a wrong answer" if defence.abstains else ""
        return f"{told}{rejecting}: nobody attacked."
    return f"{told}. That attack has no radius; it is no part of what is compared."


def _selection(result: Result, defence: Defended) -> Iterator[str]:
    """Say what the strongest attack that simulates a defence sent; nothing where there was nothing to choose from."""
    attacked = [one for one in iterated(result, defence.name) if one.attack in defence.under and one.iterations > 1]
    if not attacked:
        return
    one = min(attacked, key=lambda one: number_of(defence.under[one.attack]))
    most, clean = "", ""
    if one.most_sent is not None:
        number, fraction = one.most_sent
        most = f", most often iteration {number}, counted from 0 ({format_percentage(fraction)} of the examples)"
    if one.clean_share:
        clean = f" For {format_percentage(one.clean_share)} none did better than the clean batch, and that was sent."
    fell = (
        f" (it falls from {format_percentage(one.first)} after the first to {format_percentage(one.best)})"
        if one.falls
        else ""
    )
    yield (
        f"Of the {one.iterations} iterations of {value_words('attack', one.attack)} on {defence.told}, the attacker "
        f"sent the one whose induced model was right least often{fell}{most}.{clean}"
    )


def _briefly(estimate: Estimate) -> str:
    """Return a share with its interval, for lists of them."""
    if estimate.low is None or estimate.high is None:
        return format_percentage(estimate.value)
    low, high = (format_percentage(min(max(end, 0.0), 1.0)) for end in (estimate.low, estimate.high))
    return f"{format_percentage(estimate.value)} [{low}, {high}]"


def limit_findings(result: Result, params: Mapping[str, Any], defences: Iterable[Defended]) -> Iterator[str]:
    """Say what the numbers do not claim, and once for all defences what holds of several."""
    unplayed = [defence.told for defence in defences if defence.unplayed]
    if unplayed:
        itself = "itself" if len(unplayed) == 1 else "themselves"
        yield (
            f"AutoAttack cannot be run on {enumerate_words(unplayed)} {itself}: a defence that remembers, or trains on "
            "its whole sample, is not one model that could be asked thousands of times."
        )
    for flag in result.flags:
        if flag.code == "defence_failed":
            yield f"Why a game has no numbers: {flag.message.partition(_UNMENDED)[0]}"
    for row in result.series.get("followed") or []:
        yield str(row["says"])
    yield "Numbers under attack are upper bounds: an attack not tried here may leave less."
    randomness = "is not told what it draws at random after the attacker has moved"
    if asked(params, "state") == "leaking":
        yield f"The attacker knows the defence and sees its state before each round, and {randomness}."
    else:
        yield (
            f"The attacker knows the defence and the state it starts in, and {randomness}, nor the state it is in "
            "later."
        )
    if asked(params, "repeats") == 1:
        yield "Each game was played once: how much a defence's own randomness moves the numbers is not known."
    if asked(params, "order") == "adversarial":
        yield "Examples came sorted by label within windows of two batches: hard on defences that adapt to a batch."
    else:
        yield "Examples came in natural order; sorted, by label say, a defence that adapts to a batch may keep less."
    if errored := result.counts.get("errored", 0):
        yield (
            f"{errored:,} of {result.counts.get('n', errored):,} examples gave no finite output; they are in no "
            "estimate and never count as robust."
        )
