"""What the robust accuracy under AutoAttack says, in sentences; several families offer it beside their own question."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Result
from seatrial.families.shared.estimates_in_words import defined
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate, format_radius
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
    right = result.counts.get("robust_accuracy_correct", 0)
    yield (
        f"Under AutoAttack ({asked.get('version')}) within {norm} {format_radius(asked.get('epsilon'))}, {of} keeps "
        f"{format_percentage_estimate(kept)} of {kept.n:,} examples right, of {format_percentage(right / kept.n)} "
        "unattacked: its robust accuracy, at most, as another attack may break more."
    )
    broken = {
        value_words("attack", name.removeprefix(BROKEN).removesuffix("]")): count
        for name, count in result.counts.items()
        if name.startswith(BROKEN)
    }
    if any(broken.values()):
        (first, most), *others = broken.items()
        each = enumerate_words([f"{first} broke {most:,}", *(f"{name} {count:,}" for name, count in others)])
        yield f"Of the {right:,} it had right, {each}, each of what those before it had left."
    if errored := result.counts.get("robust_accuracy_errored", 0):
        yield f"{errored:,} of the {kept.n:,} gave an output that is not finite, and never count as robust."
