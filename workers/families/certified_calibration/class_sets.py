"""Records to what an attack can make of conformal prediction sets of the smoothed model."""

import numpy as np

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.estimating import mean, proportion, seed_of
from seatrial.statistics.samples import Sample
from workers.certification.conformal import largest_sets, robust_sets, threshold
from workers.certification.simplex_box import SimplexBox
from workers.families.certified_calibration.records import class_column
from workers.families.certified_calibration.sample import classes_of

FEWEST = 4
"""Examples below which there is nothing to calibrate with and to judge by."""


def halves(certify: Sample, seed: int) -> Mask:
    """Return which examples (valid,) the threshold is taken from; the others are judged. Drawn, a half each."""
    order = np.random.default_rng(seed_of(seed, "conformal halves")).permutation(certify.valid)
    found: Mask = np.zeros(certify.valid, dtype=np.bool_)
    found[order[: certify.valid // 2]] = True
    return found


def set_estimates(params: CertifiedCalibrationParams, certify: Sample, seed: int) -> dict[str, Estimate]:
    """Return coverage and sizes of sets by radius; nothing where classes are summed or there are hardly any examples.

    The threshold is taken from the lower ends of the labels' scores at the smallest radius, on one half of the
    examples, so that what is said of robust sets holds whatever certificates of that half fail: for an example
    exchangeable with them, its lower end is at least the threshold with the probability asked for; and but for alpha,
    its upper end around any image within the radius is above that.
    """
    if params.uncertainty is None or certify.valid < FEWEST:
        return {}
    if classes_of(certify) != len(certify["class_mean"][0]):
        return {}
    used = halves(certify, seed)
    labels = certify["label"].astype(np.int64)

    def ends(side: str, radius: float) -> Floats:
        name = class_column("lower" if side == "lower" else "upper", radius)
        return certify.floats(name)

    every = np.arange(len(labels))
    least = threshold(ends("lower", params.radii[0])[every, labels][used], params.uncertainty.coverage)
    found: dict[str, Estimate] = {}
    for radius in params.radii:
        lower, upper = (ends(side, radius)[~used] for side in ("lower", "upper"))
        label, row = labels[~used], np.arange(len(lower))
        most = (0.0, float(lower.shape[1]))
        numbers = {
            "certified_coverage": proportion(lower[row, label] >= least),
            "certified_set_size": mean(largest_sets(SimplexBox.read(lower, upper), least).astype(np.float64), most),
            "robust_coverage": proportion(upper[row, label] >= least),
            "robust_set_size": mean(robust_sets(upper, least).astype(np.float64), most),
        }
        found |= {metric_name(name, radius=float(radius)): value for name, value in numbers.items()}
    return found
