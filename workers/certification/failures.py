"""What certificates that fail cost: a price on a sum, instead of wider intervals for everybody."""

from scipy.stats import binom

BETA = 0.01
"""Probability that more certificates fail than are paid for."""


def failing(examples: int, alpha: float, beta: float = BETA) -> int:
    """Return how many of a sample's certificates fail at most.

    Guarantee: where each fails with probability at most ``alpha``, independently of the others, more than that fail
    with probability at most ``beta``. Not where examples share draws of noise: certificates then fail together.

    Args:
        examples: Certificates, at least 0.
        alpha: In [0, 1).
        beta: In (0, 1).

    Raises:
        ValueError: Out of range.

    >>> failing(2000, 0.001)
    6
    """
    if not (examples >= 0 and 0 <= alpha < 1 and 0 < beta < 1):
        raise ValueError(f"need examples >= 0, alpha in [0, 1) and beta in (0, 1): {examples=}, {alpha=}, {beta=}")
    return int(binom.isf(beta, examples, alpha)) if examples else 0


def price(failed: int, n: int) -> float:
    """Return what ``failed`` wrong intervals of ``n`` add at most to a calibration error of their mean.

    Moving one confidence, or turning its outcome round, takes |z - c| / n <= 1 / n out of one sum and puts as much into
    another. A KS or Kuiper error, an ECE of any bins and a mean of ECEs over classes change by at most 2 / n.

    >>> price(6, 2000)
    0.006
    """
    return min(1.0, 2 * failed / n) if n else 0.0
