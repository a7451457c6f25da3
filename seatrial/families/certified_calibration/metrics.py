"""What ``certified_calibration`` publishes."""

import math
from collections.abc import Callable
from statistics import NormalDist

from seatrial.contracts.family import FROM_ZERO, Dependence, Measurement, Metric, Qualifiers, Range, all_but, equals
from seatrial.families.certified_calibration import uncertainty
from seatrial.families.shared import robust_accuracy

RECORDS = "seatrial.families.certified_calibration.records:"


def largest_radius(sigma: float, n: int, alpha: float) -> float:
    """Return the certified radius of an example on whose class all draws agree: sigma Phi^-1(alpha^(1/n)) (Cohen 2019).

    >>> round(largest_radius(0.25, 100_000, 0.001), 3)
    0.953
    """
    return max(0.0, sigma * NormalDist().inv_cdf(math.exp(math.log(alpha) / n)))


def radii(measured: Measurement) -> Range | None:
    """Return the range of certified radii."""
    try:
        return 0.0, largest_radius(*(measured.params[name] for name in ("sigma", "n", "alpha")))
    except (KeyError, ValueError):
        return None


def _depends(*, is_binned: bool = False, is_of_intervals: bool = False) -> Callable[[Qualifiers], Dependence]:
    """Return what a number depends on; sigma is part of the model, and where it was attacked of the metric's name."""

    def of(qualifiers: Qualifiers) -> Dependence:
        idle = {"radii", "solvers", "ace_attacks", "attack_radius", "sigma", "noise", "robust_accuracy", "uncertainty"}
        idle |= set() if is_binned else {"bins"}
        idle |= set() if is_of_intervals else {"confidence_bound"}
        return all_but(*idle, *(() if "attack" in qualifiers else ("attack_steps", "attack_draws")))

    return of


METRICS = (
    Metric(
        name="certified_accuracy",
        qualifiers=("radius",),
        label="Certified accuracy at radius {radius}",
        claim="it is certified to be right within radius {radius} on {value} of the examples",
        unit="1",
        better="higher",
        description="Share of all examples whose class is right and certified to be that of every 8-bit image within "
        "the radius; abstentions count as wrong.",
        depends_on=_depends(),
        per_example=RECORDS + "certified_right",
    ),
    Metric(
        name="certified_share",
        qualifiers=("radius",),
        label="Examples certified at radius {radius}",
        unit="1",
        better="higher",
        description="Share of all examples whose class, right or wrong, is certified at the radius: those cce, cbs and "
        "the comparisons at this radius are over.",
        depends_on=_depends(),
        per_example=RECORDS + "certified",
    ),
    Metric(
        name="average_certified_radius",
        label="Average certified radius",
        unit="pixel l_2",
        better="higher",
        description="Mean certified radius, 0 where the class is wrong or the procedure abstains.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=radii,
        per_example=RECORDS + "RADIUS",
    ),
    Metric(
        name="cce",
        qualifiers=("radius",),
        label="Certified calibration error at radius {radius}",
        claim="within radius {radius} its calibration error can be as large as {value}",
        unit="1",
        better="lower",
        description="Certified calibration error: the largest ECE their certified intervals leave possible on the "
        "examples certified at the radius, solved exactly. No 8-bit images within the radius can cause more.",
        depends_on=_depends(is_binned=True, is_of_intervals=True),
    ),
    Metric(
        name="cce_system",
        qualifiers=("radius",),
        label="Certified calibration error of all examples at radius {radius}",
        unit="1",
        better="lower",
        description="Certified calibration error of the whole system, over all examples: those not certified at the "
        "radius may become right or wrong, with any confidence down to 1 / classes^2.",
        depends_on=_depends(is_binned=True, is_of_intervals=True),
    ),
    Metric(
        name="cbs",
        qualifiers=("radius",),
        label="Certified Brier score at radius {radius}",
        unit="1",
        better="lower",
        description="Certified Brier score: the largest top-label Brier score their certified intervals leave "
        "possible on the examples certified at the radius.",
        depends_on=_depends(is_of_intervals=True),
    ),
    Metric(
        name="ece",
        qualifiers=("radius",),
        label="Calibration error without an attack, of examples certified at radius {radius}",
        unit="1",
        better="lower",
        description="ECE without an attack, on the examples certified at the radius: what cce starts from.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="acce",
        qualifiers=("radius",),
        label="Calibration error ADMM finds at radius {radius}, no certificate",
        unit="1",
        better="lower",
        description="What the paper's ADMM finds of cce: no more than it, so no certificate.",
        depends_on=_depends(is_binned=True, is_of_intervals=True),
    ),
    Metric(
        name="dece",
        qualifiers=("radius",),
        label="Calibration error gradient ascent finds at radius {radius}, no certificate",
        unit="1",
        better="lower",
        description="What gradient ascent on the differentiable ECE finds of cce: no more than it, so no certificate.",
        depends_on=_depends(is_binned=True, is_of_intervals=True),
    ),
    Metric(
        name="brier_ece",
        qualifiers=("radius",),
        label="Calibration error at the worst Brier score, radius {radius}, no certificate",
        unit="1",
        better="lower",
        description="ECE of the confidences of the worst Brier score: no more than cce, so no certificate.",
        depends_on=_depends(is_binned=True, is_of_intervals=True),
    ),
    Metric(
        name="interval_width",
        qualifiers=("bound", "radius"),
        label="Mean width of the confidence interval at radius {radius} ({bound})",
        unit="1",
        better="lower",
        description="Mean width of the certified confidence interval at the radius, over the examples that are not "
        "abstained on.",
        depends_on=_depends(),
    ),
    Metric(
        name="abstention_rate",
        label="Examples the certificate abstains on",
        unit="1",
        better="lower",
        description="Share of examples that CERTIFY (Cohen et al. 2019) abstains on: no class is shown to have a "
        "probability of at least 1/2 under noise.",
        depends_on=_depends(),
        per_example=RECORDS + "ABSTAINED",
    ),
    Metric(
        name="accuracy",
        label="Accuracy without an attack",
        claim="its accuracy without an attack is {value}",
        unit="1",
        better="higher",
        description="Accuracy of the smoothed classifier without an attack by PREDICT (Cohen et al. 2019), which needs "
        "only one class to come out ahead of every other, not to have half of the draws; its own abstentions count as "
        "wrong.",
        depends_on=_depends(),
        per_example=equals("certify", "predicted_class"),
    ),
    Metric(
        name="ece",
        label="Calibration error without an attack",
        unit="1",
        better="lower",
        description="ECE of the smoothed classifier without an attack, over the examples CERTIFY does not abstain on.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="brier",
        label="Brier score without an attack",
        unit="1",
        better="lower",
        description="Top-label Brier score of the smoothed classifier without an attack, over the examples CERTIFY "
        "does not abstain on.",
        depends_on=_depends(),
    ),
    Metric(
        name="ece",
        qualifiers=("attack", "radius"),
        label="Calibration error under attack at radius {radius} ({attack})",
        unit="1",
        better="lower",
        description="ECE under an attack on the smoothed confidence, on the examples certified at the radius.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="brier",
        qualifiers=("attack", "radius"),
        label="Brier score under attack at radius {radius} ({attack})",
        unit="1",
        better="lower",
        description="Top-label Brier score under an attack on the smoothed confidence, on the examples certified at "
        "the radius.",
        depends_on=_depends(),
    ),
    *uncertainty.METRICS,
    *robust_accuracy.METRICS,
)
