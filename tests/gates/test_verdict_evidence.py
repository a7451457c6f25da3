"""What an interval says about a bound, against brute force and a second library."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from seatrial.contracts.estimates import Estimate
from seatrial.judging.evidence import (
    ALPHA,
    Evidence,
    correct,
    decide,
    is_decided,
    p_of,
    p_value,
)
from seatrial.judging.ranges import examples_of, range_of
from seatrial.judging.sample_size import further_examples
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.widening import unseen_share
from tests.gates.audits import MUS, SPAN, TEXT, check, gap, judged, mean, outcome, share
from tests.gates.audits import audit as audited

RATES = st.floats(0.001, 0.999)


@given(st.integers(1, 300), RATES, st.data(), st.sampled_from(["max", "min"]))
def test_the_p_of_a_proportion_is_twice_the_binomial_tail(n: int, bound: float, data, side) -> None:
    hits = data.draw(st.integers(0, n))
    tails = binom.cdf(hits, n, bound), binom.sf(hits - 1, n, bound)
    assert p_value(share(hits, n), bound, side) == pytest.approx(min(1, 2 * min(tails)), abs=1e-9)


def least_of(hits: int, n: int, several: int) -> Estimate:
    """The least of several shares as workers publish it, the others out of its way."""
    ends = clopper_pearson(hits, n)[0], clopper_pearson(hits, n, alpha=ALPHA / several)[1]
    return Estimate(value=hits / n, low=ends[0], high=ends[1], n=n, method="least")


@given(st.integers(1, 300), RATES, st.data(), st.integers(1, 6))
def test_the_least_of_several_is_decided_by_no_less_than_the_binomial_tail(n, bound, data, several) -> None:
    hits = data.draw(st.integers(0, n))
    found, tails = least_of(hits, n, several), (binom.cdf(hits, n, bound), binom.sf(hits - 1, n, bound))
    p = p_value(found, bound, "min")
    assert p >= min(1, 2 * min(tails)) - 1e-9
    outcome_by_interval = decide((found.low, found.high), bound, "min")
    if outcome_by_interval == "passed":
        assert p <= ALPHA * (1 + 1e-9)
    # Towards a lower bound as many further examples are told as of a share, else more.
    if bound < hits / n:
        assert further_examples(Evidence(found), bound) == further_examples(Evidence(share(hits, n)), bound)


@given(st.integers(1, 300), RATES, st.data(), st.sampled_from(["max", "min"]))
def test_a_proportion_is_decided_where_its_p_is_small(n: int, bound: float, data, side) -> None:
    hits = data.draw(st.integers(0, n))
    found = share(hits, n)
    p = p_value(found, bound, side)
    if abs(p - ALPHA) > 1e-6:
        assert (decide((found.low, found.high), bound, side) != "inconclusive") == is_decided(p)


@given(st.floats(-1, 1), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-3, 3), st.sampled_from(["max", "min"]))
def test_any_interval_decides_where_its_p_is_small(value, below, above, bound, side) -> None:
    found = gap(value, value - below, value + above)
    p = p_value(found, bound, side)
    if abs(p - ALPHA) > 1e-9:
        assert (decide((found.low, found.high), bound, side) != "inconclusive") == is_decided(p)


def test_the_p_of_a_normal_interval_is_the_normal_one() -> None:
    error = 0.1
    found = gap(0.5, 0.5 - 1.959964 * error, 0.5 + 1.959964 * error)
    assert p_value(found, 0.7, "max") == pytest.approx(2 * norm.sf(2), rel=1e-5)


@pytest.mark.parametrize(("bound", "side"), [(0.0, "min"), (-0.2, "min"), (1.0, "max"), (1.5, "max"), (-0.2, "max")])
def test_beyond_its_range_nothing_is_left_to_chance(bound: float, side) -> None:
    for hits in (0, 10, 20):
        assert p_value(share(hits, 20), bound, side) == 0


def test_a_side_without_width_is_decided_for_sure() -> None:
    whole = gap(1.0, 0.9, 1.0)
    assert (p_value(whole, 1.0, "max"), p_value(whole, 1.2, "max"), p_value(whole, 1.0, "min")) == (0, 0, 1)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12))
def test_holm_steps_down(p_values: list[float | None]) -> None:
    found = correct(p_values)
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    assert [one is None for one in found] == [p is None for p in p_values]
    # As Holm wrote it: reject the smallest while each is below alpha over how many are left.
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for rank, (p, at) in enumerate(known):
            if p * (len(known) - rank) > level:
                break
            rejected.add(at)
        assert {at for at, one in enumerate(found) if one is not None and one.p <= level} == rejected


@given(st.integers(2, 5000), st.floats(0.001, 0.999))
def test_the_p_of_examples_that_are_all_alike_is_twice_the_chance_to_draw_them(n: int, bound: float) -> None:
    alike = mean(0.0, 0.0, unseen_share(n), n=n)
    found = p_of(Evidence(alike, span=(0.0, 1.0)), bound, "max")
    assert found is not None
    assert found >= min(1, 2 * binom.pmf(0, n, bound)) * (1 - 1e-9)
    assert is_decided(found) == (decide((0.0, unseen_share(n)), bound, "max") == "passed")


@pytest.mark.parametrize(("bound", "told"), [(0.054, "inconclusive"), (0.065, "passed")])
def test_among_many_rules_examples_that_are_all_alike_must_be_more(bound: float, told: str) -> None:
    # Of 14 rules this p must be 0.05 / 14 at most; scaled like a normal one it is, at either bound.
    alike = mean(0.0, 0.0, unseen_share(100), n=100)
    others = [{"metric": f"{SPAN}.clean_accuracy", "max": 0.5 + 0.001 * n} for n in range(13)]
    numbers = {"mus_worst": alike, "clean_accuracy": share(50, 100)}
    first, *_ = judged(
        audited(check(numbers, classes_nat=1.0)), {"metric": MUS, "max": bound}, *others, correction="holm"
    ).rules
    assert first.outcome == told
    assert 14 * p_value(first.judged, bound, "max") <= ALPHA


def test_ends_that_nobody_says_how_they_were_made_are_no_interval() -> None:
    told = Estimate(value=0.2, low=0.1, high=0.3, n=100, method="none")
    found = outcome(audited(check({"mus_worst": told})), {"metric": MUS, "max": 0.5, "undecided": "pass"})
    assert (found.outcome, found.counts_as) == ("inconclusive", "inconclusive")


@given(st.integers(5, 400), RATES, RATES, st.sampled_from([1, 3]))
def test_so_many_further_examples_decide_a_proportion_about_four_times_in_five(n, rate, bound, times) -> None:
    hits = round(rate * n)
    found = share(hits, n)
    if decide(clopper_pearson(hits, n, alpha=ALPHA / times), bound, "max") != "inconclusive" or hits in (0, n):
        return
    further = further_examples(Evidence(found), bound, times=times)
    if further is None or further > 20_000:
        assert abs(found.value - bound) < 0.05
        return
    wanted = n + further
    every = np.arange(wanted + 1)
    tail = binom.cdf(every, wanted, bound) if found.value < bound else binom.sf(every - 1, wanted, bound)
    power = binom.pmf(every, wanted, found.value)[tail <= ALPHA / times / 2].sum()
    assert power > 0.7 or further == 1
    assert power < 0.93 or further == 1 or wanted < 40


@pytest.mark.parametrize(("hits", "bound"), [(0, 0.05), (30, 0.95), (0, 0.002)])
def test_further_examples_of_a_proportion_at_its_end_are_the_fewest_that_do(hits: int, bound: float) -> None:
    found = share(hits, 30)
    wanted = 30 + further_examples(Evidence(found), bound)
    is_held = [
        decide(clopper_pearson(n if hits else 0, n), bound, "min" if hits else "max") for n in (wanted - 1, wanted)
    ]
    assert is_held == ["inconclusive", "passed"]


def test_further_examples_of_a_mean_decide_it_four_times_in_five() -> None:
    found = gap(0.45, 0.25, 0.65, n=100)
    wanted = 100 + further_examples(Evidence(found), 0.5)
    error = 0.2 / 1.959964 * math.sqrt(100 / wanted)
    assert norm.cdf((0.5 - 1.959964 * error - 0.45) / error) == pytest.approx(0.8, abs=0.001)


def test_of_few_examples_nobody_knows_how_many_more_decide_but_thirty_in_all() -> None:
    # As of three rows whose calibration error is .32: eight times the same are decided, four times are not.
    assert further_examples(Evidence(mean(0.321, 0.0, 0.8085, n=3)), 0.1) == 27
    assert further_examples(Evidence(gap(0.45, 0.25, 0.65, n=100)), 0.5) > 30


def test_further_examples_of_what_is_alike_are_those_that_would_have_shown_it() -> None:
    wanted = 50 + further_examples(Evidence(mean(0.0, 0.0, unseen_share(50), n=50), span=(0.0, 1.0)), 0.01)
    assert unseen_share(wanted) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    "found",
    [
        Evidence(gap(0.5, 0.4, 0.6)),
        Evidence(gap(0.5 - 1e-6, 0.4, 0.6)),
        Evidence(gap(0.45, 0.4, 0.6), is_fixed=True),
        Evidence(mean(0.45, None, None)),
    ],
    ids=["at the bound", "next to it", "of other examples", "without an interval"],
)
def test_no_number_of_examples_is_told_where_none_would_do(found: Evidence) -> None:
    assert further_examples(found, 0.5) is None


RANGES = [
    (f"{SPAN}.mus_worst", (0.0, 2.3)),
    (f"{SPAN}.msus", (0.0, 2.3**2)),
    (f"{SPAN}.span_growth", (-2.3, 2.3)),
    (f"{SPAN}.ece[arm=clean]", (0.0, 1.0)),
    (f"{SPAN}.s_ece[arm=clean]", (-1.0, 1.0)),
    (f"{SPAN}.nud[arm=under]", (0.0, 1.0)),
    (f"{SPAN}.nud", (0.0, 1.0)),
    (f"{SPAN}.nud[arm=over]", None),
    (f"{TEXT}.mean_queries[arm=as_served,recipe=pwws]", None),
    (f"{TEXT}.temperature[arm=calibrated]", None),
    (f"{TEXT}.importance_correlation[recipe=pwws]", (-1.0, 1.0)),
    (f"{TEXT}.mean_perturbed_share[arm=as_served,recipe=pwws]", (0.0, 1.0)),
]


@pytest.mark.parametrize(("metric", "span"), RANGES, ids=[metric for metric, _ in RANGES])
def test_how_far_an_example_can_lie_is_known_from_the_metric(metric: str, span) -> None:
    assert range_of(metric, check({}, classes_nat=2.3)) == (None if span is None else pytest.approx(span))


def test_entropy_has_no_known_range_without_the_number_of_classes() -> None:
    assert range_of(MUS, check({})) is None


def test_the_largest_radius_is_that_of_draws_that_all_agree() -> None:
    # Cohen et al. (2019): 3.8 sigma at alpha 0.001 and 100,000 draws.
    params = {"sigma": 0.25, "n": 100_000, "alpha": 0.001}
    found = range_of("certified_calibration.average_certified_radius", check({}, params=params))
    assert found == (0.0, pytest.approx(0.25 * 3.81, abs=0.001))
    assert range_of("certified_calibration.average_certified_radius", check({})) is None


@pytest.mark.parametrize(("value", "low", "high"), [(2.0, 1.0, 3.0), (1.0, 1.0, 1.5), (3.0, 2.5, 3.0)])
def test_a_place_is_one_of_as_many_as_attackers_were_placed(value: float, low: float, high: float) -> None:
    numbers = {"rank[attacker=visual]": mean(value, low, high, n=20), "rank[attacker=phonetic]": mean(2, 1, 3, n=20)}
    numbers |= {"rank[attacker=segment]": mean(1.5, 1, 2, n=20)}
    numbers["rank[attacker=truncate]"] = mean(0, None, None).model_copy(update={"value": None})
    measured = audited(check(numbers, kind="low_level_attack"))
    found = outcome(measured, {"metric": "low_level_attack.rank[attacker=visual]", "min": 2}).judged
    assert 1 <= found.low <= low
    assert high <= found.high <= 3
    assert found.value == value


def test_a_ranking_rests_on_the_smaller_of_its_samples() -> None:
    counts = {"n": 500, "errored": 0, "outliers_n": 12, "outliers_errored": 2}
    number = {"auroc[epsilon=0]": mean(1.0, 1 - unseen_share(10), 1.0, n=510)}
    measured = check(number, counts=counts)
    assert examples_of(f"{SPAN}.auroc[epsilon=0]", measured) == 10
    assert examples_of(MUS, measured) is None
    found = outcome(audited(measured), {"metric": f"{SPAN}.auroc[epsilon=0]", "min": 0.9})
    assert (found.outcome, found.judged.low) == ("inconclusive", pytest.approx(1 - unseen_share(10)))


def test_a_sure_mean_still_leaves_the_chance_that_no_example_told() -> None:
    # The interval alone would reject by hundreds of deviations: forty draws may all have missed what would tell.
    narrow = Evidence(mean(0.5, 0.499, 0.501, n=40), span=(0.0, 1.0))
    assert p_of(narrow, 0.6, "max") == pytest.approx(2 * (1 - 0.1 / 0.5) ** 40)
    assert p_of(narrow, 0.35, "max") == pytest.approx(2 * (1 - 0.15 / 0.5) ** 40)


def test_further_examples_go_by_the_side_that_faces_the_bound() -> None:
    # The upper end is a quarter as far away, so that a sixteenth of the examples is enough above.
    lopsided = Evidence(gap(0.5, 0.1, 0.6, n=100))
    above, below = (100 + further_examples(lopsided, bound) for bound in (0.55, 0.45))
    assert below == pytest.approx(16 * above, rel=0.02)


@pytest.mark.parametrize("times", [1, 14])
def test_further_examples_of_a_sure_mean_are_those_that_would_have_shown_it(times: int) -> None:
    narrow = Evidence(mean(0.5, 0.5 - 1e-9, 0.5 + 1e-9, n=40), span=(0.0, 1.0))
    wanted = 40 + further_examples(narrow, 0.51, times=times)
    # So many draws of an example that lies at the far end in one case of fifty would all have missed it.
    assert (1 - 0.01 / 0.5) ** wanted == pytest.approx(ALPHA / times / 2, rel=0.06)
