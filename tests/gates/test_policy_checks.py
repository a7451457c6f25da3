"""A policy that says which checks it is about: judged of those alone, run by whoever asks for it by name."""

from typing import Any

import httpx
import pytest

from app.cli.gate_files import default_checks_of
from seatrial.contracts.policies import GateFile, Policy, RuleOutcome
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.judging.comparability import departures
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.verdict import judge
from tests.gates.audits import SOURCE, SPAN, audit, check, gap
from tests.gates.over_http import ended, policy, read
from tests.uploads import submission

CHECK = {"kind": SPAN, "epsilon": 0.15, "steps": 40}
RULE = {"metric": f"{SPAN}.mus_worst", "max": 0.6}
ASKED = Policy.model_validate({"name": "release", "rules": [RULE], "checks": [CHECK]})


def measured(mus: float = 0.1, position: int = 0, **params: Any) -> MeasuredCheck:
    asked = UncertaintySpanParams.model_validate({**CHECK, **params}).model_dump(mode="json")
    return check({"mus_worst": gap(mus, mus - 0.05, mus + 0.05)}, params=asked, position=position)


def outcome(*checks: MeasuredCheck, by: Policy = ASKED) -> RuleOutcome:
    (found,) = judge(by, SOURCE, audit(*checks)).rules
    return found


def test_the_policys_own_check_is_judged() -> None:
    assert outcome(measured()).outcome == "passed"
    assert outcome(measured(0.9)).outcome == "failed"


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"epsilon": 1e-6}, "epsilon is 1e-06 and not 0.15"),
        ({"effort": "quick"}, "effort is quick and not standard"),
        ({"steps": 1, "epsilon": 0.01}, "epsilon is 0.01 and not 0.15, steps is 1 and not 40"),
    ],
)
def test_another_is_no_evidence(params: dict[str, Any], told: str) -> None:
    found = outcome(measured(**params))
    assert (found.outcome, found.counts_as) == ("errored", "errored")
    assert found.reason.startswith(f"the policy is about another {SPAN} check than was run: {told}")
    assert found.reason.endswith("; run the policy's checks")


@pytest.mark.parametrize(
    ("code", "outcomes"), [("small_radius", ("passed", "errored")), ("few_steps", ("errored",) * 2)]
)
def test_what_a_policy_asks_itself_is_no_doubt_and_how_well_it_was_measured_is(
    code: str, outcomes: tuple[str, str]
) -> None:
    """By a policy that names the check, and by one that takes any."""
    asked = UncertaintySpanParams.model_validate(CHECK).model_dump(mode="json")
    found = check({"mus_worst": gap(0.1, 0.05, 0.15)}, (code, "warning"), params=asked)
    named = Policy.model_validate({**ASKED.model_dump(mode="json"), "doubts": "relevant"})
    any_of_them = Policy.model_validate({"name": "release", "rules": [RULE], "doubts": "relevant"})
    assert tuple(outcome(found, by=one).outcome for one in (named, any_of_them)) == outcomes


def test_the_baselines_scope_is_no_doubt_either() -> None:
    asked = UncertaintySpanParams.model_validate(CHECK).model_dump(mode="json")
    found = check({"mus_worst": gap(0.1, 0.05, 0.15)}, ("small_radius", "warning"), params=asked)
    rule = {"metric": f"{SPAN}.mus_worst", "max_regression": 0.2}
    for checks, expected in (([CHECK], "passed"), ([], "errored")):
        policy = Policy.model_validate({"name": "release", "rules": [rule], "doubts": "relevant", "checks": checks})
        (rule_outcome,) = judge(policy, SOURCE, audit(found), baseline=audit(found, name="aud_1")).rules
        assert rule_outcome.outcome == expected


def test_another_beside_it_is_not_judged() -> None:
    """Whoever measures more than is asked for is told the verdict on what is."""
    assert outcome(measured(), measured(0.9, 1, epsilon=0.3)).outcome == "passed"
    assert outcome(measured(0.1, 0, epsilon=1e-6), measured(0.9, 1)).outcome == "failed"


def test_every_check_asked_for_must_be_there() -> None:
    both = Policy.model_validate({"name": "release", "rules": [RULE], "checks": [CHECK, {**CHECK, "epsilon": 0.3}]})
    assert "epsilon is 0.15 and not 0.3" in outcome(measured(), by=both).reason
    found = judge(both, SOURCE, audit(measured(), measured(0.2, 1, epsilon=0.3)))
    assert [one.outcome for one in found.rules] == ["passed", "passed"]


def test_a_family_it_does_not_name_is_judged_as_before() -> None:
    other = Policy.model_validate({**ASKED.model_dump(), "checks": [{"kind": "calibration"}]})
    assert outcome(measured(epsilon=1e-6), by=other).outcome == "passed"


def test_parameters_of_an_earlier_version_are_at_what_that_did() -> None:
    stored = UncertaintySpanParams.model_validate(CHECK).model_dump(mode="json")
    assert departures(SPAN, {name: value for name, value in stored.items() if name != "bins"}, stored) == []


def test_a_document_without_checks_is_what_it_was() -> None:
    assert "checks" not in Policy.model_validate({"name": "release", "rules": [RULE]}).model_dump()


def test_a_gate_file_keeps_its_checks_in_the_policy() -> None:
    file = GateFile.model_validate({"name": "release", "rules": [RULE], "checks": [CHECK], "samples": 50, "seed": 3})
    assert file.policy() == ASKED


def test_over_http_a_stored_policy_brings_its_checks_and_is_judged_by_them(client: httpx.Client) -> None:
    (run,) = submission("mdl_1", "dat_1")["checks"]
    for name, checks in (("same", [run]), ("wider", [{**run, "epsilon": 0.3}])):
        told = client.post("/v1/policies", json={**policy(name), "checks": checks})
        assert told.status_code == 201, told.text
    verdicts = {name: read(client, ended(client, policy=name)) for name in ("same", "wider")}
    assert verdicts["same"]["verdict"] == "passed"
    assert verdicts["wider"]["verdict"] == "errored"
    assert "epsilon is 0.1 and not 0.3" in verdicts["wider"]["judgement"]["headline"]
    refused = client.post("/v1/policies", json={**policy("other"), "samples": 300})
    assert refused.status_code == 422
    assert "How they are run (samples)" in refused.json()["detail"]


def test_a_gate_runs_the_checks_of_the_policy_it_names() -> None:
    class Service:
        def policy(self, reference: str) -> Any:
            return type("Read", (), {"document": ASKED.model_dump(mode="json")})

    assert default_checks_of(Service(), "release@3", "image-classification", "") == ASKED.checks  # type: ignore[arg-type]
