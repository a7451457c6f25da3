"""Two groups compared within strata: what differs between strata differs between no groups then."""

from statistics import NormalDist

import numpy as np

from seatrial.statistics.arrays import Ints, Mask


def fewer_hits_p(hit: Mask, is_first: Mask, strata: Ints) -> float:
    """Return the one-sided p of the first group having that few hits, by the Cochran-Mantel-Haenszel test.

    Args:
        hit: (n,) whether an example is one.
        is_first: (n,) whether it is of the first group; the others are of the second.
        strata: (n,) number of the stratum an example is in.

    Source: N. Mantel, W. Haenszel, "Statistical Aspects of the Analysis of Data From Retrospective Studies of Disease"
    (1959), with their correction for continuity. 1 where no stratum has both groups and both outcomes.
    """
    excess = variance = 0.0
    for stratum in np.unique(strata):
        here = strata == stratum
        count, first, hits = int(here.sum()), int((here & is_first).sum()), int((here & hit).sum())
        if count < 2:
            continue
        excess += float((here & is_first & hit).sum()) - first * hits / count
        variance += first * (count - first) * hits * (count - hits) / (count**2 * (count - 1))
    return NormalDist().cdf((excess + 0.5) / variance**0.5) if variance else 1.0
