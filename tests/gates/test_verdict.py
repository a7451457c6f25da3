"""The verdict: what becomes of a rule, and what a policy makes of its rules."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from seatrial.contracts.states import RunState
from seatrial.judging.verdict import judge
from seatrial.reporting.outcomes import further_in_words
from tests.gates.audits import (
    MUS,
    SOURCE,
    SPAN,
    TEXT,
    audit,
    broken,
    check,
    gap,
    judged,
    mean,
    outcome,
    policy,
    share,
)

ILLUSION = f"{TEXT}.illusion_gap[recipe=pwws]"


def illusion(value: float, low: float, high: float) -> Any:
    return audit(check({"illusion_gap[recipe=pwws]": gap(value, low, high)}, kind=TEXT))


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(0.1, 0.2, "passed"), (0.1, 0.21, "inconclusive"), (0.2, 0.3, "inconclusive"), (0.201, 0.3, "failed")],
)
def test_at_most_a_bound_the_bound_is_on_the_right_side(low: float, high: float, told: str) -> None:
    assert outcome(illusion((low + high) / 2, low, high), {"metric": ILLUSION, "max": 0.2}).outcome == told


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(0.2, 0.3, "passed"), (0.19, 0.3, "inconclusive"), (0.1, 0.2, "inconclusive"), (0.1, 0.199, "failed")],
)
def test_at_least_a_bound_the_bound_is_on_the_right_side(low: float, high: float, told: str) -> None:
    assert outcome(illusion((low + high) / 2, low, high), {"metric": ILLUSION, "min": 0.2}).outcome == told


def test_an_outcome_says_what_was_asked_measured_and_why() -> None:
    found = outcome(illusion(0.21, 0.15, 0.27), {"metric": ILLUSION, "max": 0.05, "label": "No illusion"})
    assert (found.label, found.metric, found.requirement, found.bound) == (
        "No illusion",
        ILLUSION,
        "at most 0.05",
        0.05,
    )
    assert found.estimate == found.judged == gap(0.21, 0.15, 0.27)
    assert found.reason == "the whole interval [0.1500, 0.2700] is above 0.05"
    assert (found.outcome, found.counts_as, found.further_examples) == ("failed", "failed", None)


def test_the_headline_names_what_decided() -> None:
    found = judged(illusion(0.21, 0.15, 0.27), {"metric": ILLUSION, "max": 0.05})
    assert found.headline == (
        "Do not ship: on 21.0% of the texts its robustness to PWWS is an illusion of a saturated softmax; "
        "the policy allows at most 5%."
    )
    assert (found.audit, found.verdict, found.policy, found.baseline) == ("aud_2", "failed", SOURCE, None)


def test_an_open_headline_tells_how_many_examples_would_decide() -> None:
    found = judged(illusion(0.04, 0.01, 0.07), {"metric": ILLUSION, "max": 0.05})
    (rule,) = found.rules
    assert rule.further_examples is not None
    assert found.headline.endswith(f"; {further_in_words(rule.further_examples, None)}.")


def test_a_star_is_judged_for_every_value_by_itself() -> None:
    numbers = {
        "illusion_gap": gap(0.2, 0.1, 0.3),
        "illusion_gap[recipe=pwws]": gap(0.01, 0.0, 0.02),
        "illusion_gap[recipe=bae]": gap(0.21, 0.15, 0.27),
    }
    rule = {"metric": f"{TEXT}.illusion_gap[recipe=*]", "max": 0.05, "label": "No illusion"}
    found = judged(audit(check(numbers, kind=TEXT)), rule).rules
    assert [(one.metric, one.outcome, one.label) for one in found] == [
        (f"{TEXT}.illusion_gap[recipe=pwws]", "passed", "No illusion [recipe=pwws]"),
        (f"{TEXT}.illusion_gap[recipe=bae]", "failed", "No illusion [recipe=bae]"),
    ]


def test_qualifiers_are_found_in_any_order() -> None:
    numbers = {"adversarial_accuracy[arm=as_served,recipe=pwws]": share(40, 100)}
    metric = f"{TEXT}.adversarial_accuracy[recipe=pwws,arm=*]"
    assert outcome(audit(check(numbers, kind=TEXT)), {"metric": metric, "min": 0.2}).outcome == "passed"


def test_every_check_that_publishes_a_metric_is_judged() -> None:
    measured = audit(
        check({"mus_worst": gap(0.2, 0.1, 0.3)}),
        check({"clean_accuracy": share(9, 10)}, position=1),
        check({"mus_worst": gap(0.8, 0.7, 0.9)}, position=2),
    )
    found = judged(measured, {"metric": MUS, "max": 0.5}).rules
    assert [(one.label, one.outcome) for one in found] == [
        ("Uncertainty an attacker can shift (check 0)", "passed"),
        ("Uncertainty an attacker can shift (check 2)", "failed"),
    ]


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED, RunState.RUNNING, RunState.QUEUED], ids=str)
@pytest.mark.parametrize("required", [True, False])
def test_a_check_without_numbers_never_passes(state: RunState, required: bool) -> None:
    found = judged(audit(broken(state)), {"metric": MUS, "max": 9, "required": required, "undecided": "pass"})
    assert (found.verdict, found.rules[0].outcome) == ("errored", "errored")
    assert state.value in found.rules[0].reason


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED, RunState.RUNNING], ids=str)
def test_numbers_of_a_check_that_did_not_succeed_are_none(state: RunState) -> None:
    partial = replace(check({"mus_worst": gap(0.1, 0.0, 0.2)}), state=state)
    found = judged(audit(partial), {"metric": MUS, "max": 9})
    assert [one.outcome for one in found.rules] == ["errored"]
    assert found.verdict == "errored"


def test_a_failed_check_says_what_became_of_it() -> None:
    found = outcome(audit(broken(RunState.FAILED)), {"metric": MUS, "max": 9})
    assert found.reason == "uncertainty_span failed: Out of memory: one example is too much"


def test_a_check_that_failed_beside_one_that_did_not_is_not_passed_over() -> None:
    measured = audit(check({"mus_worst": gap(0.1, 0.0, 0.2)}), broken(RunState.FAILED, position=1))
    assert [one.outcome for one in judged(measured, {"metric": MUS, "max": 9}).rules] == ["passed", "errored"]


def test_a_number_that_is_undefined_on_the_sample_is_an_error() -> None:
    measured = audit(check({"mus_worst": mean(0, None, None).model_copy(update={"value": None, "n": 0})}))
    found = outcome(measured, {"metric": MUS, "max": 9})
    assert (found.outcome, found.reason) == (
        "errored",
        "there is no number: no example of the sample counts towards it",
    )


def test_a_bound_that_no_model_with_as_many_classes_can_miss_is_an_error() -> None:
    two = audit(check({"mus_worst": mean(0.1, 0.05, 0.15)}, classes_nat=0.6931))
    found = outcome(two, {"metric": MUS, "max": 1.0})
    assert (found.outcome, found.reason) == (
        "errored",
        "nothing can miss it here, where 0.693 is the most there is: give a bound below that",
    )
    assert outcome(two, {"metric": MUS, "max": 0.69}).outcome == "passed"
    ten = audit(check({"mus_worst": mean(0.1, 0.05, 0.15)}, classes_nat=2.3026))
    assert outcome(ten, {"metric": MUS, "max": 1.0}).outcome == "passed"


def test_what_no_check_measures_is_skipped_and_says_what_there_is() -> None:
    measured = audit(check({"mus": gap(0.1, 0.0, 0.2), "mus[attack=transfer]": gap(0.1, 0.0, 0.2)}))
    found = outcome(measured, {"metric": f"{SPAN}.mus[attack=tempered]", "max": 9})
    assert (found.outcome, found.counts_as) == ("skipped", "errored")
    assert found.reason.endswith("it measured mus, mus[attack=transfer]")
    other = outcome(measured, {"metric": ILLUSION, "max": 0.9, "required": False})
    assert (other.outcome, other.counts_as) == ("skipped", "skipped")
    assert other.reason == "the audit has no temperature_attack check; its checks: uncertainty_span"


def test_a_number_without_an_interval_decides_nothing() -> None:
    measured = audit(check({"mus_worst": mean(0.1, None, None)}))
    for undecided, counts_as in (("inconclusive", "inconclusive"), ("fail", "failed"), ("pass", "inconclusive")):
        found = outcome(measured, {"metric": MUS, "max": 9, "undecided": undecided})
        assert (found.outcome, found.counts_as, found.p_value) == ("inconclusive", counts_as, None)
    assert "no interval" in found.reason


def test_without_an_interval_the_value_decides_where_the_rule_says_so() -> None:
    measured = audit(check({"mus_worst": mean(0.1, None, None), "mus": gap(0.1, 0.0, 0.9)}))
    told = [
        (MUS, 0.1, "passed"),
        (MUS, 0.09, "failed"),
        (f"{SPAN}.mus", 0.2, "passed"),
    ]
    for metric, bound, wanted in told:
        found = outcome(measured, {"metric": metric, "max": bound, "interval": "ignored"})
        assert (found.outcome, found.p_value) == (wanted, None)


@pytest.mark.parametrize(("undecided", "verdict"), [("inconclusive",) * 2, ("fail", "failed"), ("pass", "passed")])
def test_an_open_rule_counts_as_it_was_told_to(undecided: str, verdict: str) -> None:
    found = judged(illusion(0.2, 0.1, 0.3), {"metric": ILLUSION, "max": 0.2, "undecided": undecided})
    assert (found.verdict, found.rules[0].outcome, found.rules[0].counts_as) == (verdict, "inconclusive", verdict)


@pytest.mark.parametrize(
    ("severity", "doubts", "told"),
    [
        ("error", "error", "errored"),
        ("warning", "error", "passed"),
        ("warning", "warning", "errored"),
        ("error", "warning", "errored"),
        ("info", "warning", "passed"),
        ("error", "ignored", "passed"),
    ],
)
def test_a_doubt_takes_back_what_would_have_passed(severity: str, doubts: str, told: str) -> None:
    measured = audit(check({"mus_worst": gap(0.1, 0.0, 0.2)}, ("zero_gradients", severity)))
    found = outcome(measured, {"metric": MUS, "max": 0.5}, doubts=doubts)
    assert found.outcome == found.counts_as == told
    assert ("zero_gradients" in found.reason) == (told == "errored")


@pytest.mark.parametrize(
    ("metric", "code", "severity", "told"),
    [
        ("mus_worst", "span_not_growing", "warning", "errored"),
        ("clean_accuracy", "span_not_growing", "warning", "passed"),
        ("mus_worst", "span_not_growing", "info", "passed"),
        # An error is one whatever it speaks of, and so is a warning nobody can look up any more.
        ("s_ece[arm=clean]", "zero_gradients", "error", "errored"),
        ("clean_accuracy", "gradient_free", "error", "errored"),
        # That an attack failed says nothing of what was measured before it.
        ("clean_accuracy", "zero_gradients", "error", "passed"),
        ("clean_accuracy", "saturated_logits", "error", "passed"),
        ("mus_worst", "saturated_logits", "error", "errored"),
        ("clean_accuracy", "flag_of_long_ago", "warning", "errored"),
        ("clean_accuracy", "accuracy_near_chance", "warning", "errored"),
        ("clean_accuracy", "labels_not_listed", "error", "errored"),
        ("clean_accuracy", "labels_not_listed", "warning", "errored"),
        ("clean_accuracy", "labels_not_listed", "info", "passed"),
        ("mus_worst", "sampled_votes", "warning", "errored"),
    ],
)
def test_a_relevant_doubt_is_a_warning_about_the_number_judged(
    metric: str, code: str, severity: str, told: str
) -> None:
    measured = audit(check({metric: gap(0.1, 0.0, 0.2)}, (code, severity)))
    found = outcome(measured, {"metric": f"{SPAN}.{metric}", "max": 0.5}, doubts="relevant")
    assert found.outcome == told
    assert (f"in doubt ({code})" in found.reason) == (told == "errored")


def test_what_a_number_itself_says_is_no_doubt_about_it() -> None:
    name = ILLUSION.partition(".")[2]
    measured = audit(check({name: gap(0.1, 0.05, 0.15)}, ("illusion", "warning"), kind=TEXT))
    rule = {"metric": ILLUSION, "max": 0.2}
    assert outcome(measured, rule, doubts="relevant").outcome == "passed"
    assert outcome(measured, rule, doubts="warning").outcome == "errored"
    # Of an accuracy that is an illusion it is one.
    name = "adversarial_accuracy[arm=as_served]"
    served = audit(check({name: gap(0.6, 0.5, 0.7)}, ("illusion", "warning"), kind=TEXT))
    assert outcome(served, {"metric": f"{TEXT}.{name}", "min": 0.4}, doubts="relevant").outcome == "errored"


def test_a_doubt_never_helps_a_model() -> None:
    measured = audit(check({"mus_worst": gap(0.8, 0.7, 0.9)}, ("zero_gradients", "error")))
    assert outcome(measured, {"metric": MUS, "max": 0.5}).outcome == "failed"
    assert outcome(measured, {"metric": MUS, "max": 0.8}).outcome == "inconclusive"
    assert outcome(measured, {"metric": MUS, "max": 0.8, "undecided": "pass"}).counts_as == "errored"


def test_another_check_s_flags_are_no_doubt() -> None:
    measured = audit(
        check({"mus_worst": gap(0.1, 0.0, 0.2)}), check({}, ("resources_differ", "error"), kind=TEXT, position=1)
    )
    assert outcome(measured, {"metric": MUS, "max": 0.5}).outcome == "passed"


PASSING, FAILING, OPEN = gap(0.1, 0.0, 0.2), gap(0.8, 0.7, 0.9), gap(0.5, 0.4, 0.6)
NUMBERS = {"mus": PASSING, "mus_worst": FAILING, "msus": OPEN}
RULES: dict[str, dict[str, Any]] = {
    "passed": {"metric": f"{SPAN}.mus", "max": 0.5},
    "failed": {"metric": f"{SPAN}.mus_worst", "max": 0.5},
    "inconclusive": {"metric": f"{SPAN}.msus", "max": 0.5},
    "errored": {"metric": ILLUSION, "max": 0.5},
}


@pytest.mark.parametrize("among", list(itertools.product([False, True], repeat=4)), ids=str)
def test_the_worst_of_the_blocking_rules_is_the_verdict(among: tuple[bool, ...]) -> None:
    order = ["failed", "errored", "inconclusive", "passed"]
    chosen = [name for name, is_in in zip(order, among, strict=True) if is_in]
    measured = audit(check(NUMBERS), broken(RunState.FAILED, kind=TEXT, position=1))
    rules = [RULES[name] for name in chosen]
    warning = {**RULES["failed"], "severity": "warn"}
    if not rules:
        return
    found = judged(measured, *rules, warning)
    assert found.verdict == chosen[0]
    assert [one.outcome for one in found.rules] == [*chosen, "failed"]
    assert [one.rule for one in found.rules] == list(range(len(chosen) + 1))


def test_a_policy_that_found_nothing_to_judge_is_errored() -> None:
    warning = {"metric": f"{SPAN}.mus", "max": 0.5, "severity": "warn"}
    found = judged(audit(check(NUMBERS)), {"metric": ILLUSION, "max": 0.9, "required": False}, warning)
    assert [one.outcome for one in found.rules] == ["skipped", "passed"]
    assert (found.verdict, "nothing was tested" in found.headline) == ("errored", True)


def test_a_passing_headline_counts_what_held() -> None:
    optional = {"metric": ILLUSION, "max": 0.9, "required": False}
    # What was not measured warns of nothing.
    rules = [RULES["passed"], {**RULES["failed"], "severity": "warn"}, {**optional, "severity": "warn"}]
    assert judged(audit(check(NUMBERS)), *rules).headline == (
        "May ship: the method's two attacks swing its uncertainty over 0.1000 nat; the policy allows at most 0.5 nat "
        "(1 warning). The policy's other rule asks for another check."
    )


def test_the_same_numbers_give_the_same_verdict() -> None:
    measured = audit(check(NUMBERS))
    asked = policy(*[RULES[name] for name in ("passed", "failed", "inconclusive")], correction="holm")
    assert judge(asked, SOURCE, measured) == judge(asked, SOURCE, measured)


def test_holm_leaves_open_what_one_rule_alone_would_have_decided() -> None:
    # Each p is about 0.03: enough for one rule, not for two.
    numbers = {"mus": gap(0.39, 0.29, 0.49), "mus_worst": gap(0.39, 0.29, 0.49)}
    rules = [{"metric": f"{SPAN}.{name}", "max": 0.5} for name in numbers]
    alone = judged(audit(check(numbers)), *rules)
    together = judged(audit(check(numbers)), *rules, correction="holm")
    assert [one.outcome for one in alone.rules] == ["passed", "passed"]
    assert [one.outcome for one in together.rules] == ["inconclusive", "inconclusive"]
    assert all(
        one.p_value == pytest.approx(2 * two.p_value) for one, two in zip(together.rules, alone.rules, strict=True)
    )
    assert all(one.further_examples for one in together.rules)
    assert "Holm" in together.rules[0].reason
    assert judged(audit(check(numbers)), rules[0], correction="holm").verdict == "passed"


def test_holm_is_over_the_rules_that_block() -> None:
    numbers = {"mus": gap(0.39, 0.29, 0.49), "mus_worst": gap(0.39, 0.29, 0.49)}
    blocks, warns = ({"metric": f"{SPAN}.{name}", "max": 0.5} for name in numbers)
    found = judged(audit(check(numbers)), blocks, {**warns, "severity": "warn"}, correction="holm")
    alone = judged(audit(check(numbers)), blocks)
    assert found.verdict == "passed"
    assert [one.p_value for one in found.rules] == [alone.rules[0].p_value] * 2


@pytest.mark.parametrize(
    ("required", "counted"),
    [(True, ("errored", "errored")), ("if_run", ("errored", "skipped")), (False, ("skipped",) * 2)],
)
def test_a_number_that_is_not_there_counts_as_the_rule_says_of_it(
    required: bool | str, counted: tuple[str, str]
) -> None:
    """Of a check that was run with other parameters, and of one that was not run."""
    unmeasured = {"metric": f"{SPAN}.robust_accuracy", "min": 0.5, "required": required}
    without = {"metric": ILLUSION, "max": 0.9, "required": required}
    found = judged(audit(check(NUMBERS)), {"metric": MUS, "max": 9}, unmeasured, without)
    assert tuple(rule.counts_as for rule in found.rules[1:]) == counted
    assert [rule.outcome for rule in found.rules[1:]] == ["skipped"] * 2
    assert found.verdict == ("errored" if "errored" in counted else "passed")
