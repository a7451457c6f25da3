"""What people read first of a verdict."""

from typing import Any

from tests.gates.audits import SPAN, audit, check, gap, judged

NUMBERS = audit(check({"mus": gap(0.1, 0.0, 0.2), "msus": gap(0.5, 0.4, 0.6)}))
PASSED: dict[str, Any] = {"metric": f"{SPAN}.mus", "max": 0.5}
LET_PASS: dict[str, Any] = {"metric": f"{SPAN}.msus", "max": 0.5, "undecided": "pass"}


def test_what_is_undecided_and_let_pass_is_not_said_to_hold() -> None:
    assert judged(NUMBERS, LET_PASS).headline == "Passed: 1 undecided number counts as passed."
    assert judged(NUMBERS, LET_PASS, LET_PASS).headline == "Passed: 2 undecided numbers count as passed."
    assert judged(NUMBERS, PASSED, LET_PASS).headline == (
        "Passed: 1 of 2 numbers that had to hold did, 1 undecided number counts as passed."
    )
