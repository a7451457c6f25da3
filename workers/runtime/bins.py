"""A doubt about calibration errors, whichever family measures them."""

from seatrial.contracts.estimates import Flag

FEWEST = 10
"""Bins from which on published calibration errors are: Guo et al. (2017) have 15, Naeini et al. (2015) 10."""


def few_bins(bins: int | None) -> list[Flag]:
    """Doubt errors in so few bins that over- and under-confidence cancel each other in one; None: there are none."""
    if bins is None or bins >= FEWEST:
        return []
    return [
        Flag(
            code="few_bins",
            severity="warning",
            message=f"Calibration errors are over {bins} {'bin' if bins == 1 else 'bins'}, in which over- and "
            f"under-confidence cancel each other: fewer than {FEWEST} are not to be held against published ones. Audit "
            "with the default of 15.",
        )
    ]
