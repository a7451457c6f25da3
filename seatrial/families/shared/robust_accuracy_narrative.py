"""What the robust accuracy under AutoAttack says, in sentences; several families offer it beside their own question."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Result
from seatrial.families.shared.estimates_in_words import defined
from seatrial.reporting.balls import format_radius
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import enumerate_words

BROKEN = "broken[attack="


def robust_terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries of a check that asked for it."""
    return ["APGD, FAB, Square", "AutoAttack", "robust accuracy"] if params.get("robust_accuracy") else []


def robust_findings(result: Result, params: Mapping[str, Any], *, of: str = "the model") -> Iterator[str]:
    """Say what AutoAttack left, and which attack broke how many.

    Args:
        result: Of the check.
        params: Of the check.
        of: What was attacked.
    """
    asked, kept = params.get("robust_accuracy"), defined(result, "robust_accuracy")
    if not asked or kept is None:
        return
    norm = {"linf": "l_inf", "l2": "l_2"}.get(str(asked.get("norm")), str(asked.get("norm")))
    first = "robust_accuracy_first_" if asked.get("survivors") is not None else "robust_accuracy_"
    right = result.counts.get(f"{first}correct", 0)
    yield (
        f"Under AutoAttack ({asked.get('version')}) within {norm} {format_radius(asked.get('epsilon'))}, {of} keeps "
        f"{format_percentage_estimate(kept)} of {kept.n:,} examples right, of {format_percentage(right / kept.n)} "
        "unattacked: its robust accuracy, at most, as another attack may break more."
    )
    if asked.get("survivors") is not None:
        yield from _phases(result.counts, kept)
        right = result.counts.get("robust_accuracy_n", 0)
    broken = {
        value_words("attack", name.removeprefix(BROKEN).removesuffix("]")): count
        for name, count in result.counts.items()
        if name.startswith(BROKEN)
    }
    if any(broken.values()):
        (first, most), *others = broken.items()
        each = enumerate_words([f"{first} broke {most:,}", *(f"{name} {count:,}" for name, count in others)])
        of_these = "that stood" if asked.get("survivors") is not None else "it had right"
        yield f"Of the {right:,} {of_these}, {each}, each of what those before it had left."
    errored = result.counts.get("robust_accuracy_errored", 0) + result.counts.get("robust_accuracy_first_errored", 0)
    if errored:
        yield f"{errored:,} of the {kept.n:,} gave an output that is not finite, and never count as robust."


def _phases(counts: Mapping[str, int], kept: Estimate) -> Iterator[str]:
    """Say what each phase did, and which of the two the interval owes more of its width to."""
    standing, n = counts.get("robust_accuracy_first_standing", 0), counts.get("robust_accuracy_first_n", 0)
    attacked, held = counts.get("robust_accuracy_n", 0), counts.get("robust_accuracy_held", 0)
    yield (
        f"It was measured in two phases: PGD of ten steps left {standing:,} of {n:,} examples standing, and AutoAttack "
        f"{held:,} of {attacked:,} of those."
    )
    if not 0 < attacked < standing or kept.value is None:
        return
    p, q = standing / n, held / attacked
    of_first, of_second = q * math.sqrt(p * (1 - p) / n), p * math.sqrt(q * (1 - q) / attacked)
    yield (
        "Most of the interval's width is the first phase's: more examples make it narrower."
        if of_first > of_second
        else "Most of the interval's width is the second phase's: more survivors make it narrower."
    )
