"""What holds of a verdict whatever the numbers are."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from seatrial.judging.verdict import Measured
from tests.gates.audits import ACCURACY, SPAN, TEXT, audit, broken, check, judged, share

NAMES = ("mus", "mus_worst", "msus", "clean_accuracy", "nud")
# A bound at the end of a metric's range always or never holds, and is refused.
INSIDE = st.floats(0.001, 0.999)

METHODS = st.sampled_from(["gaffke", "paired", "mover", "clopper-pearson"])


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    method, n = draw(METHODS), draw(st.integers(2, 2000))
    if method == "clopper-pearson":
        return share(draw(st.integers(0, n)), n)
    low, value, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
    return Estimate(value=value, low=low, high=high, n=n, method=method)


@st.composite
def rules(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return {
        "metric": f"{SPAN}.{name}",
        draw(st.sampled_from(["max", "min"])): draw(st.floats(0.01, 0.99)),
        "severity": draw(st.sampled_from(["block", "warn"])),
        "undecided": draw(st.sampled_from(["inconclusive", "fail", "pass"])),
    }


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Estimate], list[dict[str, Any]]]:
    chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    asked = [draw(rules(name)) for name in chosen]
    asked[0]["severity"] = "block"
    return {name: draw(estimates()) for name in chosen}, asked


CORRECTIONS = st.sampled_from(["none", "holm"])


def measured(numbers: dict[str, Estimate]) -> Measured:
    return audit(check(numbers, classes_nat=1.0))


def told(judgement: Judgement) -> dict[str, Any]:
    return {one.metric: one.model_dump(exclude={"rule"}) for one in judgement.rules}


@given(cases(), st.data(), CORRECTIONS)
def test_a_wider_interval_never_decides_what_was_open(case: Any, data: st.DataObject, correction: str) -> None:
    numbers, asked = case
    name = data.draw(st.sampled_from(sorted(numbers)))
    number = numbers[name]
    below, above = data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1)))
    wider = number.model_copy(update={"low": number.low - below, "high": number.high + above})
    before = told(judged(measured(numbers), *asked, correction=correction))
    after = told(judged(measured(numbers | {name: wider}), *asked, correction=correction))
    for metric, one in before.items():
        assert after[metric]["outcome"] in (one["outcome"], "inconclusive"), metric


@given(st.integers(1, 60), st.data(), st.integers(2, 40), INSIDE, st.sampled_from(["max", "min"]), CORRECTIONS)
def test_more_data_at_the_same_rate_never_turns_a_verdict_round(n, data, times, bound, side, correction) -> None:
    hits = data.draw(st.integers(0, n))
    found = {
        judged(audit(check({"clean_accuracy": share(hits * k, n * k)})), rule, correction=correction).verdict
        for k in (1, times)
        for rule in [{"metric": ACCURACY, side: bound}]
    }
    assert found != {"passed", "failed"}


@given(estimates(), st.integers(2, 40), INSIDE, st.sampled_from(["max", "min"]))
def test_more_data_with_the_same_mean_never_turns_a_verdict_round(number, times, bound, side) -> None:
    shrunk = number.model_copy(
        update={
            "low": number.value - (number.value - number.low) / times**0.5,
            "high": number.value + (number.high - number.value) / times**0.5,
            "n": number.n * times,
        }
    )
    rule = {"metric": f"{SPAN}.mus", side: bound}
    assert {judged(measured({"mus": one}), rule).verdict for one in (number, shrunk)} != {"passed", "failed"}


@given(cases(), st.randoms(use_true_random=False), CORRECTIONS)
def test_the_order_of_the_rules_does_not_matter(case: Any, chance: random.Random, correction: str) -> None:
    numbers, asked = case
    shuffled = list(asked)
    chance.shuffle(shuffled)
    one, two = (judged(measured(numbers), *rules, correction=correction) for rules in (asked, shuffled))
    assert told(one) == told(two)
    assert one.verdict == two.verdict


@given(cases())
def test_holm_never_decides_more(case: Any) -> None:
    numbers, asked = case
    alone = told(judged(measured(numbers), *asked))
    together = told(judged(measured(numbers), *asked, correction="holm"))
    for metric, one in together.items():
        assert one["outcome"] in (alone[metric]["outcome"], "inconclusive")
        assert one["p_value"] >= alone[metric]["p_value"]


@given(cases(), st.sampled_from(["error", "warning", "info"]), st.sampled_from(["error", "warning", "ignored"]))
def test_a_flag_never_makes_a_verdict_better(case: Any, severity: str, doubts: str) -> None:
    numbers, asked = case
    doubted = audit(check(numbers, ("zero_gradients", severity), classes_nat=1.0))
    before, after = judged(measured(numbers), *asked), judged(doubted, *asked, doubts=doubts)
    order = ["passed", "inconclusive", "errored", "failed"]
    assert order.index(after.verdict) >= order.index(before.verdict)


@given(cases(), st.sampled_from([RunState.FAILED, RunState.CANCELLED, RunState.RUNNING]))
def test_a_rule_about_a_check_that_has_no_numbers_never_lets_a_policy_pass(case: Any, state: RunState) -> None:
    numbers, asked = case
    lost = audit(check(numbers, classes_nat=1.0), broken(state, kind=TEXT, position=1))
    rule = {"metric": f"{TEXT}.illusion_gap", "max": 0.9, "required": False, "undecided": "pass"}
    assert judged(lost, *asked, rule).verdict in ("errored", "failed")


@given(cases(), CORRECTIONS)
def test_the_verdict_follows_from_what_blocking_rules_count_as(case: Any, correction: str) -> None:
    numbers, asked = case
    found = judged(measured(numbers), *asked, correction=correction)
    counts = {one.counts_as for one in found.rules if one.severity == "block"}
    worst = next(verdict for verdict in ("failed", "errored", "inconclusive", "passed") if verdict in counts)
    assert found.verdict == worst
