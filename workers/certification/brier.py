"""The certified Brier score, and the confidences it is reached at."""

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from workers.certification.worst_calibration import Intervals


def brier_confidences(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> Floats:
    """Return the confidences (n,) of the worst Brier score: the lower end where correct, the upper one where wrong.

    They are allowed by the intervals, so their ECE is never above the certified calibration error. That ECE is no
    certificate: other allowed confidences can have a larger one. Source: Emde et al., Theorem 3.3.

    Args:
        lower: (n,) lower ends of the confidence intervals, in [0, 1].
        upper: (n,) upper ends, none below its lower end.
        correct: (n,) whether the certified class is the label.

    Raises:
        ValueError: As :meth:`Intervals.read`.

    >>> brier_confidences([0.6, 0.7], [0.8, 0.9], [True, False]).tolist()
    [0.6, 0.9]
    """
    sample = Intervals.read(lower, upper, correct, 1)
    return np.where(sample.correct, sample.lower, sample.upper)


def clean_confidences(sample: Intervals, clean: ArrayLike) -> Floats:
    """Return confidences without an attack (n,), those outside their interval by rounding moved to its nearer end.

    Raises:
        ValueError: They are not numbers in [0, 1], one per interval.
    """
    values = np.asarray(clean, dtype=np.float64)
    if values.shape != sample.lower.shape or not bool(np.all((values >= 0) & (values <= 1))):
        raise ValueError(f"need {len(sample.lower)} clean confidences in [0, 1], got an array of shape {values.shape}")
    return np.clip(values, sample.lower, sample.upper)


def certified_brier(lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> Floats:
    """Return the largest squared error (n,) each confidence interval allows; their mean is the certified Brier score.

    Wherever every interval holds, no top-label Brier score is above that mean, and if the intervals are tight some
    perturbation reaches it. It says nothing about examples an interval misses. Source: Emde et al., Theorem 3.3.

    Args:
        lower: (n,) lower ends of the confidence intervals, in [0, 1].
        upper: (n,) upper ends, none below its lower end.
        correct: (n,) whether the certified class is the label.

    Raises:
        ValueError: As :meth:`Intervals.read`.

    >>> certified_brier([0.5, 0.75], [0.75, 1.0], [True, False]).tolist()
    [0.25, 1.0]
    """
    errors: Floats = (np.asarray(correct, dtype=np.float64) - brier_confidences(lower, upper, correct)) ** 2
    return errors
