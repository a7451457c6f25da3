"""How many further pairs are told, against drawing as many."""

import numpy as np
import pytest

from seatrial.contracts.estimates import Estimate
from seatrial.judging.evidence import ALPHA, Evidence, decide, p_of
from seatrial.judging.sample_size import POWER, further_examples
from seatrial.judging.verdict import judge
from seatrial.statistics.estimating import mean
from seatrial.statistics.proportions import score_interval
from tests.gates.audits import ACCURACY, SOURCE, SPAN, audit, check, gap, outcome, policy, share
from tests.gates.test_regression import paired_with


def mean_as_told(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=50, method="resampled")


def pairs(b: int, c: int, n: int) -> Evidence:
    low, high = score_interval(b, c, n)
    found = gap((b - c) / n, low, high, n=n)
    return Evidence(found, discordant=(b, c))


@pytest.mark.parametrize("bound", [0.01, 0.05, 0.002])
@pytest.mark.parametrize("times", [1, 14])
def test_of_pairs_that_do_not_differ_they_are_the_fewest_that_decide(bound: float, times: int) -> None:
    further = further_examples(pairs(0, 0, 50), bound, times=times)
    assert further is not None
    p_values = [p_of(pairs(0, 0, 50 + more), bound, "max") or 0.0 for more in (further - 1, further)]
    assert p_values[0] > ALPHA / times >= p_values[1]


def test_without_a_difference_they_grow_as_the_bound_falls_and_not_as_its_square() -> None:
    found = [100 + (further_examples(pairs(0, 0, 100), bound) or 0) for bound in (0.05, 0.01, 0.001)]
    # Two pairs more than the square of z, times what the correction adds, over the bound.
    assert found == [pytest.approx(5.6 / bound, rel=0.05) for bound in (0.05, 0.01, 0.001)]


@pytest.mark.parametrize(
    ("b", "c", "n", "bound"),
    [(1, 1, 100, 0.01), (2, 1, 100, 0.03), (3, 0, 100, 0.05), (0, 2, 200, 0.0), (8, 2, 200, 0.05), (30, 10, 200, 0.05)],
)
def test_so_many_further_pairs_decide_about_four_times_in_five(b: int, c: int, n: int, bound: float) -> None:
    found = pairs(b, c, n)
    assert decide(found.interval or (0, 0), bound, "max") == "inconclusive"
    wanted = n + (further_examples(found, bound) or 0)
    drawn = np.random.default_rng(b + n).multinomial(wanted, [b / n, c / n, 1 - (b + c) / n], 400)
    told = "failed" if (b - c) / n > bound else "passed"
    power = np.mean([decide(score_interval(int(one), int(two), wanted), bound, "max") == told for one, two, _ in drawn])
    assert POWER - 0.1 < power < POWER + 0.13


def test_no_number_is_told_at_the_bound() -> None:
    assert further_examples(pairs(0, 0, 100), 0.0) is None
    assert further_examples(pairs(3, 1, 100), 0.02) is None


def test_two_audits_that_agree_are_told_a_number_that_can_be_had() -> None:
    right = [True] * 80 + [False] * 20
    now, then = (
        audit(check({"clean_accuracy": share(80, 100)})),
        audit(check({"clean_accuracy": share(80, 100)}), name="aud_1"),
    )
    rule = {"metric": ACCURACY, "max_regression": 0.01}
    found = outcome(now, rule, baseline=then, paired=paired_with(right, right))
    assert (found.outcome, found.further_examples) == ("inconclusive", pytest.approx(460, abs=30))


def test_a_mean_that_no_example_contradicts_is_told_what_an_unseen_one_takes() -> None:
    """Gaffke's ends themselves, drawn at the number told: four times in five they decide."""
    rng = np.random.default_rng(3)
    values = np.where(rng.random(200) < 0.03, rng.uniform(0.5, 1, 200), rng.uniform(0, 0.05, 200))
    found, bound = mean(values, (0.0, 1.0)), float(values.mean()) + 0.02
    assert found.low < bound < found.high
    further = further_examples(Evidence(found, span=(0.0, 1.0)), bound) or 0
    decided = [(mean(rng.choice(values, 200 + further), (0.0, 1.0)).high or 1) <= bound for _ in range(150)]
    assert POWER - 0.12 < np.mean(decided) < POWER + 0.15


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (None, "more examples would probably decide it"),
        (10_000, "more examples would probably decide it"),
        (300, "would probably decide it, and the dataset holds only 300 more"),
        (0, "would probably decide it, and the dataset holds no more"),
    ],
)
def test_more_examples_than_the_dataset_holds_are_not_asked_for_without_saying_so(left: int | None, told: str) -> None:
    judgement = judge(
        policy({"metric": ACCURACY, "min": 0.9}), SOURCE, audit(check({"clean_accuracy": share(89, 100)})), left=left
    )
    (rule,) = judgement.rules
    assert (rule.outcome, rule.available_examples) == ("inconclusive", left)
    assert rule.further_examples is not None
    assert rule.further_examples > 300
    assert rule.reason.endswith(told)
    assert judgement.headline.removesuffix(".").endswith(told)


def test_a_number_that_rests_on_some_of_the_examples_asks_for_as_many_more_of_all() -> None:
    asked = policy({"metric": ACCURACY, "min": 0.9})
    measured = audit(check({"clean_accuracy": share(89, 100)}))
    (of_all,) = judge(asked, SOURCE, measured, left=10_000, drawn=100).rules
    (of_some,) = judge(asked, SOURCE, measured, left=10_000, drawn=400).rules
    assert of_all.further_examples is not None
    assert of_some.further_examples == 4 * of_all.further_examples


def test_what_is_decided_asks_for_nothing() -> None:
    measured = audit(check({"clean_accuracy": share(99, 100)}))
    (rule,) = judge(policy({"metric": ACCURACY, "min": 0.5}), SOURCE, measured, left=0).rules
    assert (rule.outcome, rule.further_examples, rule.available_examples) == ("passed", None, None)


def test_an_end_that_is_the_metric_s_own_is_said_to_be() -> None:
    number = {"fpr95[epsilon=0]": mean_as_told(0.3, 0.1, 1.0)}
    found = outcome(audit(check(number)), {"metric": f"{SPAN}.fpr95[epsilon=0]", "max": 0.5})
    assert found.outcome == "inconclusive"
    assert "50 examples do not bound it above: the end is the metric's own" in found.reason
    other = outcome(audit(check(number)), {"metric": f"{SPAN}.fpr95[epsilon=0]", "min": 0.5})
    assert "do not bound it" not in other.reason
