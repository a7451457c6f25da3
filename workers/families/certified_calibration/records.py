"""Names of the columns of ``certify`` records that exist once per bound and radius."""

from typing import Literal

from seatrial.contracts.estimates import metric_name
from seatrial.families.certified_calibration.params import ConfidenceBound


def column_of(side: Literal["lower", "upper"], bound: ConfidenceBound, radius: float) -> str:
    """Return the column holding one end of the certified confidence interval at a radius.

    >>> column_of("lower", "cdf", 0.25)
    'lower[bound=cdf,radius=0.25]'
    """
    return metric_name(side, bound=bound, radius=float(radius))
