"""Doubts about the numbers of all classes' scores."""

from seatrial.contracts.estimates import Flag
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.statistics.samples import Sample
from workers.families.certified_calibration.sample import classes_of


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
            f"interval each, the other {classes - kept} one of their sum: the bounds of uncertainty hold however they "
            "share it, and there is no classwise calibration error.",
        )
    ]
