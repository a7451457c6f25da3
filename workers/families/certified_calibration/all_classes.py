"""What the draws of ``certify`` say of all classes, example by example: their intervals, and what follows from them."""

import numpy as np
import torch

from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import Uncertainty
from seatrial.statistics.arrays import Floats, Ints
from workers.certification.class_scores import ALL, ClassScores, class_bounds, entropy_bounds
from workers.certification.confidence import Bounds
from workers.certification.procedure import Evidence
from workers.certification.scoring import worst_brier, worst_log_loss
from workers.certification.simplex_box import SimplexBox
from workers.certification.uncertainty import UNCERTAINTIES, certified_uncertainty, uncertainty_of
from workers.families.certified_calibration.records import class_column, uncertainty_column, worst_column
from workers.families.contexts import Columns

HELD = 2**28
"""Bytes of histograms held at once, about: a batch is certified in parts where its own would be more."""


def together(classes: int, kept: int, parts: int = 0) -> int:
    """Return how many examples' histograms are held at once.

    >>> together(10, 10), together(100, 10), together(1000, 10), together(10, 10, 2)
    (372, 40, 341, 315)
    """
    columns = classes if classes <= ALL else max(kept, 2) + 1
    return max(1, HELD // ((columns + 1 + parts) * 2**16))


def columns_of(params: CertifiedCalibrationParams, evidence: Evidence, labels: Ints) -> Columns:
    """Return the columns of a batch.

    ``class_ids``: the classes with an interval each (batch, m). ``class_mean``: mean scores (batch, columns), the last
    the sum of the other classes where there are any. ``class_lower[radius=]``, ``class_upper[radius=]``: between what
    they stay. ``uncertainty_low[uncertainty=,radius=]``, ``uncertainty_high[...]``: between what uncertainties do.
    ``worst_log_loss[radius=]``, ``worst_brier[radius=]``: the largest of the label.

    Args:
        params: Of the check.
        evidence: With scores.
        labels: (batch,).
    """
    scores, asked = evidence.scores, params.uncertainty
    if scores is None or asked is None:
        raise AssertionError("unreachable: the block asks for scores")
    shifts = np.array(params.radii) / params.sigma
    draws = evidence.draws
    means = scores.total.cpu().numpy() / draws[:, None]
    lower, upper = intervals(scores, evidence, shifts)
    # With the classes' intervals it holds at once: the entropy of a mean is at least the mean entropy (Jensen).
    shared, _ = entropy_bounds(scores, evidence.score_alpha / (scores.columns + 1), shifts, evidence.distance)
    ids, own = kept_columns(scores, means)
    label = (ids == labels[:, None]).argmax(1)
    arrays = {"class_ids": ids, "class_mean": own}
    means_of_draws = scores.entropy.cpu().numpy() / draws[:, None] * scores.most
    scalars: list[tuple[Uncertainty, Bounds]] = []
    for at, name in enumerate(asked.smoothed):
        arrays[f"uncertainty[uncertainty={name}]"] = means_of_draws[:, at]
        scalars.append((name, entropy_bounds(scores, evidence.score_alpha, shifts, evidence.distance, at)))
    for uncertainty in UNCERTAINTIES:
        arrays[f"uncertainty[uncertainty={uncertainty}]"] = uncertainty_of(uncertainty, means)
    for number, radius in enumerate(params.radii):
        # All of them hold at once, so that each is cut by what the others leave.
        box = SimplexBox.read(lower[:, :, number], upper[:, :, number], scores.rest)
        arrays[class_column("lower", radius)], arrays[class_column("upper", radius)] = box.lower, box.upper
        for uncertainty in UNCERTAINTIES:
            reach = certified_uncertainty(uncertainty, box)
            least = reach.low
            if uncertainty == "entropy":
                jensen = np.where(evidence.batch_dependent, 0.0, shared[:, number])
                least = np.minimum(np.maximum(least, jensen), reach.high)
            arrays[uncertainty_column("low", uncertainty, radius)] = least
            arrays[uncertainty_column("high", uncertainty, radius)] = reach.high
        for (name, (lowest, highest)), most in zip(scalars, scores.most, strict=True):
            dependent = evidence.batch_dependent
            arrays[uncertainty_column("low", name, radius)] = np.where(dependent, 0.0, lowest[:, number])
            arrays[uncertainty_column("high", name, radius)] = np.where(dependent, most, highest[:, number])
        arrays[worst_column("log_loss", radius)] = worst_log_loss(box.lower[np.arange(len(label)), label])
        arrays[worst_column("brier", radius)] = worst_brier(box, label)
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def intervals(scores: ClassScores, evidence: Evidence, shifts: Floats) -> Bounds:
    """Return between what mean scores stay (batch, columns, k); of what is no function of one image, nothing."""
    found = [
        class_bounds(scores, row, float(alpha), shifts, evidence.distance)
        for row, alpha in enumerate(evidence.score_alpha)
    ]
    lower, upper = (np.stack(ends) for ends in zip(*found, strict=True))
    lower[evidence.batch_dependent], upper[evidence.batch_dependent] = 0.0, 1.0
    return lower, upper


def kept_columns(scores: ClassScores, means: Floats) -> tuple[Ints, Floats]:
    """Return the classes (batch, m) and mean scores (batch, columns) of the histograms.

    Args:
        scores: What was counted.
        means: (batch, classes) mean scores.
    """
    if scores.kept is None:
        return np.tile(np.arange(scores.classes), (len(means), 1)), means
    ids: Ints = scores.kept.cpu().numpy()
    own = np.take_along_axis(means, ids, axis=1)
    others = np.maximum(means.sum(1, keepdims=True) - own.sum(1, keepdims=True), 0)
    return ids, np.concatenate([own, others], axis=1)
