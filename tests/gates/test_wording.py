"""What people read first of a verdict."""

from typing import Any

from tests.gates.audits import SPAN, audit, check, gap, judged

NUMBERS = audit(check({"mus": gap(0.1, 0.0, 0.2), "msus": gap(0.5, 0.4, 0.6)}))
PASSED: dict[str, Any] = {"metric": f"{SPAN}.mus", "max": 0.5}
LET_PASS: dict[str, Any] = {"metric": f"{SPAN}.msus", "max": 0.5, "undecided": "pass"}


def test_what_is_undecided_and_let_pass_is_not_said_to_hold() -> None:
    assert judged(NUMBERS, LET_PASS).headline == "May ship: 1 undecided number counts as passed."
    assert judged(NUMBERS, LET_PASS, LET_PASS).headline == "May ship: 2 undecided numbers count as passed."
    assert judged(NUMBERS, PASSED, LET_PASS).headline == (
        "May ship: 1 of 2 numbers is within bounds, 1 undecided number counts as passed."
    )


def test_rules_that_found_nothing_to_judge_are_counted() -> None:
    nothing = {"metric": f"{SPAN}.mus_worst", "max": 0.5, "required": False}
    failed = {"metric": f"{SPAN}.mus", "min": 0.5}
    found = judged(NUMBERS, PASSED, nothing, nothing)
    assert found.headline == (
        "May ship: the method's two attacks swing its uncertainty over 0.1000 nat; the policy allows at most 0.5 nat; "
        "1 of 3 rules applied."
    )
    assert judged(NUMBERS, failed, nothing).headline.endswith("; 1 of 2 rules applied.")
    assert "found something" not in judged(NUMBERS, PASSED).headline
    assert "found something" not in judged(NUMBERS, {**nothing, "required": True}, PASSED).headline


def test_a_rule_of_several_numbers_counts_once() -> None:
    several = audit(check({"ece[arm=clean]": gap(0.1, 0.0, 0.2), "ece[arm=over]": gap(0.1, 0.0, 0.2)}))
    nothing = {"metric": f"{SPAN}.mus_worst", "max": 0.5, "required": False}
    found = judged(several, {"metric": f"{SPAN}.ece[arm=*]", "max": 0.5}, nothing)
    assert found.headline == "May ship: both numbers are within bounds; 1 of 2 rules applied."


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
    assert judged(doubted, mus).headline.endswith(", though flags cast doubt on this (saturated logits).")
    # Of other numbers, or of one that fails, it is no news.
    beside = audit(check({"clean_accuracy": gap(0.9, 0.8, 0.95)}, ("saturated_logits", "warning")))
    assert "doubt" not in judged(beside, {"metric": f"{SPAN}.clean_accuracy", "min": 0.5}).headline
    assert "doubt" not in judged(doubted, {**mus, "max": 0.01}).headline
