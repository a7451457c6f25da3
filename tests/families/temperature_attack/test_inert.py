"""A recipe that could hardly write anything: what withstands it is evidence of nothing, anywhere."""

from functools import cache

import numpy as np
import pyarrow as pa

from seatrial.contracts.estimates import Result
from seatrial.families.temperature_attack.narrative import answer
from tests.families.temperature_attack.fabricated import parameters, records
from tests.gates.audits import audit, check, outcome
from workers.attacks.text.strength import Strength
from workers.families.contexts import Records
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.audit import read_audit

ABLE = Strength(20, 60, 8, is_limited=False)
NEARLY_INERT = Strength(20, 30, 12, is_limited=False)
INERT = Strength(20, 29, 13, is_limited=False)
BOTH = parameters(recipes=["deepwordbug", "pwws"], arms=["calibrated"])
SERVED = "adversarial_accuracy[arm=as_served"


@cache
def done(of_pwws: Strength, of_deepwordbug: Strength = ABLE) -> dict[str, Records]:
    could_write = {"deepwordbug": of_deepwordbug, "pwws": of_pwws}
    tables = records(BOTH, n=120, could_write=could_write, label_only=0.6)
    errored = [row < 5 for row in range(120)]
    reasons = pa.array(["it took too long" if one else None for one in errored], pa.string())
    # The recipe in question errs on five texts.
    table = tables["attack_pwws"]
    for name, column in {"errored": pa.array(errored), "error": reasons}.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return tables | {"attack_pwws": table}


def reduced(*strengths: Strength) -> Result:
    return estimates.reduce(BOTH, done(*strengths), 0)


def rule(result: Result, name: str, **bound: float) -> tuple[str, str]:
    found = outcome(
        audit(check(result.estimates, *((flag.code, flag.severity) for flag in result.flags), kind=BOTH.kind)),
        {"metric": f"{BOTH.kind}.{name}"} | bound,
        doubts="ignored",
    )
    return found.outcome, found.reason


def test_an_inert_recipe_has_no_accuracy_of_its_own_and_one_that_nearly_is_has() -> None:
    for strength, is_inert in ((INERT, True), (NEARLY_INERT, False)):
        result = reduced(strength)
        for name in ("adversarial_accuracy[arm=as_served,recipe=pwws]", "illusion_gap[recipe=pwws]"):
            assert (result.estimates[name].value is None) is is_inert
        assert result.estimates[f"{SERVED},recipe=deepwordbug]"].value is not None
        assert result.series["attack_strength"]["pwws"]["inert"] is is_inert
        assert [flag.severity for flag in result.flags if flag.code == "weak_attack"] == ["info"] * is_inert
        # A policy that ignores every doubt is not told that robustness was shown.
        told = rule(result, f"{SERVED},recipe=pwws]", min=0.01)
        assert (told[0] == "errored") is is_inert, told


def test_what_withstands_it_is_not_in_the_worst_case_and_what_it_flips_is() -> None:
    inert, nearly = reduced(INERT), reduced(NEARLY_INERT)
    # The five it erred on leave the worst case only where the recipe is evidence.
    assert (inert.estimates[f"{SERVED}]"].n, nearly.estimates[f"{SERVED}]"].n) == (120, 115)
    tables = read_audit(BOTH, done(INERT)).attacks
    kept = {
        name: dict(zip(tables[name].clean.example_ids.tolist(), tables[name].robust("as_served"), strict=True))
        for name in BOTH.recipes
    }
    by_hand = [stays and kept["pwws"].get(example, True) for example, stays in kept["deepwordbug"].items()]
    assert inert.estimates[f"{SERVED}]"].value == np.mean(by_hand)
    assert np.mean(by_hand) < np.mean(list(kept["deepwordbug"].values()))
    assert rule(inert, f"{SERVED}]", min=0.01)[0] == "passed"


def test_alone_it_shows_nothing_and_the_report_says_so() -> None:
    result = reduced(INERT, INERT)
    for name, estimate in result.estimates.items():
        if name.startswith(("adversarial_accuracy", "illusion_gap", "attack_success_rate")):
            assert estimate.value is None, name
    assert [flag.severity for flag in result.flags if flag.code == "weak_attack"] == ["warning"] * 2
    told = answer(result, BOTH.model_dump(), 2)
    assert told.standing == "unproven"
    assert "could hardly write anything" in told.headline
    assert rule(result, f"{SERVED}]", min=0.01)[0] == rule(result, "illusion_gap", max=0.9)[0] == "errored"
    beside = answer(reduced(INERT), BOTH.model_dump(), 2)
    assert "PWWS could hardly write anything" in " ".join(beside.findings)
    assert "PWWS" not in beside.headline
    assert "hardly" not in " ".join(answer(reduced(NEARLY_INERT), BOTH.model_dump(), 2).findings)
