import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.data.sampling import strata, stratified_sample

label_lists = st.lists(st.integers(0, 6), min_size=1, max_size=300).map(np.array)


@given(labels=label_lists, samples=st.integers(0, 320), seed=st.integers(0, 2**31))
def test_every_class_has_its_share_in_every_prefix(labels: np.ndarray, samples: int, seed: int) -> None:
    chosen = stratified_sample(labels, samples, seed)
    size = min(samples, len(labels))
    assert chosen.dtype == np.int64
    assert len(chosen) == len(set(chosen.tolist())) == size
    classes, counts = np.unique(labels, return_counts=True)
    for label, count in zip(classes, counts, strict=True):
        taken = np.cumsum(labels[chosen] == label)
        assert size == 0 or abs(taken[-1] - size * count / len(labels)) < 1
        for prefix in range(1, size + 1):
            share = prefix * taken[-1] / size
            # Rounding of the class itself and, in proportion to it, of all the others.
            assert abs(taken[prefix - 1] - share) <= 1 + taken[-1] / size * len(classes) / 2


@given(labels=label_lists, samples=st.integers(1, 50), seed=st.integers(0, 1000))
def test_the_same_seed_draws_the_same(labels: np.ndarray, samples: int, seed: int) -> None:
    assert np.array_equal(stratified_sample(labels, samples, seed), stratified_sample(labels, samples, seed))


def test_a_file_sorted_by_label_does_not_bias_a_subsample() -> None:
    balanced = np.repeat(np.arange(10), 200)
    chosen = stratified_sample(balanced, 100, seed=3)
    for prefix in (10, 20, 50, 100):
        assert np.bincount(balanced[chosen[:prefix]]).tolist() == [prefix // 10] * 10
    shuffled = np.random.default_rng(0).permutation(balanced)
    again = stratified_sample(shuffled, 100, seed=3)
    assert np.bincount(shuffled[again]).tolist() == [10] * 10


def test_every_example_of_a_class_is_as_likely() -> None:
    labels = np.repeat([0, 1], [30, 10])
    hits = np.zeros(40)
    for seed in range(2000):
        hits[stratified_sample(labels, 8, seed)] += 1
    # 8 of 40: each position is expected 400 times, with a standard deviation of 18.
    assert abs(hits - 400).max() < 90


def test_seeds_differ_and_nonsense_is_refused() -> None:
    labels = np.arange(1000) % 10
    assert not np.array_equal(stratified_sample(labels, 50, 0), stratified_sample(labels, 50, 1))
    with pytest.raises(ValueError, match="sample from"):
        stratified_sample(np.zeros(0, int), 5, 0)
    with pytest.raises(ValueError, match="sample from"):
        stratified_sample(labels, -1, 0)


@given(n=st.integers(1, 60), samples=st.integers(0, 70), seed=st.integers(0, 1000))
def test_without_classes_a_smaller_sample_is_the_beginning_of_a_larger_one(n: int, samples: int, seed: int) -> None:
    alike = strata(np.eye(n, 3, dtype=np.int64))
    chosen = stratified_sample(alike, samples, seed)
    assert len(set(chosen.tolist())) == min(n, samples)
    assert np.array_equal(chosen, stratified_sample(alike, n, seed)[:samples])


def test_without_classes_every_position_is_as_likely_at_every_place() -> None:
    drawn = np.asarray([stratified_sample(strata(np.zeros((6, 2), np.int64)), 3, seed) for seed in range(6000)])
    counts = np.asarray([np.bincount(place, minlength=6) for place in drawn.T])
    # 1000 are expected in each of 18 cells, with a standard deviation of 29.
    assert np.abs(counts - 1000).max() < 5 * 29


def test_examples_of_one_class_each_keep_their_strata() -> None:
    labels = np.asarray([2, 0, 1])
    assert strata(labels) is labels
