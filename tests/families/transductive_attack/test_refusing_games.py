"""Games of defences that may refuse, attacks of Figure 1, and what attacks begin with: whole checks in memory."""

from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch

from seatrial.families.transductive_attack.params import TransductiveAttackParams, game_of
from tests.defences import builders
from tests.families.in_memory import Context
from tests.families.transductive_attack.test_family import LABELS, POINTS, Dying, KilledError, check, parameters
from workers.attacks.corruptions import brighten
from workers.attacks.model_space import ModelSpaceAttack
from workers.defences import registry
from workers.defences.copies import Frozen
from workers.defences.dann import Dann
from workers.defences.identity import Identity, IdentityParams
from workers.defences.registry import Plugin
from workers.families.protocol import Shard
from workers.families.transductive_attack.family import FAMILY
from workers.families.transductive_attack.static import from_bytes

LEARNT = {"training_dataset": (builders.images(0, 60), builders.labels(0, 60))}
REFUSING = {"name": "urejectron", "changes": {"epochs": 2, "batch_size": 20}}


def refusing(**changes: Any) -> TransductiveAttackParams:
    given = {"attacks": ["transfer_pgd", "gmsa_avg"], "corruptions": ["brightness"], "training_dataset": "dat_1"}
    return parameters(REFUSING, **(given | changes))


def test_records_of_a_game_say_who_holds_and_what_became_of_the_copies() -> None:
    result, done = check(refusing(), data_of=LEARNT)
    for row in ("clean", "brightness", "transfer_pgd", "gmsa_avg"):
        table = done[game_of("urejectron", row, 0)]
        for one in table.to_pylist():
            right = one["prediction"] == one["label"] and not one["rejected"]
            copy = one["clean_prediction"] == one["label"] and not one["clean_rejected"]
            attacked = row not in ("clean", "brightness")
            assert one["correct"] == right
            assert one["robust"] == ((right or one["rejected"]) and copy if attacked else right)
        assert table["clean_rejected"].null_count == (40 if row == "clean" else 0)
        assert table["adapted"].null_count == (0 if row == "gmsa_avg" else 40)
    # The rejector has a gradient, so there was something to attack although the logits are the base's.
    assert all(done[game_of("urejectron", "gmsa_avg", 0)]["adapted"].to_pylist())
    assert {
        "selective_error[defence=urejectron,attack=gmsa_avg]",
        "rejection_rate[defence=urejectron,attack=brightness]",
    } <= set(result.estimates)
    assert "no_adaptive_attack" not in {flag.code for flag in result.flags}


def test_bright_images_are_sent_beside_the_unperturbed_ones() -> None:
    params = refusing(attacks=["transfer_pgd"], brightness=0.2)
    static = check(params, data_of=LEARNT)[1]["static"]
    sent = from_bytes(static["image_brightness"].to_pylist(), (1, 8, 8))
    assert torch.equal(sent, brighten(POINTS, 0.2))
    expected = builders.base().logits(sent).argmax(1) == LABELS
    assert static["robust_brightness"].to_pylist() == expected.tolist()


def test_a_worker_killed_in_the_game_of_a_refusing_defence_changes_no_record() -> None:
    params, name = refusing(attacks=["gmsa_min"], corruptions=[]), game_of("urejectron", "gmsa_min", 0)
    done, shard = check(params, data_of=LEARNT)[1], Shard(name, 0, 40)
    given = (builders.base(), (POINTS, LABELS), shard, 40, 40, {}, done)
    context = Dying(*given, further=LEARNT, dies_at=1)
    with pytest.raises(KilledError):
        FAMILY.run(params, shard, context)
    again = Context(*given, further=LEARNT, kept=context.kept)
    assert FAMILY.run(params, shard, again).equals(done[name])


class Thresholded(Frozen):
    """Refuses what is darker than most, whoever asks; its score has no gradient where ``blind``."""

    threshold = 0.5

    def rejection_scores(self, images: torch.Tensor) -> torch.Tensor:
        return (images.flatten(1).mean(1) < POINTS.flatten(1).mean(1).median()).double()


class Dark(Identity):
    def adapt(self, base: Any, training: Any, batch: Any, generator: Any) -> Thresholded:
        return Thresholded(base)


def test_an_operators_defence_owes_the_copies_an_answer_too_and_a_blind_rejector_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = Plugin(lambda params, check_cancelled: Dark(params), {"small": IdentityParams()})

    class Point(EntryPoint):
        def load(self) -> Plugin:
            return plugin

    mine = Point(name="dark", value="mine:PLUGIN", group=registry.GROUP)
    monkeypatch.setattr(registry, "_found", lambda: {"dark": mine})
    result, done = check(parameters("dark", attacks=["transfer_pgd", "fpa"]))
    table = done[game_of("dark", "fpa", 0)]
    dark = (POINTS.flatten(1).mean(1) < POINTS.flatten(1).mean(1).median()).tolist()
    assert table["clean_rejected"].to_pylist() == dark
    assert result.estimates["clean_rejection_rate[defence=dark,attack=fpa]"].value == np.mean(dark)
    assert not any(one["robust"] for one, refused in zip(table.to_pylist(), dark, strict=True) if refused)
    flags = {flag.code: flag.message for flag in result.flags}
    assert "answers like the one they began with" in flags["no_adaptive_attack"]
    assert "refuses_harmless" in flags


@pytest.mark.parametrize(("initial", "trained"), [("official", 2), ("induced", 3)])
def test_attacks_on_dann_begin_with_the_static_model_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, initial: str, trained: int
) -> None:
    adapted: list[torch.Tensor] = []
    known, begun = Dann.adapt, []

    def watched(self: Any, base: Any, training: Any, batch: torch.Tensor, generator: Any) -> Any:
        adapted.append(batch)
        return known(self, base, training, batch, generator)

    attack = ModelSpaceAttack.attack_iterations
    monkeypatch.setattr(Dann, "adapt", watched)
    monkeypatch.setattr(
        ModelSpaceAttack,
        "attack_iterations",
        lambda self, base, *given, **more: begun.append(base) or attack(self, base, *given, **more),
    )
    dann = {"name": "dann", "changes": {"epochs": 1}}
    params = parameters(dann, attacks=["fpa"], iterations=0, training_dataset="dat_1", initial_model=initial)
    done = check(params, data_of=LEARNT)[1]
    # One game without an attack; then the clean points where the attack begins with them, the attacked, the defender's.
    assert len(adapted) == 1 + trained
    same = torch.equal(begun[0].logits(POINTS), builders.base().logits(POINTS))
    assert same == (initial == "official")
    assert all(done[game_of("dann", "fpa", 0)]["adapted"].to_pylist())


def test_dents_own_row_is_the_first_iteration_of_the_attack_that_simulates_it() -> None:
    dent = {"name": "dent", "changes": {"batch_size": 40, "steps": 2}}
    params = parameters(dent, attacks=["transfer_confidence", "fpa"], iterations=0, steps=2)
    result, done = check(params, batch_size=40)
    transferred, simulated = (done[game_of("dent", attack, 0)] for attack in ("transfer_confidence", "fpa"))
    assert transferred["correct"].to_pylist() == simulated["correct"].to_pylist()
    assert transferred["prediction"].to_pylist() == simulated["prediction"].to_pylist()
    # The static model is judged by it where nothing else was asked for.
    assert result.estimates["static_robustness"].value == np.mean(done["static"]["robust_confidence"].to_pylist())
    assert result.estimates["overestimate[defence=dent]"].value == 0


def test_the_least_perturbation_is_sent_as_the_parameters_say() -> None:
    params = parameters("identity", attacks=["transfer_cw", "transfer_pgd"], cw_steps=30, cw_learning_rate=0.3)
    result, done = check(params)
    sent = from_bytes(done["static"]["image_cw"].to_pylist(), (1, 8, 8))
    broken = ~torch.tensor(done["static"]["robust_cw"].to_pylist())
    assert broken.any()
    was_right = torch.tensor(done["static"]["correct"].to_pylist())
    assert torch.equal(sent[~broken], POINTS[~broken])
    assert ((sent - POINTS).flatten(1).norm(dim=1)[broken & was_right] > 0).all()
    of = "robustness[defence=identity,attack=transfer_cw]"
    assert result.estimates[of].value == pytest.approx(float((~broken).double().mean()))
