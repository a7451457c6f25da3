"""What ``certified_calibration`` asks and publishes of all classes' scores: block ``uncertainty``."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from seatrial.contracts.base import Real, Request
from seatrial.contracts.family import (
    FROM_ZERO,
    SHARE,
    Dependence,
    Formula,
    Measurement,
    Metric,
    Range,
    all_but,
    difference,
    value,
)
from seatrial.contracts.passes import Part
from seatrial.contracts.rules import all_different

Uncertainty = Literal[
    "entropy", "gini", "least_confidence", "smoothed_entropy", "smoothed_aleatoric", "smoothed_epistemic"
]
OF_MEANS: tuple[Uncertainty, ...] = ("entropy", "gini", "least_confidence")
"""Entropy, 1 - sum p^2 and 1 - max p of the smoothed model's scores; beside them, the mean entropy of a draw's."""

SMOOTHED: dict[Part, Uncertainty] = {"aleatoric": "smoothed_aleatoric", "epistemic": "smoothed_epistemic"}
"""Of models of several passes: the mean, over draws, of a part of the entropy of a draw."""

LOG_LOSS = -math.log(1e-6)
"""Largest negative log likelihood: a score below 1e-6 counts as that."""


class UncertaintyParams(Request):
    """Bound the uncertainty and the calibration of all classes under every perturbation of a radius, too."""

    classes: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Of models with more than 100 classes, how many have a histogram of their own, the label and the "
        "most frequent (2 at least); the others count as a sum. Up to 100 classes each has one.",
    )
    coverage: Real = Field(
        default=0.9,
        ge=0.5,
        le=0.999,
        description="Probability with which conformal prediction sets are to hold the label. Half of the examples "
        "calibrate them, the others are judged.",
    )
    parts: list[Part] = Field(
        default_factory=list,
        max_length=2,
        description="Of an ensemble or a model with Monte-Carlo dropout: certify the mean of these parts of the "
        "entropy of a draw too, as `smoothed_aleatoric` (the mean entropy of the passes) and `smoothed_epistemic` (the "
        "mutual information of class and pass).",
        examples=[["aleatoric", "epistemic"]],
    )
    attack: bool = Field(
        default=False,
        description="Attack the entropy of the smoothed scores too, and each of `parts` by itself: raise and lower it "
        "at every radius above 0 with attack_steps and attack_draws: what is reached is no more than what is "
        "certified.",
    )
    price_failures: bool = Field(
        default=False,
        description="Add to this block's calibration errors and scores what certificates that fail can cost, so that "
        "they hold as they stand with probability 0.99: 2 f / n for at most f failures. An alternative to `joint`, "
        "which widens every interval; it needs independent noise.",
    )

    _parts_differ = field_validator("parts")(all_different)

    @property
    def asked(self) -> tuple[Uncertainty, ...]:
        """Uncertainties that are certified."""
        return (*OF_MEANS, *self.smoothed)

    @property
    def smoothed(self) -> tuple[Uncertainty, ...]:
        """Those that are means over draws, in the order they are counted in."""
        return ("smoothed_entropy", *(SMOOTHED[part] for part in self.parts))

    def seconds(self, samples: int, radii: int) -> float:
        """Return the seconds of one core it takes beside the model, as measured with ten classes.

        Args:
            samples: Examples audited.
            radii: Radii certified at.
        """
        return radii * (0.3 + 0.0025 * samples)


def largest(uncertainty: str, classes: int, passes: int = 0) -> float:
    """Return the uncertainty of uniform scores, which no other exceeds.

    Args:
        uncertainty: Which.
        classes: Of the model.
        passes: Of the model, where they are known apart: no more than their logarithm is known of which one it was.

    >>> largest("gini", 4), round(largest("entropy", 10), 3), round(largest("smoothed_epistemic", 10, 3), 3)
    (0.75, 2.303, 1.099)
    """
    if uncertainty in ("gini", "least_confidence"):
        return 1 - 1 / classes
    return math.log(min(classes, passes) if uncertainty == "smoothed_epistemic" and passes else classes)


def uncertainties(measured: Measurement) -> Range | None:
    """Return from where to where an uncertainty and its span lie, given how many classes the model has."""
    counts = {} if measured.result is None else measured.result.counts
    classes, passes = counts.get("classes", 0), counts.get("passes", 0)
    return (0.0, largest(measured.qualifiers["uncertainty"], classes, passes)) if classes else None


PRICED = ("certified_ks", "certified_kuiper", "certified_log_loss", "certified_brier")
"""What failures are paid for in, beside the calibration errors."""

UNATTACKED = ("radii", "solvers", "ace_attacks", "attack_radius", "sigma", "noise", "robust_accuracy")


def _depends(*idle: str) -> Dependence:
    """Return what a number depends on: not on these, nor on what is attacked."""
    return all_but(*idle, *UNATTACKED, "attack_steps", "attack_draws")


END = "uncertainty_{side}[uncertainty={{uncertainty}},radius={{radius}}]"
LOW, HIGH = END.format(side="low"), END.format(side="high")
UNBINNED = _depends("bins", "confidence_bound")


def _set_sizes(measured: Measurement) -> Range | None:
    classes = 0 if measured.result is None else measured.result.counts.get("classes", 0)
    return (0.0, float(classes)) if classes else None


def _of_sets(name: str, label: str, better: Literal["higher", "lower"], description: str) -> Metric:
    is_size = name.endswith("size")
    return Metric(
        name=name,
        qualifiers=("radius",),
        label=label,
        unit="classes" if is_size else "1",
        better=better,
        description=description,
        range=FROM_ZERO if is_size else SHARE,
        example_range=_set_sizes if is_size else None,
        # The threshold is taken at the smallest of the radii.
        depends_on=all_but(*UNATTACKED[1:], "bins", "confidence_bound", "attack_steps", "attack_draws"),
    )


def _log_losses(_: Measurement) -> Range:
    return 0.0, LOG_LOSS


def _briers(_: Measurement) -> Range:
    return 0.0, 2.0


def _top_label(name: str, label: str, description: str, *, is_binned: bool) -> Metric:
    return Metric(
        name=name,
        qualifiers=("radius",),
        label=label,
        unit="1",
        better="lower",
        description=description,
        depends_on=_depends() if is_binned else _depends("bins"),
    )


def _of_uncertainty(
    name: str,
    label: str,
    description: str,
    *,
    better: Literal["lower", "neither"],
    per_example: Formula,
    radius: bool = True,
) -> Metric:
    return Metric(
        name=name,
        qualifiers=("uncertainty", "radius") if radius else ("uncertainty",),
        label=label,
        unit="nat, or 1",
        better=better,
        description=description,
        range=FROM_ZERO,
        example_range=uncertainties,
        per_example=per_example,
        depends_on=UNBINNED,
    )


def _score(name: str, label: str, description: str, reach: Callable[[Measurement], Range]) -> Metric:
    return Metric(
        name=name,
        qualifiers=("radius",),
        label=label,
        unit="nat" if "log" in name else "1",
        better="lower",
        description=description,
        range=FROM_ZERO,
        example_range=reach,
        per_example=value("certify", f"worst_{name.removeprefix('certified_')}[radius={{radius}}]"),
        depends_on=UNBINNED,
    )


METRICS = (
    _of_uncertainty(
        "certified_span",
        "Certified shift of uncertainty within radius {radius} ({uncertainty})",
        "Mean certified span: how far apart the uncertainties of two images within the radius can be, over all "
        "examples. No attack that raises and lowers uncertainty moves it further; the upper end of its interval "
        "allows for certificates that fail.",
        better="lower",
        per_example=difference("certify", HIGH, LOW),
    ),
    _of_uncertainty(
        "uncertainty_low",
        "Certified least uncertainty within radius {radius} ({uncertainty})",
        "Mean of the least uncertainty within the radius that is certified.",
        better="neither",
        per_example=value("certify", LOW),
    ),
    _of_uncertainty(
        "uncertainty_high",
        "Certified largest uncertainty within radius {radius} ({uncertainty})",
        "Mean of the largest uncertainty within the radius that is certified.",
        better="neither",
        per_example=value("certify", HIGH),
    ),
    Metric(
        name="attacked_span",
        qualifiers=("uncertainty", "radius"),
        label="Uncertainty attacks shift within radius {radius} ({uncertainty})",
        unit="nat, or 1",
        better="lower",
        description="Mean span between where an attack within the radius raised the entropy of the smoothed scores and "
        "where it lowered it, or, of the parts of an entropy, raised and lowered the part itself: the true span is "
        "between it and certified_span.",
        range=FROM_ZERO,
        example_range=uncertainties,
        # The attack at a radius begins where that at the one before ended.
        depends_on=all_but(*UNATTACKED[1:], "bins", "confidence_bound"),
    ),
    _of_uncertainty(
        "uncertainty",
        "Mean uncertainty without an attack ({uncertainty})",
        "Mean uncertainty of the smoothed model without an attack.",
        better="neither",
        per_example=value("certify", "uncertainty[uncertainty={uncertainty}]"),
        radius=False,
    ),
    _top_label(
        "certified_ks",
        "Certified calibration error without bins at radius {radius} (Kolmogorov-Smirnov)",
        "Certified Kolmogorov-Smirnov calibration error (Gupta et al. 2021), exactly: no bins; over the examples "
        "certified at the radius.",
        is_binned=False,
    ),
    _top_label(
        "certified_kuiper",
        "Certified calibration error without bins at radius {radius} (Kuiper)",
        "Certified Kuiper calibration error, exactly: the largest mean of confidence less correctness over a range of "
        "confidences, times its share; over the examples certified at the radius.",
        is_binned=False,
    ),
    _top_label(
        "cce_quantiles",
        "Certified calibration error in bins of equal mass at radius {radius}",
        "Certified calibration error in bins whose edges are quantiles of the confidences without an attack, exactly; "
        "over the examples certified at the radius.",
        is_binned=True,
    ),
    _top_label(
        "cce_any_bins",
        "Certified calibration error in any bins at radius {radius}",
        "Certified calibration error under every way to cut confidences into at most as many contiguous bins, equal "
        "mass cut after the attack among them; at most 0.01 too large. Over the examples certified at the radius.",
        is_binned=True,
    ),
    Metric(
        name="cce_classwise",
        qualifiers=("radius",),
        label="Certified calibration error, mean over classes, at radius {radius}",
        unit="1",
        better="lower",
        description="Certified classwise calibration error, over all examples: the largest mean over classes of the "
        "ECE of a class's score. Labels do not change, so nobody abstains; models of up to 100 classes.",
        depends_on=_depends("confidence_bound"),
    ),
    _score(
        "certified_log_loss",
        "Certified log loss at radius {radius}",
        "Certified log loss: the largest mean negative log likelihood within the radius, over all examples; scores "
        "below 1e-6 count as that.",
        _log_losses,
    ),
    _score(
        "certified_brier",
        "Certified Brier score of all classes at radius {radius}",
        "Certified Brier score of all classes (0 to 2): the largest within the radius, over all examples.",
        _briers,
    ),
    _of_sets(
        "certified_coverage",
        "Conformal sets that hold the label within radius {radius}",
        "higher",
        "Share of the judged half whose conformal prediction set holds the label whatever is done within the radius.",
    ),
    _of_sets(
        "certified_set_size",
        "Largest mean size of a conformal set within radius {radius}",
        "lower",
        "Mean of the most classes that a conformal prediction set can be made to hold within the radius.",
    ),
    _of_sets(
        "robust_coverage",
        "Robust conformal sets that hold the label, radius {radius}",
        "higher",
        "Share of the judged half, without an attack, whose robust set holds the label: every class that can reach the "
        "threshold within the radius. Robust sets hold it under any attack with the coverage asked for, less alpha.",
    ),
    _of_sets(
        "robust_set_size",
        "Mean size of a robust conformal set, radius {radius}",
        "lower",
        "Mean size of robust sets, without an attack.",
    ),
)


def concerned(name: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the block as stored changes what a metric means.

    >>> concerned("certified_span", {"classes": 10, "coverage": 0.9, "attack": True, "price_failures": False})
    {'classes': 10}
    """
    is_of_sets = name.endswith(("_coverage", "_set_size"))
    is_priced = name.startswith("cce_") or name in PRICED
    kept = {
        "classes": True,
        "parts": False,
        "coverage": is_of_sets,
        "attack": name == "attacked_span",
        "price_failures": is_priced,
    }
    return {key: given for key, given in block.items() if kept.get(key, True)}
