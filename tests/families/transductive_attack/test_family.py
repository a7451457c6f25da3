"""Whole checks in memory: the static model, then every game, and what they come to."""

from collections import Counter
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import nn

from seatrial.families.transductive_attack.params import TransductiveAttackParams, game_of
from tests.defences import builders
from tests.families.in_memory import Context, run_check
from workers.attacks.carlini_wagner import RaiseWrongConfidence
from workers.attacks.evasion import RaiseAnsweredLoss
from workers.attacks.model_space import ModelSpaceAttack, RaiseCrossEntropy
from workers.attacks.pgd import PGD
from workers.defences import registry
from workers.defences.copies import Frozen
from workers.defences.identity import Identity, IdentityParams
from workers.defences.registry import Plugin
from workers.defences.rmc import Rmc
from workers.defences.tadv import Tadv
from workers.defences.urejectron import URejectron
from workers.families.protocol import Shard
from workers.families.transductive_attack import family
from workers.families.transductive_attack.family import FAMILY
from workers.runtime.shared_work import SharedWork

POINTS, LABELS = builders.points(40), builders.labels(1200, 40)


def parameters(*defences: Any, **changes: Any) -> TransductiveAttackParams:
    small = {
        "kind": "transductive_attack",
        "defences": [one if isinstance(one, dict) else {"name": one} for one in defences],
        "attacks": ["transfer_pgd", "fpa", "gmsa_min"],
        "epsilon": 0.15,
        "step_size": 0.05,
        "steps": 4,
        "iterations": 1,
        "autoattack_queries": 20,
    }
    return TransductiveAttackParams.model_validate(small | changes)


def check(params: TransductiveAttackParams, model: Any = None, **more: Any) -> Any:
    return run_check(FAMILY, params, model or builders.base(), (POINTS, LABELS), **more)


def test_the_identity_gives_the_static_model_s_numbers_exactly() -> None:
    params = parameters({"name": "identity", "changes": {"batch_size": 16}})
    result, done = check(params)
    values = {name: one.value for name, one in result.estimates.items()}
    assert values["clean_accuracy[defence=identity]"] == values["static_accuracy"]
    assert values["robustness[defence=identity,attack=transfer_pgd]"] == values["static_robustness"]
    assert (
        done["static"]["robust_pgd"].to_pylist() == done[game_of("identity", "transfer_pgd", 0)]["correct"].to_pylist()
    )
    assert values["overestimate[defence=identity]"] >= 0
    assert set(done["static"]["values"].to_pylist()) == {POINTS[0].numel()}
    assert values["static_robustness"] < values["static_accuracy"]


@pytest.mark.slow
def test_no_cut_changes_a_record() -> None:
    params = parameters({"name": "dent", "changes": {"batch_size": 10, "steps": 2}}, attacks=["transfer_pgd", "fpa"])
    whole = check(params, batch_size=20)[1]
    cut = check(params, batch_size=20, shards=2)[1]
    assert {name: table.equals(cut[name]) for name, table in whole.items()} == dict.fromkeys(whole, True)


@pytest.mark.slow
def test_records_hold_what_was_sent_and_every_score() -> None:
    params = parameters({"name": "dent", "changes": {"batch_size": 20, "steps": 2}}, attacks=["transfer_pgd", "fpa"])
    result, done = check(params)
    rows = done[game_of("dent", "fpa", 0)].to_pylist()
    assert {len(row["scores"]) for row in rows} == {params.iterations + 1}
    for row in rows:
        best = min([row["clean_score"], *row["scores"]])
        assert (row["scores"][row["selected"]] if row["selected"] >= 0 else row["clean_score"]) == best
    (curve,) = result.series["iterations"]
    assert curve["clean_score"] == pytest.approx(sum(row["clean_score"] for row in rows) / 40)
    sent = done[game_of("dent", "transfer_pgd", 0)]
    assert all(sent[name].null_count == 40 for name in ("scores", "selected", "clean_score"))


def test_urejectron_is_given_clean_points_and_perturbed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half and half, the clean ones first, whoever perturbed them; the curves are over both."""
    given: list[torch.Tensor] = []
    known = URejectron.adapt

    def watched(self: Any, base: Any, training: Any, batch: torch.Tensor, generator: Any) -> Any:
        given.append(batch)
        return known(self, base, training, batch, generator)

    monkeypatch.setattr(URejectron, "adapt", watched)
    rejecting = {"name": "urejectron", "changes": {"epochs": 1}}
    params = parameters(rejecting, attacks=["transfer_pgd", "fpa"], iterations=0, training_dataset="dat_1")
    result, done = check(params, data_of={"training_dataset": (builders.images(0, 60), builders.labels(0, 60))})
    unperturbed, transferred, simulated, sent = given
    assert torch.equal(unperturbed, POINTS)
    for batch in (transferred, simulated, sent):
        assert torch.equal(batch[:40], POINTS)
        assert 0 < (batch[40:] - POINTS).abs().max() <= 0.15 + 1e-6
    assert torch.equal(simulated, sent)
    # Without an iteration on what it became, the attack is the one carried over.
    torch.testing.assert_close(simulated, transferred, rtol=0, atol=1e-6)
    assert "no_adaptive_attack" in {flag.code for flag in result.flags}
    rows = done[game_of("urejectron", "fpa", 0)].to_pylist()
    base = builders.base().logits(POINTS).argmax(1)
    assert [row["clean_prediction"] for row in rows] == base.tolist()
    assert all(0 <= row["clean_rejection_score"] <= 1 for row in rows)
    assert done[game_of("urejectron", "clean", 0)]["clean_prediction"].null_count == 40


def test_what_is_drawn_in_a_round_depends_on_no_cut() -> None:
    """Dropout while DENT adapts draws from the round's generator."""
    dent = {"name": "dent", "changes": {"batch_size": 10, "steps": 2, "learning_rate": 0.1}}
    params = parameters(dent, attacks=["transfer_pgd"])
    base = builders.base(dropout=0.5)
    whole, cut = check(params, base, batch_size=20)[1], check(params, base, batch_size=20, shards=2)[1]
    assert {name: table.equals(cut[name]) for name, table in whole.items()} == dict.fromkeys(whole, True)


@pytest.mark.slow
def test_without_iterations_the_fixed_point_attack_is_the_transfer() -> None:
    params = parameters(
        {"name": "dent", "changes": {"batch_size": 10, "steps": 2}}, attacks=["transfer_pgd", "fpa"], iterations=0
    )
    # DENT's own attack maximises the wrong confidence; the identity is attacked by the PGD that is also transferred.
    done = check(parameters({"name": "identity"}, attacks=["transfer_pgd", "fpa"], iterations=0))[1]
    sent, attacked = (done[game_of("identity", attack, 0)] for attack in ("transfer_pgd", "fpa"))
    assert sent["prediction"].equals(attacked["prediction"])
    assert set(check(params)[1]) == {"static", *(game_of("dent", one, 0) for one in ("clean", "transfer_pgd", "fpa"))}


def test_a_defence_that_cannot_work_fails_its_games_and_no_other() -> None:
    """DENT wants batch norm; a linear model has none."""
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        linear[1].weight.copy_(torch.randn(10, 64, generator=builders.generator()))
    result, done = check(parameters("dent", "identity"), builders.classifier(linear))
    failed = done[game_of("dent", "fpa", 0)]["failed"].to_pylist()
    assert len(set(failed)) == 1
    assert "BatchNorm2d" in failed[0]
    assert result.estimates["robustness[defence=dent,attack=fpa]"].value is None
    assert result.estimates["robustness[defence=identity,attack=fpa]"].value is not None
    assert any(flag.code == "defence_failed" for flag in result.flags)


@dataclass(frozen=True)
class FaultyParams:
    fault: str = "raises"
    round: int = 0


class Faulty(Identity):
    """Goes wrong from some call of ``adapt`` on."""

    def __init__(self, params: FaultyParams) -> None:
        super().__init__(IdentityParams(batch_size=20))
        if params.round < 0:
            raise IndexError("no such round")
        self._faults, self._left = params.fault, params.round

    def adapt(self, base: Any, training: Any, batch: torch.Tensor, generator: torch.Generator) -> Any:
        self._left -= 1
        if self._left >= 0:
            return super().adapt(base, training, batch, generator)
        if self._faults == "raises":
            raise ZeroDivisionError("nobody is here")
        broken = builders.base()
        with torch.no_grad():
            broken.module[-1].bias.fill_(torch.nan)
        return Frozen(broken)


FAULTY = Plugin(lambda params, check_cancelled: Faulty(params), {"small": FaultyParams()})


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("raises", "ZeroDivisionError: nobody is here"), ("nan", "20 of 40 answers are not finite")],
    ids=["raises", "nan"],
)
def test_a_defence_that_goes_wrong_in_one_game_keeps_its_others(
    monkeypatch: pytest.MonkeyPatch, fault: str, reason: str
) -> None:
    """The games without an attack and of the transfer adapt twice, the other two more often."""
    points = [EntryPoint("faulty", f"{__name__}:FAULTY", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    # The simulations of the first round are the clean one and two more; the defender's comes fourth.
    changes = {"fault": fault, "round": 3 if fault == "raises" else 7}
    result, done = check(parameters({"name": "faulty", "changes": changes}, "identity"))
    (told,) = set(done[game_of("faulty", "fpa", 0)]["failed"].to_pylist())
    assert told == reason
    assert done[game_of("faulty", "fpa", 0)]["correct"].null_count == 40
    assert result.estimates["robustness[defence=faulty,attack=fpa]"].value is None
    kept = result.estimates["robustness[defence=faulty,attack=transfer_pgd]"]
    assert kept == result.estimates["robustness[defence=identity,attack=transfer_pgd]"]
    assert result.estimates["robustness[defence=identity,attack=gmsa_min]"].value is not None
    assert [flag.code for flag in result.flags if reason in flag.message] == ["defence_failed"]


def test_a_store_that_cannot_be_reached_is_not_put_down_to_the_defence() -> None:
    @dataclass
    class Unreachable(Context):
        def save(self, state: Any, notes: Any = None, *, force: bool = False) -> None:
            raise ConnectionError("no store")

    params = parameters("identity", attacks=["fpa"])
    done = {"static": check(params)[1]["static"]}
    context = Unreachable(builders.base(), (POINTS, LABELS), Shard("identity.fpa.0", 0, 40), 40, 40, {}, done)
    with pytest.raises(ConnectionError):
        FAMILY.run(params, Shard("identity.fpa.0", 0, 40), context)


@pytest.mark.slow
def test_autoattack_on_a_defence_is_played_where_it_can_be_and_no_failure_elsewhere() -> None:
    params = parameters(
        {"name": "identity", "changes": {"batch_size": 20}},
        {"name": "tent", "changes": {"batch_size": 20}},
        attacks=["transfer_autoattack", "defence_autoattack"],
        autoattack_queries=0,
    )
    result, done = check(params)
    assert game_of("tent", "defence_autoattack", 0) not in done
    assert result.estimates["robustness[defence=tent,attack=defence_autoattack]"].n == 0
    assert result.counts["failed[defence=tent,attack=defence_autoattack]"] == 0
    assert not [flag for flag in result.flags if flag.code == "defence_failed"]
    values = {name: one.value for name, one in result.estimates.items()}
    # Sent to the static model itself, what AutoAttack made of it leaves what it left.
    sent = done[game_of("identity", "transfer_autoattack", 0)]
    assert sent["correct"].to_pylist() == done["static"]["robust_autoattack"].to_pylist()
    # On the module that is the static model it draws other starts and does as well.
    on_module = values["robustness[defence=identity,attack=defence_autoattack]"]
    assert on_module == pytest.approx(values["static_robustness"], abs=0.1)
    assert values["static_robustness"] < values["static_accuracy"]


def test_a_result_says_what_it_follows_where_code_and_paper_differ() -> None:
    params = parameters({"name": "dent", "changes": {"steps": 1}}, attacks=["transfer_pgd"])
    (row,) = check(params)[0].series["followed"]
    assert (row["of"], row["variant"]) == ("dent", "official")


def test_a_round_that_takes_too_long_fails_its_game(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 100))
    monkeypatch.setattr(family.time, "monotonic", lambda: float(next(clock)))
    params = parameters({"name": "dent", "changes": {"batch_size": 20}}, attacks=["transfer_pgd"], round_timeout_s=50)
    (reason,) = set(check(params)[1][game_of("dent", "clean", 0)]["failed"].to_pylist())
    assert reason == "a round took longer than round_timeout_s, 50 s"


def test_the_time_of_a_round_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of six passes each, a second a pass: longer than eight seconds together, not alone."""
    clock = iter(range(10**6))
    monkeypatch.setattr(family.time, "monotonic", lambda: float(next(clock)))
    dent = {"name": "dent", "changes": {"batch_size": 20, "steps": 3}}
    params = parameters(dent, attacks=["transfer_pgd"], round_timeout_s=8)
    assert check(params)[1][game_of("dent", "clean", 0)]["failed"].null_count == 40


class Seen(Exception):
    """In place of a game: what it would have been played with."""


def game_seen(monkeypatch: pytest.MonkeyPatch, params: TransductiveAttackParams, stage: str) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def watched(*given: Any, **more: Any) -> None:
        seen.append(more | {"defence": given[0], "seed": given[3]})
        raise Seen

    monkeypatch.setattr(family, "Game", watched)
    shard = Shard(stage, 0, 40)
    further = {"training_dataset": (builders.images(0, 60), builders.labels(0, 60))}
    FAMILY.run(params, shard, Context(builders.base(), (POINTS, LABELS), shard, 40, 40, {}, {}, further=further))
    return seen[0]


def test_games_are_played_as_the_parameters_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rmc = {"name": "rmc", "changes": {"neighbours": 20, "attack_steps": 1}}
    params = parameters("dent", rmc, attacks=["fpa", "gmsa_min"], training_dataset="dat_1", iterations=2)
    dent, rmc = (game_seen(monkeypatch, params, f"{name}.gmsa_min.0") for name in ("dent", "rmc"))
    search = PGD("linf", 0.15, 0.05, 4, random_start=True)
    # DENT is attacked by fourteen runs, and what is sent has to beat the clean batch; RMC until it is wrong.
    evade = RaiseAnsweredLoss(search)
    assert dent["attack"] == ModelSpaceAttack(
        "gmsa_min", RaiseWrongConfidence(search), 2, start_at="clean", evade=evade
    )
    assert rmc["attack"] == ModelSpaceAttack(
        "gmsa_min", RaiseCrossEntropy(search), 2, start_at="one", stop_at_first_success=True, evade=evade
    )
    assert (dent["leaks"], dent["sorts"], dent["on_module"]) == (False, False, None)
    turned = params.model_copy(update={"order": "adversarial", "state": "leaking"})
    leaking = game_seen(monkeypatch, turned, "rmc.fpa.0")
    assert (leaking["leaks"], leaking["sorts"]) == (True, True)


def test_games_share_what_they_would_make_alike_and_no_record_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    of_tadv, of_rmc, of_urejectron = Tadv.adapt, Rmc.make_pool, URejectron.adapt
    monkeypatch.setattr(Tadv, "adapt", lambda *given: made.append("network") or of_tadv(*given))
    monkeypatch.setattr(Rmc, "make_pool", lambda *given: made.append("pool") or of_rmc(*given))
    monkeypatch.setattr(URejectron, "adapt", lambda *given: made.append("discriminator") or of_urejectron(*given))
    params = parameters(
        {"name": "tadv", "changes": {"epochs": 1, "attack_steps": 1}},
        {"name": "rmc", "changes": {"neighbours": 20, "adversarial_passes": 1, "attack_steps": 1, "epochs": 1}},
        {"name": "urejectron", "changes": {"epochs": 1}},
        attacks=["transfer_pgd", "fpa", "gmsa_avg"],
        initial_model="induced",
        training_dataset="dat_1",
    )
    data = (POINTS[:6], LABELS[:6])
    more = {"data_of": {"training_dataset": (builders.images(0, 60), builders.labels(0, 60))}}
    apart = run_check(FAMILY, params, builders.base(), data, **more)
    # Four games, two of which simulate: F^(0), two iterations.
    assert Counter(made) == {"network": 4 + 2 * 3, "pool": 4, "discriminator": 4 + 2 * 3}
    made.clear()
    work = SharedWork(2**30)
    monkeypatch.setattr(Context, "shared", lambda self, purpose, make: work.get("chk_1", purpose, make))
    together = run_check(FAMILY, params, builders.base(), data, **more)
    # The defender's network and the simulations' three; a discriminator of the points as they are is one for both.
    assert Counter(made) == {"network": 1 + 3, "pool": 1, "discriminator": 4 + 2 * 3 - 1}
    assert together[1].keys() == apart[1].keys()
    assert all(together[1][stage].equals(apart[1][stage]) for stage in apart[1])


def test_each_repeat_draws_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters("dent", "identity", attacks=["fpa"], repeats=2)
    seeds = [
        game_seen(monkeypatch, params, stage)["seed"]("defender", 0).initial_seed()
        for stage in ("dent.fpa.0", "dent.fpa.1", "identity.fpa.0", "dent.clean.0")
    ]
    assert len(set(seeds)) == 3
    # The defender draws the same whatever it is attacked by, so that its games can be compared.
    assert seeds[3] == seeds[0]


def test_rounds_that_belong_together_are_never_cut() -> None:
    def grains(**changes: Any) -> dict[str, int | None]:
        params = parameters("dent", "rmc", "tadv", attacks=["fpa"], training_dataset="dat_1", **changes)
        found, done = {}, {"static": None}
        while (stage := FAMILY.next_stage(params, done)) is not None:
            found[stage.name.split(".")[0]], done[stage.name] = stage.grain, None
        return found

    assert grains() == {"dent": 64, "rmc": family.WHOLE, "tadv": family.WHOLE}
    # A window is two batches.
    assert grains(order="adversarial")["dent"] == 128


@pytest.mark.slow
def test_a_game_begun_again_ends_the_same() -> None:
    """A worker killed between two saves: the shard goes on from what the context kept."""
    params = parameters({"name": "dent", "changes": {"batch_size": 10, "steps": 2}}, attacks=["fpa"])
    name, data = game_of("dent", "fpa", 0), (POINTS, LABELS)
    done = check(params)[1]

    shard = Shard(name, 0, 40)
    for kill_at in (1, 6):
        context = Dying(builders.base(), data, shard, 40, 40, {}, done, dies_at=kill_at)
        with pytest.raises(KilledError):
            FAMILY.run(params, shard, context)
        again = Context(builders.base(), data, shard, 40, 40, {}, done, kept=context.kept)
        assert FAMILY.run(params, shard, again).equals(done[name])


class KilledError(BaseException):
    """No ``Exception``, so that nothing catches it."""


@dataclass
class Dying(Context):
    """A context whose worker is killed after some save."""

    dies_at: int = 0

    def save(self, state: Any, notes: Any = None, *, force: bool = False) -> None:
        super().save(state, notes, force=force)
        if self.saves == self.dies_at:
            raise KilledError
