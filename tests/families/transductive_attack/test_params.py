"""What a check accepts, what it says otherwise, and what it costs."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.contracts.families import defence_costs
from app.contracts.families.transductive_attack import TransductiveAttackParams, game_of
from workers.defences.registry import find_plugin


def parameters(**changes: Any) -> TransductiveAttackParams:
    return TransductiveAttackParams.model_validate(
        {"kind": "transductive_attack", "defences": [{"name": "dent"}]} | changes
    )


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"defences": []}, "defences", "at least 1 item"),
        ({"defences": [{"name": "dent"}] * 2}, "defences", "dent stands twice"),
        ({"defences": [{"name": "Dent!"}]}, "defences", "should match pattern"),
        ({"defences": [{"name": "rmc"}]}, "training_dataset", "rmc learn from labelled examples: name a"),
        ({"attacks": ["pgd"]}, "attacks", "transfer_pgd"),
        ({"attacks": ["fpa", "fpa"]}, "attacks", "differ"),
        ({"epsilon": 1.5}, "epsilon", "at most 1 in linf"),
        ({"iterations": -1}, "iterations", "greater than or equal to 0"),
        ({"order": "random"}, "order", "'natural' or 'adversarial'"),
        ({"training_dataset": "mdl_1"}, "training_dataset", "should match pattern"),
    ],
    ids=["none", "twice", "name", "training", "attack", "same attack", "epsilon", "iterations", "order", "a model"],
)
def test_a_refusal_names_the_field_and_what_would_be_right(changes: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        parameters(**changes)
    (error,) = [one for one in refused.value.errors() if one["loc"][0] == field][:1]
    assert told in error["msg"]


def test_what_is_stored_can_be_run_again() -> None:
    once = parameters(defences=[{"name": "rmc", "preset": "mnist"}], training_dataset="dat_1")
    assert TransductiveAttackParams.model_validate(once.model_dump(mode="json")) == once
    assert once.references() == {"training_dataset": "dat_1"}


def test_more_of_anything_costs_more() -> None:
    plain = parameters(attacks=["fpa"]).passes(100, {})
    assert parameters(attacks=["gmsa_avg"]).passes(100, {}).backward > plain.backward
    assert parameters(attacks=["fpa"], repeats=2).passes(100, {}).backward > plain.backward
    assert parameters(attacks=["fpa"], autoattack_queries=0).passes(100, {}).forward < plain.forward


def test_each_defence_costs_what_it_trains_and_no_other() -> None:
    sizes = {"training_dataset": 1000}

    def cost(*names: str) -> int:
        asked = [{"name": name} for name in names]
        return parameters(defences=asked, attacks=["fpa"], training_dataset="dat_1").passes(100, sizes).backward

    nothing = cost("identity")
    assert cost("identity", "tadv") - nothing > cost("identity", "urejectron") - nothing > 0
    both = cost("identity", "tadv", "urejectron")
    assert both - nothing == (cost("identity", "tadv") - nothing) + (cost("identity", "urejectron") - nothing)


@pytest.mark.parametrize("preset", ["small", "mnist", "cifar10"])
@pytest.mark.parametrize("name", ["tent", "dent", "rmc", "dann", "tadv", "urejectron"])
def test_costs_are_counted_with_the_hyper_parameters_of_the_defences(name: str, preset: str) -> None:
    actual = vars(find_plugin(name).presets[preset])
    counted = (defence_costs._SMALL if preset == "small" else defence_costs._PAPER)[name]
    assert all(counted[setting] >= actual[setting] for setting in counted)


def test_a_change_of_a_hyper_parameter_changes_the_cost() -> None:
    once = defence_costs.passes_to_adapt("tadv", "small", {"epochs": 1}, 100, 1000)
    assert once * 8 == defence_costs.passes_to_adapt("tadv", "small", {}, 100, 1000) == 8 * 1000 * 9


def test_games_have_names_of_their_own() -> None:
    assert len({game_of(d, a, r) for d in ("dent", "rmc") for a in ("clean", "fpa") for r in (0, 1)}) == 8
