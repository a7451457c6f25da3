"""What an example contributes to the numbers of ``certified_calibration``, from columns of its records.

The family's estimates and the gates' resampling both call these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.family import formula
from seatrial.families.shared.per_example import Records, Values, values_of
from seatrial.statistics.arrays import Floats, Mask

ABSTAIN = -1
"""Class of an example CERTIFY or PREDICT abstains on."""


def answers(certified_class: NDArray[Any]) -> Mask:
    """Return (n,) whether CERTIFY does not abstain."""
    answered: Mask = certified_class != ABSTAIN
    return answered


def reaches(certified_class: NDArray[Any], radius: NDArray[Any], asked: float) -> Mask:
    """Return (n,) whether the class, right or wrong, is certified not to change within the radius asked for."""
    return answers(certified_class) & (radius.astype(np.float64) >= asked)


def counted_radius(
    certified_class: NDArray[Any], candidate: NDArray[Any], label: NDArray[Any], radius: NDArray[Any]
) -> Floats:
    """Return the certified radius (n,), 0 where the class is wrong or there is none."""
    return np.where(answers(certified_class) & (candidate == label), radius.astype(np.float64), 0)


ABSTAINED = formula("certify", "certified_class", of=lambda found: ~answers(found))
RADIUS = formula("certify", "certified_class", "candidate", "label", "radius", of=counted_radius)


def certified_right(records: Records) -> Values | None:
    """Return who is right and certified at the metric's radius."""
    return _certified(records, asks_right=True)


def certified(records: Records) -> Values | None:
    """Return who is certified at the metric's radius, right or wrong."""
    return _certified(records, asks_right=False)


def _certified(records: Records, *, asks_right: bool) -> Values | None:
    columns = records.columns("certify", ("certified_class", "radius", "candidate", "label"))
    asked = [radius for radius in records.params["radii"] if f"{radius:g}" == records.qualifiers["radius"]]
    if columns is None or not asked:
        return None
    reached = reaches(columns["certified_class"], columns["radius"], asked[0])
    return values_of(columns["example_id"], reached & ((columns["candidate"] == columns["label"]) | (not asks_right)))
