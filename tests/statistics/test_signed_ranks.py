"""Wilcoxon's signed ranks, beside every sign written out and SciPy's exact test."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from seatrial.statistics.exact import signed_rank_p


def test_the_p_of_signed_ranks_is_that_of_all_signs() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        moved = rng.integers(-4, 5, 9)
        ranked = rankdata(np.abs(moved[moved != 0]))
        seen = ranked[moved[moved != 0] > 0].sum()
        sums = [float(np.dot(ranked, signs)) for signs in product((0, 1), repeat=len(ranked))]
        assert signed_rank_p(moved) == pytest.approx(np.mean([one >= seen - 1e-9 for one in sums]))
    different = np.array([3, -1, 5, 2, -4, 7, 6, 9])
    assert signed_rank_p(different) == pytest.approx(wilcoxon(different, alternative="greater", method="exact").pvalue)
    assert signed_rank_p(np.array([0, 0])) == 1.0
    many = rng.normal(0.2, 1, 40)
    assert signed_rank_p(many) == pytest.approx(wilcoxon(many, alternative="greater", method="exact").pvalue)
