"""What people read first of a verdict."""

from typing import Any

from seatrial.contracts.states import RunState
from seatrial.reporting.outcomes import applied, not_measured, not_measured_in_words
from tests.gates.audits import SPAN, audit, broken, check, gap, judged

NUMBERS = audit(check({"mus": gap(0.1, 0.0, 0.2), "msus": gap(0.5, 0.4, 0.6)}))
TWO_ATTACKS = "Uncertainty the method's two attacks can shift"
PASSED: dict[str, Any] = {"metric": f"{SPAN}.mus", "max": 0.5}
LET_PASS: dict[str, Any] = {"metric": f"{SPAN}.msus", "max": 0.5, "undecided": "pass"}


def test_what_is_undecided_and_let_pass_is_not_said_to_hold() -> None:
    assert judged(NUMBERS, LET_PASS).headline == "May ship: 1 undecided rule counts as passed."
    assert judged(NUMBERS, LET_PASS, LET_PASS).headline == "May ship: 2 undecided rules count as passed."
    assert judged(NUMBERS, PASSED, LET_PASS).headline == (
        "May ship: 1 of 2 rules holds, 1 undecided rule counts as passed."
    )


def test_rules_that_found_nothing_to_judge_are_counted() -> None:
    nothing = {"metric": f"{SPAN}.mus_worst", "max": 0.5, "required": False}
    failed = {"metric": f"{SPAN}.mus", "min": 0.5}
    found = judged(NUMBERS, PASSED, nothing, nothing)
    assert found.headline == (
        "May ship: the method's two attacks swing its uncertainty over 0.1000 nat; the policy allows at most 0.5 nat. "
        "The policy's other 2 rules ask for numbers that were not measured."
    )
    assert judged(NUMBERS, failed, nothing).headline.endswith(
        ". The policy's other rule asks for a number that was not measured."
    )
    assert "other rule" not in judged(NUMBERS, PASSED).headline
    assert "other rule" not in judged(NUMBERS, {**nothing, "required": True}, PASSED).headline


def test_a_rule_of_several_numbers_counts_once() -> None:
    several = audit(check({"ece[arm=clean]": gap(0.1, 0.0, 0.2), "ece[arm=over]": gap(0.1, 0.0, 0.2)}))
    nothing = {"metric": f"{SPAN}.mus_worst", "max": 0.5, "required": False}
    found = judged(several, {"metric": f"{SPAN}.ece[arm=*]", "max": 0.5}, nothing)
    assert found.headline == (
        "May ship: both numbers of the rule are within bounds. The policy's other rule asks for a number that was not "
        "measured."
    )


def test_headline_and_folded_line_count_the_same_rules() -> None:
    """Rules that only warn and rules without a baseline are in one of the two numbers, whatever the rules find."""
    several = {"ece[arm=clean]": gap(0.1, 0.0, 0.2), "ece[arm=over]": gap(0.1, 0.0, 0.2), "mus": gap(0.1, 0.0, 0.2)}
    numbers = audit(check(several))
    warning = {"metric": f"{SPAN}.mus", "max": 0.6, "severity": "warn"}
    alone = {"metric": f"{SPAN}.ece[arm=*]", "max_regression": 0.1, "required": False}
    nothing = {"metric": f"{SPAN}.msus", "max": 0.5, "required": False}
    every = {"metric": f"{SPAN}.ece[arm=*]", "max": 0.5}
    found = judged(numbers, PASSED, every, warning, alone, nothing)
    assert found.headline == (
        "May ship: all 3 rules about what was measured hold. The policy's other 2 rules ask for numbers that were not "
        "measured or a baseline."
    )
    assert not_measured_in_words(not_measured(found)).startswith("2 rules do not apply to this audit: ")
    assert {one.rule for one in applied(found)} == {0, 1, 2}
    assert len(applied(found)) + len(not_measured(found)) == len(found.rules)
    warned = judged(numbers, PASSED, every, {**warning, "max": 0.01}, nothing)
    assert warned.headline == (
        "May ship: 2 of 3 rules hold (1 warning). The policy's other rule asks for a number that was not measured."
    )


def test_a_policy_about_more_than_one_check_says_so_without_alarm() -> None:
    """Most rules of a shipped policy are about other checks: that is no sign that anything went untested."""
    other = [
        {"metric": metric, "min": 0.5, "required": False}
        for metric in ("calibration.accuracy", "temperature_attack.clean_accuracy")
    ]
    alone = {**PASSED, "max": None, "max_regression": 0.1, "required": False}
    found = judged(NUMBERS, PASSED, *other, alone)
    assert found.headline.endswith(". The policy's other 3 rules ask for other checks or a baseline.")
    doubted = audit(check({"mus": gap(0.1, 0.0, 0.2)}, ("zero_gradients", "warning")))
    assert judged(doubted, PASSED, *other).headline == (
        "Passed, but in doubt: the method's two attacks swing its uncertainty over 0.1000 nat; the policy allows at "
        "most 0.5 nat. This policy looks past flags that speak of it: zero gradients. The policy's other 2 rules ask "
        "for other checks."
    )


def test_a_check_that_failed_is_told_once_and_not_by_rule() -> None:
    failed = audit(broken(RunState.FAILED))
    rules = [{"metric": f"{SPAN}.{name}", "max": 0.5} for name in ("mus", "msus", "mus_worst")]
    found = judged(failed, *rules)
    assert found.headline == f"Could not be judged: {found.rules[0].reason}."
    assert f"{SPAN}.mus" not in found.headline
    assert judged(failed, *rules[:1]).headline.startswith(f"Could not be judged: {TWO_ATTACKS} ({SPAN}.mus): ")


def test_a_doubt_comes_before_what_it_is_about() -> None:
    doubted = audit(check({"mus": gap(0.1, 0.0, 0.2)}, ("zero_gradients", "error")))
    assert judged(doubted, PASSED).headline == (
        f"Could not be judged: {TWO_ATTACKS} ({SPAN}.mus): it does not pass, as the check is in doubt "
        "(zero_gradients), though the whole interval [0.0000, 0.2000] is at most 0.5."
    )


def test_few_rules_that_failed_are_named() -> None:
    numbers = audit(check({"mus": gap(0.1, 0.0, 0.2), "msus": gap(0.5, 0.4, 0.6), "mus_worst": gap(0.6, 0.5, 0.7)}))
    failed = [{"metric": f"{SPAN}.{name}", "max": 0.01, "label": name.upper()} for name in ("msus", "mus_worst")]
    mus = {"metric": f"{SPAN}.mus", "min": 0.5}
    lead = judged(numbers, mus).headline.rstrip(".")
    assert judged(numbers, mus, *failed).headline == f"{lead}; failed as well: MSUS and MUS_WORST."
    many = judged(numbers, mus, *failed, {**failed[0], "label": "A fourth"})
    assert many.headline == f"{lead}; failed as well: 3 more rules."
    arms = {f"ece[arm={arm}]": gap(0.5, 0.4, 0.6) for arm in ("clean", "over", "under", "final")}
    ece = judged(audit(check(arms)), {"metric": f"{SPAN}.ece[arm=*]", "max": 0.1})
    assert ece.headline.endswith("; failed as well: 3 more numbers of this rule.")


def test_a_headline_says_shares_in_per_cent_and_spans_as_shares_of_their_range() -> None:
    """Value and bound are told apart however close they are."""
    span = audit(check({"mus_worst": gap(1.2, 1.1, 1.3), "clean_accuracy": gap(0.9496, 0.94, 0.9499)}, classes_nat=2.4))
    worst = judged(span, {"metric": f"{SPAN}.mus_worst", "max": 0.6})
    assert worst.headline == (
        "Do not ship: attackers can swing its uncertainty over 50% of its range; the policy allows at most 25%."
    )
    accuracy = judged(span, {"metric": f"{SPAN}.clean_accuracy", "min": 0.95})
    assert accuracy.headline == (
        "Do not ship: its accuracy without an attack is 94.96%; the policy asks for at least 95%."
    )


def test_a_headline_does_not_pass_over_a_flag_that_its_policy_passes_over() -> None:
    mus = {"metric": f"{SPAN}.mus", "max": 0.5}
    doubted = audit(check({"mus": gap(0.1, 0.0, 0.2)}, ("saturated_logits", "warning")))
    told = judged(doubted, mus).headline
    assert told.startswith("Passed, but in doubt: the method's two attacks swing its uncertainty over 0.1000 nat; ")
    assert told.endswith(" at most 0.5 nat. This policy looks past flags that speak of it: saturated logits.")
    # Of other numbers, or of one that fails, it is no news.
    beside = audit(check({"clean_accuracy": gap(0.9, 0.8, 0.95)}, ("saturated_logits", "warning")))
    assert "doubt" not in judged(beside, {"metric": f"{SPAN}.clean_accuracy", "min": 0.5}).headline
    assert "doubt" not in judged(doubted, {**mus, "max": 0.01}).headline


def test_a_value_at_its_bound_says_why_no_further_examples_are_told() -> None:
    (at, off) = judged(NUMBERS, {"metric": f"{SPAN}.msus", "max": 0.5}, {"metric": f"{SPAN}.msus", "max": 0.55}).rules
    assert (at.outcome, at.further_examples) == ("inconclusive", None)
    assert (
        "; the value lies at the bound itself, which no number of further examples would probably decide" in at.reason
    )
    assert off.further_examples is not None
    assert "at the bound itself" not in off.reason


def test_two_rules_on_one_number_are_both_named() -> None:
    numbers = audit(check({"mus": gap(0.4, 0.3, 0.5), "msus": gap(0.5, 0.4, 0.6)}))
    asked: list[dict[str, Any]] = [
        {"metric": f"{SPAN}.mus", "min": 0.6},
        {"metric": f"{SPAN}.mus", "max": 0.2},
        {"metric": f"{SPAN}.msus", "max": 0.2},
    ]
    found = judged(numbers, *asked)
    assert found.headline.endswith(f"; failed as well: {TWO_ATTACKS} (at most 0.2) and Mean squared uncertainty span.")
