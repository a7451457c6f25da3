"""What attacks on the parts of a predictive entropy say about a model, in sentences."""

from collections.abc import Iterator

from seatrial.contracts.estimates import Result, metric_name
from seatrial.contracts.passes import MEANT, PARTS
from seatrial.families.shared.estimates_in_words import defined, in_digits

OF_PARTS = frozenset({"passes_agree"})
"""Flags on parts, which the predictive entropy as a whole has no part in."""


def part_findings(result: Result) -> Iterator[str]:
    """Say between what attacks move each part that was asked for."""
    for part in PARTS:
        found = [
            defined(result, name)
            for name in (
                *(metric_name(f"part_{end}", part=part) for end in ("span", "lowest", "highest")),
                *(metric_name("entropy_part", part=part, arm=arm) for arm in ("clean", "over", "under")),
            )
        ]
        span, lowest, highest, clean, over, under = (None if one is None else one.value for one in found)
        if found[0] is None or None in (span, lowest, highest, clean, over, under):
            continue
        yield (
            f"Over {result.counts.get('passes', 0)} passes, its {part} part ({MEANT[part]}) is {clean:.3f} nat without "
            f"an attack. Attacks on it move it between {lowest:.3f} and {highest:.3f} on average, a mean span of "
            f"{in_digits(found[0])}; the two attacks on the whole entropy, between {over:.3f} and {under:.3f}."
        )
