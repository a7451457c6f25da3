"""Which games can be had of a defence, and what results say where code and paper differ."""

import pytest

from seatrial.families.transductive_attack.params import SHIPPED, TransductiveAttackParams
from workers.defences.protocol import Traits
from workers.families.transductive_attack.rules import build, followed, is_playable, start_at

PLAIN = Traits(is_stateful=False, is_one_round=False, is_randomized=False, is_differentiable=True)


def parameters(*defences: object, **changes: object) -> TransductiveAttackParams:
    given = [one if isinstance(one, dict) else {"name": one} for one in defences]
    basis = {"kind": "transductive_attack", "defences": given, "training_dataset": "dat_1"}
    return TransductiveAttackParams.model_validate(basis | changes)


def says(rows: list[dict[str, str]], of: str) -> str:
    (row,) = [row for row in rows if row["of"] == of]
    return row["says"]


def test_autoattack_is_run_on_defences_without_memory_that_adapt_batch_by_batch() -> None:
    of = {one.name: build(one).traits for one in parameters(*SHIPPED).defences}
    assert [name for name, traits in of.items() if is_playable("defence_autoattack", traits)] == ["identity", "dent"]
    assert all(is_playable(attack, of["rmc"]) for attack in ("clean", "transfer_pgd", "fpa"))
    assert not is_playable("defence_autoattack", Traits(**(vars(PLAIN) | {"is_differentiable": False})))


def test_what_an_attack_must_get_below_is_the_official_codes() -> None:
    of = {one.name: build(one).traits for one in parameters(*SHIPPED).defences}
    starts = {name: start_at(name, traits) for name, traits in of.items()}
    assert (starts["rmc"], starts["dent"], starts["dann"], starts["tadv"]) == ("one", "clean", "above_one", "above_one")
    assert start_at("mine", PLAIN) == "clean"


def test_results_say_of_each_defence_which_variant_it_followed() -> None:
    rows = followed(parameters("rmc", "dent", "tadv", "dann", "urejectron", "identity"))
    assert [row["of"] for row in rows] == ["attacks", "rmc", "dent", "tadv", "dann", "urejectron"]
    assert {row["variant"] for row in rows} == {"official"}
    assert all("variant official" in row["says"] for row in rows[1:])
    assert "right least often" in says(rows, "attacks")


@pytest.mark.parametrize(("name", "told"), [("rmc", "held-out loss alone"), ("dent", "sums"), ("tadv", "has Nesterov")])
def test_results_say_so_when_the_text_was_asked_for(name: str, told: str) -> None:
    rows = followed(parameters({"name": name, "changes": {"variant": "paper"}}))
    (row,) = [row for row in rows if row["of"] == name]
    assert row["variant"] == "paper"
    assert told in row["says"]


def test_falling_back_to_the_clean_points_is_told_of_whom_it_can_happen_to() -> None:
    assert " On dent, rmc the clean points" in says(followed(parameters("dent", "dann", "rmc")), "attacks")
    assert "clean points" not in says(followed(parameters("dann")), "attacks")
    assert "clean points" not in says(followed(parameters("dent", iterations=0)), "attacks")


def test_what_attacks_begin_with_is_told_where_there_is_a_choice() -> None:
    assert "on dann, urejectron begin with the static" in says(followed(parameters("dann", "urejectron")), "attacks")
    induced = followed(parameters("dann", "tadv", initial_model="induced"))
    assert "on dann begin with what the unperturbed points induce" in says(induced, "attacks")
    assert "begin with" not in says(followed(parameters("rmc", "tadv")), "attacks")


def test_nothing_is_said_of_attacks_that_were_not_asked_for() -> None:
    assert followed(parameters("identity", attacks=["transfer_pgd"])) == []
