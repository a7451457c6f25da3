"""A band around the distribution of scores that is narrow where it matters, in its tails.

DKW's band is as wide for a share of 1/1000 as for a half. But a perturbation takes a share p to
Phi(Phi^-1(p) +- R / sigma), which is infinitely steep at p = 0 and 1: the tails decide how wide a certificate is, and
there the binomial law knows much more. Of n draws, let the k-th largest be x_(k). However ties fall, P(X >= x_(k)) is
stochastically at least Beta(k, n - k + 1) and P(X > x_(k)) at most (order statistics; Clopper and Pearson 1934). So at
m ranks fixed beforehand each side errs with alpha / 2m, any of them with alpha (Bonferroni), and in between shares are
monotone. Ranks are geometric from both ends, dense where it matters. Local levels that are equal and calibrated exactly
(Moscovich and Nadler) would gain little over Bonferroni.
"""

from functools import lru_cache

import numpy as np

from seatrial.statistics.arrays import Floats, Integers, Ints
from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper

Shares = tuple[Floats, Floats]

RATIO = 1.25
"""From rank to rank."""


@lru_cache(maxsize=64)
def ranks(draws: int) -> Ints:
    """Return at which ranks the band is made (m,): from 1 to ``draws``, dense near both; not to be written to.

    >>> ranks(10).tolist(), len(ranks(10_000)), len(ranks(100_000))
    ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 71, 91)
    """
    half = draws // 2
    steps = int(np.ceil(np.log(max(half, 1)) / np.log(RATIO))) + 1
    near = np.floor(RATIO ** np.arange(steps)).astype(np.int64)
    near = near[near <= half]
    return np.unique(np.concatenate([[1, max(half, 1), draws], near, draws + 1 - near]))


@lru_cache(maxsize=64)
def _quantiles(draws: int, alpha: float) -> tuple[Floats, Floats]:
    at = ranks(draws)
    each = alpha / (2 * len(at))
    least = clopper_pearson_lower(at, draws, alpha=each)
    most = clopper_pearson_upper(at - 1, draws, alpha=each)
    return np.concatenate([[0.0], least]), np.append(most, 1.0)


def tail_exact(above: Integers, draws: int, alpha: float) -> Shares:
    """Return between what P(X > t) is, given how many of the draws are above t, for every t at once.

    Guarantee: with probability at least 1 - alpha over ``draws`` independent draws, P(X > t) is between ``least`` and
    ``most`` for all t. Never narrower than what is exact at one rank alone, at alpha / 2m a side.

    Args:
        above: How many draws are above t, 0 to ``draws``; any shape.
        draws: Draws in all.
        alpha: Probability that any of it is wrong, in (0, 1).

    Returns:
        ``least`` and ``most``, each in the shape of ``above``.

    >>> least, most = tail_exact(np.array([0, 500, 1000]), 1000, 0.001)
    >>> least.round(3).tolist(), most.round(3).tolist()
    ([0.0, 0.432, 0.989], [0.011, 0.652, 1.0])
    """
    at, (least, most) = ranks(draws), _quantiles(draws, alpha)
    # N draws above t: the N-th largest is above t, and the (N + 1)-th is not.
    return least[np.searchsorted(at, above, side="right")], most[
        np.searchsorted(at, np.asarray(above) + 1, side="left")
    ]
