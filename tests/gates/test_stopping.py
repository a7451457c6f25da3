"""When an audit may stop: not for a doubt that did not show yet, and not in an order that somebody chose."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.contracts.estimates import Estimate, Flag, Looks, Result
from seatrial.contracts.policies import Policy, PolicySource
from seatrial.contracts.states import RunState
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.stopping import Look, take_look
from seatrial.judging.verdict import judge
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.looks import look_sizes, spending

KIND = "uncertainty_span"
ACCURACY = {"metric": "uncertainty_span.clean_accuracy", "min": 0.5}
SPAN = {"metric": "uncertainty_span.mus", "max": 0.5}
SIZES = look_sizes(1000)


def check(
    right: float, *, look: int = 3, flags: tuple[str, ...] = (), kind: str = KIND, severity: str = "error"
) -> MeasuredCheck:
    looks = Looks(sizes=SIZES, alphas=spending(len(SIZES)), ended=look)
    n = looks.examples
    hits = round(right * n)
    low, high = clopper_pearson(hits, n, alpha=looks.level)
    accuracy = Estimate(value=hits / n, low=low, high=high, n=n, method="clopper-pearson")
    flagged = [Flag.model_validate({"code": code, "severity": severity, "message": ""}) for code in flags]
    result = Result(estimates={"clean_accuracy": accuracy}, counts={}, flags=flagged, looks=looks)
    return MeasuredCheck(0, kind, RunState.SUCCEEDED, result, None, {})


def look_at(found: MeasuredCheck, *rules: dict[str, Any], **given: Any) -> Look:
    said = {"correction": given.pop("correction", "none"), "doubts": given.pop("doubts", "error")}
    policy = Policy(name="p", rules=list(rules) or [ACCURACY], **said)  # type: ignore[arg-type, list-item]
    asked = {"seed": 0, "was_doubted": False, "has_baseline": False, "kinds": [KIND], **given}
    return take_look(policy, asked.pop("kinds"), found, **asked)


@pytest.mark.parametrize(
    ("found", "asked", "is_open"),
    [
        pytest.param(check(0.9), {}, False, id="surely above"),
        pytest.param(check(0.1, look=1), {}, False, id="surely below, at once"),
        pytest.param(check(0.52), {}, True, id="near the bound"),
        pytest.param(check(0.9, look=2), {}, True, id="too few examples for a doubt to show"),
        pytest.param(check(0.9), {"seed": 7}, True, id="an order somebody chose"),
        pytest.param(check(0.1), {"seed": 7}, False, id="failing in any order"),
        pytest.param(check(0.9), {"was_doubted": True}, True, id="a doubt at an earlier look"),
        pytest.param(check(0.1), {"was_doubted": True}, False, id="failing in spite of it"),
        pytest.param(check(0.9, flags=("gradient_free",)), {}, True, id="a doubt"),
        pytest.param(check(0.9, flags=("gradient_free",)), {"doubts": "ignored"}, False, id="a doubt ignored"),
        pytest.param(check(0.9, look=6), {"seed": 7, "was_doubted": True}, False, id="the last look"),
        pytest.param(check(0.52, look=6), {}, False, id="the last look, undecided"),
    ],
)
def test_what_stops_an_audit(found: MeasuredCheck, asked: dict[str, Any], is_open: bool) -> None:
    assert look_at(found, **asked).is_open is is_open


def test_what_the_policy_asks_itself_holds_no_early_look_open() -> None:
    found = check(0.9, severity="warning", flags=("small_radius",))
    policy = {"name": "p", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.5}], "doubts": "relevant"}
    span = Estimate(value=0.01, low=0.0, high=0.02, n=125, method="gaffke")
    assert found.result is not None
    found = replace(found, result=found.result.model_copy(update={"estimates": {"mus_worst": span}}))
    for checks, is_open in (([{"kind": KIND}], False), ([], True)):
        asked = Policy.model_validate({**policy, "checks": checks})
        assert take_look(asked, [KIND], found, seed=0, was_doubted=False, has_baseline=False).is_open is is_open


def test_a_doubt_is_remembered_only_where_it_speaks_of_a_blocking_rule() -> None:
    doubted = check(0.9, flags=("gradient_free",))
    assert look_at(doubted).is_doubted
    assert not look_at(doubted, ACCURACY, doubts="ignored").is_doubted
    warned = {**ACCURACY, "severity": "warn"}
    assert not look_at(doubted, warned, {"metric": "calibration.ece", "max": 0.1}).is_doubted


@pytest.mark.parametrize(
    ("rules", "asked", "is_open"),
    [
        ([ACCURACY, SPAN], {}, False),
        ([{**ACCURACY, "interval": "ignored"}], {}, True),
        ([{**ACCURACY, "severity": "warn"}, {"metric": "calibration.ece", "max": 0.1}], {}, True),
        ([{**ACCURACY, "min": 0.89, "severity": "warn"}, ACCURACY], {}, False),
        ([{**ACCURACY, "min": 0.89, "undecided": "pass"}, ACCURACY], {}, True),
        ([ACCURACY, {"metric": "uncertainty_span.mus", "max_regression": 0.1}], {}, False),
        ([ACCURACY, {"metric": "uncertainty_span.mus", "max_regression": 0.1}], {"has_baseline": True}, True),
    ],
)
def test_which_rules_hold_it_open(rules: list[dict[str, Any]], asked: dict[str, Any], is_open: bool) -> None:
    """A number nobody measures is not waited for; a value without its interval, or undecided, is."""
    assert look_at(check(0.9), *rules, **asked).is_open is is_open


def test_rules_that_share_an_error_rate_share_that_of_the_look() -> None:
    """At 125 examples 0.66 says that it is above 0.5 at 0.005, and not at 0.005 over two hundred."""
    found = check(0.66)
    assert not look_at(found).is_open
    assert not look_at(found, correction="holm").is_open
    many = [{**ACCURACY, "min": 0.3 + 0.0001 * at} for at in range(199)]
    assert not look_at(found, *many, ACCURACY).is_open
    assert look_at(found, *many, ACCURACY, correction="holm").is_open
    # What another check is going to publish under a star nobody can count yet.
    elsewhere = {"metric": "certified_calibration.certified_accuracy[radius=*]", "min": 0.1}
    kinds = [KIND, "certified_calibration"]
    assert look_at(found, ACCURACY, elsewhere, correction="holm", kinds=kinds).is_open
    assert not look_at(found, ACCURACY, elsewhere, correction="holm").is_open
    # What only warns takes no part of it.
    warning = [{**rule, "severity": "warn"} for rule in (*many[1:], elsewhere)]
    assert not look_at(found, *warning, ACCURACY, correction="holm", kinds=kinds).is_open


def test_what_stopped_by_failing_passes_nothing_else() -> None:
    """Else a rule that is bound to fail would end an audit before any doubt shows, to be judged by another policy."""
    early = check(0.9, look=1)
    hopeless = {"metric": "uncertainty_span.clean_accuracy", "min": 0.999}
    stopped = look_at(early, hopeless)
    assert (stopped.is_open, stopped.may_pass) == (False, False)
    policy = Policy(name="p", rules=[ACCURACY])  # type: ignore[list-item]
    source = PolicySource(id=None, name="p", version=None, digest="")
    assert early.result is not None
    assert early.looks is not None
    looks = early.looks.model_copy(update={"may_pass": stopped.may_pass})
    told = replace(early, result=early.result.model_copy(update={"looks": looks}))
    assert judge(policy, source, Measured("aud_1", [early])).verdict == "passed"
    assert judge(policy, source, Measured("aud_1", [told])).verdict == "inconclusive"
