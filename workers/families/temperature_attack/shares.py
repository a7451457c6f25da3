"""Shares of leads that edits take, and whether those of two samples of texts differ."""

from scipy.stats import fisher_exact, mannwhitneyu

from seatrial.families.temperature_attack.quiet import FEWEST_EDITED
from seatrial.statistics.arrays import Floats
from workers.families.temperature_attack.displaced import lead
from workers.models import Answer

DIGITS = 6
"""Of leads in logits: what sums in another order leave is no difference."""


def taken_of(edited: Answer, unedited: Answer, label: int) -> float | None:
    """Return the share of its lead that editing took from a text; None without an answer, or where it has no lead."""
    leads = lead(edited, label), lead(unedited, label)
    return None if leads[0] is None or leads[1] is None else share_taken(leads[0], leads[1])


def share_taken(edited: float, unedited: float) -> float | None:
    """Return the share of a lead that editing took; None where there is none.

    >>> share_taken(-1.0, 4.0)
    1.25
    """
    return 1 - edited / unedited if unedited > 0 else None


def differing_p(one: Floats, other: Floats) -> float:
    """Return the two-sided p of two samples of shares so different; 1 where either is too small.

    By ranks (Mann and Whitney), or by how many are above 1, where the class changes (Fisher); for two tests at once.
    """
    if min(len(one), len(other)) < FEWEST_EDITED:
        return 1.0
    by_ranks = mannwhitneyu(one.round(DIGITS), other.round(DIGITS)).pvalue
    changed = [[int((of > 1).sum()), int((of <= 1).sum())] for of in (one, other)]
    return min(1.0, 2 * min(float(by_ranks), float(fisher_exact(changed).pvalue)))
