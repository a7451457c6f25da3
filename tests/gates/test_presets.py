"""The shipped policies: what they are made of, and that each number is accounted for."""

import re

import numpy as np
import pytest
from scipy.stats import binom

from app.policies import demands, presets
from app.policies.judged import is_judged, judged_first, judged_of
from seatrial.contracts.policies import Policy, PolicySource, parse_metric
from seatrial.contracts.registry import families, params_contract
from seatrial.judging.verdict import Measured, judge
from tests.gates.audits import SPAN, audit, check, gap, judged, mean, share

NAMES = sorted(presets.RESERVED)
ATTACKS = {"transfer_autoattack", "transfer_pgd"}


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_a_policy_of_its_name(name: str) -> None:
    policy = presets.get(name)
    assert policy.name == name
    assert Policy.model_validate_json(policy.model_dump_json()) == policy


def test_there_is_no_other() -> None:
    assert set(presets.POLICIES) == presets.RESERVED == {"lenient", "standard", "strict"}
    with pytest.raises(KeyError):
        presets.get("release")


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_asked_about_and_none_is_required(name: str) -> None:
    rules = presets.get(name).rules
    assert {parse_metric(rule.metric).family for rule in rules} == set(families())
    assert {rule.required for rule in rules} == {"if_run", False}
    assert not any(rule.required for rule in rules if rule.max_regression is not None)


def test_each_family_has_a_number_that_whoever_runs_it_measures() -> None:
    assert {parse_metric(demand.metric).family for demand in demands.DEMANDS if demand.is_key} == set(families())


@pytest.mark.parametrize("name", NAMES)
def test_nobody_passes_by_a_small_radius_alone(name: str) -> None:
    easy = audit(check({"cce[radius=0.05]": gap(0.01, 0.0, 0.02)}, kind="certified_calibration"))
    source = PolicySource(id=None, name=name, version=None, digest="sha256:0")
    judgement = judge(presets.get(name), source, easy)
    assert judgement.verdict == "errored"
    assert "it measured cce[radius=0.05]" in judgement.headline
    left = [rule for rule in judgement.rules if rule.unmeasured == "not_set_to_measure" and rule.counts_as == "errored"]
    assert {rule.metric for rule in left} >= {f"certified_calibration.cce[radius={radius}]" for radius in (0.2,)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kept", [0, 280], ids=["nothing", "nearly all"])
def test_a_defence_that_withstands_nothing_overestimates_nothing_and_does_not_pass(name: str, kept: int) -> None:
    numbers = {
        "static_accuracy": share(290, 300),
        "overestimate[defence=tent]": gap(0.0, -0.04, 0.04),
        "gain_over_static[defence=tent]": gap(0.03, 0.01, 0.05),
        "lowest_robustness[defence=tent]": share(kept, 300),
    }
    source = PolicySource(id=None, name=name, version=None, digest="sha256:0")
    judgement = judge(presets.get(name), source, audit(check(numbers, kind="transductive_attack")))
    assert judgement.verdict == ("passed" if kept else "failed")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("doubt", "verdict"), [("quick_effort", "errored"), ("few_steps", "errored"), (None, "passed")]
)
def test_effort_quick_and_few_steps_pass_no_shipped_policy(name: str, doubt: str | None, verdict: str) -> None:
    numbers = {
        **{"mus_worst": mean(0.01, 0.0, 0.02), "mus_calibrated": mean(0.01, 0.0, 0.02)},
        **{"clean_accuracy": share(295, 300), "adversarial_accuracy": share(290, 300)},
        "ece[arm=clean]": mean(0.01, 0.0, 0.02),
    }
    source = PolicySource(id=None, name=name, version=None, digest="sha256:0")
    flags = [] if doubt is None else [(doubt, "warning")]
    assert judge(presets.get(name), source, audit(check(numbers, *flags))).verdict == verdict
    # Nor does it where what effort standard adds is not there at all.
    del numbers["adversarial_accuracy"]
    assert judge(presets.get(name), source, audit(check(numbers, *flags))).verdict == "errored"


def test_the_stricter_preset_never_asks_less() -> None:
    for demand in demands.DEMANDS:
        ascending = sorted(demand.bounds)
        assert list(demand.bounds) == (ascending if demand.asks == "min" else ascending[::-1]), demand.metric


@pytest.mark.parametrize("name", ["lenient", "standard"])
def test_a_warning_about_the_number_judged_is_a_doubt_and_no_correction_is_accounted_for(name: str) -> None:
    policy = presets.get(name)
    assert (policy.doubts, policy.correction) == ("relevant", "none")
    (line,) = [one for one in presets.describe().splitlines() if one.startswith(f"- `{name}`")]
    assert "a `warning` that speaks of the number judged keeps its rule" in line
    assert "a model that misses any bound passes at most 2.5 % of the time, however many rules there are" in line


def test_without_a_correction_several_rules_let_no_more_bad_models_pass() -> None:
    """The reason that is given: one rule at its bound is enough, however many others there are and however good."""
    rng, rules = np.random.default_rng(0), [{"metric": f"{SPAN}.accuracy[arm={arm}]", "min": 0.5} for arm in "abcde"]
    passed = {1: 0, 5: 0}
    for hits in rng.binomial(100, [0.5, 0.9, 0.9, 0.9, 0.9], (400, 5)).tolist():
        measured = audit(check({f"accuracy[arm={arm}]": share(k, 100) for arm, k in zip("abcde", hits, strict=True)}))
        for count in passed:
            passed[count] += judged(measured, *rules[:count]).verdict == "passed"
    assert passed[5] <= passed[1] <= binom.ppf(0.999, 400, 0.025)
    assert passed[1] > 0


def test_strict_doubts_more_and_corrects() -> None:
    strict = presets.get("strict")
    assert (strict.doubts, strict.correction) == ("warning", "holm")
    warns = [rule.metric for rule in strict.rules if rule.severity == "warn"]
    assert warns == ["temperature_attack.adversarial_accuracy[arm=as_served]"]


def test_every_number_is_described_with_where_it_is_from() -> None:
    lines = presets.describe().splitlines()
    for name in NAMES:
        for rule in presets.get(name).rules:
            (line,) = [one for one in lines if f"`{rule.metric}` | {presets._ASKED[_asked(rule)]} " in one]
            assert f" {presets.format_bound(getattr(rule, _asked(rule)))} " in line
    assert {line.count(" | ") for line in lines if line.startswith("| `")} == {len(NAMES) + 3}
    assert all(len(demand.why) > 40 for demand in demands.DEMANDS)


def test_what_every_number_needs_is_said_and_so() -> None:
    for demand in demands.DEMANDS:
        asked = parse_metric(demand.metric)
        assert f"`{asked.family}`" in demand.needs
        assert ("baseline" in demand.needs) == (demand.asks == "max_regression")
        fields = params_contract(asked.family).model_fields
        assert all(
            name in {*fields, *families(), *ATTACKS, "attacked", "identity"}
            for name in re.findall("`([a-z_]+)`", demand.needs)
        )
        if "radius" in asked.qualifiers:
            assert float(asked.qualifiers["radius"]) in fields["radii"].default
            assert f" {asked.qualifiers['radius']} in `radii` (default)" in demand.needs
    assert params_contract("uncertainty_span").model_fields["robust_accuracy"].default is None
    assert ATTACKS & set(params_contract("transductive_attack").model_fields["attacks"].default)


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_of_nothing_a_preset_asks_about_does_not_pass(name: str) -> None:
    source = PolicySource(id=None, name=name, version=None, digest="sha256:0")
    judgement = judge(presets.get(name), source, Measured("aud_1", []))
    assert judgement.verdict == "errored"
    assert "nothing was tested" in judgement.headline


def _asked(rule) -> str:
    return next(name for name in ("max", "min", "max_regression") if getattr(rule, name) is not None)


def test_what_shipped_policies_judge_comes_first_and_what_has_a_bound_before_it() -> None:
    assert judged_of(SPAN, ["clean_accuracy", "mus", "mus_worst"]) == ["mus_worst", "clean_accuracy"]
    gains = ["gain_over_static[defence=rmc]", "overestimate[defence=rmc]", "overestimate[defence=tent]"]
    assert judged_of("transductive_attack", gains) == [*gains[1:], gains[0]]
    assert judged_first([f"{SPAN}.mus", "calibration.ece", f"{SPAN}.mus_worst"])[0] == f"{SPAN}.mus_worst"
    assert (is_judged(f"{SPAN}.mus_worst"), is_judged(f"{SPAN}.mus")) == (True, False)
