"""Doubts about the numbers of all classes' scores."""

import itertools
from collections.abc import Mapping

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import SMOOTHED, Uncertainty, largest
from seatrial.statistics.samples import Sample
from workers.attacks.parts import NOTHING
from workers.families.certified_calibration.sample import classes_of, largest_of, passes_known

SHOWN = 5.0
"""Times the attacked span that the certified one may be before nothing of it counts as shown."""

NEARLY_ALL, NEARLY_NONE, TIMES = 0.9, 0.01, 10.0
"""Shares of the largest entropy beyond which scores count as uniform, or as one-hot where draws disagree: where the
entropy of their mean is ``TIMES`` the mean entropy. A digit classifier trained with noise has 0.03, and 1.5 times."""

ALIKE = 0.05
"""Standard deviation over examples of the epistemic part, as a share of its mean, below which it is the same on all: of
two members that are sure of different classes it is 0, of three small networks on noisy digits above 0.5."""


def span_says_little(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Flag scores of a scale that hides what a span would show: logits made very small, or very large."""
    if params.uncertainty is None:
        return []
    most = largest("entropy", classes_of(certify))
    entropy, smoothed = (
        float(certify.floats(metric_name("uncertainty", uncertainty=one)).mean()) / most
        for one in ("entropy", "smoothed_entropy")
    )
    if smoothed > NEARLY_ALL:
        seen = f"The scores of one draw have {smoothed:.0%} of the entropy of uniform ones: they say little about the "
        seen += "class, and no attack could move their uncertainty far. The span is small for that reason alone."
    elif smoothed < NEARLY_NONE and entropy > TIMES * smoothed:
        seen = (
            f"The scores of one draw are one-hot (mean entropy {smoothed * most:.2g}) although draws disagree (entropy "
        )
        seen += f"of their mean {entropy * most:.2g}): the smoothed entropy has nothing to show, robust or not."
    else:
        return []
    return [
        Flag(
            code="span_says_little",
            severity="warning",
            message=f"{seen} Dividing or multiplying all logits does this to any model and changes no prediction; read "
            "certified_log_loss, certified_brier and cce_classwise, which it does not flatter.",
        )
    ]


def passes_agree(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Flag passes that agree on all noisy copies looked at, or disagree alike on all: nothing is there to certify."""
    if params.uncertainty is None or "epistemic" not in params.uncertainty.parts:
        return []
    name = SMOOTHED["epistemic"]
    values, least = certify.floats(metric_name("uncertainty", uncertainty=name)), NOTHING * largest_of(certify, name)
    said = f"{passes_known(certify)} passes"
    if values.mean() < least:
        seen = f"The {said} agree on noisy copies of the images: their mean epistemic part is {values.mean():.2g} nat"
    elif certify.valid > 1 and np.std(values) < ALIKE * values.mean():
        seen = f"The {said} disagree alike on noisy copies of all images, by {values.mean():.2g} nat"
    else:
        return []
    return [
        Flag(
            code="passes_agree",
            severity="warning",
            message=f"{seen}, of {least / NOTHING:.3g} there could be. What is certified of smoothed_epistemic holds, "
            "but a small span of it is no sign of robustness: there was nothing to move.",
        )
    ]


def classes_summed(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Say so where the model has more classes than have an interval each."""
    if params.uncertainty is None:
        return []
    classes, kept = classes_of(certify), len(certify["class_ids"][0])
    if kept == classes:
        return []
    return [
        Flag(
            code="classes_summed",
            severity="info",
            message=f"The model has {classes} classes. The label and the most frequent ones, {kept} in all, have an "
            f"interval each, the other {classes - kept} share one for their sum: the bounds of uncertainty hold "
            "however they divide it, and there is no classwise calibration error.",
        )
    ]


def attack_beyond_span(params: CertifiedCalibrationParams, spans: Mapping[str, Sample]) -> list[Flag]:
    """Flag attacks that moved mean scores or uncertainties beyond their certificates, by more than chance explains."""
    beyond = {}
    for name, sample in spans.items():
        for radius in params.radii:
            column = metric_name("beyond", radius=float(radius))
            if sample.has(column) and (count := int((sample.floats(column) > 0).sum())):
                beyond[f"{name} at {radius:g}"] = count
    if not beyond:
        return []
    told = ", ".join(f"{name}: {count}" for name, count in beyond.items())
    return [
        Flag(
            code="attack_beyond_span",
            severity="error",
            message="Attacks within the radius moved mean scores or uncertainties of the smoothed model out of their "
            f"certified intervals by more than chance explains (examples: {told}). Nothing within the radius should be "
            "able to: the certificates or the arithmetic are wrong. Do not rely on any certified number of this check.",
        )
    ]


def asked_parts(params: CertifiedCalibrationParams) -> list[Uncertainty]:
    """Return the parts of a draw's entropy that were asked for, as uncertainties."""
    return [] if params.uncertainty is None else [SMOOTHED[part] for part in params.uncertainty.parts]


def span_not_shown(params: CertifiedCalibrationParams, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Say where the attack reached so little of the certified span that neither says how large the true one is."""
    loose = []
    for name, radius in itertools.product(("entropy", *asked_parts(params)), params.radii):
        certified, attacked = (
            estimates.get(metric_name(span, uncertainty=name, radius=float(radius)))
            for span in ("certified_span", "attacked_span")
        )
        if certified is None or attacked is None or certified.value is None or attacked.value is None:
            continue
        if certified.value > SHOWN * attacked.value:
            loose.append(f"{certified.value:.3g} of {name} against {attacked.value:.3g} at {radius:g}")
    if not loose:
        return []
    return [
        Flag(
            code="span_not_shown",
            severity="info",
            message=f"The certified span is more than {SHOWN:g} times what the attack reached ({'; '.join(loose)}): "
            "the true one lies between, and nothing shows where.",
        )
    ]
