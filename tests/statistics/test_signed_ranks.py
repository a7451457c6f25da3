"""Wilcoxon's signed ranks and firsts of rows, beside every choice written out and SciPy's exact test."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from seatrial.statistics.exact import first_p, signed_rank_p


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


@pytest.mark.parametrize("levels", [3, 1000])
def test_the_p_of_firsts_is_that_of_every_choice_of_them(levels: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = rng.integers(0, levels, (4, 5))
        above = np.sign(values[:, :, np.newaxis] - values[:, np.newaxis, :]).sum(axis=2)
        sums = [sum(row[at] for row, at in zip(above, chosen, strict=True)) for chosen in product(range(5), repeat=4)]
        assert first_p(values) == pytest.approx(np.mean([one >= above[:, 0].sum() for one in sums]))
    assert first_p(np.ones((7, 3))) == pytest.approx(1.0)
    # Nothing is known of either: it is as often below a level as the level says, at most.
    found = [first_p(rng.integers(0, levels, (20, 4))) for _ in range(1000)]
    assert np.mean(np.array(found) <= 0.05) <= 0.07
