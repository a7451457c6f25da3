"""Looks: where they are, what they may spend, and that together they are wrong no more often than one."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper
from seatrial.statistics.looks import NEAREST, look_sizes, spending


@given(st.integers(1, 10**6), st.integers(1, 4096))
def test_looks_grow_by_whole_batches_to_all_examples(examples: int, grain: int) -> None:
    sizes = look_sizes(examples, grain)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == examples
    assert all(size % grain == 0 and size <= NEAREST * examples for size in sizes[:-1])
    # The first of them is the first batch that has 30.
    assert sizes[0] == min(examples, 30 + -30 % grain) or sizes == [examples]
    assert all(after <= 2 * before + 2 * grain + 10 for before, after in pairwise(sizes[:-1]))


@given(st.integers(1, 40))
def test_looks_spend_the_error_rate_and_half_of_it_last(looks: int) -> None:
    alphas = spending(looks)
    assert len(alphas) == looks
    assert math.isclose(math.fsum(alphas), 0.05)
    assert alphas[-1] == (0.05 if looks == 1 else 0.025)
    assert len(set(alphas[:-1])) <= 1


def test_a_rate_at_its_bound_is_decided_wrongly_no_more_often_than_by_one_look() -> None:
    sizes, rng = np.array(look_sizes(1000)), np.random.default_rng(0)
    alphas = np.array(spending(len(sizes)))
    hits = (rng.random((8000, 1000)) < 0.5).cumsum(1)[:, sizes - 1]
    low = np.stack([clopper_pearson_lower(hits[:, at], sizes[at], alpha=a / 2) for at, a in enumerate(alphas)], 1)
    high = np.stack([clopper_pearson_upper(hits[:, at], sizes[at], alpha=a / 2) for at, a in enumerate(alphas)], 1)
    room = 2 * math.sqrt(0.025 * 0.975 / 8000)
    assert 0.002 < (low > 0.5).any(1).mean() <= 0.025 + room
    assert 0.002 < (high < 0.5).any(1).mean() <= 0.025 + room
