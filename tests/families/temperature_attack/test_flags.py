"""Each doubt is raised where it is due, and an honest model with enough examples gets none."""

import math

import pytest
import torch

from tests.families.temperature_attack.fabricated import Ending, model, parameters, records
from tests.families.temperature_attack.test_estimates import rights, table, transfer
from workers.families.contexts import TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.records import attack_records, search_records, validation_records


def flags(params, done) -> dict[str, str]:
    found = estimates.reduce(params, done, 0).flags
    assert all(len(flag.message) > 80 for flag in found)
    return {flag.code: flag.severity for flag in found}


def run(**changes) -> dict[str, str]:
    sizes = {key: changes.pop(key) for key in ("n", "validation", "errored") if key in changes}
    params = parameters(**changes)
    return flags(params, records(params, **sizes))


def test_an_honest_model_gets_no_flag() -> None:
    assert run(arms=["calibrated", "optimized", "platt_vector"], n=150) == {}


def test_an_overconfident_model_is_an_illusion_by_saturation() -> None:
    found = run(design_temperature=0.01)
    assert found == {"illusion": "warning", "saturated_softmax": "info"}
    # Nothing else was tried: then saturation is a doubt about the only number there is.
    alone = run(design_temperature=0.01, arms=[])
    assert alone == {"saturated_softmax": "warning", "nothing_compared": "warning"}


def test_ties_of_an_underconfident_model_are_seen() -> None:
    found = run(design_temperature=1e9)
    assert found["underconfident_ties"] == "info"
    assert run(design_temperature=1e9, arms=[])["underconfident_ties"] == "warning"


@pytest.mark.parametrize(("zeros", "severity"), [(1, "warning"), (10, "error")])
def test_probabilities_rounded_to_zero_cannot_be_recovered(zeros, severity) -> None:
    lost = torch.tensor([math.log(math.ulp(0.0)), 0.0], dtype=torch.float64)
    kept = torch.tensor([-3.0, math.log(1 - math.exp(-3))], dtype=torch.float64)
    examples = [TextExample(row, "x", 1) for row in range(40)]
    logits = [lost if row < zeros else kept for row in range(40)]
    done = {"attack_pwws": attack_records(examples, logits, *ended(["as_served", "transfer"], logits))}
    assert flags(transfer(["pwws"]), done)["unrecoverable_scores"] == severity


def test_a_models_own_logits_are_not_taken_for_lost_ones() -> None:
    examples, logits = [TextExample(0, "x", 1)], [torch.tensor([-900.0, 900.0])]
    done = {"attack_pwws": attack_records(examples, logits, *ended(["as_served", "transfer"], logits))}
    assert "unrecoverable_scores" not in flags(transfer(["pwws"]), done)


@pytest.mark.parametrize(("cut_off", "severity"), [(2, "info"), (30, "warning")])
def test_attacks_ended_by_their_budget_are_no_proof(cut_off, severity) -> None:
    examples, logits = [TextExample(row, "x", 1) for row in range(40)], [torch.tensor([-3.0, 3.0])] * 40
    outcomes = [Ending("unfinished" if row < cut_off else "failed", "x", 9, 0.1) for row in range(40)]
    arms = ("as_served", "transfer")
    done = {"attack_pwws": attack_records(examples, logits, dict.fromkeys(arms, outcomes), dict.fromkeys(arms, logits))}
    params = transfer(["pwws"]).model_copy(update={"query_budget": 9})
    result = estimates.reduce(params, done, 0)
    (flag,) = [flag for flag in result.flags if flag.code == "unfinished_attacks"]
    assert (flag.severity, "query budget of 9" in flag.message) == (severity, True)
    assert result.counts["unfinished[arm=as_served,recipe=pwws]"] == cut_off


def ended(arms, logits):
    outcomes = {arm: [Ending("failed", "x", 3, 0.1)] * len(logits) for arm in arms}
    return outcomes, dict.fromkeys(arms, logits)


def test_a_temperature_that_is_none_is_named_with_its_arm_and_reason() -> None:
    params = parameters(arms=["calibrated"])
    done = records(params)
    examples, logits = model(5, 60)
    sure = [TextExample(one.example_id, one.text, int(x.argmax())) for one, x in zip(examples, logits, strict=True)]
    done["validation"] = validation_records(sure, logits)
    (flag,) = [flag for flag in estimates.reduce(params, done, 0).flags if flag.code == "degenerate_temperature"]
    assert flag.severity == "warning"
    assert "calibrated" in flag.message
    assert "right on every validation example" in flag.message
    # With a search in good order beside it, it is a note.
    both = parameters(arms=["calibrated", "optimized"])
    done = records(both)
    done["validation"] = validation_records(sure, logits)
    assert flags(both, done)["degenerate_temperature"] == "info"


def test_the_papers_own_code_is_named_where_it_fails() -> None:
    found = run(arms=["calibrated_paper", "optimized"], temperature_search="paper_bracket", design_temperature=1e6)
    assert found["paper_bracket_failed"] == "warning"
    assert found["paper_optimizer_stuck"] == "warning"
    assert run(arms=["calibrated", "calibrated_paper"], design_temperature=1e6)["paper_optimizer_stuck"] == "info"


def three_arms(served: str, calibrated: str, optimized: str) -> dict[str, str]:
    params = parameters(arms=["calibrated", "optimized"], recipes=["pwws"])
    done = records(params)
    done["attack_pwws"] = table("+" * len(served), as_served=served, calibrated=calibrated, optimized=optimized)
    return flags(params, done)


def test_what_calibration_leaves_of_an_illusion_is_told() -> None:
    served = "+" * 40
    did_not = three_arms(served, "-" + "+" * 39, "-" * 30 + "+" * 10)
    assert did_not.keys() >= {"illusion", "calibration_did_not_help"}
    in_part = three_arms(served, "-" * 12 + "+" * 28, "-" * 30 + "+" * 10)
    assert in_part.keys() >= {"illusion", "optimized_beats_calibrated"}
    wholly = three_arms(served, "-" * 30 + "+" * 10, "-" * 29 + "+" * 11)
    assert {"calibration_did_not_help", "optimized_beats_calibrated"}.isdisjoint(wholly)


def test_few_validation_examples_are_a_warning() -> None:
    assert run(validation=49, n=20)["few_validation_examples"] == "warning"
    assert run(validation=70, n=20, errored=frozenset(range(15, 40)))["few_validation_examples"] == "warning"
    assert "few_validation_examples" not in run(validation=50, n=20)


def test_few_validation_examples_do_leave_a_factor_of_two() -> None:
    widths = []
    for seed in range(12):
        params = parameters(arms=["calibrated"])
        done = records(params, validation=49, n=3, seed=seed)
        temperature = estimates.reduce(params, done, 0).estimates["temperature[arm=calibrated]"]
        widths.append(temperature.high / temperature.low)
    assert sorted(widths)[6] > 2


def test_a_search_that_counts_other_successes_is_told() -> None:
    examples = [TextExample(row, "x", 1) for row in range(20)]
    logits = rights(*[True] * 20)
    outcomes = {"as_served": [Ending("succeeded", "x", 3, 0.1)] + [Ending("failed", "x", 3, 0.1)] * 19}
    outcomes["transfer"] = [Ending("succeeded", "x", 3, 0.1)] * 20
    done = {"attack_pwws": attack_records(examples, logits, outcomes, dict.fromkeys(outcomes, logits))}
    result = estimates.reduce(transfer(["pwws"]), done, 0)
    (flag,) = [flag for flag in result.flags if flag.code == "search_disagreement"]
    assert flag.severity == "warning"
    assert "as_served (5.0% of the texts)" in flag.message
    # Texts made for another model need not fool this one.
    assert "transfer (" not in flag.message


def test_nothing_left_of_a_sample_is_flagged_without_numbers() -> None:
    found = run(n=5, validation=5, errored=frozenset(range(5)))
    assert found["few_validation_examples"] == "warning"
    assert found["degenerate_temperature"] == "warning"


def test_a_search_in_which_everything_errored_is_degenerate() -> None:
    params = parameters(arms=["optimized"])
    done = records(params)
    examples, _ = model(5, 60)
    for name in [name for name in done if name.startswith("search_")]:
        del done[name]
    done["search_1"] = search_records(examples, [1.0, 10.0], [None] * 60, [None] * 60)
    assert flags(params, done)["degenerate_temperature"] == "warning"
