"""What certificates on confidence say about a model, in sentences.

Evidence comes from two sides. A certificate is proof from above: no attacker within the radius can do worse, so a small
certified calibration error is good news that no later attack takes back, and a large one is no news at all. An attack,
or calibration without any, is proof from below: so much is wrong, whatever is certified. What lies between stays open,
and so does every example without a certificate.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result, metric_name
from seatrial.families.certified_calibration.certificates_narrative import (
    Known,
    asked,
    attacked_radii,
    certainty,
    guarantee,
    headline_radius,
    known_at,
)
from seatrial.families.certified_calibration.class_narrative import FIGURES as CLASS_FIGURES
from seatrial.families.certified_calibration.class_narrative import OF_SPANS, class_findings
from seatrial.families.shared.estimates_in_words import (
    at_least,
    at_most,
    defined,
    in_digits,
    in_points,
    number_of,
)
from seatrial.families.shared.figures import describe
from seatrial.families.shared.robust_accuracy import DOUBTS
from seatrial.families.shared.robust_accuracy_narrative import robust_findings, robust_terms
from seatrial.reporting.balls import format_radius
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate, format_percentage_points
from seatrial.reporting.schemas import Answer, Scale, Standing
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import enumerate_words, flags_mean

POOR_ECE = 0.1
"""Calibration error that decides from both sides: proven to stay below it, by the upper end of an interval, confidence
can be acted on; seen above it, by the lower end, it cannot. Ours, and that of the uncertainty span's narrative."""

LOOSE_CCE = 0.3
"""Bound from which nothing usable is proven: a claim of 95% may stand for 65%. Ours; the paper's adversarially trained
CIFAR-10 model reaches 0.11, 0.28 and 0.49 at radii 0.05, 0.2 and 0.5."""

MOST, LEAST = 0.8, 0.1
"""Shares of examples, by the lower end of the interval, from which a guarantee covers the data and below which what it
says of the few examples that are certified is nothing about the data. Ours."""

ENOUGH = 100
"""Examples on which a calibration error in 15 bins is judged at least. By chance alone, that of perfectly calibrated
confidences between 1/2 and 1 is 0.09 on 100 examples, with an interval above ``POOR_ECE`` one time in twenty; on 50
one time in three (simulated)."""

OF_RADII = frozenset({"radius_out_of_reach", "no_certified_examples", "few_certified_examples"})
"""Flags on single radii, mostly the largest ones. Those at the radius of the answer show in its numbers."""

OF_COVERAGE = frozenset({"abstains_often", "not_trained_for_noise"})
"""Flags that say why little is certified: what is certified holds, but they do not go with a plain yes."""

BROKEN = "attack_beyond_certificate"
"""The flag of an attack that did what was proven to be impossible."""

_FIGURES = {
    "admm_assignment": "Assignments of the first ten examples to bins in the course of the paper's ADMM: alike for all "
    "bins at the beginning, zeros and ones at the end of a run that has converged.",
    "admm": "How far the paper's ADMM is from each of its four constraints by step, as l_2 and l_inf norms of the "
    "distance (logarithmic), in the run that found most, and the calibration error it has found by then beside the "
    "exact one.",
    "certified": "Three panels against the l_2 radius. Certified accuracy and the share of examples certified, right "
    "or wrong, fall as it grows. The certified calibration error and the certified Brier score lie above what "
    "approximations and attacks find. They are over fewer examples at larger radii, so they need not rise; a thin line "
    "follows the same examples and never falls.",
    "reliability": "Two reliability diagrams of the examples certified at one radius, without an attack and in the "
    "worst case the certificates allow: accuracy against mean confidence in each bin. Below the diagonal the model "
    "claims more than it achieves. Bars are each bin's share of the examples.",
    "interval_width": "Mean width of the certified confidence intervals against the l_2 radius, from the scores' "
    "distribution (CDF; DKW: by a band of one width) and from their mean (Standard). At width 1 the confidence could "
    "be anything, as far as is proven.",
}

_SOLVERS = {
    "acce": "the paper's ADMM",
    "dece": "gradient ascent on the differentiable ECE",
    "brier_ece": "the confidences of the worst Brier score",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Certified calibration"


def subject() -> str:
    """Return what a check doubts."""
    return "confidence"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    at = headline_radius(params)
    if at == 0:
        return "How far off can the model's confidence be under noise, without an attacker?"
    return f"What can an attacker within l_2 {format_radius(at)} provably do to the model's confidence?"


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, {**_FIGURES, **CLASS_FIGURES})


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries a check's report uses."""
    solvers = {"admm": "ADMM (ACCE)", "dece": "dECE", "brier": "Brier confidences"}
    return [
        *("abstention", "alpha", "average certified radius", "Brier score", "CCE"),
        *("CDF certificate, Standard certificate", "certified accuracy", "certified Brier score", "certified radius"),
        *("clean", "confidence", "confidence interval", "ECE", "flag", "randomized smoothing"),
        *(solvers[solver] for solver in asked(params, "solvers") if solver in solvers),
        *(["ACE attack"] if params.get("ace_attacks") else []),
        *(["shared noise"] if asked(params, "noise") == "shared" else []),
        *(["adaptive sampling"] if asked(params, "sampling") == "adaptive" else []),
        *robust_terms(params),
    ]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return between what was seen and what is proven, where the worst calibration error lies.

    Only where attacks ran: of the radii in a result, theirs is the one that the answer is about.
    """
    known = next((found for at in attacked_radii(result) if (found := known_at(result, at)).attacks), None)
    if known is None or known.cce is None or known.clean is None:
        return None
    # An attack that errored on some examples was seen on others than the ceiling is over.
    complete = [one for one in known.attacks.values() if one.n == known.cce.n]
    seen = max(number_of(one) for one in (known.clean, *complete))
    ceiling = number_of(known.cce)
    if seen > ceiling:
        return None
    return Scale(
        label=f"ECE of the {known.cce.n:,} examples certified at {known.place}",
        unit="points",
        low=100 * seen,
        mark=100 * number_of(known.clean),
        high=100 * ceiling,
        maximum=100.0,
        band="where the worst an attacker can do lies, from the most that was seen to the most that is possible",
        line="unattacked",
    )


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return whether the confidence is real, and why."""
    known = known_at(result, headline_radius(params))
    standing, headline = _harm(result, known) or _obstacle(result, known) or _proof(result, known)
    return Answer(standing=standing, headline=headline, findings=[*_findings(result, params, known)])


def _harm(result: Result, known: Known) -> tuple[Standing, str] | None:
    """Return the answer where confidence was seen to be wrong: no certificate and no doubt takes that back."""
    worse = flags_mean(_doubts(result), "it may be worse still")
    if any(flag.code == BROKEN for flag in result.flags):
        worse = " The attack went beyond the certificate, so no guarantee in this report can be relied on."
    overall = defined(result, "ece")
    if overall is not None and _is_poor(overall):
        return "not_real", (
            "No: even unattacked, the smoothed model's confidence differs from its accuracy by "
            f"{in_points(overall)} on average.{worse}"
        )
    if known.clean is not None and _is_poor(known.clean):
        return "not_real", (
            "No: even unattacked, the smoothed model's confidence differs from its accuracy by "
            f"{in_points(known.clean)} on average on the examples certified at {known.place}.{worse}"
        )
    if known.strongest is not None and _is_poor(known.strongest[1]):
        before = "" if known.clean is None else f", against {format_percentage_points(known.clean.value)} unattacked"
        return "not_real", (
            f"No: an attacker within {known.place} made the smoothed model's confidence differ from its accuracy by "
            f"{in_points(known.strongest[1])} on average{before}. This is what an attack did, not a bound.{worse}"
        )
    return None


def _obstacle(result: Result, known: Known) -> tuple[Standing, str] | None:
    """Return the answer where the numbers prove nothing, good or bad."""
    n, errored = result.counts.get("n", 0), result.counts.get("errored", 0)
    if n and errored >= n:
        return "unproven", f"Not shown: all {n:,} examples errored; nothing was measured."
    if known.radius == 0:
        return "unproven", "Not shown: no radius above 0 was requested, so nothing is known about an attacker."
    if doubts := _doubts(result):
        codes = ", ".join(flag.code.replace("_", " ") for flag in doubts)
        return "unproven", f"Not shown: the numbers cannot be relied on ({codes}) until the flags are resolved."
    if known.fraction is not None and known.fraction.value == 0:
        return "unproven", f"Not shown: no example is certified at {known.place}, so nothing is proven of an attacker."
    if known.cce is None or known.fraction is None:
        return "unproven", f"Not shown: what an attacker within {known.place} can do is undefined on this sample."
    if known.cce.n < ENOUGH:
        return "unproven", (
            f"Not shown: {known.cce.n:,} examples are certified at {known.place}. What is proven of their calibration "
            f"error holds for them, but so few say little about others: audit more ({ENOUGH} certified ones at least)."
        )
    if at_least(known.fraction) < LEAST:
        return "unproven", (
            f"Not shown: {format_percentage(known.fraction.value)} of the examples are certified at {known.place}; "
            "what is proven about them says nothing about the others."
        )
    if at_most(known.cce) > LOOSE_CCE:
        seen = known.strongest
        reached = (
            "no attack was run to see how much of it one reaches"
            if seen is None
            else f"the attacks tried reached {format_percentage_points(seen[1].value)}"
        )
        return "unproven", (
            f"Not shown: all that is proven is that, on the {format_percentage(known.fraction.value)} of the examples "
            f"that are certified, no attacker within {known.place} can make the smoothed model's confidence differ "
            f"from its accuracy by more than {in_points(known.cce)} on average. That is too loose to act on, and no "
            f"proof of harm either: {reached}."
        )
    return None


def _proof(result: Result, known: Known) -> tuple[Standing, str]:
    """Return the answer where something is proven: for how many examples, and how tightly."""
    if known.cce is None or known.fraction is None:
        raise AssertionError("unreachable: answered before")
    told = (
        f"on the {format_percentage(known.fraction.value)} of the examples that are certified, none can make the "
        f"smoothed model's confidence differ from its accuracy by more than {in_points(known.cce)} on average"
    )
    rest = f"for the other {format_percentage(1 - number_of(known.fraction))} nothing is proven"
    explained = [flag.code.replace("_", " ") for flag in result.flags if _is_serious(flag) and flag.code in OF_COVERAGE]
    is_tight = known.cce.high is not None and at_most(known.cce) <= POOR_ECE
    if is_tight and at_least(known.fraction) >= MOST and not explained:
        end = f"; {rest}" if number_of(known.fraction) < 1 else ""
        return "real", f"Yes, against any attacker within {known.place}: {told}{end}."
    limits = [] if number_of(known.fraction) == 1 else [rest]
    if at_most(known.cce) > POOR_ECE:
        more = "is more" if number_of(known.cce) > POOR_ECE else "may, by its interval, be more"
        limits.insert(
            0, f"that {more} than the {format_percentage_points(POOR_ECE)} up to which confidence can be acted on"
        )
    elif not is_tight:
        limits.insert(0, "the sampling uncertainty is not known")
    if explained:
        limits.append(f"the flags say why it is no more ({', '.join(explained)})")
    return "partly", f"In part, against any attacker within {known.place}: {told}, but {enumerate_words(limits)}."


def _is_serious(flag: Flag) -> bool:
    return flag.severity != "info"


def _doubts(result: Result) -> list[Flag]:
    """Return the flags that speak against the certified numbers themselves, which AutoAttack has no part in."""
    known = OF_RADII | OF_COVERAGE | OF_SPANS
    flags = [flag for flag in result.flags if flag.code not in DOUBTS]
    return [flag for flag in flags if flag.severity == "error" or (_is_serious(flag) and flag.code not in known)]


def _is_poor(estimate: Estimate) -> bool:
    return estimate.n >= ENOUGH and estimate.low is not None and estimate.low >= POOR_ECE


def _findings(result: Result, params: Mapping[str, Any], known: Known) -> Iterator[str]:
    yield from _accuracy(result, known)
    yield from _ceiling(result, known)
    yield from _attacks(result, params, known)
    yield from _comparisons(result, known)
    yield from class_findings(result, known.radius)
    yield from robust_findings(result, params, of="the network alone, asked without noise,")
    length, abstained = defined(result, "average_certified_radius"), defined(result, "abstention_rate")
    if length is not None:
        yield (
            f"The certified radius is l_2 {length.value:.3f} on average, counting 0 where the class is wrong or the "
            "model abstains."
        )
    if abstained is not None:
        yield (
            f"Nothing is certified for {format_percentage_estimate(abstained)} of the examples: under noise no class "
            "is shown to win more than half of the time."
        )
    yield from certainty(result, params, known)
    yield from guarantee(result, params, known)
    if errored := result.counts.get("errored", 0):
        yield (
            f"{errored:,} of {result.counts.get('n', errored):,} examples gave no finite output; they are in no "
            "estimate and never count as certified."
        )


def _accuracy(result: Result, known: Known) -> Iterator[str]:
    certified = defined(result, metric_name("certified_accuracy", radius=known.radius))
    plain = defined(result, "accuracy")
    if certified is None:
        yield f"The certified accuracy at {known.place} is undefined on this sample."
    else:
        yield (
            f"On {format_percentage_estimate(certified)} of {certified.n:,} examples the class is right and proven to "
            f"stay so whatever an attacker within {known.place} does: the certified accuracy."
        )
    if plain is not None:
        yield (
            f"Without an attack the smoothed model is right on {format_percentage_estimate(plain)}, where it only "
            "takes one class to win more often than any other."
        )


def _ceiling(result: Result, known: Known) -> Iterator[str]:
    """Say what calibration error is possible at most, from where, and over whom."""
    if known.cce is None:
        yield f"The certified calibration error at {known.place} is undefined: no example is certified there."
    else:
        start = "" if known.clean is None else f"{in_digits(known.clean)} without an attack and "
        yield (
            f"On the {known.cce.n:,} examples certified at {known.place} the ECE is {start}at most "
            f"{in_digits(known.cce)} under any attack: the certified calibration error (CCE), a guarantee for these "
            "examples (the interval tells of others like them). Real attackers may reach less."
        )
    system = defined(result, metric_name("cce_system", radius=known.radius))
    if system is not None:
        others = "" if known.fraction is None else f" ({format_percentage(1 - number_of(known.fraction))})"
        yield (
            f"Over all examples it is at most {in_digits(system)}: those not certified{others} may become right or "
            "wrong with nearly any confidence."
        )


def _attacks(result: Result, params: Mapping[str, Any], known: Known) -> Iterator[str]:
    tried = params.get("ace_attacks") or []
    if known.strongest is None:
        if known.cce is not None:
            why = "The attacks have no numbers there" if tried else "No attack was run"
            yield f"{why}: how close a real attacker comes to that bound is not known."
        return
    name, reached = known.strongest
    which = (
        "The attack tried" if len(known.attacks) == 1 else f"The strongest of the {len(known.attacks)} attacks tried"
    )
    is_whole = known.cce is not None and reached.n == known.cce.n
    over = "the same examples" if is_whole else f"{reached.n:,} of these examples"
    told = f"{which} ({value_words('attack', name)}) reached an ECE of {in_digits(reached)} on {over}"
    if any(flag.code == BROKEN for flag in result.flags):
        yield f"{told}. Some confidences left their certified intervals: the certificates, or the attack, are wrong."
    elif known.clean is not None and number_of(reached) <= number_of(known.clean):
        yield f"{told}, no more than without an attack: what a stronger one could do is open."
    elif known.cce is None or not number_of(known.cce) or not is_whole:
        yield f"{told}."
    else:
        fraction = format_percentage(min(number_of(reached) / number_of(known.cce), 1.0))
        yield f"{told}: {fraction} of the most that is possible. Whether an attacker can get closer to that is open."


def _comparisons(result: Result, known: Known) -> Iterator[str]:
    """Say how much of the exact value approximations find."""
    estimates = {name: defined(result, metric_name(name, radius=known.radius)) for name in _SOLVERS}
    if known.cce is None or not number_of(known.cce):
        return
    told = [
        f"{_SOLVERS[name]} {one.value:.3f} ({format_percentage(number_of(one) / number_of(known.cce))} of it)"
        for name, one in estimates.items()
        if one is not None
    ]
    if told:
        yield (
            f"Of the exact {known.cce.value:.3f}, approximations find less or as much: {enumerate_words(told)}. None "
            "of them guarantees anything."
        )
