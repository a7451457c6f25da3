"""Names of the columns of ``certify`` records that exist once per radius, and per bound or uncertainty."""

from typing import Literal

from seatrial.contracts.estimates import metric_name
from seatrial.families.certified_calibration.params import ConfidenceBound
from seatrial.families.certified_calibration.uncertainty import SMOOTHED, Uncertainty

PASSES = "passes"
"""Column: forward passes of a prediction, where parts of its uncertainty were asked for."""


def column_of(side: Literal["lower", "upper"], bound: ConfidenceBound, radius: float) -> str:
    """Return the column holding one end of the certified confidence interval at a radius.

    >>> column_of("lower", "cdf", 0.25)
    'lower[bound=cdf,radius=0.25]'
    """
    return metric_name(side, bound=bound, radius=float(radius))


def uncertainty_column(side: Literal["low", "high"], uncertainty: Uncertainty, radius: float) -> str:
    """Return the column holding one end of an uncertainty within a radius.

    >>> uncertainty_column("high", "entropy", 0.25)
    'uncertainty_high[uncertainty=entropy,radius=0.25]'
    """
    return metric_name(f"uncertainty_{side}", uncertainty=uncertainty, radius=float(radius))


def class_column(side: Literal["lower", "upper"], radius: float) -> str:
    """Return the column holding one end of the certified intervals of all classes, a list an example.

    >>> class_column("lower", 0.25)
    'class_lower[radius=0.25]'
    """
    return metric_name(f"class_{side}", radius=float(radius))


def worst_column(score: Literal["log_loss", "brier"], radius: float) -> str:
    """Return the column holding the worst score of all classes within a radius.

    >>> worst_column("brier", 0.25)
    'worst_brier[radius=0.25]'
    """
    return metric_name(f"worst_{score}", radius=float(radius))


def stages_of(uncertainty: str) -> tuple[str, str]:
    """Return the stages that raise and lower an uncertainty: a part of a draw's entropy by itself, others by entropy.

    >>> stages_of("smoothed_epistemic"), stages_of("smoothed_entropy")
    (('epistemic_raise', 'epistemic_lower'), ('span_raise', 'span_lower'))
    """
    part = next((part for part, name in SMOOTHED.items() if name == uncertainty), "span")
    return f"{part}_raise", f"{part}_lower"
