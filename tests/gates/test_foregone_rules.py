"""A rule whose outcome is known before anything is measured is refused where it is written."""

import httpx
import pytest
from pydantic import ValidationError

from app.policies import presets
from seatrial.contracts.metric_ranges import reach_of
from seatrial.contracts.policies import GateFile, Policy, Rule
from seatrial.contracts.registry import families
from tests.gates.over_http import ended
from tests.web.test_problems import assert_problem

SPAN = "uncertainty_span"
FOREGONE = [
    (f"{SPAN}.clean_accuracy", "min", 0, "always holds"),
    (f"{SPAN}.clean_accuracy", "min", 80, "can never hold"),
    (f"{SPAN}.clean_accuracy", "max_regression", 5, "always holds"),
    (f"{SPAN}.clean_accuracy", "max_regression", 1, "always holds"),
    (f"{SPAN}.ece[arm=clean]", "max", 5, "always holds"),
    (f"{SPAN}.ece[arm=clean]", "max", 1, "always holds"),
    (f"{SPAN}.ece[arm=clean]", "max", -0.1, "can never hold"),
    (f"{SPAN}.s_ece[arm=over]", "min", -1, "always holds"),
    (f"{SPAN}.mus_worst", "max", -0.1, "can never hold"),
    (f"{SPAN}.mus_worst", "min", 0, "always holds"),
    ("temperature_attack.illusion_gap", "max", 1, "always holds"),
    ("temperature_attack.mean_queries[arm=as_served,recipe=pwws]", "min", 0, "always holds"),
    ("transductive_attack.gain_over_static[defence=*]", "min", -1, "always holds"),
    ("certified_calibration.average_certified_radius", "max", -1, "can never hold"),
    ("low_level_attack.worst_case_score[level=0.2]", "min", 0, "always holds"),
    ("low_level_attack.worst_case_score[level=0.2]", "min", 1.1, "can never hold"),
    ("low_level_attack.score_drop[attacker=*,level=0.2]", "max", 1, "always holds"),
    ("low_level_attack.edit_correlation", "min", -1, "always holds"),
    ("low_level_attack.rank[attacker=visual]", "max", 0.5, "can never hold"),
    ("low_level_attack.rank[attacker=visual]", "min", 1, "always holds"),
]
OPEN = [
    (f"{SPAN}.clean_accuracy", "min", 1),
    (f"{SPAN}.clean_accuracy", "max_regression", 0),
    (f"{SPAN}.ece[arm=clean]", "max", 0),
    (f"{SPAN}.s_ece[arm=over]", "min", -0.1),
    (f"{SPAN}.mus_worst", "max", 100),
    (f"{SPAN}.mus_worst", "max_regression", 100),
    (f"{SPAN}.span_growth", "min", -5),
    (f"{SPAN}.nud", "max", 7),
    ("temperature_attack.illusion_gap", "max", 0),
    ("temperature_attack.mean_queries[arm=as_served,recipe=pwws]", "min", 80),
    ("transductive_attack.gain_over_static[defence=*]", "min", 0),
    ("low_level_attack.relative_score[attacker=*,level=0.2]", "min", 1.1),
    ("low_level_attack.characters_changed[attacker=phonetic,level=0.2]", "min", 1.5),
    ("low_level_attack.score_drop[attacker=*,level=0.2]", "max", 0),
    ("low_level_attack.edit_correlation", "max", -0.5),
    ("low_level_attack.rank[attacker=visual]", "min", 2),
]


@pytest.mark.parametrize(("metric", "asked", "bound", "fate"), FOREGONE)
def test_a_bound_nothing_can_change_is_refused(metric: str, asked: str, bound: float, fate: str) -> None:
    with pytest.raises(ValidationError, match=f": {asked} {bound} {fate}"):
        Rule.model_validate({"metric": metric, asked: bound})


@pytest.mark.parametrize(("metric", "asked", "bound"), OPEN)
def test_a_bound_that_tests_something_is_taken(metric: str, asked: str, bound: float) -> None:
    assert getattr(Rule.model_validate({"metric": metric, asked: bound}), asked) == bound


def test_the_refusal_points_at_the_bound_wherever_a_policy_is_given(client: httpx.Client) -> None:
    percent = {"metric": f"{SPAN}.ece[arm=clean]", "max": 5}
    document = {"name": "percent", "rules": [{"metric": f"{SPAN}.mus", "max": 1}, percent]}
    stored = assert_problem(client.post("/v1/policies", json=document), 422)
    inline = assert_problem(client.post(f"/v1/audits/{ended(client)}/judge", json={"policy": document}), 422)
    told = "uncertainty_span.ece[arm=clean] is a share from 0 to 1 (0.05 for 5 %): max 5 always holds"
    for problem, pointer in ((stored, "/rules/1/max"), (inline, "/policy/rules/1/max")):
        assert [(one.pointer, one.detail) for one in problem.errors or ()] == [(pointer, told)]
    with pytest.raises(ValidationError, match="max 5 always holds"):
        GateFile.model_validate(document)


@pytest.mark.parametrize("name", sorted(presets.RESERVED))
def test_what_is_shipped_can_hold_and_can_fail(name: str) -> None:
    assert Policy.model_validate_json(presets.get(name).model_dump_json()).rules


def test_every_share_has_both_ends() -> None:
    open_above = {"certified_brier", "nud", "relative_score", "mean_relative_score", "rank", "characters_changed"}
    for family, spec in families().items():
        for metric in spec.metrics:
            found = reach_of(metric)
            if metric.unit == "1" and metric.name not in open_above | {"temperature", "brier"}:
                assert found.highest == 1, (family, metric.name)
                assert found.lowest in (0, -1), (family, metric.name)
