"""Whether a sample is many examples, or few many times."""

from seatrial.contracts.estimates import Flag

FEWEST, DISTINCT = 20, 0.9
"""Examples from which on it is asked, and the share of them that are to differ. Of eleven sets of texts and pairs, and
five of digits and photographs, .998 at least do."""


def repeated_examples(distinct: int, examples: int, thing: str) -> list[Flag]:
    """Doubt a sample of which many examples are the same: intervals are of examples that are drawn each by itself.

    Args:
        distinct: How many different ones there are.
        examples: In all.
        thing: What one is called.
    """
    if examples < FEWEST or distinct >= DISTINCT * examples:
        return []
    return [
        Flag(
            code="repeated_examples",
            severity="warning",
            message=f"Of {examples:,} {thing}s {distinct:,} are different: whatever holds of one that comes again is "
            "counted as often as it does, and every interval is narrower than what is known. Audit a dataset without "
            "copies.",
        )
    ]
