"""The Cochran-Mantel-Haenszel test beside the exact one of a single table, and strata that make it needed."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from seatrial.statistics.strata import fewer_hits_p


@pytest.mark.parametrize(("first", "hits", "common"), [(40, 30, 8), (64, 100, 30), (30, 60, 12), (50, 20, 10)])
def test_of_one_stratum_it_is_near_the_exact_p(first: int, hits: int, common: int) -> None:
    count = 200
    is_first = np.arange(count) < first
    hit = np.zeros(count, dtype=bool)
    hit[:common] = True
    hit[first : first + hits - common] = True
    exact = hypergeom.cdf(common, count, hits, first)
    assert fewer_hits_p(hit, is_first, np.zeros(count, dtype=np.int64)) == pytest.approx(exact, abs=0.02)


def test_chance_has_no_small_p_more_often_than_it_says() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2_000):
        strata = rng.integers(0, 2, 150)
        # One stratum has most hits and most of the second group.
        hit = rng.random(150) < np.where(strata == 0, 0.1, 0.8)
        is_first = rng.random(150) < np.where(strata == 0, 0.8, 0.2)
        found.append(fewer_hits_p(hit, is_first, strata))
    assert np.mean(np.array(found) < 0.05) < 0.065
    # Without strata they are nearly all small.
    assert np.mean(np.array(found) < 0.001) < 0.004


def test_where_nothing_can_be_compared_it_is_one() -> None:
    ones = np.ones(10, dtype=bool)
    assert fewer_hits_p(ones, ones, np.zeros(10, dtype=np.int64)) == 1
    assert fewer_hits_p(ones, np.arange(10) < 5, np.zeros(10, dtype=np.int64)) == 1
