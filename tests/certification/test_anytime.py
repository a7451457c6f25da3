import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seatrial.statistics.exact import clopper_pearson_lower, clopper_pearson_upper
from workers.certification.anytime import ConfidenceSequence, Schedule, fixed_schedule, geometric_schedule
from workers.certification.bernoulli import certified_radius, certify, probability_needed

ALPHA = 0.05
RADII = [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75]
NEEDED = probability_needed(RADII, 0.25)
LOOKS = geometric_schedule(2000, ALPHA, first=100, factor=1.3)


def without_the_union_bound(schedule):
    """The same looks, each at all of alpha: what an audit that peeks does wrong."""
    each = (ALPHA,) * len(schedule.checkpoints)
    return dataclasses.replace(schedule, lower_alphas=each, upper_alphas=each)


def drawn(schedule, p, seed):
    """Hits so far at each look (looks, batch) of streams with probabilities p (batch,)."""
    rng = np.random.default_rng(seed)
    steps = np.diff(schedule.checkpoints, prepend=0)
    return np.cumsum([rng.binomial(step, p) for step in steps], axis=0)


def run(schedule, hits, needed=NEEDED):
    """Look at streams until they are settled; return the sequence and the draws taken."""
    sequence = ConfidenceSequence(schedule, hits.shape[1], needed)
    active = np.arange(hits.shape[1])
    for look in range(len(schedule.checkpoints)):
        active = active[~sequence.look(look, active, hits[look, active])]
    assert len(active) == 0
    return sequence, np.array(schedule.checkpoints)[sequence.stopped_at]


def bounds_by_look(schedule, counts):
    """Both bounds of each look, (looks, counts), None of what has come before."""
    lower = [
        clopper_pearson_lower(np.minimum(counts, n), n, alpha=alpha)
        for n, alpha in zip(schedule.checkpoints, schedule.lower_alphas, strict=True)
    ]
    upper = [
        clopper_pearson_upper(np.minimum(counts, n), n, alpha=alpha) if alpha else np.ones(len(counts))
        for n, alpha in zip(schedule.checkpoints, schedule.upper_alphas, strict=True)
    ]
    return np.array(lower), np.array(upper)


def probability_of_ever_missing(schedule, p):
    """The exact probability that any bound of any look misses p: paths that have not missed are carried on."""
    counts = np.arange(schedule.n + 1)
    lower, upper = bounds_by_look(schedule, counts)
    sound = np.ones(1)
    for look, step in enumerate(np.diff(schedule.checkpoints, prepend=0)):
        sound = np.convolve(sound, stats.binom.pmf(np.arange(step + 1), step, p))
        reached = counts[: len(sound)]
        sound = np.where((lower[look, reached] <= p) & (p <= upper[look, reached]), sound, 0)
    return 1 - sound.sum()


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7, 0.84, 0.95, 0.99, 0.999, 1.0])
def test_both_sides_hold_at_all_looks_with_the_probability_promised(p) -> None:
    assert probability_of_ever_missing(LOOKS, p) <= ALPHA


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7, 0.84, 0.95, 0.99])
def test_looks_without_a_union_bound_miss_more_often_than_alpha(p) -> None:
    assert probability_of_ever_missing(without_the_union_bound(LOOKS), p) > 2 * ALPHA


@pytest.mark.parametrize("p", [0.5, 0.84, 0.95, 0.99])
def test_each_look_errs_with_no_more_than_its_share_and_uses_it(p) -> None:
    counts = np.arange(LOOKS.n + 1)
    lower, upper = bounds_by_look(LOOKS, counts)
    for look, n in enumerate(LOOKS.checkpoints):
        chance = stats.binom.pmf(counts, n, p)
        above, below = chance[lower[look] > p].sum(), chance[upper[look] < p].sum()
        assert above <= LOOKS.lower_alphas[look] * (1 + 1e-9)
        assert below <= LOOKS.upper_alphas[look] * (1 + 1e-9)
        if look == len(LOOKS.checkpoints) - 1:
            assert above > LOOKS.lower_alphas[look] / 2


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95, 0.99])
def test_running_bounds_of_simulated_streams_cover_and_naive_ones_do_not(p) -> None:
    streams = 4000

    def misses(schedule):
        hits = drawn(schedule, np.full(streams, p), seed=21)
        sequence = ConfidenceSequence(schedule, streams, NEEDED)
        everyone, missed = np.arange(streams), np.zeros(streams, dtype=bool)
        for look in range(len(schedule.checkpoints)):
            sequence.look(look, everyone, hits[look])
            missed |= (sequence.lower > p) | (sequence.upper < p)
        return int(missed.sum())

    limit = stats.binom.ppf(1 - 1e-6, streams, ALPHA)
    assert misses(LOOKS) <= limit
    assert misses(without_the_union_bound(LOOKS)) > limit


@pytest.mark.parametrize("radius", [0.0, 0.15, 0.25, 0.5])
def test_a_radius_just_out_of_truth_is_certified_no_more_often_than_alpha_however_draws_end(radius) -> None:
    streams = 4000
    (needed,) = probability_needed([radius], 0.25)

    def certified(schedule):
        sequence, _ = run(schedule, drawn(schedule, np.full(streams, needed - 1e-9), seed=22), [needed])
        return int(np.sum(certified_radius(sequence.lower, 0.25)[sequence.lower >= 0.5] >= radius))

    limit = stats.binom.ppf(1 - 1e-6, streams, ALPHA)
    assert certified(LOOKS) <= limit
    assert certified(without_the_union_bound(LOOKS)) > limit


def test_one_look_is_certify_bit_for_bit() -> None:
    n, hits = 1000, np.arange(1001)
    sequence = ConfidenceSequence(fixed_schedule(n, 0.001), len(hits), NEEDED)
    assert sequence.look(0, hits, hits).all()
    assert sequence.lower.tolist() == certify(hits, n, alpha=0.001, sigma=0.25).p_lower.tolist()
    assert sequence.upper.tolist() == clopper_pearson_upper(hits, n, alpha=0.001).tolist()


def test_stopping_early_decides_as_drawing_to_the_end_does_with_a_fifth_of_the_draws() -> None:
    n, alpha = 100_000, 0.001
    adaptive, fixed = geometric_schedule(n, alpha), fixed_schedule(n, alpha)
    # A good model under noise: accuracy 0.99, three of five images certified at 3 sigma, the rest anywhere.
    p = np.random.default_rng(23).beta(3, 0.1, 5000)
    hits = drawn(adaptive, p, seed=24)
    early, taken = run(adaptive, hits)
    late, _ = run(fixed, hits[-1:])
    same = np.all((early.lower[:, None] >= NEEDED) == (late.lower[:, None] >= NEEDED), axis=1)
    assert same.mean() >= 0.99
    assert taken.mean() <= n / 5


@pytest.mark.parametrize(
    ("p", "most"), [(0.2, 250), (0.45, 3000), (0.95, 2000), (0.99, 4000), (0.9999, 15_000), (1.0, 9999)]
)
def test_images_that_are_easy_to_decide_take_few_draws(p, most) -> None:
    schedule = geometric_schedule(100_000, 0.001)
    _, taken = run(schedule, drawn(schedule, np.full(300, p), seed=25))
    assert taken.mean() <= most


def reachable(schedule, look, hits):
    """The best bound any continuation of these hits leads to, by trying all of them."""
    found = []
    for later in range(look, len(schedule.checkpoints)):
        n = schedule.checkpoints[later]
        counts = np.arange(hits, hits + n - schedule.checkpoints[look] + 1)
        found.append(clopper_pearson_lower(counts, n, alpha=schedule.lower_alphas[later]).max())
    return max(found)


# Bounds of counts, early and last: a probability that is just reached is reached.
EARLY, LAST = clopper_pearson_lower(18, 20, alpha=0.01), clopper_pearson_lower(55, 60, alpha=0.05)


@pytest.mark.parametrize(
    "needed",
    [[], [0.6, 0.75], [0.85], [0.93, 0.99], [EARLY], [LAST]],
    ids=["half", "two", "high", "top", "early tie", "last tie"],
)
def test_futility_ends_exactly_what_no_further_draw_could_certify(needed) -> None:
    # Without upper bounds nothing but futility ends an example that is not certified.
    schedule = Schedule((10, 20, 40, 60), (0.01, 0.01, 0.005, 0.05), (0.0,) * 4, (0.02,) * 4)
    outcomes = set()
    for look, n in enumerate(schedule.checkpoints[:-1]):
        hits = np.arange(n + 1)
        sequence = ConfidenceSequence(schedule, n + 1, needed)
        settled = sequence.look(look, hits, hits)
        for count in hits:
            certified = sequence.lower[count] >= np.array([0.5, *needed])
            possible = reachable(schedule, look, count) >= np.array([0.5, *needed])
            assert settled[count] == bool(np.all(certified | ~possible))
            outcomes.add((bool(settled[count]), bool(certified[0])))
    assert {(True, False), (False, False)} <= outcomes


def test_abstention_is_decided_whether_or_not_radius_0_is_asked_for() -> None:
    hits = [[50], [100]]
    for needed in ([], [0.5], [0.01]):
        sequence = ConfidenceSequence(LOOKS, 2, needed)
        # Half the draws hit: open. All of them: above 1/2.
        assert sequence.look(0, [0, 1], np.ravel(hits)).tolist() == [False, True]


def test_a_radius_no_number_of_draws_certifies_is_decided_at_the_first_look() -> None:
    out_of_reach = probability_needed([3.0], 0.25)
    sequence = ConfidenceSequence(LOOKS, 1, out_of_reach)
    assert sequence.look(0, [0], [100]).tolist() == [True]


def test_a_row_depends_on_nothing_but_its_own_hits() -> None:
    hits = drawn(LOOKS, np.random.default_rng(26).beta(3, 0.3, 60), seed=27)
    together, _ = run(LOOKS, hits)
    for row in range(60):
        alone, _ = run(LOOKS, hits[:, [row]])
        assert (alone.lower[0], alone.upper[0]) == (together.lower[row], together.upper[row])
        assert alone.stopped_at[0] == together.stopped_at[row]


def test_a_look_at_some_examples_leaves_the_others_as_they_were() -> None:
    sequence = ConfidenceSequence(LOOKS, 3, NEEDED)
    assert sequence.look(0, [2, 0], [10, 90]).tolist() == [True, False]
    assert sequence.stopped_at.tolist() == [0, -1, 0]
    assert (sequence.lower[1], sequence.upper[1]) == (0.0, 1.0)
    assert sequence.lower[0] > sequence.lower[2]


TWO_LOOKS = Schedule((100, 200), (0.02, 0.02), (0.005, 0.005), (0.02, 0.03))


def test_each_bound_stays_where_it_was_best() -> None:
    sequence = ConfidenceSequence(TWO_LOOKS, 1, [])
    sequence.look(0, [0], [80])
    sequence.look(1, [0], [145])
    # The lower bound is the first look's, the upper one the second's.
    assert sequence.lower[0] == clopper_pearson_lower(80, 100, alpha=0.02) > clopper_pearson_lower(145, 200, alpha=0.02)
    upper = clopper_pearson_upper(145, 200, alpha=0.005)
    assert sequence.upper[0] == upper < clopper_pearson_upper(80, 100, alpha=0.005)


def test_where_the_bounds_contradict_each_other_the_upper_one_gives_way() -> None:
    sequence = ConfidenceSequence(TWO_LOOKS, 1, [])
    sequence.look(0, [0], [40])
    before = sequence.upper[0]
    # The second hundred is as if another coin had been thrown.
    sequence.look(1, [0], [140])
    assert before < sequence.upper[0] == sequence.lower[0] == clopper_pearson_lower(140, 200, alpha=0.02)


@given(st.floats(0, 1), st.integers(0, 2**32), st.lists(st.floats(0, 1), max_size=4))
def test_the_lower_bound_never_falls_and_more_hits_never_lower_it(p, seed, needed) -> None:
    hits = drawn(LOOKS, np.array([p]), seed)
    better = np.minimum(hits + 1, np.array(LOOKS.checkpoints)[:, None])
    sequence = ConfidenceSequence(LOOKS, 2, needed)
    before = sequence.lower.copy()
    for look in range(len(LOOKS.checkpoints)):
        settled = sequence.look(look, [0, 1], [hits[look, 0], better[look, 0]])
        assert np.all(before <= sequence.lower)
        assert sequence.lower[0] <= sequence.lower[1]
        assert np.all((sequence.lower <= sequence.upper) & (sequence.upper <= 1))
        before = sequence.lower.copy()
    assert settled.all()


@given(
    st.integers(1, 300_000),
    st.floats(1e-12, 0.2),
    st.integers(1, 1000),
    st.floats(1.05, 4),
    st.sampled_from([1, 7, 50, 512]),
)
def test_a_schedule_spends_alpha_and_no_more_at_rounded_ascending_looks(n, alpha, first, factor, multiple) -> None:
    schedule = geometric_schedule(n, alpha, first=first, factor=factor, multiple=multiple)
    assert schedule.n == n
    assert all(draws % multiple == 0 for draws in schedule.checkpoints[:-1])
    if len(schedule.checkpoints) == 1:
        assert schedule == fixed_schedule(n, alpha)
        return
    spent = math.fsum((*schedule.lower_alphas, *schedule.upper_alphas))
    assert spent == pytest.approx(alpha)
    assert math.fsum(schedule.score_alphas) == pytest.approx(alpha)
    assert schedule.lower_alphas[-1] == schedule.score_alphas[-1] == alpha / 2
    assert schedule.upper_alphas[-1] == 0


def test_the_default_looks_are_about_a_quarter_apart() -> None:
    looks = np.array(geometric_schedule(100_000, 0.001).checkpoints)
    assert (looks[0], looks[-1], len(looks)) == (200, 100_000, 28)
    assert np.all(np.abs(looks[6:] / looks[5:-1] - 1.25) < 0.08)


@pytest.mark.parametrize("n", [1, 10, 199, 200])
def test_with_fewer_draws_than_the_first_look_the_schedule_is_the_fixed_one(n) -> None:
    assert geometric_schedule(n, 0.001) == fixed_schedule(n, 0.001)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (((), (), (), ()), "must ascend"),
        (((10, 10), (0.1, 0.1), (0, 0), (0.1, 0.1)), "must ascend"),
        (((0, 10), (0.1, 0.1), (0, 0), (0.1, 0.1)), "must ascend"),
        (((10,), (0.1, 0.1), (0,), (0.1,)), "lower_alphas must be 1 numbers"),
        (((10,), (0.1,), (-0.1,), (0.1,)), "upper_alphas must be"),
        (((10,), (0.1,), (0.1,), (1.0,)), "score_alphas must be"),
        (((10,), (0.0,), (0.1,), (0.1,)), "above 0"),
        (((10, 20), (0.1, 0.05), (0, 0), (0.1, 0.1)), "last of lower_alphas must be the largest"),
    ],
    ids=["none", "twice", "zero", "too many", "negative", "one", "no lower", "smaller last"],
)
def test_what_is_no_schedule_is_refused_with_what_was_wrong(schedule, told) -> None:
    with pytest.raises(ValueError, match=told):
        Schedule(*schedule)


@pytest.mark.parametrize("growth", [{"factor": 1.0}, {"first": 0}, {"multiple": 0}], ids=str)
def test_looks_that_do_not_grow_are_refused(growth) -> None:
    with pytest.raises(ValueError, match="must grow"):
        geometric_schedule(1000, 0.1, **growth)


def test_a_look_back_and_impossible_hits_are_refused() -> None:
    sequence = ConfidenceSequence(LOOKS, 2, NEEDED)
    with pytest.raises(ValueError, match="101 successes in 100 trials"):
        sequence.look(0, [0], [101])
    sequence.look(1, [0], [60])
    with pytest.raises(ValueError, match="not after"):
        sequence.look(1, [0, 1], [60, 60])


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_a_decision_at_what_is_no_probability_is_refused(probability) -> None:
    with pytest.raises(ValueError, match="probabilities must be in"):
        ConfidenceSequence(LOOKS, 1, [probability])


def test_bounds_are_wider_by_the_distance_of_the_law_and_decide_by_it() -> None:
    """What is certified is a probability under another law, which may be so much less than that of the draws."""
    distance, hits = 0.01, np.array([[500, 950, 995]])
    schedule = fixed_schedule(1000, ALPHA)
    exact, wider = (ConfidenceSequence(schedule, 3, NEEDED, distance=off) for off in (0.0, distance))
    for sequence in (exact, wider):
        assert sequence.look(0, np.arange(3), hits[0]).all()
    np.testing.assert_array_equal(wider.lower, exact.lower - distance)
    np.testing.assert_array_equal(wider.upper, np.minimum(exact.upper + distance, 1))
    # A class that all draws have is out of reach of a radius that they would just certify: nothing is left to draw for.
    draws = 2000
    best = clopper_pearson_lower(draws, draws, alpha=ALPHA / 2)
    looks = geometric_schedule(draws, ALPHA, first=1000)
    for off, is_settled in ((0.0, False), (1e-4, True)):
        sequence = ConfidenceSequence(looks, 1, [best - 5e-5], distance=off)
        assert sequence.look(0, [0], [looks.checkpoints[0]]).tolist() == [is_settled]


@pytest.mark.parametrize("distance", [-1e-9, 1.1, math.nan])
def test_a_distance_that_is_none_is_refused(distance: float) -> None:
    with pytest.raises(ValueError, match="distance="):
        ConfidenceSequence(fixed_schedule(10, ALPHA), 1, NEEDED, distance=distance)
