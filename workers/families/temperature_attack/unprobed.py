"""Whether the texts that are probed for a memory withstand attacks as the others do, of which nobody asks.

What is asked to find a memory is asked about some of the texts. An endpoint that can tell them, by being asked twice or
early, may be honest about those and remember the rest.
"""

from dataclasses import dataclass

import numpy as np

from seatrial.families.temperature_attack.params import LABEL_ONLY
from seatrial.statistics.strata import fewer_hits_p
from workers.families.temperature_attack.audit import Audit

FEWEST = 20
"""Texts of either kind from which on they are compared."""


@dataclass(frozen=True)
class Unprobed:
    """Who withstands the search by labels.

    Attributes:
        probed: Share of the texts that were probed.
        others: Share of those that were not.
        p: One-sided, of the former being that much less by chance, within classes.
    """

    probed: float
    others: float
    p: float


def compare_with_unprobed(audit: Audit) -> Unprobed | None:
    """Return how texts that were probed withstand the search by labels beside others; None where too few are either."""
    if audit.probe is None or LABEL_ONLY not in audit.arms.by_name or not audit.counted:
        return None
    held, ids = audit.robust(LABEL_ONLY), np.array(audit.common_ids)
    is_probed = np.isin(ids, audit.probe.example_ids)
    if min(int(is_probed.sum()), int((~is_probed).sum())) < FEWEST:
        return None
    # A sample may come class by class, and one class may be easier to attack than another.
    sample = audit.attacks[audit.counted[0]].clean
    labels = dict(zip(sample.example_ids.tolist(), sample.labels.tolist(), strict=True))
    classes = np.array([labels[one] for one in ids.tolist()], dtype=np.int64)
    p = fewer_hits_p(held, is_probed, classes)
    return Unprobed(float(held[is_probed].mean()), float(held[~is_probed].mean()), p)
