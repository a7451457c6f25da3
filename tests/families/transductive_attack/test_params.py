"""What a check accepts, what it says otherwise, and what it costs."""

from typing import Any

import pytest
from pydantic import ValidationError

from seatrial.families.shared import defence_costs
from seatrial.families.shared.defence_presets import PRESETS
from seatrial.families.transductive_attack.params import SHIPPED, TransductiveAttackParams, game_of
from tests.defences import builders
from tests.families.in_memory import run_check
from workers.defences.registry import find_plugin, make_defence
from workers.families.transductive_attack.family import FAMILY
from workers.families.transductive_attack.rules import is_playable


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
        ({"defences": [{"name": "rmc"}]}, "training_dataset", "needed to learn from by rmc: name a training"),
        ({"attacks": ["pgd"]}, "attacks", "transfer_pgd"),
        ({"attacks": ["fpa", "fpa"]}, "attacks", "differ"),
        ({"epsilon": 1.5}, "epsilon", "at most 1 in linf"),
        ({"iterations": -1}, "iterations", "greater than or equal to 0"),
        ({"order": "random"}, "order", "'natural' or 'adversarial'"),
        ({"training_dataset": "mdl_1"}, "training_dataset", "should match pattern"),
    ],
    ids=[
        "none",
        "twice",
        "name",
        "training",
        "attack",
        "same attack",
        "epsilon",
        "iterations",
        "order",
        "a model",
    ],
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
    sent = parameters(attacks=["transfer_autoattack", "fpa"])
    assert sent.passes(100, {}).backward > plain.backward
    without_square = sent.model_copy(update={"autoattack_queries": 0})
    assert without_square.passes(100, {}).forward < sent.passes(100, {}).forward


def test_each_defence_costs_what_it_trains_and_no_other() -> None:
    sizes = {"training_dataset": 1000}

    def cost(*names: str) -> int:
        asked = [{"name": name} for name in names]
        return parameters(defences=asked, attacks=["fpa"], training_dataset="dat_1").passes(100, sizes).backward

    nothing = cost("identity")
    assert cost("identity", "tadv") - nothing > cost("identity", "urejectron") - nothing > 0
    both = cost("identity", "tadv", "urejectron")
    assert both - nothing == (cost("identity", "tadv") - nothing) + (cost("identity", "urejectron") - nothing)


def test_what_games_share_is_counted_once() -> None:
    def cost(name: str, *attacks: str) -> int:
        asked = parameters(defences=[{"name": name}], attacks=list(attacks), training_dataset="dat_1")
        # Without what the attacks themselves take, which the identity shows.
        nothing = parameters(defences=[{"name": "identity"}], attacks=list(attacks), training_dataset="dat_1")
        sizes = {"training_dataset": 1000}
        return asked.passes(100, sizes).backward - nothing.passes(100, sizes).backward

    assert cost("tadv", "fpa") == cost("tadv", "fpa", "gmsa_avg", "transfer_pgd")
    pool = defence_costs.passes_to_begin("rmc", "small", {}, 1000)
    one, two = cost("rmc", "fpa") - pool, cost("rmc", "fpa", "gmsa_avg") - pool
    clean = defence_costs.passes_to_adapt("rmc", "small", {}, 100, 1000)
    assert pool > 0
    assert two - clean == 2 * (one - clean)


COUNTED = {
    "tent": {"steps": 1},
    "dent": {"steps": 6},
    "rmc": {"epochs": 100, "neighbours": 1024, "adversarial_passes": 4, "attack_steps": 100},
    "dann": {"epochs": 100},
    "tadv": {"epochs": 110, "attack_steps": 40},
    "urejectron": {"epochs": 10},
}
SMALL = {
    "rmc": {"epochs": 5, "neighbours": 200, "adversarial_passes": 1, "attack_steps": 20},
    "tadv": {"epochs": 8, "attack_steps": 7},
}


@pytest.mark.parametrize("preset", ["small", "mnist", "cifar10"])
@pytest.mark.parametrize("name", ["tent", "dent", "rmc", "dann", "tadv", "urejectron"])
def test_costs_are_counted_with_the_hyper_parameters_of_the_defences(name: str, preset: str) -> None:
    actual = vars(find_plugin(name).presets[preset])
    counted = defence_costs._counted(name, preset, {})
    assert all(counted[setting] >= actual[setting] for setting in counted)
    assert counted == (COUNTED | SMALL if preset == "small" else COUNTED)[name]
    setting = next(iter(counted))
    assert defence_costs._counted(name, preset, {setting: 3}) == counted | {setting: 3}


def test_a_change_of_a_hyper_parameter_changes_the_cost() -> None:
    once = defence_costs.passes_to_adapt("tadv", "small", {"epochs": 1}, 100, 1000)
    assert once * 8 == defence_costs.passes_to_adapt("tadv", "small", {}, 100, 1000) == 8 * 1000 * 9


POINTS, LABELS = builders.points(20), builders.labels(1200, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defence", "attack"),
    [
        ({"name": "identity"}, "transfer_pgd"),
        ({"name": "identity"}, "transfer_confidence"),
        ({"name": "identity"}, "transfer_cw"),
        ({"name": "tent"}, "gmsa_avg"),
        ({"name": "tent"}, "gmsa_min"),
        ({"name": "dent", "changes": {"steps": 2}}, "fpa"),
        ({"name": "dent", "changes": {"steps": 2}}, "gmsa_min"),
        ({"name": "rmc", "changes": {"neighbours": 20, "epochs": 1, "attack_steps": 2}}, "fpa"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value,
)
def test_no_more_passes_are_taken_than_were_estimated(defence: dict[str, Any], attack: str) -> None:
    """And no fewer than a sixth: counted by the audited network and all its copies."""
    base, taken = builders.base(), {True: 0, False: 0}

    def note(module: Any, given: Any, answers: Any) -> None:
        taken[answers.requires_grad] += len(answers)

    base.module.register_forward_hook(note)
    params = parameters(
        defences=[defence],
        attacks=[attack],
        training_dataset="dat_1",
        iterations=1,
        steps=3,
        step_size=0.05,
        cw_steps=5,
    )
    learnt = (builders.images(0, 30), builders.labels(0, 30))
    run_check(FAMILY, params, base, (POINTS, LABELS), data_of={"training_dataset": learnt})
    passes = params.passes(20, {"training_dataset": 30})
    assert taken[True] <= passes.backward
    assert sum(taken.values()) <= passes.forward + passes.backward <= 6 * sum(taken.values())


def test_autoattack_on_a_defence_adapts_at_every_pass() -> None:
    def cost(defence: dict[str, Any], attacks: list[str]) -> int:
        return parameters(defences=[defence], attacks=attacks).passes(100, {}).backward

    for steps in (1, 6):
        dent = {"name": "dent", "changes": {"steps": steps}}
        # What AutoAttack takes of the static model, steps as often, and three times the adapting of a game.
        static = parameters(attacks=["transfer_autoattack"], defences=[{"name": "identity"}]).passes(100, {})
        alone = cost(dent, ["defence_autoattack"])
        assert alone > static.backward + steps * (static.backward + static.forward // 2)
    # It is not run on a defence with memory.
    assert cost({"name": "tent"}, ["defence_autoattack"]) < static.backward
    assert cost({"name": "tent", "changes": {"is_episodic": True}}, ["defence_autoattack"]) > 2 * static.backward


def test_autoattack_is_counted_for_the_defences_it_is_run_on() -> None:
    for name in SHIPPED:
        for changes in [{}, *([{"is_episodic": True}] if name == "tent" else [])]:
            traits = make_defence(name, "small", changes).traits
            assert defence_costs.is_module(name, changes) == is_playable("defence_autoattack", traits)


def test_a_resnet_a_defence_trains_costs_more_than_a_small_network() -> None:
    def cost(preset: str, changes: dict[str, Any]) -> int:
        return defence_costs.passes_to_adapt("urejectron", preset, changes, 100, 1000)

    assert cost("small", {}) == 10 * 1200
    assert cost("small", {"network": "resnet18"}) == cost("cifar10", {}) == defence_costs.RESNET18 * cost("small", {})
    assert cost("mnist", {"network": "small"}) == cost("small", {})


@pytest.mark.parametrize("preset", ["small", "mnist", "cifar10"])
@pytest.mark.parametrize("name", ["dann", "urejectron"])
def test_the_presets_counted_with_a_resnet_are_those_that_train_one(name: str, preset: str) -> None:
    assert find_plugin(name).presets is PRESETS[name]
    is_resnet = (name, preset) in [("dann", "cifar10"), ("urejectron", "mnist"), ("urejectron", "cifar10")]
    assert (PRESETS[name][preset].network == "resnet18") == is_resnet
    others = {"network": "small"}, {"network": "resnet18"}
    cheap, dear = (defence_costs.passes_to_adapt(name, preset, other, 100, 1000) for other in others)
    assert dear == defence_costs.RESNET18 * cheap
    assert defence_costs.passes_to_adapt(name, preset, {}, 100, 1000) == (dear if is_resnet else cheap)


def test_an_attack_through_what_refuses_is_counted_with_it() -> None:
    def cost(network: str) -> int:
        defence = {"name": "urejectron", "changes": {"network": network, "epochs": 1}}
        asked = {"defences": [defence], "attacks": ["fpa"], "iterations": 0, "steps": 50, "training_dataset": "dat_1"}
        return parameters(**asked).passes(100, {"training_dataset": 10}).backward

    # 50 steps of 100 examples, through the model once and through a discriminator that counts as 1 or 10; the rest is
    # training it, of which the estimate has 4 for the game and 1 without an attack.
    small, large = (cost(network) - 5 * 210 * weight for network, weight in (("small", 1), ("resnet18", 10)))
    assert (small, large) == (5000 * 2, 5000 * 11)


def test_a_corruption_costs_a_game_of_each_defence() -> None:
    asked = {"defences": [{"name": "dann"}], "attacks": ["transfer_pgd"], "training_dataset": "dat_1"}
    plain, bright = (parameters(**asked, corruptions=some) for some in ([], ["brightness"]))
    sizes = {"training_dataset": 1000}
    once = defence_costs.passes_to_adapt("dann", "small", {}, 100, 1000)
    assert bright.passes(100, sizes).backward == plain.passes(100, sizes).backward + once


def test_games_have_names_of_their_own() -> None:
    assert len({game_of(d, a, r) for d in ("dent", "rmc") for a in ("clean", "fpa") for r in (0, 1)}) == 8
